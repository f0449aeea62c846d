//! What all parts of a writer share: the device, the metadata files, and the way from addresses to bytes.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};

use esker_block::Buf;
use esker_rt::Rt;
use esker_rt::sync::Notify;

use super::LfsConfig;
use super::counting::LiveChange;
use super::meta::MetaFile;
use super::nearby::{Near, Nearby};
use super::recount::Recounts;
use super::tree::{Absent, FileMap, Sought};
use crate::error::{LfsError, damaged};
use crate::format::usage::UsageHead;
use crate::format::{CheckpointEntry, Geometry, LfsSuperblock, LiveCounters, ScanRecord, SufileHeader, SuperRoot, ino};
use crate::medium::ImageDevice;
use crate::volume::Block;

/// The device and the metadata files.
pub(super) struct Core {
    pub rt: Rt,
    pub medium: ImageDevice,
    pub superblock: Cell<LfsSuperblock>,
    pub geometry: Geometry,
    pub dat: MetaFile,
    pub cpfile: MetaFile,
    pub sufile: MetaFile,
    pub ifile: MetaFile,
    /// Where the search for a free virtual block begins.
    pub dat_hint: Cell<u64>,
    /// Counts of segments. The SUFILE gets them with each checkpoint.
    pub segments: Cell<SufileHeader>,
    /// Live blocks that segments gained or lost since the SUFILE was told.
    pub live_changes: RefCell<BTreeMap<u64, LiveChange>>,
    /// Segments whose live blocks a cleaner counts.
    pub recounts: Recounts,
    /// How this mount counts live blocks.
    pub counting: LfsConfig,
    /// Numbers of all snapshots, in ascending order.
    pub snapshots: RefCell<Vec<u64>>,
    /// The scan that tells counters of snapshots.
    pub scan: Cell<ScanRecord>,
    /// Blocks of users' files and of the IFILE.
    pub blocks: Cell<u64>,
    /// Segments that the log has taken since its last checkpoint, or data sync, was durable.
    pub taken: RefCell<BTreeSet<u64>>,
    /// Places to which the DAT leads, and that the log has not reached yet.
    pub in_flight: RefCell<BTreeSet<u64>>,
    /// Told when it has.
    pub landed: Notify,
    /// Reads under way, by the epoch in which they looked for their places.
    pub reads: Reads,
    /// Blocks that were read ahead of their readers.
    pub nearby: Nearby,
}

/// Reads under way. A segment that was clean in an epoch may be written again when no read of that epoch is left.
#[derive(Default)]
pub(super) struct Reads {
    epoch: Cell<u64>,
    counts: RefCell<BTreeMap<u64, u64>>,
}

/// A read under way, until it is dropped.
pub(super) struct Reading<'r> {
    reads: &'r Reads,
    epoch: u64,
}

impl Reads {
    /// Begins a read, before it looks for its places.
    pub(super) fn begin(&self) -> Reading<'_> {
        let epoch = self.epoch.get();
        *self.counts.borrow_mut().entry(epoch).or_default() += 1;
        Reading { reads: self, epoch }
    }

    /// Begins a new epoch. Answers the one that ends.
    pub(super) fn next_epoch(&self) -> u64 {
        let epoch = self.epoch.get();
        self.epoch.set(epoch + 1);
        epoch
    }

    /// Whether no read of an epoch, or of one before it, is left.
    pub(super) fn are_over(&self, epoch: u64) -> bool {
        self.counts.borrow().range(..=epoch).next().is_none()
    }
}

impl Drop for Reading<'_> {
    fn drop(&mut self) {
        let mut counts = self.reads.counts.borrow_mut();
        if let Some(count) = counts.get_mut(&self.epoch) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.epoch);
            }
        }
    }
}

impl Core {
    /// Of a checkpoint.
    ///
    /// # Errors
    /// A map is wrong.
    pub(super) fn new(
        rt: &Rt,
        medium: ImageDevice,
        superblock: LfsSuperblock,
        geometry: Geometry,
        counting: LfsConfig,
        super_root: &SuperRoot,
        checkpoint: &CheckpointEntry,
    ) -> Result<Core, LfsError> {
        let file = |ino, record| MetaFile::new(ino, record, geometry.block_bytes);
        Ok(Core {
            rt: rt.clone(),
            medium,
            superblock: Cell::new(superblock),
            geometry,
            dat: file(ino::DAT, super_root.dat)?,
            cpfile: file(ino::CPFILE, super_root.cpfile)?,
            sufile: file(ino::SUFILE, super_root.sufile)?,
            ifile: file(ino::IFILE, checkpoint.ifile)?,
            dat_hint: Cell::new(1),
            segments: Cell::new(SufileHeader { clean: 0, dirty: 0, last: 0 }),
            live_changes: RefCell::default(),
            recounts: Recounts::default(),
            counting,
            snapshots: RefCell::default(),
            scan: Cell::new(ScanRecord::over(checkpoint.head.cno)),
            blocks: Cell::new(checkpoint.head.blocks),
            taken: RefCell::default(),
            in_flight: RefCell::default(),
            landed: Notify::default(),
            reads: Reads::default(),
            nearby: Nearby::new(geometry.block_bytes),
        })
    }

