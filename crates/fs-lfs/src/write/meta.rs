//! Files of metadata that are written: blocks in memory, and their map.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use super::tree::FileMap;
use crate::error::LfsError;
use crate::format::{InodeRecord, ino};
use crate::volume::Block;

/// Bytes of clean blocks that a file keeps in memory.
const CLEAN_BYTES_MAX: usize = 16 << 20;
/// Blocks that were used so recently stay: an edit loads a few blocks before it changes them.
const RECENT: u64 = 64;
/// Clean nodes that a map keeps in memory.
pub(super) const NODES_MAX: usize = 4096;

/// A file of metadata.
pub(super) struct MetaFile {
    pub ino: u64,
    pub map: RefCell<FileMap>,
    record: Cell<InodeRecord>,
    block_bytes: usize,
    blocks: RefCell<BTreeMap<u64, MetaBlock>>,
    /// Numbers of the dirty ones, and of those that are planned. A sync changes a few of thousands of blocks.
    dirty: RefCell<BTreeSet<u64>>,
    planned: RefCell<Vec<u64>>,
    clock: Cell<u64>,
}

struct MetaBlock {
    bytes: Block,
    state: BlockState,
    used: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum BlockState {
    Clean,
    /// Changed; the log that is being made has no place for it yet.
    Dirty,
    /// Part of the log that is being made.
    Planned,
}

impl MetaFile {
    /// Of its inode.
    ///
    /// # Errors
    /// The map is wrong.
    pub(super) fn new(ino: u64, record: InodeRecord, block_bytes: usize) -> Result<MetaFile, LfsError> {
        let map = RefCell::new(FileMap::new(ino, &record.map, block_bytes)?);
        Ok(MetaFile {
            ino,
            map,
            record: Cell::new(record),
            block_bytes,
            blocks: RefCell::default(),
            dirty: RefCell::default(),
            planned: RefCell::default(),
            clock: Cell::new(0),
        })
    }

    /// Whether its addresses are places.
    pub(super) fn is_physical(&self) -> bool {
        self.ino == ino::DAT
    }

    /// Its inode, with the map as it is.
    pub(super) fn record(&self) -> InodeRecord {
        InodeRecord { map: self.map.borrow().root_bytes(), ..self.record.get() }
    }

    /// Notes that it has so many blocks more.
    pub(super) fn grow(&self, blocks: i64) {
        let record = self.record.get();
        let sectors = blocks * (self.block_bytes / 512) as i64;
        self.record.set(InodeRecord { blocks: record.blocks.saturating_add_signed(sectors), ..record });
    }

    /// Bytes of blocks and nodes that are in memory.
    pub(super) fn memory_bytes(&self) -> u64 {
        (self.blocks.borrow().len() + self.map.borrow().node_count()) as u64 * self.block_bytes as u64
    }

    /// A block that is in memory.
    pub(super) fn cached(&self, index: u64) -> Option<Block> {
        self.clock.set(self.clock.get() + 1);
        let mut blocks = self.blocks.borrow_mut();
        let block = blocks.get_mut(&index)?;
        block.used = self.clock.get();
        Some(block.bytes.clone())
    }

    /// Puts a block into memory that came from the medium.
    pub(super) fn put(&self, index: u64, bytes: Block) {
        self.make_room();
        let used = self.clock.get();
        self.blocks.borrow_mut().entry(index).or_insert(MetaBlock { bytes, state: BlockState::Clean, used });
    }

    /// Changes a block in memory; one that is not there was a hole.
    pub(super) fn edit(&self, index: u64, edit: impl FnOnce(&mut [u8])) {
        let used = self.clock.get();
        let mut blocks = self.blocks.borrow_mut();
        let block = blocks.entry(index).or_insert_with(|| {
            let bytes: Block = vec![0; self.block_bytes].into();
            MetaBlock { bytes, state: BlockState::Clean, used }
        });
        edit(Rc::make_mut(&mut block.bytes));
        if block.state == BlockState::Clean {
            block.state = BlockState::Dirty;
            self.dirty.borrow_mut().insert(index);
        }
    }

    /// Changes a block that is part of the log that is being made.
    ///
    /// # Panics
    /// If it is not.
    pub(super) fn edit_planned(&self, index: u64, edit: impl FnOnce(&mut [u8])) {
        let mut blocks = self.blocks.borrow_mut();
        let block = blocks.get_mut(&index).filter(|block| block.state == BlockState::Planned);
        let block = block.unwrap_or_else(|| panic!("block {index} of inode {} is in no log", self.ino));
        edit(Rc::make_mut(&mut block.bytes));
    }

    /// Whether a block is part of the log that is being made.
    pub(super) fn is_planned(&self, index: u64) -> bool {
        self.blocks.borrow().get(&index).is_some_and(|block| block.state == BlockState::Planned)
    }

    /// Blocks that changed and are part of no log yet. They are from now on.
    pub(super) fn plan_dirty(&self) -> Vec<u64> {
        let dirty: Vec<u64> = std::mem::take(&mut *self.dirty.borrow_mut()).into_iter().collect();
        self.set_states(&dirty, BlockState::Planned);
        self.planned.borrow_mut().extend_from_slice(&dirty);
        dirty
    }

    fn set_states(&self, indices: &[u64], state: BlockState) {
        let mut blocks = self.blocks.borrow_mut();
        indices.iter().for_each(|index| blocks.get_mut(index).expect("only clean blocks are dropped").state = state);
    }

    /// Forgets a block, which is a hole from now on.
    pub(super) fn forget(&self, index: u64) {
        self.dirty.borrow_mut().remove(&index);
        self.planned.borrow_mut().retain(|planned| *planned != index);
        self.blocks.borrow_mut().remove(&index);
    }

    /// The log is on the medium.
    pub(super) fn written(&self) {
        self.map.borrow_mut().written(NODES_MAX);
        self.set_states(&std::mem::take(&mut *self.planned.borrow_mut()), BlockState::Clean);
        // A large log leaves many.
        while self.make_room() {}
    }

    /// Drops clean blocks that were not used for long, if there are too many. Answers whether it dropped any.
    fn make_room(&self) -> bool {
        let max = CLEAN_BYTES_MAX / self.block_bytes;
        let mut blocks = self.blocks.borrow_mut();
        let before = blocks.len();
        if before < max {
            return false;
        }
        let mut used: Vec<u64> =
            blocks.values().filter(|block| block.state == BlockState::Clean).map(|block| block.used).collect();
        used.sort_unstable();
        let Some(median) = used.get(used.len() / 2).copied() else { return false };
        let recent = self.clock.get().saturating_sub(RECENT);
        blocks.retain(|_, block| block.state != BlockState::Clean || block.used > median.min(recent));
        blocks.len() < before
    }
}
