//! Checkpoints: what changed is frozen at one instant, planned file by file, and written as logs.
//!
//! The order of stages is that of the format: files, IFILE, the entry of the checkpoint, CPFILE, SUFILE, DAT, super
//! root. All stages up to the places of blocks change memory only. A checkpoint that fails there or later latches the
//! file system, and the medium shows the checkpoint before.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use esker_base::Spans;
use esker_fs_pages::Frozen;
use esker_vfs::Ino;

use super::clean::Cleaning;
use super::data_sync::Unlogged;
use super::plan::{Owner, PlannedBlock, PlannedFile, PlannedLog, Track};
use super::table::Inode;
use super::tree::{FileMap, MovedNode};
use super::{Inner, LogHead, MovedHead};
use crate::error::LfsError;
use crate::format::checkpoint::{CheckpointHead, flag};
use crate::format::{CheckpointEntry, CpfileHeader, InodeRecord, Payload, ScanRecord, ino};
use crate::liveness::Liveness;

/// What a checkpoint makes durable: the state of one instant.
pub(super) struct Snapshot {
    files: Vec<ChangedFile>,
    deleted: BTreeMap<u64, Rc<Inode>>,
    /// Inodes in use.
    inodes: u64,
}

/// A file as it was at that instant.
struct ChangedFile {
    inode: Rc<Inode>,
    record: InodeRecord,
    frames: Vec<Frozen>,
}

/// Rounds in which changed counters may change further blocks of the SUFILE (section 3.13.7).
const COUNTER_ROUNDS: u32 = 8;

/// A checkpoint that is being made.
pub(super) struct Making<'i> {
    pub inner: &'i Inner,
    pub cno: u64,
    pub files: Vec<PlannedFile>,
    /// Segments that it takes, the current one first. One more than it writes to.
    pub chain: Vec<u64>,
    pub head: LogHead,
    /// Segments that it takes for moved blocks, if they go apart, the current one first.
    pub moved_chain: Vec<MovedHead>,
    /// Places of nodes of the DAT that moved, as far as they were counted.
    ended_nodes: BTreeSet<u64>,
}

impl Inner {
    /// Takes the state as it is now. Changes from now on belong to the next checkpoint.
    pub(super) fn freeze(&self) -> Snapshot {
        let mut numbers: BTreeSet<u64> = self.cache.dirty_inodes().into_iter().map(|number| number.0).collect();
        let table = self.table.borrow();
        numbers.extend(table.iter().filter(|(_, inode)| inode.state.borrow().is_dirty).map(|(number, _)| *number));
        let changed = numbers.into_iter().filter_map(|number| table.get(&number).cloned());
        let files = changed.map(|inode| self.freeze_file(inode)).collect();
        let deleted = std::mem::take(&mut *self.deleted.borrow_mut());
        *self.deleting.borrow_mut() = deleted.keys().copied().collect();
        self.unlogged.set(Unlogged::Nothing);
        self.synced_blocks.set(0);
        Snapshot { files, deleted, inodes: self.inodes.get() }
    }

    /// The state of the last checkpoint: changes of files since then wait for the next one.
    pub(super) fn unchanged(&self) -> Snapshot {
        Snapshot { files: Vec::new(), deleted: BTreeMap::new(), inodes: self.inodes_durable.get() }
    }

    fn freeze_file(&self, inode: Rc<Inode>) -> ChangedFile {
        let number = Ino(inode.number);
        let nrs = self.cache.dirty_frames(number, 0..u64::MAX);
        let frames: Vec<Frozen> = nrs.into_iter().filter_map(|nr| self.cache.freeze(number, nr)).collect();
        let mut state = inode.state.borrow_mut();
        state.is_dirty = false;
        state.frozen = Some(frames.iter().map(Frozen::nr).collect());
        state.removing = std::mem::take(&mut state.removed);
        let record = state.record;
        drop(state);
        ChangedFile { inode, record, frames }
    }