    /// Whether the SUFILE counts live blocks, and this mount keeps the counts.
    pub(super) fn has_counters(&self) -> bool {
        self.counting.is_tracking && self.geometry.usages.entry_bytes >= (UsageHead::BYTES + LiveCounters::BYTES) as u64
    }

    /// Bytes of blocks and nodes of metadata files that are in memory.
    pub(super) fn metadata_bytes(&self) -> u64 {
        [&self.dat, &self.cpfile, &self.sufile, &self.ifile].iter().map(|file| file.memory_bytes()).sum()
    }

    /// The block at a place.
    pub(super) async fn block_at(&self, place: u64) -> Result<Block, LfsError> {
        Ok(self.blocks_at(place, 1).await?.into())
    }

    /// The bytes of blocks that follow each other. Waits for a log that brings one of them.
    pub(super) async fn blocks_at(&self, place: u64, blocks: usize) -> Result<Vec<u8>, LfsError> {
        let has_landed = || self.in_flight.borrow().range(place..place + blocks as u64).next().is_none();
        self.landed.wait_until(has_landed).await;
        let (block, segment) = (self.geometry.block_bytes, self.geometry.segment(self.geometry.segment_of(place)));
        match self.nearby.look(&(place..place + blocks as u64), &segment) {
            Near::Kept(bytes) => Ok(bytes),
            Near::Read(more, writes) => {
                let bytes = self.medium.read(place * block as u64, more * block).await?;
                if more == blocks {
                    return Ok(bytes);
                }
                let wanted = bytes[..blocks * block].to_vec();
                self.nearby.keep(place, bytes, writes);
                Ok(wanted)
            }
        }
    }

    /// Writes blocks of a segment, and makes them durable if `durable`.
    pub(super) async fn write_at(&self, place: u64, bytes: Buf, durable: bool) -> Result<(), LfsError> {
        let block = self.geometry.block_bytes;
        let (places, at) = (place..place + (bytes.len() / block) as u64, place * block as u64);
        self.nearby.written(&places);
        let written = match durable {
            true => self.medium.put_durably(at, bytes).await,
            false => self.medium.put(at, bytes).await,
        };
        self.nearby.written(&places);
        written
    }

    /// The place of an address.
    pub(super) async fn place(&self, is_physical: bool, address: u64) -> Result<u64, LfsError> {
        let place = match is_physical {
            true => address,
            // Boxed, because a look into the DAT is a lookup of its own.
            false => Box::pin(self.dat_entry(address)).await?.place,
        };
        match self.geometry.has(place) {
            true => Ok(place),
            false => damaged("entry of the DAT", address, place, "it leads into no segment"),
        }
    }

    /// Looks into a map or edits it, and loads the nodes that this needs.
    pub(super) async fn with_map<T>(
        &self,
        map: &RefCell<FileMap>,
        is_physical: bool,
        mut act: impl FnMut(&mut FileMap) -> Sought<T>,
    ) -> Result<T, LfsError> {
        loop {
            let sought = act(&mut map.borrow_mut());
            match sought {
                Ok(found) => return Ok(found),
                Err(absent) => self.load_node(map, is_physical, absent).await?,
            }
        }
    }

    async fn load_node(&self, map: &RefCell<FileMap>, is_physical: bool, absent: Absent) -> Result<(), LfsError> {
        let _reading = self.reads.begin();
        let place = self.place(is_physical, absent.address).await?;
        let block = self.block_at(place).await?;
        map.borrow_mut().put(&absent, place, &block)
    }

    /// A block of a metadata file; `None` in a hole.
    pub(super) async fn meta_block(&self, file: &MetaFile, index: u64) -> Result<Option<Block>, LfsError> {
        loop {
            if let Some(block) = file.cached(index) {
                return Ok(Some(block));
            }
            let _reading = self.reads.begin();
            let find = |map: &mut FileMap| map.find(index);
            let address = self.with_map(&file.map, file.is_physical(), find).await?;
            if address == 0 {
                return Ok(None);
            }
            let place = self.place(file.is_physical(), address).await?;
            let block = self.block_at(place).await?;
            // A log that was written meanwhile may have moved the block: then these bytes are old.
            if self.with_map(&file.map, file.is_physical(), find).await? == address {
                file.put(index, block);
            }
        }
    }

    /// Changes a block of a metadata file; a hole becomes a block of zeroes.
    pub(super) async fn meta_edit(
        &self,
        file: &MetaFile,
        index: u64,
        edit: impl FnOnce(&mut [u8]),
    ) -> Result<(), LfsError> {
        self.meta_block(file, index).await?;
        file.edit(index, edit);
        Ok(())
    }
}
