//! The sender's half of a transfer: which ranges of a snapshot count, and their bytes.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use esker_block::{Below, Tag};
use serde_json::{Value, json};

use super::catalogue::Entry;
use super::stream::DATA_MAX;
use super::{Changed, ManageError, Manager, Remap};

impl<V: Remap> Manager<V> {
    /// Ranges of a snapshot that hold data, or that differ from those of another one: as many as one look at the map
    /// finds, and where the next look begins.
    pub(super) fn changes(&self, name: &str, start: u64, base: Option<&str>) -> Result<Value, ManageError> {
        let entry = self.sent(name)?;
        let base = base.map(|base| self.sent(base)).transpose()?;
        let mut told = self.told(&entry, start, base.as_ref())?;
        told["content"] = format!("{:x}", entry.content).into();
        told["base"] = format!("{:x}", base.map_or(0, |base| base.content)).into();
        Ok(told)
    }

    /// The same of any volume, as it is at this look.
    pub(super) fn map(&self, name: &str, start: u64, base: Option<&str>) -> Result<Value, ManageError> {
        let (_, entry) = self.whole(name)?;
        let base = base.map(|base| Ok::<_, ManageError>(self.whole(base)?.1)).transpose()?;
        self.told(&entry, start, base.as_ref())
    }

    fn told(&self, entry: &Entry, start: u64, base: Option<&Entry>) -> Result<Value, ManageError> {
        let block = self.block();
        if start > entry.blocks * block || !start.is_multiple_of(block) {
            return Err(ManageError::Outside(0, start, entry.name.clone()));
        }
        let (changed, next) = self.look(entry, base, start / block);
        let bytes = |at: u64| (at - entry.start) * block;
        let told = |run: &Changed| json!([bytes(run.blocks.start), bytes(run.blocks.end), run.is_mapped]);
        Ok(json!({
            "name": entry.name,
            "id": entry.id,
            "bytes": entry.blocks * block,
            "block": block,
            "ranges": changed.iter().map(told).collect::<Vec<_>>(),
            "next": next.map(bytes),
        }))
    }

    /// Where two volumes may differ, from block `from` of the first one on: one look at the map. Behind the end of
    /// `base`, what is mapped counts.
    pub(super) fn look(&self, entry: &Entry, base: Option<&Entry>, from: u64) -> (Vec<Changed>, Option<u64>) {
        let end = entry.start + entry.blocks;
        let common = base.map_or(0, |base| base.blocks.min(entry.blocks));
        let from = entry.start + from;
        match base.filter(|_| from < entry.start + common) {
            None => self.volume.changes(from..end, None),
            Some(base) => {
                let both = from..entry.start + common;
                let (changed, next) = self.volume.changes(both.clone(), Some(base.start + (from - entry.start)));
                (changed, next.or(Some(both.end).filter(|at| *at < end)))
            }
        }
    }

    /// Reads a snapshot.
    pub(super) async fn read(
        &self,
        below: &Below,
        (name, id): (&str, u64),
        start: u64,
        bytes: u64,
    ) -> Result<Value, ManageError> {
        let entry = self.sent(name)?;
        if entry.id != id {
            return Err(ManageError::Replaced(name.to_string()));
        }
        let blocks = self.inside(&entry, start, bytes)?;
        let data = self.volume.read_blocks(below, blocks, Tag::default()).await?;
        Ok(Value::String(STANDARD.encode(data.to_vec())))
    }

    /// The blocks of a range of bytes of a volume, as many as one step may concern.
    pub(super) fn inside(&self, entry: &Entry, start: u64, bytes: u64) -> Result<std::ops::Range<u64>, ManageError> {
        let blocks = self.blocks_in(entry, start, bytes).filter(|_| bytes <= DATA_MAX);
        blocks.ok_or(ManageError::Outside(bytes, start, entry.name.clone()))
    }

    /// The blocks of a range of bytes of a volume, if it has some and they are whole blocks of it.
    pub(super) fn blocks_in(&self, entry: &Entry, start: u64, bytes: u64) -> Option<std::ops::Range<u64>> {
        let block = self.block();
        let is_sound = bytes > 0 && start.is_multiple_of(block) && bytes.is_multiple_of(block);
        let end = start.checked_add(bytes).filter(|end| is_sound && *end <= entry.blocks * block)?;
        Some(entry.start + start / block..entry.start + end / block)
    }

    /// A snapshot that can be sent.
    fn sent(&self, name: &str) -> Result<Entry, ManageError> {
        match self.whole(name)? {
            (_, entry) if !entry.read_only => Err(ManageError::Changes(name.to_string())),
            (_, entry) if entry.content == 0 => Err(ManageError::Unnumbered(name.to_string())),
            (_, entry) => Ok(entry),
        }
    }
}
