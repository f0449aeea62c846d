//! Places for all blocks of a plan, and the logs that bring them to the medium.

use std::collections::BTreeMap;

use esker_block::Buf;

use super::checkpoint::Making;
use super::plan::{Owner, PlannedBlock, PlannedFile, PlannedLog, Track};
use super::{LogHead, MovedHead};
use crate::error::LfsError;
use crate::format::checkpoint::CheckpointHead;
use crate::format::summary::{self, flag, write_summary};
use crate::format::usage::UsageHead;
use crate::format::{LiveCounters, LogFile, LogHeader, Payload, SegmentUsage, SufileHeader, SuperRoot};
use crate::liveness::Liveness;

impl Making<'_> {
    /// Gives each block its place and writes the logs. Answers where the next checkpoint begins.
    pub(super) async fn write(&mut self, logs: &[PlannedLog]) -> Result<LogHead, LfsError> {
        self.look_again().await?;
        logs.iter().for_each(|log| self.assign(log));
        self.tell_segments(logs).await?;
        self.tell_checkpoint(logs);
        let (last, before) = logs.split_last().expect("a checkpoint has the log of its super root");
        for log in before {
            self.write_log(log, logs, false).await?;
        }
        // The super root stands for all logs before it.
        if !before.is_empty() {
            self.inner.core.medium.flush().await?;
        }
        // All that was written before is durable, so this log needs no flush of the whole device.
        self.write_log(last, logs, true).await?;
        Ok(self.head_behind(last))
    }

    /// The segment of a log.
    pub(super) fn segment_of(&self, log: &PlannedLog) -> u64 {
        match log.track {
            Track::Main => self.chain[log.link],
            Track::Moved => self.moved_chain[log.link].segment,
        }
    }

    /// Blocks of the segment of a log that were written before this checkpoint.
    fn begun(&self, log: &PlannedLog) -> u64 {
        match (log.track, log.link) {
            (Track::Main, 0) => self.head.offset,
            (Track::Main, _) => 0,
            (Track::Moved, link) => self.moved_chain[link].offset,
        }
    }

    /// First block of a log.
    pub(super) fn place_of(&self, log: &PlannedLog) -> u64 {
        self.inner.core.geometry.segment(self.segment_of(log)).start + self.begun(log) + log.offset
    }

    fn assign(&self, log: &PlannedLog) {
        let core = &self.inner.core;
        let first = self.place_of(log) + log.summary_blocks;
        for (place, (file, block)) in (first..).zip(self.blocks_of(log)) {
            match (block.what, block.moved) {
                (Payload::Data { vblock, .. } | Payload::Node { vblock }, _) => {
                    core.dat_assign(vblock, place, self.cno, block.kept.is_counted());
                    if matches!(file.owner, Owner::Moved) {
                        core.in_flight.borrow_mut().insert(place);
                    }
                }
                (Payload::DatData { index }, Some(moved)) => {
                    core.dat.map.borrow_mut().settle_block(index, moved.address, place);
                }
                (Payload::DatNode { .. }, Some(moved)) => core.dat.map.borrow_mut().settle(&moved, place),
                (Payload::DatData { .. } | Payload::DatNode { .. }, None) => {
                    unreachable!("blocks of the DAT have provisional addresses")
                }
            }
        }
    }

    pub(super) fn blocks_of<'l>(
        &'l self,
        log: &'l PlannedLog,
    ) -> impl Iterator<Item = (&'l PlannedFile, &'l PlannedBlock)> {
        log.parts.iter().flat_map(|part| {
            let file = &self.files[part.file];
            (part.first..part.first + part.blocks).map(move |number| (file, file.block(number)))
        })
    }

    /// Tells the SUFILE what the logs put where.
    async fn tell_segments(&self, logs: &[PlannedLog]) -> Result<(), LfsError> {
        let core = &self.inner.core;
        let mut blocks: BTreeMap<u64, (u64, u32)> = BTreeMap::new();
        for log in logs {
            let (all, snapshot) = blocks.entry(self.segment_of(log)).or_default();
            *all += log.blocks();
            *snapshot += self.blocks_of(log).filter(|(_, block)| block.kept == Liveness::Snapshot).count() as u32;
            let live = self.blocks_of(log).filter(|(_, block)| block.kept.is_counted()).count();
            core.note_live(self.place_of(log), live as i64);
        }
        let now = self.inner.seconds();
        for (segment, (blocks, snapshot)) in blocks {
            let usage = core.usage(segment).await?;
            let head = usage.head;
            let head = UsageHead { changed: now, blocks: head.blocks + blocks as u32, ..head };
            let snapshot = if core.has_counters() { snapshot } else { 0 };
            let live = usage.live.map(|live| LiveCounters { snapshot: live.snapshot + snapshot, ..live });
            self.put_usage(segment, SegmentUsage { head, live });
        }
        self.tell_counters(now).await?;
        let header: SufileHeader = core.segments.get();
        core.sufile.edit_planned(0, |block| header.write(block));
        Ok(())
    }

    fn put_usage(&self, segment: u64, usage: SegmentUsage) {
        let core = &self.inner.core;
        let (index, offset) = core.geometry.usages.place(segment);
        core.sufile.edit_planned(index, |block| usage.write(&mut block[offset..]));
    }

    /// Applies changes of live blocks, as far as the blocks of the SUFILE are part of the plan. The others wait for the
    /// next checkpoint.
    async fn tell_counters(&self, now: u64) -> Result<(), LfsError> {
        let core = &self.inner.core;
        if !core.has_counters() {
            core.live_changes.borrow_mut().clear();
            return Ok(());
        }
        let changes = std::mem::take(&mut *core.live_changes.borrow_mut());
        for (segment, change) in changes.into_iter().filter(|(_, change)| change.more != 0) {
            if !core.sufile.is_planned(core.geometry.usages.place(segment).0) {
                core.live_changes.borrow_mut().entry(segment).or_default().add(change);
                continue;
            }
            let usage = core.usage(segment).await?;
            let Some(live) = usage.live else { continue };
            let blocks = i64::from(live.live) + change.more;
            let blocks = blocks.clamp(0, i64::from(usage.head.blocks)) as u32;
            if blocks != live.live {
                let changed = if core.counting.tells_time_of(change) { now } else { live.changed };
                let live = Some(LiveCounters { live: blocks, changed, ..live });
                self.put_usage(segment, SegmentUsage { live, ..usage });
            }
        }
        Ok(())
    }

    /// Tells the entry of the checkpoint how many blocks were written for it.
    fn tell_checkpoint(&self, logs: &[PlannedLog]) {
        let core = &self.inner.core;
        let (index, offset) = core.geometry.checkpoints.place(self.cno);
        let written = logs.iter().map(PlannedLog::blocks).sum();
        core.cpfile.edit_planned(index, |block| {
            if let Ok(head) = CheckpointHead::read(&block[offset..]) {
                CheckpointHead { written, ..head }.write(&mut block[offset..]);
            }
        });
    }

    /// Writes one of `logs`, and makes it durable if `durable`.
    pub(super) async fn write_log(&self, log: &PlannedLog, logs: &[PlannedLog], durable: bool) -> Result<(), LfsError> {
        self.inner.core.write_at(self.place_of(log), self.log_bytes(log, logs), durable).await
    }

    /// A whole log, with right sums.
    fn log_bytes(&self, log: &PlannedLog, logs: &[PlannedLog]) -> Buf {
        let core = &self.inner.core;
        let (block, seed) = (core.geometry.block_bytes, core.superblock.get().seed);
        let mut header = self.header(log, flags(log, logs));
        let files: Vec<LogFile> = log
            .parts
            .iter()
            .map(|part| {
                let file = &self.files[part.file];
                let blocks = (part.first..part.first + part.blocks).map(|number| file.block(number).what);
                LogFile { ino: file.ino, cno: file.cno, blocks: blocks.collect() }
            })
            .collect();
        let summary = write_summary(&mut header, &files, block);
        let mut buf = Buf::unique(core.medium.pool(), log.blocks() as usize * block);
        let bytes = buf.bytes_mut().expect("it was just made");
        let (head, payload) = bytes.split_at_mut(summary.len());
        head.copy_from_slice(&summary);
        let mut places = payload.chunks_exact_mut(block);
        let first = self.place_of(log) + log.summary_blocks;
        for (place, (file, planned)) in (first..).zip(self.blocks_of(log)) {
            let out = places.next().expect("a log has room for its blocks");
            self.fill(file, planned, place, out);
        }
        if log.has_super_root {
            let out = places.next().expect("a log has room for its super root");
            out.fill(0);
            self.super_root().write(out, core.geometry.inode_bytes, seed);
            header.blocks += 1;
        }
        assert!(places.next().is_none(), "a log has as many blocks as it was planned with");
        header.write(bytes);
        summary::seal(bytes, header.summary_bytes as usize, seed);
        buf
    }

    fn header(&self, log: &PlannedLog, flags: u16) -> LogHeader {
        let sequence = match log.track {
            Track::Main => self.head.sequence + log.link as u64,
            Track::Moved => self.moved_chain[log.link].sequence,
        };
        // Nothing walks the track of moved blocks: its logs name a segment of the main one.
        let next = if log.track == Track::Main { self.chain[log.link + 1] } else { self.chain[1] };
        LogHeader {
            data_sum: 0,
            summary_sum: 0,
            magic: LogHeader::MAGIC,
            bytes: 0,
            flags,
            sequence,
            created: self.inner.seconds(),
            next: self.inner.core.geometry.segment(next).start,
            blocks: 0,
            files: 0,
            summary_bytes: 0,
            pad: 0,
            cno: self.cno,
        }
    }

    /// The bytes of the block at a place.
    fn fill(&self, file: &PlannedFile, planned: &PlannedBlock, place: u64, out: &mut [u8]) {
        if let Some(bytes) = &planned.bytes {
            bytes.copy_to(out);
            return;
        }
        if !planned.what.is_data() {
            out.fill(0);
        }
        match (&file.owner, planned.what) {
            (Owner::User(inode), Payload::Node { vblock }) => inode.map.borrow().write_node(vblock, out),
            (Owner::Meta(number), Payload::Node { vblock }) => self.meta(*number).map.borrow().write_node(vblock, out),
            (Owner::Meta(number), Payload::Data { index, .. } | Payload::DatData { index }) => {
                let block = self.meta(*number).cached(index).expect("a planned block stays in memory");
                out.copy_from_slice(&block);
            }
            (Owner::Meta(_), Payload::DatNode { .. }) => self.inner.core.dat.map.borrow().write_node(place, out),
            (Owner::User(_) | Owner::Moved, _) => unreachable!("these are planned with their bytes"),
        }
    }

    fn super_root(&self) -> SuperRoot {
        let core = &self.inner.core;
        SuperRoot {
            bytes: SuperRoot::bytes_with(core.geometry.inode_bytes) as u16,
            flags: 0,
            written: self.inner.written.get(),
            dat: core.dat.record(),
            cpfile: core.cpfile.record(),
            sufile: core.sufile.record(),
        }
    }

    /// Where the log of moved blocks goes on.
    pub(super) fn moved_head_behind(&self, logs: &[PlannedLog]) -> Option<MovedHead> {
        let last = logs.iter().rfind(|log| log.track == Track::Moved);
        let behind = last.map(|last| {
            let offset = self.begun(last) + last.offset + last.blocks();
            MovedHead { offset, ..self.moved_chain[last.link] }
        });
        behind.or(self.inner.moved_head.get())
    }

    /// Where the log goes on behind a checkpoint.
    pub(super) fn head_behind(&self, last: &PlannedLog) -> LogHead {
        let sequence = self.head.sequence + last.link as u64;
        LogHead {
            segment: self.chain[last.link],
            offset: self.begun(last) + last.offset + last.blocks(),
            sequence,
            next: self.chain[last.link + 1],
            cno: self.cno,
            log: self.place_of(last),
            log_sequence: sequence,
        }
    }
}

/// Flags of one of the logs that belong together: those of a checkpoint, or of data that are synced without one.
fn flags(log: &PlannedLog, logs: &[PlannedLog]) -> u16 {
    let is_checkpoint = logs.last().is_some_and(|last| last.has_super_root);
    let mut track = logs.iter().filter(|other| other.track == log.track);
    let (is_first, is_last) = (track.next() == Some(log), track.next_back().is_none_or(|last| last == log));
    let all = [
        (flag::BEGIN, is_first),
        (flag::END, is_last),
        (flag::CLEANER, log.track == Track::Moved),
        (flag::SUPER_ROOT, log.has_super_root),
        (flag::DATA_SYNC, !is_checkpoint),
    ];
    all.into_iter().filter(|(_, is_set)| *is_set).fold(0, |flags, (flag, _)| flags | flag)
}