    /// Makes a checkpoint of a snapshot, which is durable then. It cleans segments on the way.
    pub(super) async fn make_checkpoint(&self, snapshot: Snapshot, cleaning: Cleaning) -> Result<(), LfsError> {
        let mut making = Making::new(self);
        let Snapshot { files, deleted, inodes } = snapshot;
        making.plan_moves(&cleaning).await?;
        if cleaning.victims.is_empty() || !files.is_empty() {
            self.written.set(self.seconds());
        }
        let (mut frozen, inodes_of_users) = (Vec::new(), files.iter().map(|file| file.inode.clone()));
        let users: Vec<Rc<Inode>> = inodes_of_users.collect();
        for file in files {
            frozen.extend(making.plan_file(file).await?);
        }
        for inode in deleted.values() {
            making.end_file(inode).await?;
        }
        making.plan_meta(ino::IFILE).await?;
        making.plan_checkpoint(inodes).await?;
        making.plan_meta(ino::CPFILE).await?;
        // No log may take a victim before this checkpoint is durable.
        self.rest(&cleaning.victims);
        self.core.free_segments(&cleaning.victims).await?;
        let logs = making.plan_segments().await?;
        let head = making.write(&logs).await?;
        self.moved_head.set(making.moved_head_behind(&logs));
        making.go_on(head);
        self.inodes_durable.set(inodes);
        self.scanned.set(0);
        self.core.in_flight.borrow_mut().clear();
        self.core.landed.notify_all();
        self.wake_rested();
        self.deleting.borrow_mut().clear();
        frozen.into_iter().for_each(Frozen::written);
        [&self.core.ifile, &self.core.cpfile, &self.core.sufile, &self.core.dat].iter().for_each(|file| file.written());
        for inode in users {
            inode.map.borrow_mut().written(super::meta::NODES_MAX);
            inode.state.borrow_mut().frozen = None;
        }
        self.drop_all_unused();
        Ok(())
    }
}

impl<'i> Making<'i> {
    /// The next checkpoint, without anything in it.
    pub(super) fn new(inner: &'i Inner) -> Making<'i> {
        let head = inner.head.get();
        let (chain, moved_chain) = (vec![head.segment, head.next], inner.moved_head.get().into_iter().collect());
        Making { inner, cno: head.cno + 1, files: Vec::new(), chain, head, moved_chain, ended_nodes: BTreeSet::new() }
    }

    /// Its logs are on the medium: the next one begins there.
    pub(super) fn go_on(&self, head: LogHead) {
        self.inner.head.set(head);
        let moved = self.moved_chain.iter().map(|head| (head.segment, head.sequence));
        let numbered = self.chain.iter().copied().zip(self.head.sequence..).chain(moved);
        self.inner.sequences.borrow_mut().extend(numbered);
    }
}

impl Making<'_> {
    /// The metadata file of a number.
    pub(super) fn meta(&self, number: u64) -> &super::meta::MetaFile {
        let core = &self.inner.core;
        match number {
            ino::DAT => &core.dat,
            ino::CPFILE => &core.cpfile,
            ino::SUFILE => &core.sufile,
            _ => &core.ifile,
        }
    }

    /// Ends blocks that were cut off or punched, and plans changed ones.
    async fn plan_file(&mut self, file: ChangedFile) -> Result<Vec<Frozen>, LfsError> {
        let ChangedFile { inode, record, mut frames } = file;
        let removing: Vec<(u64, u64)> =
            inode.state.borrow().removing.within(0, u64::MAX).map(|(from, end, ..)| (from, end)).collect();
        for (from, end) in removing {
            self.end_blocks(&inode, from..end).await?;
        }
        inode.state.borrow_mut().removing = Spans::default();
        let mut planned = PlannedFile::new(inode.number, self.cno, Owner::User(inode.clone()));
        for frame in &mut frames {
            self.plan_frame(&inode, &record, frame, &mut planned).await?;
        }
        self.plan_nodes(&inode, &mut planned).await?;
        self.store(&inode, record).await?;
        self.files.push(planned);
        Ok(frames)
    }

