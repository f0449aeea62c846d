//! The receiver's half of a transfer. A snapshot is received into a volume of its own, which begins as a clone of the
//! base; the volume that is to have it does not change before the end. Then one vector gives it the content, and makes
//! the received one a snapshot: there is no state in between.

use std::ops::Range;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use esker_block::{Below, Bio, Buf, RangeOp, Tag};
use serde_json::{Value, json};

use super::catalogue::Entry;
use super::change::Made;
use super::edit::Edit;
use super::order::Incoming;
use super::stream::DATA_MAX;
use super::{ManageError, Manager, Remap, bytes_of, delete};

/// What a volume is called that receives a snapshot of `volume`.
fn receiving(volume: &str) -> String {
    format!("{volume}-receiving")
}

impl<V: Remap> Manager<V> {
    /// Makes ready to receive, or to go on: tells how many bytes are there.
    pub(super) async fn begin(&self, below: &Below, incoming: &Incoming) -> Result<Value, ManageError> {
        let blocks = self.blocks_of(incoming.bytes)?;
        incoming.snapshot.as_deref().map_or(Ok(()), |snapshot| self.demand_new(snapshot))?;
        if let Some(entry) = self.with_content(incoming.content) {
            return Err(ManageError::Received(entry.name));
        }
        let base = match incoming.base {
            0 => None,
            base => Some(self.with_content(base).ok_or(ManageError::NoBase)?),
        };
        self.demand_target(below, incoming, base.as_ref()).await?;
        let name = receiving(&incoming.volume);
        let parent = base.as_ref().map_or(0, |base| base.id);
        let found = self.entry(&name).ok();
        let there = match &found {
            None => 0,
            Some((_, entry)) if entry.received.is_none() => return Err(ManageError::Exists(name)),
            Some((_, entry)) if (entry.content, entry.parent, entry.blocks) != (incoming.content, parent, blocks) => 0,
            Some((_, entry)) => entry.received.unwrap_or_default(),
        };
        if incoming.start > there {
            return Err(ManageError::Gap(name, incoming.start, there));
        }
        if incoming.start == 0 {
            let (mut ranges, mut edit) = (Vec::new(), Edit::of(&self.catalogue));
            if let Some((place, entry)) = found {
                ranges.push(delete(entry.range(), self.block()));
                edit.take(place);
            }
            let content = incoming.content;
            let made = Made { blocks, parent, content, received: Some(0), ..Made::default() };
            let start = self.add(&mut edit, &name, made)?;
            if let Some(base) = base {
                let common = base.start..base.start + base.blocks.min(blocks);
                ranges.push(RangeOp::Clone { src: bytes_of(common, self.block()), dst: start * self.block() });
            }
            self.commit(below, ranges, edit).await?;
        }
        Ok(json!({ "receiving": name, "received_bytes": incoming.start }))
    }

    /// Stores bytes.
    pub(super) async fn store(
        &self,
        below: &Below,
        volume: &str,
        start: u64,
        base64: &str,
    ) -> Result<Value, ManageError> {
        let (_, entry) = self.incomplete(volume)?;
        let data = STANDARD.decode(base64)?;
        let blocks = self.inside(&entry, start, data.len() as u64)?;
        let at = blocks.start * self.block();
        let step = self.volume.write_max() / self.block() * self.block();
        for (number, part) in (0..).zip(data.chunks(step as usize)) {
            let bio = Bio::write(at + number * step, Buf::from_bytes(self.volume.pool(), part));
            self.volume.clone().change(below.clone(), bio).await.result?;
        }
        Ok(Value::Null)
    }

    /// Empties a range.
    pub(super) async fn empty(
        &self,
        below: &Below,
        volume: &str,
        start: u64,
        bytes: u64,
    ) -> Result<Value, ManageError> {
        let (_, entry) = self.incomplete(volume)?;
        let blocks = self.blocks_in(&entry, start, bytes);
        let blocks = blocks.ok_or(ManageError::Outside(bytes, start, volume.to_string()))?;
        let bio = Bio::zero(blocks.start * self.block(), bytes);
        self.volume.clone().change(below.clone(), bio).await.result?;
        Ok(Value::Null)
    }

    /// Makes durable what was received.
    pub(super) async fn keep(&self, below: &Below, volume: &str, start: u64) -> Result<Value, ManageError> {
        let (place, entry) = self.incomplete(volume)?;
        if start > entry.blocks * self.block() || !start.is_multiple_of(self.block()) {
            return Err(ManageError::Outside(0, start, entry.name));
        }
        let mut edit = Edit::of(&self.catalogue);
        edit.put(place, Entry { received: Some(start), ..entry })?;
        self.commit(below, Vec::new(), edit).await?;
        Ok(json!({ "received_bytes": start }))
    }

