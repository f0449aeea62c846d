//! The inodes that are in memory: those that callers have pinned, and those that changed.

use std::cell::RefCell;
use std::collections::BTreeSet;

use esker_base::Spans;
use esker_vfs::{Attr, Entry, FileType, Ino, Stamp};

use super::core::Core;
use super::tree::FileMap;
use crate::error::{LfsError, damaged};
use crate::format::InodeRecord;
use crate::read::attr;

/// An inode.
pub(super) struct Inode {
    pub number: u64,
    pub map: RefCell<FileMap>,
    pub state: RefCell<InodeState>,
}

/// What of an inode changes with calls.
pub(super) struct InodeState {
    /// As the IFILE will have it, but for the map.
    pub record: InodeRecord,
    /// Last access. The format has no place for it.
    pub accessed: Stamp,
    pub pins: u64,
    /// Whether the IFILE has another record.
    pub is_dirty: bool,
    /// Frames that a checkpoint writes that is being made. `None` if none has the inode.
    pub frozen: Option<BTreeSet<u64>>,
    /// Whether it was made without a name and never had one.
    pub is_nameless: bool,
    /// Blocks that were cut off or punched, and that the map still has.
    pub removed: Spans<()>,
    /// The same of the checkpoint that is being made.
    pub removing: Spans<()>,
}

impl Inode {
    /// Of a record.
    ///
    /// # Errors
    /// Its map is wrong.
    pub(super) fn new(number: u64, record: InodeRecord, block_bytes: usize) -> Result<Inode, LfsError> {
        let map = if record.has_map() { record.map } else { [0; 56] };
        let map = RefCell::new(FileMap::new(number, &map, block_bytes)?);
        let (removed, removing) = (Spans::default(), Spans::default());
        let accessed = attr(&record).modified;
        let state = InodeState {
            record,
            accessed,
            pins: 0,
            is_dirty: false,
            frozen: None,
            is_nameless: false,
            removed,
            removing,
        };
        Ok(Inode { number, map, state: RefCell::new(state) })
    }

    /// What callers see.
    pub(super) fn attr(&self) -> Attr {
        let state = self.state.borrow();
        Attr { accessed: state.accessed, ..attr(&state.record) }
    }

    /// The same, with the number.
    pub(super) fn entry(&self) -> Entry {
        let generation = u64::from(self.state.borrow().record.generation);
        Entry { ino: Ino(self.number), generation, attr: self.attr() }
    }

    /// Its kind.
    pub(super) fn kind(&self) -> FileType {
        self.attr().kind
    }

    /// Bytes.
    pub(super) fn size(&self) -> u64 {
        self.state.borrow().record.size
    }

    /// Whether it is held by a caller or not yet written.
    pub(super) fn is_in_use(&self) -> bool {
        let state = self.state.borrow();
        state.pins > 0 || state.is_dirty || state.frozen.is_some()
    }

    /// Whether a block was cut off or punched, so that the map does not count.
    pub(super) fn is_removed(&self, index: u64) -> bool {
        let state = self.state.borrow();
        state.removed.has(index, 1) || state.removing.has(index, 1)
    }

    /// Its record, with the map as it is.
    pub(super) fn record(&self) -> InodeRecord {
        let record = self.state.borrow().record;
        match record.has_map() {
            true => InodeRecord { map: self.map.borrow().root_bytes(), ..record },
            false => record,
        }
    }

    /// Changes it.
    pub(super) fn change<T>(&self, change: impl FnOnce(&mut InodeState) -> T) -> T {
        let mut state = self.state.borrow_mut();
        state.is_dirty = true;
        change(&mut state)
    }
}

impl InodeState {
    /// Notes a change of anything but bytes or entries.
    pub(super) fn stamp_change(&mut self, now: Stamp) {
        (self.record.changed, self.record.changed_nanos) = parts(now);
    }

    /// Notes a change of bytes or entries.
    pub(super) fn stamp(&mut self, now: Stamp) {
        self.stamp_change(now);
        self.set_modified(now);
    }

    /// Sets the time of the last change of bytes.
    pub(super) fn set_modified(&mut self, to: Stamp) {
        (self.record.modified, self.record.modified_nanos) = parts(to);
    }
}

/// A time as the format has it.
fn parts(stamp: Stamp) -> (u64, u32) {
    let second = 1_000_000_000;
    (stamp.0.div_euclid(second) as u64, stamp.0.rem_euclid(second) as u32)
}

impl Core {
    /// The record of an inode in the IFILE; `None` if the number is not in use.
    pub(super) async fn stored_inode(&self, number: u64) -> Result<Option<InodeRecord>, LfsError> {
        let place = self.entry_place(&self.geometry.inodes, number)?;
        match self.used_entry(&self.ifile, &place).await? {
            None => Ok(None),
            Some(block) => match InodeRecord::read(&block[place.offset..]) {
                Ok(record) => Ok(Some(record)),
                Err(short) => damaged("inode", number, 0, short.to_string()),
            },
        }
    }

    /// The generation of the inode that had a number last.
    pub(super) async fn last_generation(&self, number: u64) -> Result<u32, LfsError> {
        let place = self.entry_place(&self.geometry.inodes, number)?;
        let block = self.meta_block(&self.ifile, place.block).await?;
        let record = block.and_then(|block| InodeRecord::read(&block[place.offset..]).ok());
        Ok(record.map_or(0, |record| record.generation))
    }

    /// Writes the record of an inode to the IFILE, in which it may be new.
    pub(super) async fn store_inode(&self, number: u64, record: &InodeRecord) -> Result<(), LfsError> {
        let shape = self.geometry.inodes;
        let place = self.entry_place(&shape, number)?;
        if self.used_entry(&self.ifile, &place).await?.is_none() {
            self.mark_entry(&self.ifile, &shape, number, true).await?;
        }
        self.meta_edit(&self.ifile, place.block, |block| record.write(&mut block[place.offset..])).await
    }

    /// Takes an inode out of the IFILE. Its generation stays.
    pub(super) async fn drop_inode(&self, number: u64) -> Result<(), LfsError> {
        let Some(record) = self.stored_inode(number).await? else { return Ok(()) };
        let place = self.entry_place(&self.geometry.inodes, number)?;
        let empty = InodeRecord { generation: record.generation, ..InodeRecord::EMPTY };
        self.meta_edit(&self.ifile, place.block, |block| empty.write(&mut block[place.offset..])).await?;
        self.mark_entry(&self.ifile, &self.geometry.inodes, number, false).await
    }
}