    /// Plans the blocks of a frame that lie before the end of the file.
    pub(super) async fn plan_frame(
        &self,
        inode: &Rc<Inode>,
        record: &InodeRecord,
        frame: &mut Frozen,
        planned: &mut PlannedFile,
    ) -> Result<(), LfsError> {
        let block = self.inner.core.geometry.block_bytes;
        let mut bytes = frame.bytes();
        let per_frame = bytes.len() / block;
        let first = frame.nr() * per_frame as u64;
        let end = record.size.div_ceil(block as u64);
        for (number, index) in (first..first + per_frame as u64).take_while(|index| *index < end).enumerate() {
            let vblock = self.renew(&inode.map, index, planned.cno).await?;
            let bytes = Some(bytes.slice(number * block, block));
            planned.data.push(PlannedBlock {
                what: Payload::Data { vblock, index },
                bytes,
                moved: None,
                kept: Liveness::Live,
            });
        }
        Ok(())
    }

    /// Gives a block of data of a file of checkpoint `cno` a new virtual block. The one before ends.
    async fn renew(&self, map: &RefCell<FileMap>, index: u64, cno: u64) -> Result<u64, LfsError> {
        let core = &self.inner.core;
        let vblock = core.dat_allocate().await?;
        let before = core.with_map(map, false, |map| map.insert(index, vblock)).await?;
        if before != 0 {
            core.dat_end(before, cno).await?;
        }
        Ok(vblock)
    }

    /// Gives nodes that moved their virtual blocks, and plans them.
    async fn plan_nodes(&self, inode: &Rc<Inode>, planned: &mut PlannedFile) -> Result<(), LfsError> {
        self.settle_nodes(&inode.map, planned).await?;
        let grown = inode.map.borrow_mut().take_grown();
        let core = &self.inner.core;
        core.blocks.set(core.blocks.get().saturating_add_signed(grown));
        let sectors = grown * (core.geometry.block_bytes / 512) as i64;
        let mut state = inode.state.borrow_mut();
        state.record.blocks = state.record.blocks.saturating_add_signed(sectors);
        Ok(())
    }

    async fn settle_nodes(&self, map: &RefCell<FileMap>, planned: &mut PlannedFile) -> Result<(), LfsError> {
        let (core, moved) = (&self.inner.core, map.borrow().moved());
        for node in &moved {
            let vblock = core.dat_allocate().await?;
            if let Some(before) = node.before {
                core.dat_end(before, planned.cno).await?;
            }
            map.borrow_mut().settle(node, vblock);
            planned.nodes.push(PlannedBlock::late(Payload::Node { vblock }));
        }
        let dropped = map.borrow_mut().take_dropped();
        for vblock in dropped {
            core.dat_end(vblock, planned.cno).await?;
        }
        Ok(())
    }

    /// Puts the record of an inode as it was at the instant of the snapshot, with its map of now, into the IFILE.
    async fn store(&self, inode: &Rc<Inode>, record: InodeRecord) -> Result<(), LfsError> {
        let now = inode.record();
        let record = InodeRecord { map: now.map, blocks: now.blocks, ..record };
        self.inner.core.store_inode(inode.number, &record).await
    }

    /// Ends the blocks of a range.
    async fn end_blocks(&self, inode: &Rc<Inode>, range: std::ops::Range<u64>) -> Result<(), LfsError> {
        let core = &self.inner.core;
        loop {
            let ended = core.with_map(&inode.map, false, |map| map.take(range.clone())).await?;
            if ended.is_empty() {
                return Ok(());
            }
            for (_, vblock) in ended {
                core.dat_end(vblock, self.cno).await?;
            }
        }
    }

    /// Ends all of a file that has neither names nor pins.
    async fn end_file(&self, inode: &Rc<Inode>) -> Result<(), LfsError> {
        self.end_blocks(inode, 0..u64::MAX).await?;
        let mut no_nodes = PlannedFile::new(inode.number, self.cno, Owner::User(inode.clone()));
        self.plan_nodes(inode, &mut no_nodes).await?;
        self.inner.inode_hint.set(self.inner.inode_hint.get().min(inode.number));
        self.inner.core.drop_inode(inode.number).await
    }

    /// The place of a metadata file in the plan.
    fn planned_meta(&mut self, number: u64) -> usize {
        let is_it = |file: &PlannedFile| matches!(file.owner, Owner::Meta(other) if other == number);
        if let Some(at) = self.files.iter().position(is_it) {
            return at;
        }
        let cno = if number == ino::IFILE { self.cno } else { 0 };
        self.files.push(PlannedFile::new(number, cno, Owner::Meta(number)));
        self.files.len() - 1
    }