    /// Gives the volume what was received. The answer is its snapshot, or the volume if none is kept.
    pub(super) async fn end(
        &self,
        below: &Below,
        volume: &str,
        snapshot: Option<&str>,
        force: bool,
    ) -> Result<Entry, ManageError> {
        let (place, received) = self.incomplete(volume)?;
        snapshot.map_or(Ok(()), |snapshot| self.demand_new(snapshot))?;
        let base = self.catalogue.borrow().iter().find(|entry| entry.id == received.parent).cloned();
        let incoming = Incoming {
            volume: volume.to_string(),
            snapshot: snapshot.map(str::to_string),
            bytes: received.blocks * self.block(),
            content: received.content,
            base: base.as_ref().map_or(0, |base| base.content),
            start: 0,
            force,
        };
        let target = self.demand_target(below, &incoming, base.as_ref()).await?;
        let (block, blocks) = (self.block(), received.blocks);
        let src = bytes_of(received.range(), block);
        let given = |start: u64| match snapshot {
            Some(_) => RangeOp::Clone { src, dst: start * block },
            None => RangeOp::Move { src, dst: start * block },
        };
        let (mut ranges, mut edit) = (Vec::new(), Edit::of(&self.catalogue));
        let parent = match target {
            None => {
                ranges.push(given(self.add(&mut edit, volume, Made { blocks, ..Made::default() })?));
                self.entry(volume)?.1.id
            }
            Some((place, target)) => {
                self.demand_free(volume, target.blocks, blocks)?;
                self.note_change(below, volume, 0..target.blocks.max(blocks));
                ranges.push(given(target.start));
                if blocks < target.blocks {
                    ranges.push(delete(target.start + blocks..target.start + target.blocks, block));
                }
                let id = target.id;
                edit.put(place, Entry { blocks, ..target })?;
                id
            }
        };
        match snapshot {
            Some(name) => {
                edit.put(place, Entry { name: name.to_string(), parent, read_only: true, received: None, ..received })?;
            }
            None => edit.take(place),
        }
        self.commit(below, ranges, edit).await?;
        Ok(self.entry(snapshot.unwrap_or(volume))?.1)
    }

    /// The volume that is to have what is received, if there is one: it must be as the base, unless that does not
    /// matter.
    async fn demand_target(
        &self,
        below: &Below,
        incoming: &Incoming,
        base: Option<&Entry>,
    ) -> Result<Option<(u64, Entry)>, ManageError> {
        let name = &incoming.volume;
        let (place, target) = match (self.changeable(name), base) {
            (Ok(found), _) => found,
            (Err(ManageError::Unknown(_)), None) => return Ok(None),
            (Err(error), _) => return Err(error),
        };
        let blocks = incoming.bytes / self.block();
        match self.offered(name) {
            Some(_) if !incoming.force => {
                let advice = "stop what uses it, and say `force`";
                return Err(ManageError::Served(name.clone(), advice));
            }
            Some(offered) => self.demand_size(name, blocks, offered)?,
            None => {}
        }
        if blocks > target.capacity {
            let advice = "give what comes another name, and make a clone of that".to_string();
            return Err(ManageError::Narrow(name.clone(), target.capacity * self.block(), advice));
        }
        match base {
            _ if incoming.force => {}
            None => return Err(ManageError::Exists(name.clone())),
            Some(base) if base.blocks == target.blocks && self.is_equal(below, base, &target).await? => {}
            Some(base) => return Err(ManageError::Diverged(name.clone(), base.name.clone())),
        }
        Ok(Some((place, target)))
    }

    /// Whether two volumes of one size hold the same bytes. Where the map says so, nothing is read.
    async fn is_equal(&self, below: &Below, a: &Entry, b: &Entry) -> Result<bool, ManageError> {
        let mut next = Some(0);
        while let Some(from) = next {
            let (changed, rest) = self.look(a, Some(b), from);
            for run in changed {
                if !self.are_equal(below, run.blocks, (a.start, b.start)).await? {
                    return Ok(false);
                }
            }
            next = rest.map(|at| at - a.start);
            self.volume.rt().yield_now().await;
        }
        Ok(true)
    }

    /// Whether blocks of a volume that begins at `starts.0` hold the same bytes as those of one that begins at
    /// `starts.1`.
    async fn are_equal(&self, below: &Below, blocks: Range<u64>, starts: (u64, u64)) -> Result<bool, ManageError> {
        let step = DATA_MAX / self.block();
        for start in blocks.clone().step_by(step as usize) {
            let (end, other) = (blocks.end.min(start + step), starts.1 + (start - starts.0));
            let left = self.volume.read_blocks(below, start..end, Tag::default()).await?;
            let right = self.volume.read_blocks(below, other..other + (end - start), Tag::default()).await?;
            if !left.same_bytes(&right) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The snapshot whose content has this number.
    fn with_content(&self, content: u128) -> Option<Entry> {
        let catalogue = self.catalogue.borrow();
        catalogue.iter().find(|entry| entry.read_only && entry.content == content).cloned()
    }

    /// The volume that receives a snapshot of another one.
    fn incomplete(&self, volume: &str) -> Result<(u64, Entry), ManageError> {
        let name = receiving(volume);
        let found = self.entry(&name).ok().filter(|(_, entry)| entry.received.is_some());
        found.ok_or(ManageError::NotReceiving(name))
    }
}
