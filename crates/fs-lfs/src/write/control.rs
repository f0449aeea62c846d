//! The calls of cleaners: who may call, what the metadata files tell, and usages that are set.

use std::rc::{Rc, Weak};

use esker_base::Errno;
use esker_vfs::Answer;

use super::{Inner, Lfs};
use crate::answer::{answer, told};
use crate::control::{
    CheckpointInfo, CheckpointMode, Checkpoints, Cleaned, CleaningOrder, DatBlock, ENTRIES_MAX, LEASE, LfsControl,
    LfsTotals, LiveInfo, SegmentInfo, SegmentLogs, SegmentUpdate, VirtualBlock, wire,
};
use crate::error::LfsError;
use crate::format::SegmentUsage;
use crate::format::checkpoint::flag as checkpoint_flag;
use crate::format::usage::{UsageHead, flag};

/// A cleaner of a file system in this process. It does not keep the file system open.
pub struct CleanerSession {
    fs: Weak<Inner>,
    number: u64,
}

impl Lfs {
    /// The calls for one more cleaner.
    pub fn control(&self) -> CleanerSession {
        CleanerSession { fs: Rc::downgrade(&self.0), number: self.0.next_cleaner() }
    }
}

impl CleanerSession {
    fn call<T: 'static>(&self, work: impl AsyncFnOnce(&Inner, u64) -> Result<T, Errno> + 'static) -> Answer<T> {
        let (fs, number) = (self.fs.clone(), self.number);
        answer(async move {
            let fs = fs.upgrade().filter(|fs| !fs.is_closed.get()).ok_or(Errno::ENODEV)?;
            work(&fs, number).await
        })
    }
}

impl LfsControl for CleanerSession {
    fn claim(&self) -> Answer<()> {
        self.call(async |fs, number| fs.claim(number))
    }

    fn release(&self) -> Answer<()> {
        self.call(async |fs, number| {
            if fs.claim.get().is_some_and(|(holder, _)| holder == number) {
                fs.claim.set(None);
            }
            Ok(())
        })
    }

    fn totals(&self) -> Answer<LfsTotals> {
        self.call(async |fs, _| Ok(fs.totals()))
    }

    fn segments(&self, from: u64) -> Answer<Vec<SegmentInfo>> {
        self.call(async move |fs, _| fs.infos(from).await.map_err(told))
    }

    fn set_segments(&self, updates: Vec<SegmentUpdate>) -> Answer<()> {
        self.call(async move |fs, number| {
            fs.claim(number)?;
            let set = fs.alone(async move |inner| inner.set_usages(&updates).await).await;
            set.map_err(|_| Errno::EIO)?.1
        })
    }

    fn virtual_blocks(&self, vblocks: Vec<u64>) -> Answer<Vec<VirtualBlock>> {
        self.call(async move |fs, _| fs.virtual_blocks(&vblocks).await)
    }

    fn dat_blocks(&self, blocks: Vec<DatBlock>) -> Answer<Vec<DatBlock>> {
        self.call(async move |fs, _| fs.dat_places(blocks).await)
    }

    fn checkpoints(&self, from: u64, which: Checkpoints) -> Answer<Vec<CheckpointInfo>> {
        self.call(async move |fs, _| fs.checkpoint_infos(from, which).await.map_err(told))
    }

    fn set_mode(&self, cno: u64, mode: CheckpointMode) -> Answer<()> {
        let word = match mode {
            CheckpointMode::Checkpoint => "checkpoint",
            CheckpointMode::Snapshot => "snapshot",
        };
        self.call(async move |fs, _| fs.ask(&[word.to_string(), cno.to_string()]).await.map(drop))
    }

    fn delete_checkpoint(&self, cno: u64) -> Answer<()> {
        self.call(async move |fs, _| fs.ask(&["delete".to_string(), cno.to_string()]).await.map(drop))
    }