    /// Plans what changed of a metadata file whose addresses are virtual. It may be called again.
    async fn plan_meta(&mut self, number: u64) -> Result<(), LfsError> {
        let at = self.planned_meta(number);
        let mut planned = std::mem::replace(&mut self.files[at], PlannedFile::new(number, 0, Owner::Meta(number)));
        let (core, file) = (&self.inner.core, self.meta(number));
        for index in file.plan_dirty() {
            let vblock = self.renew(&file.map, index, planned.cno).await?;
            planned.data.push(PlannedBlock::late(Payload::Data { vblock, index }));
        }
        self.settle_nodes(&file.map, &mut planned).await?;
        let grown = file.map.borrow_mut().take_grown();
        file.grow(grown);
        if number == ino::IFILE {
            core.blocks.set(core.blocks.get().saturating_add_signed(grown));
        }
        self.files[at] = planned;
        Ok(())
    }

    /// Makes the entry of the checkpoint. How many blocks it writes is told later.
    async fn plan_checkpoint(&self, inodes: u64) -> Result<(), LfsError> {
        let core = &self.inner.core;
        let (shape, file) = (core.geometry.checkpoints, &core.cpfile);
        let (index, offset) = shape.place(self.cno);
        if core.meta_block(file, index).await?.is_none() {
            let entry_bytes = shape.entry_bytes as usize;
            file.edit(index, |block| {
                let none = CheckpointHead { flags: flag::INVALID, ..NO_CHECKPOINT };
                block.chunks_exact_mut(entry_bytes).for_each(|entry| none.write(entry));
            });
        }
        let head = CheckpointHead {
            cno: self.cno,
            created: self.inner.seconds(),
            inodes,
            blocks: core.blocks.get(),
            ..NO_CHECKPOINT
        };
        let entry = CheckpointEntry { head, ifile: core.ifile.record() };
        file.edit(index, |block| {
            let before = CheckpointHead::read(&block[offset..]).map_or(0, |head| head.in_block);
            CheckpointEntry { head: CheckpointHead { in_block: before, ..entry.head }, ..entry }
                .write(&mut block[offset..]);
            // The first entry of each block but the first counts the valid ones.
            if index > 0
                && let Ok(first) = CheckpointHead::read(block)
            {
                CheckpointHead { in_block: first.in_block + 1, ..first }.write(block);
            }
        });
        let header = core.cpfile_header().await?;
        let header = CpfileHeader { checkpoints: header.checkpoints + 1, ..header };
        let scan = core.has_counters().then(|| ScanRecord { cno: self.cno, ..core.scan.get() });
        file.edit(0, |block| {
            header.write(block);
            if let Some(scan) = scan {
                scan.write(&mut block[ScanRecord::OFFSET..]);
            }
        });
        Ok(())
    }

    /// Plans SUFILE and DAT, and takes the segments that all of the plan needs. Each of them changes the others, so it
    /// goes on until nothing changes.
    async fn plan_segments(&mut self) -> Result<Vec<PlannedLog>, LfsError> {
        let inner = self.inner;
        let core = &inner.core;
        let mut rounds = 0;
        loop {
            self.touch_usages(rounds < COUNTER_ROUNDS).await?;
            self.plan_meta(ino::SUFILE).await?;
            let is_settled = !self.plan_dat().await?;
            let mut logs = self.cut(Track::Moved, false);
            let needed_apart = logs.last().map_or(0, |log| log.link + 1);
            let main = self.cut(Track::Main, true);
            let is_enough = self.take_segments(&main).await? && self.moved_chain.len() >= needed_apart;
            while self.moved_chain.len() < needed_apart {
                let taken = core.take_segment(|segment| inner.may_take(segment)).await?;
                let segment = taken.ok_or(LfsError::NoRoom)?;
                self.moved_chain.push(MovedHead { segment, offset: 0, sequence: self.head.sequence });
            }
            logs.extend(main);
            rounds += 1;
            if is_settled && is_enough {
                return Ok(logs);
            }
        }
    }

