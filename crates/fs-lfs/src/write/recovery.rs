//! Opening: the latest checkpoint, and what a crash left behind it.
//!
//! A file system that was unmounted goes on behind its last log. Otherwise nothing says what lies behind the latest
//! checkpoint, so the log goes on in another segment, two numbers further. Data that were synced without a checkpoint
//! are brought forward. Then a checkpoint makes this state durable, and both superblocks name it.

use std::cell::{Cell, OnceCell, RefCell};
use std::rc::Rc;

use esker_base::Progress;
use esker_block::{Buf, Device, Latch};
use esker_layer_kit::{GroupCommit, Turn};
use esker_rt::Rt;
use esker_rt::sync::Notify;
use esker_vfs::{About, Call, Claims, Ino, Stamp};

use super::clean::Cleaning;
use super::core::Core;
use super::{Inner, LfsConfig, LogHead};
use crate::error::{LfsError, damaged};
use crate::format::alloc::has_bit;
use crate::format::superblock::{COMPAT_RO_KNOWN, state};
use crate::format::{LfsSuperblock, Payload, ino};
use crate::medium::{FoundLog, Latest, SyncedLog};
use crate::read::{abilities, about};
use crate::volume::Volume;

/// The file system in memory, as its latest checkpoint has it, and the logs of synced data behind that.
pub(super) async fn open(
    rt: &Rt,
    device: Rc<dyn Device>,
    now: Stamp,
    config: LfsConfig,
) -> Result<(Inner, Vec<SyncedLog>), LfsError> {
    let volume = Volume::open(rt, device).await?;
    let (superblock, geometry, latest) = (*volume.superblock(), *volume.geometry(), volume.latest());
    if superblock.compat_ro & !COMPAT_RO_KNOWN != 0 {
        return Err(LfsError::ReadOnly(superblock.compat_ro & !COMPAT_RO_KNOWN));
    }
    let checkpoint = volume.checkpoint(latest.cno).await?;
    let medium = volume.medium().clone();
    let core = Core::new(rt, medium, superblock, geometry, config, &latest.super_root, &checkpoint)?;
    core.segments.set(volume.sufile_header().await?);
    let cache = Inner::page_cache(rt, &core)?;
    let inner = Inner {
        about: About { can: abilities(), ..about(&volume) },
        head: Cell::new(head(&superblock, &core, latest)),
        core,
        cache,
        claims: Claims::default(),
        table: RefCell::default(),
        dirs: RefCell::default(),
        deleted: RefCell::default(),
        deleting: RefCell::default(),
        creating: RefCell::default(),
        resting: RefCell::default(),
        sequences: RefCell::default(),
        me: OnceCell::new(),
        unlogged: Cell::default(),
        synced_blocks: Cell::default(),
        inodes: Cell::new(checkpoint.head.inodes),
        inodes_durable: Cell::new(checkpoint.head.inodes),
        scanned: Cell::new(0),
        inode_hint: Cell::new(ino::FIRST),
        written: Cell::new(latest.super_root.written),
        claim: Cell::default(),
        cleaners: Cell::new(0),
        protected_hint: Cell::new(1),
        commit: GroupCommit::new(0),
        making: Turn::default(),
        latch: Latch::new("lfs"),
        clock: Cell::new(now),
        moved_head: Cell::default(),
        superblocks: Default::default(),
        changed: Notify::default(),
        renames: Turn::default(),
        is_closed: Cell::new(false),
    };
    Ok((inner, volume.latest().synced.clone()))
}

fn head(superblock: &LfsSuperblock, core: &Core, latest: &Latest) -> LogHead {
    let (geometry, log) = (&core.geometry, &latest.log);
    let segment = geometry.segment_of(log.place);
    LogHead {
        segment,
        offset: log.end() - geometry.segment(segment).start,
        sequence: log.header.sequence,
        next: geometry.segment_of(log.header.next),
        cno: latest.cno.max(superblock.last_cno),
        log: log.place,
        log_sequence: log.header.sequence,
    }
}

impl Inner {
    /// Makes an opened file system ready for changes.
    pub(super) async fn begin(&self, now: Stamp, synced: &[SyncedLog]) -> Result<(), LfsError> {
        let root = self.inode(ino::ROOT).await?;
        if root.kind() != esker_vfs::FileType::Directory {
            return damaged("inode", ino::ROOT, 0, "the root is no directory");
        }
        root.state.borrow_mut().pins += 1;
        if self.core.has_counters() {
            self.core.snapshots.replace(self.snapshots().await?);
            self.core.load_scan(self.head.get().cno).await?;
        }
        let mut superblock = self.core.superblock.get();
        let was_unmounted = superblock.state & state::VALID != 0;
        (superblock.mounts, superblock.mounted) = (superblock.mounts.wrapping_add(1), self.seconds());
        self.core.superblock.set(superblock);
        if !was_unmounted {
            // What a killed process wrote may still lie in the device's cache, and checkpoints flush only themselves.
            self.core.medium.flush().await?;
            self.recover(now, synced).await?;
        }
        // From now on the walk to the latest checkpoint must not end at the first.
        self.both_superblocks(0).await
    }