    fn logs(&self, segment: u64) -> Answer<SegmentLogs> {
        self.call(async move |fs, _| {
            if segment >= fs.core.geometry.segments {
                return Err(Errno::EINVAL);
            }
            // Its logs are not on the medium yet.
            if fs.is_in_use(segment) {
                return Err(Errno::EBUSY);
            }
            fs.core.recounts.begin(segment);
            let sequence = fs.sequence(segment).await.map_err(told)?;
            let blocks = fs.logged(segment).await.map_err(told)?.ok_or(Errno::EIO)?;
            Ok(SegmentLogs { sequence, blocks })
        })
    }

    fn clean(&self, order: CleaningOrder) -> Answer<Cleaned> {
        self.call(async move |fs, number| {
            fs.check()?;
            fs.claim(number)?;
            let cleaned = fs.alone(async move |inner| inner.clean_ordered(&order).await).await;
            let (asked, cleaned) = cleaned.map_err(|_| Errno::EIO)?;
            if cleaned.is_ok() {
                fs.commit.advance(asked);
            }
            cleaned
        })
    }

    fn include(&self, vblocks: Vec<u64>) -> Answer<()> {
        self.call(async move |fs, number| {
            fs.claim(number)?;
            if !fs.core.keeps_marks() {
                return Err(Errno::ENOTTY);
            }
            fs.check_vblocks(&vblocks)?;
            let marked = fs.alone(async move |inner| inner.include(&vblocks).await).await;
            marked.map(drop).map_err(|_| Errno::EIO)
        })
    }

    fn sync(&self) -> Answer<u64> {
        self.call(async |fs, _| {
            fs.check()?;
            fs.sync().await?;
            let written = fs.alone(async |inner| match inner.is_closed.get() {
                true => Ok(()),
                false => inner.both_superblocks(0).await,
            });
            written.await.map_err(|_| Errno::EIO)?;
            Ok(fs.head.get().cno)
        })
    }
}

impl Inner {
    fn next_cleaner(&self) -> u64 {
        let number = self.cleaners.get() + 1;
        self.cleaners.set(number);
        number
    }

    /// Answers a cleaner in another process: without words with its number, else a call behind that.
    ///
    /// # Errors
    /// `EINVAL` for other words.
    pub(super) async fn asked(&self, words: &[String]) -> Result<String, Errno> {
        match words {
            [] => Ok(self.next_cleaner().to_string()),
            [number, call] => {
                let number = number.parse().map_err(|_| Errno::EINVAL)?;
                let fs = Rc::downgrade(&self.handle());
                Ok(wire::answered(&CleanerSession { fs, number }, call).await)
            }
            _ => Err(Errno::EINVAL),
        }
    }

    /// Takes or keeps the claim to clean.
    fn claim(&self, number: u64) -> Result<(), Errno> {
        let now = self.core.rt.now();
        match self.claim.get() {
            Some((holder, until)) if holder != number && now < until => Err(Errno::EBUSY),
            _ => {
                self.claim.set(Some((number, now + LEASE)));
                Ok(())
            }
        }
    }

    pub(super) fn totals(&self) -> LfsTotals {
        let (core, rt) = (&self.core, &self.core.rt);
        let (segments, geometry) = (core.segments.get(), &core.geometry);
        // In virtual time only calls tell the time: a trace has its own.
        let wall = if rt.is_sim() { 0 } else { u64::try_from(rt.wall()).unwrap_or(0) / 1_000_000_000 };
        LfsTotals {
            segments: geometry.segments,
            clean: segments.clean,
            dirty: segments.dirty,
            reserved: self.reserved_segments(),
            segment_blocks: geometry.segment_blocks,
            block_bytes: geometry.block_bytes as u64,
            has_counters: core.has_counters(),
            now: self.seconds().max(wall),
            written: self.written.get(),
            protected_sequence: self.superblocks.protected(),
            cno: self.head.get().cno,
        }
    }

