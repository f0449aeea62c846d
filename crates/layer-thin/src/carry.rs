//! From words to what is done, and what is told about it.

use esker_block::{Below, Tag};
use serde_json::{Value, json};

use super::catalogue::Entry;
use super::change::Cut;
use super::order::{Copied, Order, Transfer};
use super::{Compared, ManageError, Manager, Remap, Space};

/// Bytes that are compared at once when volumes are to share.
const SHARE_BYTES: u64 = 64 << 10;

impl<V: Remap> Manager<V> {
    /// Carries out what an operator says, one order at a time: its answer as JSON.
    ///
    /// # Errors
    /// [`ManageError`]: nothing was changed then.
    pub async fn ask(&self, below: &Below, words: &[String]) -> Result<String, ManageError> {
        let order = Order::parse(words)?;
        self.alone(self.carry_out(below, &order)).await
    }

    /// Resizes a volume whose port no request uses behind the new end.
    ///
    /// # Errors
    /// [`ManageError`]: nothing was changed then.
    pub async fn resize_port(&self, below: &Below, name: &str, bytes: u64) -> Result<(), ManageError> {
        self.alone(self.resize(below, name, bytes, Cut::Allowed)).await
    }

    /// Does one thing after the other. Work that is dropped before its end lets none follow: what it leaves is unknown.
    async fn alone<T>(&self, work: impl Future<Output = T>) -> T {
        self.turn.take(1).await;
        let result = work.await;
        self.turn.give(1);
        result
    }

    async fn carry_out(&self, below: &Below, order: &Order) -> Result<String, ManageError> {
        match order {
            Order::List => return Ok(self.list()),
            Order::Usage => return Ok(self.space().await.to_string()),
            Order::Dedup { from, to } => return Ok(self.share(below, from, to).await?.to_string()),
            Order::Create { name, bytes } => self.create(below, name, *bytes).await?,
            Order::Snapshot(pairs) => self.copy(below, pairs, true).await?,
            Order::Clone(pair) => self.copy(below, std::slice::from_ref(pair), false).await?,
            Order::Rollback { name, to, force } => self.rollback(below, name, to, *force).await?,
            Order::Delete(names) => {
                self.delete(below, names).await?;
                return Ok(json!({ "deleted": names }).to_string());
            }
            Order::Hold { names, held } => self.hold(below, names, *held).await?,
            Order::Transfer(step) => return Ok(self.transfer(below, step).await?.to_string()),
            Order::Resize { name, bytes } => self.resize(below, name, *bytes, Cut::Refused).await?,
            Order::Rename { name, to } => self.rename(below, name, to).await?,
        }
        let told = |name: &String| self.entry(name).map(|(_, entry)| self.describe(&entry));
        let answer: Result<Value, ManageError> = match order {
            Order::Create { name, .. } | Order::Rollback { name, .. } | Order::Resize { name, .. } => told(name),
            Order::Rename { to, .. } => told(to),
            Order::Clone(Copied { name, .. }) => told(name),
            Order::Snapshot(pairs) => pairs.iter().map(|pair| told(&pair.name)).collect(),
            Order::Hold { names, .. } => names.iter().map(told).collect(),
            Order::List | Order::Usage | Order::Dedup { .. } | Order::Delete(_) | Order::Transfer(_) => {
                unreachable!("answered above")
            }
        };
        Ok(answer?.to_string())
    }

    async fn transfer(&self, below: &Below, step: &Transfer) -> Result<Value, ManageError> {
        match step {
            Transfer::Changes { name, start, base } => self.changes(name, *start, base.as_deref()),
            Transfer::Map { name, start, base } => self.map(name, *start, base.as_deref()),
            Transfer::Read { name, id, start, bytes } => self.read(below, (name, *id), *start, *bytes).await,
            Transfer::Begin(incoming) => self.begin(below, incoming).await,
            Transfer::Data { volume, start, base64 } => self.store(below, volume, *start, base64).await,
            Transfer::Zero { volume, start, bytes } => self.empty(below, volume, *start, *bytes).await,
            Transfer::Keep { volume, start } => self.keep(below, volume, *start).await,
            Transfer::End { volume, snapshot, force } => {
                let entry = self.end(below, volume, snapshot.as_deref(), *force).await?;
                Ok(self.describe(&entry))
            }
        }
    }

    /// Only one volume of it at a time is held in pieces.
    fn list(&self) -> String {
        let told: Vec<String> = self.catalogue.borrow().iter().map(|entry| self.describe(entry).to_string()).collect();
        format!("[{}]", told.join(","))
    }

    fn describe(&self, entry: &Entry) -> Value {
        json!({
            "name": entry.name,
            "id": entry.id,
            "bytes": entry.blocks * self.block(),
            "snapshot": entry.read_only,
            "held": entry.held,
            "received_bytes": entry.received,
            "of": self.catalogue.borrow().name_of(entry.parent),
            "port_bytes": self.offered(&entry.name),
        })
    }

    /// What each volume takes.
    async fn space(&self) -> Value {
        let entries: Vec<Entry> = self.catalogue.borrow().iter().cloned().collect();
        let block = self.block();
        let (mapped, spaces) = self.volume.measure(entries.iter().map(Entry::range).collect()).await;
        let tell = |(entry, space): (&Entry, &Space)| {
            json!({
                "name": entry.name,
                "bytes": entry.blocks * block,
                "apparent_bytes": space.apparent * block,
                "exclusive_bytes": space.exclusive * block,
                "shared_bytes": space.shared * block,
            })
        };
        let each: Vec<Value> = entries.iter().zip(&spaces.each).map(tell).collect();
        json!({
            "volumes": each,
            "mapped_bytes": mapped * block,
            "used_bytes": spaces.used * block,
            "write_amplification": self.volume.write_amplification(),
        })
    }

    /// Lets `to` use the storage of `from` wherever both hold the same bytes at the same place.
    async fn share(&self, below: &Below, from: &str, to: &str) -> Result<Value, ManageError> {
        let ((_, source), (_, target)) = (self.entry(from)?, self.entry(to)?);
        if from == to {
            return Err(ManageError::Same(from.to_string()));
        }
        let (mut shared, mut cloned) = (0, 0);
        let mut parts: Vec<(u64, u64)> = parts_of(source.blocks.min(target.blocks), SHARE_BYTES / self.block());
        parts.reverse();
        while let Some((at, len)) = parts.pop() {
            let (src, dst) = (source.start + at, target.start + at);
            let is_void = self.volume.first_mapped(src..src + len).is_none();
            if is_void {
                continue;
            }
            match self.volume.compare_and_clone(below, src, dst, len, Tag::default()).await? {
                Compared::Cloned => cloned += len,
                Compared::Shared => shared += len,
                Compared::Different if len > 1 => parts.extend([(at + len / 2, len - len / 2), (at, len / 2)]),
                Compared::Different => {}
            }
        }
        Ok(json!({ "shared_before_bytes": shared * self.block(), "shared_now_bytes": cloned * self.block() }))
    }
}

/// Cuts `blocks` into parts of `step`: where each begins, and how long it is.
fn parts_of(blocks: u64, step: u64) -> Vec<(u64, u64)> {
    let step = step.max(1);
    (0..blocks).step_by(step as usize).map(|at| (at, step.min(blocks - at))).collect()
}