    async fn recover(&self, now: Stamp, synced: &[SyncedLog]) -> Result<(), LfsError> {
        let (before, core, logs) = (self.head.get(), &self.core, self.synced_logs(synced).await?);
        let stale = logs.iter().map(|log| core.geometry.segment_of(log.place)).chain([before.next]);
        self.rest(&stale.collect::<Vec<_>>());
        // It was taken for logs that are lost.
        if before.next != before.segment && !core.usage(before.next).await?.is_clean() {
            core.free_segments(&[before.next]).await?;
        }
        let mut taken = [0; 2];
        for segment in &mut taken {
            *segment = core.take_segment(|segment| self.may_take(segment)).await?.ok_or(LfsError::NoRoom)?;
        }
        let [segment, next] = taken;
        self.head.set(LogHead { segment, offset: 0, sequence: before.sequence + 2, next, ..before });
        let count = logs.len() as u64;
        for (number, log) in (1u64..).zip(logs) {
            let blocks = log.blocks(&core.geometry).or_else(|why| damaged("the log", log.place, log.place, why))?;
            for block in blocks {
                if let Payload::Data { index, .. } = block.what {
                    self.bring_block(now, block.ino, index, block.place).await?;
                }
            }
            core.rt.progress(Progress::of("recovery of lfs", "logs", number, count));
        }
        self.drop_orphans().await?;
        self.make_checkpoint(self.freeze(), Cleaning::default()).await
    }

    /// Logs of data that were synced without a checkpoint.
    async fn synced_logs(&self, synced: &[SyncedLog]) -> Result<Vec<FoundLog>, LfsError> {
        let (core, superblock) = (&self.core, self.core.superblock.get());
        let mut logs = Vec::new();
        for synced in synced {
            let mut place = synced.place;
            for _ in 0..synced.logs {
                let Ok(log) = core.medium.read_log(&superblock, &core.geometry, place).await? else { break };
                let end = core.geometry.segment(core.geometry.segment_of(place)).end;
                place = if log.end() + super::plan::LOG_BLOCKS_MIN > end { log.header.next } else { log.end() };
                logs.push(log);
            }
        }
        Ok(logs)
    }

    async fn bring_block(&self, now: Stamp, number: u64, index: u64, place: u64) -> Result<(), LfsError> {
        if self.core.stored_inode(number).await?.is_none() {
            return Ok(());
        }
        let (inode, block) = (self.inode(number).await?, self.core.geometry.block_bytes as u64);
        let at = index * block;
        let len = inode.size().saturating_sub(at).min(block) as usize;
        if len == 0 {
            return Ok(());
        }
        let bytes = self.core.block_at(place).await?;
        let (backing, span) = (self.handle(), (at, len));
        if self.cache.stats().dirty + 1 >= self.cache.write_bytes_max() as u64 / self.cache.frame_len() as u64 {
            self.make_checkpoint(self.freeze(), Cleaning::default()).await?;
        }
        let prepared = self.cache.prepare(&backing, Call::at(now), Ino(number), span, inode.size()).await;
        let prepared = prepared.or_else(|errno| damaged("inode", number, place, format!("{errno:?}")))?;
        prepared.write(&mut Buf::from_bytes(self.core.medium.pool(), &bytes[..len]));
        inode.change(|_| ());
        Ok(())
    }

    /// Deletes inodes that had lost their names and were in use when the machine stopped.
    async fn drop_orphans(&self) -> Result<(), LfsError> {
        let (core, shape) = (&self.core, self.core.geometry.inodes);
        let mut first = 0;
        loop {
            let place = core.entry_place(&shape, first)?;
            if core.meta_block(&core.ifile, place.desc_block).await?.is_none() {
                return Ok(());
            }
            if let Some(bits) = core.meta_block(&core.ifile, place.bits_block).await? {
                let used = (0..shape.per_group).filter(|bit| has_bit(&bits, *bit as usize)).map(|bit| first + bit);
                for number in used.filter(|number| *number >= ino::FIRST) {
                    let record = core.stored_inode(number).await?;
                    if record.is_some_and(|record| record.links == 0) {
                        let inode = self.inode(number).await?;
                        self.table.borrow_mut().remove(&number);
                        self.deleted.borrow_mut().insert(number, inode);
                        self.inodes.set(self.inodes.get().saturating_sub(1));
                    }
                }
            }
            first += shape.per_group;
        }
    }
}