    /// What is known of a segment, but for its number in the order of segments.
    pub(super) fn info(&self, segment: u64, usage: &SegmentUsage) -> SegmentInfo {
        let is_active = self.is_in_use(segment);
        let UsageHead { changed, blocks, flags } = usage.head;
        let flags = flags & !flag::ACTIVE | if is_active { flag::ACTIVE } else { 0 };
        let live = usage.live.map(|live| {
            let waiting = self.core.live_changes.borrow().get(&segment).map_or(0, |change| change.more);
            let now = i64::from(live.live).saturating_add(waiting).clamp(0, i64::from(blocks));
            LiveInfo { live: now as u32, snapshot: live.snapshot, changed: live.changed }
        });
        let room = self.blocks_of(segment) as u32;
        SegmentInfo { segment, room, changed, blocks, flags, sequence: 0, live }
    }

    async fn infos(&self, from: u64) -> Result<Vec<SegmentInfo>, LfsError> {
        let mut infos = Vec::new();
        let end = self.core.geometry.segments.min(from.saturating_add(ENTRIES_MAX as u64));
        for segment in from..end {
            let usage = self.core.usage(segment).await?;
            let info = self.info(segment, &usage);
            let sequence = if usage.is_dirty() { self.sequence(segment).await? } else { 0 };
            infos.push(SegmentInfo { sequence, ..info });
        }
        Ok(infos)
    }

    /// Whether a question about virtual blocks is well formed.
    fn check_vblocks(&self, vblocks: &[u64]) -> Result<(), Errno> {
        let shape = &self.core.geometry.dat;
        let is_known = |vblock: &u64| shape.place(*vblock).is_some();
        if vblocks.len() <= ENTRIES_MAX && vblocks.iter().all(is_known) { Ok(()) } else { Err(Errno::EINVAL) }
    }

    async fn virtual_blocks(&self, vblocks: &[u64]) -> Result<Vec<VirtualBlock>, Errno> {
        self.check_vblocks(vblocks)?;
        let mut found = Vec::with_capacity(vblocks.len());
        for vblock in vblocks {
            let entry = self.core.dat_entry_in_use(*vblock).await.map_err(told)?;
            let (place, start, end) = entry.map_or((0, 0, 0), |entry| (entry.place, entry.start, entry.end));
            found.push(VirtualBlock { vblock: *vblock, place, start, end });
        }
        Ok(found)
    }

    async fn dat_places(&self, mut blocks: Vec<DatBlock>) -> Result<Vec<DatBlock>, Errno> {
        if blocks.len() > ENTRIES_MAX {
            return Err(Errno::EINVAL);
        }
        for block in &mut blocks {
            block.place = self.core.dat_place(block.index, block.level).await.map_err(told)?;
        }
        Ok(blocks)
    }

    pub(super) async fn checkpoint_infos(
        &self,
        from: u64,
        which: Checkpoints,
    ) -> Result<Vec<CheckpointInfo>, LfsError> {
        let (core, mut infos) = (&self.core, Vec::new());
        if which == Checkpoints::Snapshots {
            for cno in self.snapshots().await?.into_iter().filter(|cno| *cno >= from).take(ENTRIES_MAX) {
                let created = core.checkpoint_head(cno).await?.created;
                infos.push(CheckpointInfo { cno, created, is_snapshot: true });
            }
            return Ok(infos);
        }
        let (shape, mut cno) = (core.geometry.checkpoints, from.max(1));
        while cno <= self.head.get().cno && infos.len() < ENTRIES_MAX {
            let (index, _) = shape.place(cno);
            if core.meta_block(&core.cpfile, index).await?.is_none() {
                cno = (index + 1) * shape.per_block - shape.first + 1;
                continue;
            }
            let head = core.checkpoint_head(cno).await?;
            if head.flags & checkpoint_flag::INVALID == 0 && head.cno == cno {
                let is_snapshot = head.flags & checkpoint_flag::SNAPSHOT != 0;
                infos.push(CheckpointInfo { cno, created: head.created, is_snapshot });
            }
            cno += 1;
        }
        Ok(infos)
    }
}