    /// Cuts the files of a track into logs, as far as they are planned.
    pub(super) fn cut(&self, track: Track, has_super_root: bool) -> Vec<PlannedLog> {
        let (geometry, is_apart) = (&self.inner.core.geometry, self.inner.core.counting.moved_apart);
        let files = self.files.iter().enumerate().filter(|(_, file)| {
            let is_moved = is_apart && matches!(file.owner, Owner::Moved);
            is_moved == (track == Track::Moved)
        });
        let place = |link: usize| match track {
            Track::Main => self.chain.get(link).map(|segment| (*segment, if link == 0 { self.head.offset } else { 0 })),
            Track::Moved => self.moved_chain.get(link).map(|head| (head.segment, head.offset)),
        };
        let room = |link: usize| match place(link) {
            Some((segment, begun)) => {
                let range = geometry.segment(segment);
                (range.end - range.start).saturating_sub(begun)
            }
            None => geometry.segment_blocks,
        };
        super::plan::cut(files, track, geometry.block_bytes, room, has_super_root)
    }

    /// Takes the segments that logs need, and one more. Answers whether there were enough.
    pub(super) async fn take_segments(&mut self, logs: &[PlannedLog]) -> Result<bool, LfsError> {
        let needed = logs.last().map_or(0, |log| log.link) + 2;
        let is_enough = self.chain.len() >= needed;
        while self.chain.len() < needed {
            let taken = self.inner.core.take_segment(|segment| self.inner.may_take(segment)).await?;
            self.chain.push(taken.ok_or(LfsError::NoRoom)?);
        }
        Ok(is_enough)
    }

    /// Makes the blocks of the SUFILE part of the plan that will change.
    async fn touch_usages(&self, has_counters: bool) -> Result<(), LfsError> {
        let core = &self.inner.core;
        let mut segments = self.chain.clone();
        segments.extend(self.moved_chain.iter().map(|head| head.segment));
        if has_counters && core.has_counters() {
            segments.extend(core.live_changes.borrow().keys());
        }
        let blocks: BTreeSet<u64> = segments.iter().map(|segment| core.geometry.usages.place(*segment).0).collect();
        for index in blocks.into_iter().chain([0]).filter(|index| !core.sufile.is_planned(*index)) {
            core.meta_edit(&core.sufile, index, |_| {}).await?;
        }
        Ok(())
    }

    /// Plans what changed of the DAT. Answers whether anything did since the last time.
    async fn plan_dat(&mut self) -> Result<bool, LfsError> {
        let at = self.planned_meta(ino::DAT);
        let core = &self.inner.core;
        let dirty = core.dat.plan_dirty();
        let is_changed = !dirty.is_empty();
        for index in dirty {
            let provisional = core.dat.map.borrow_mut().provisional();
            let before = core.with_map(&core.dat.map, true, |map| map.insert(index, provisional)).await?;
            if before != 0 {
                core.note_dat_ended(before);
            }
            let what = Payload::DatData { index };
            let moved = Some(MovedNode { address: provisional, level: 0, key: index, before: None });
            self.files[at].data.push(PlannedBlock { what, bytes: None, moved, kept: Liveness::Live });
        }
        let moved = core.dat.map.borrow().moved();
        for before in moved.iter().filter_map(|node| node.before) {
            if self.ended_nodes.insert(before) {
                core.note_dat_ended(before);
            }
        }
        self.files[at].nodes = moved
            .into_iter()
            .map(|node| {
                let what = Payload::DatNode { index: node.key, level: node.level };
                PlannedBlock { what, bytes: None, moved: Some(node), kept: Liveness::Live }
            })
            .collect();
        let grown = core.dat.map.borrow_mut().take_grown();
        core.dat.grow(grown);
        for place in core.dat.map.borrow_mut().take_dropped() {
            core.note_dat_ended(place);
        }
        Ok(is_changed)
    }
}

/// The entry of a checkpoint without any values.
const NO_CHECKPOINT: CheckpointHead =
    CheckpointHead { flags: 0, in_block: 0, next: 0, prev: 0, cno: 0, created: 0, written: 0, inodes: 0, blocks: 0 };
