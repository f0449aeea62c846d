//! Cleaning: what in segments lives, and the cleaner of last resort, which runs when a change finds no room.
//!
//! Liveness is what the DAT says and nothing else: counters of live blocks only choose the order of victims. Cleaners
//! that run before room is short use the calls of [`control`](super::control).

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::ops::Range;

use esker_cleaning::{Selection, Situation, policy};

use super::Inner;
use crate::cleaner::choice;
use crate::control::Checkpoints;
use crate::error::LfsError;
use crate::format::usage::UsageHead;
use crate::format::{LiveCounters, LogBlock, Payload, SegmentUsage};
use crate::liveness::{Liveness, liveness};

/// Segments that one step cleans.
const VICTIMS_MAX: usize = 4;
/// Blocks that a copy costs a checkpoint at most: its own, and that of its entry in the DAT.
const COPY_BLOCKS_MAX: u64 = 2;
/// Share of a segment that cleaning must give back: less is not worth the checkpoint that it takes.
const GAIN_SHARE: u64 = 16;
/// The policy where the SUFILE counts live blocks.
const POLICY: &str = "adaptive";

/// A block that moves out of a victim.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct MovedBlock {
    pub block: LogBlock,
    /// What keeps it.
    pub kept: Liveness,
}

/// One look at all segments.
pub(super) struct Pass {
    /// Segments that were taken later are none of this pass: it does not clean what it wrote.
    before: u64,
    /// Segments that it has looked at.
    looked: RefCell<BTreeSet<u64>>,
}

impl Pass {
    /// Over the segments that are in use now.
    pub(super) fn new(inner: &Inner) -> Pass {
        Pass { before: inner.head.get().sequence, looked: RefCell::default() }
    }

    /// How many segments it has looked at.
    pub(super) fn looked(&self) -> u64 {
        self.looked.borrow().len() as u64
    }
}

/// What cleaning some segments takes.
#[derive(Default)]
pub(super) struct Cleaning {
    /// The segments.
    pub victims: Vec<u64>,
    /// Blocks that move.
    pub moves: Vec<MovedBlock>,
    /// Blocks of the DAT that are written again: number, or first key, and level.
    pub dat: Vec<(u64, u8)>,
    /// Blocks that are freed.
    pub dead: Vec<DeadBlock>,
    /// Checkpoints that are deleted beside those that lose blocks: ranges that may overlap.
    pub periods: Vec<Range<u64>>,
}

/// A block that nothing keeps.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct DeadBlock {
    pub block: LogBlock,
    /// Its virtual block, which is freed.
    pub vblock: u64,
    /// Checkpoints in which it lived. They lose it, and are deleted.
    pub life: Range<u64>,
}

impl Cleaning {
    /// Blocks that are written again.
    pub(super) fn copies(&self) -> u64 {
        (self.moves.len() + self.dat.len()) as u64
    }

    pub(super) fn add(&mut self, more: Cleaning) {
        self.victims.extend(more.victims);
        self.moves.extend(more.moves);
        self.dat.extend(more.dat);
        self.dead.extend(more.dead);
        self.periods.extend(more.periods);
    }

    /// All checkpoints that are deleted. Files without versions lose blocks of none.
    pub(super) fn lost_periods(&self) -> Vec<Range<u64>> {
        let dead = self.dead.iter().filter(|dead| dead.block.cno != 0).map(|dead| dead.life.clone());
        self.periods.iter().cloned().chain(dead).collect()
    }
}

impl Inner {
    /// Cleans some segments. Answers how many blocks that gives back; `None` at the end of the pass.
    pub(super) async fn clean(&self, pass: &Pass) -> Result<Option<u64>, LfsError> {
        let mut victims = self.victims(pass).await?;
        if victims.is_empty() && self.superblocks.protected() < pass.before {
            // Recovery needs the rest. Superblocks that name the last checkpoint let them go.
            self.both_superblocks(0).await?;
            victims = self.victims(pass).await?;
        }
        if victims.is_empty() {
            return Ok(None);
        }
        pass.looked.borrow_mut().extend(&victims);
        let (snapshots, protected) = (self.snapshots().await?, self.first_protected().await?);
        let mut cleaning = Cleaning::default();
        for segment in victims {
            let Some(more) = self.describe(segment, &snapshots, protected).await? else { continue };
            let gain = self.blocks_of(segment).saturating_sub(more.copies());
            if gain * GAIN_SHARE < self.core.geometry.segment_blocks {
                self.defer(segment, &more).await?;
            } else if self.has_room_for_copies(cleaning.copies() + more.copies()) {
                cleaning.add(more);
            }
        }
        if cleaning.victims.is_empty() {
            return Ok(Some(0));
        }
        let blocks: u64 = cleaning.victims.iter().map(|segment| self.blocks_of(*segment)).sum();
        let gain = blocks.saturating_sub(cleaning.copies());
        self.make_checkpoint(self.freeze(), cleaning).await?;
        Ok(Some(gain))
    }

    /// Checkpoints from this one on stay.
    async fn first_protected(&self) -> Result<u64, LfsError> {
        let (totals, period) = (self.totals(), self.core.counting.protection_seconds);
        if period == 0 {
            return Ok(totals.cno);
        }
        let told = async |from| self.checkpoint_infos(from, Checkpoints::All).await;
        choice::first_protected(&self.protected_hint, (totals.now.saturating_sub(period), totals.cno), told).await
    }

    /// Whether clean segments can take so many blocks, with maps and entries that change with them.
    pub(super) fn has_room_for_copies(&self, copies: u64) -> bool {
        // Moved blocks that go apart may begin a segment.
        let apart = u64::from(self.core.counting.moved_apart);
        let clean = self.core.segments.get().clean.saturating_sub(apart) * self.core.geometry.segment_blocks;
        copies * COPY_BLOCKS_MAX + super::BLOCKS_OF_CHECKPOINT <= clean
    }

    /// Whether logs go on in a segment, or are being written there.
    pub(super) fn is_in_use(&self, segment: u64) -> bool {
        let (head, moved) = (self.head.get(), self.moved_head.get());
        let is_head = segment == head.segment || segment == head.next;
        is_head || moved.is_some_and(|moved| moved.segment == segment) || self.core.taken.borrow().contains(&segment)
    }

    pub(super) fn blocks_of(&self, segment: u64) -> u64 {
        let range = self.core.geometry.segment(segment);
        range.end - range.start
    }

    /// Segments worth cleaning, the best first.
    async fn victims(&self, pass: &Pass) -> Result<Vec<u64>, LfsError> {
        let core = &self.core;
        let name = if core.has_counters() { POLICY } else { choice::POLICY_UNCOUNTED };
        let policy = policy::named(name).expect("a policy of the table");
        // What was written in this second has an age too.
        let situation = Situation { now: self.seconds() + 1, slack: 1.0 };
        let mut selection = Selection::new(policy, situation, VICTIMS_MAX);
        let before = pass.before.min(self.superblocks.protected());
        for segment in 0..core.geometry.segments {
            let usage = core.usage(segment).await?;
            let is_out = self.is_in_use(segment) || usage.has_error() || pass.looked.borrow().contains(&segment);
            if usage.is_dirty() && !is_out && self.sequence(segment).await? < before {
                selection.offer(segment as u32, &choice::summary(&self.info(segment, &usage)));
            }
        }
        Ok(selection.finish().into_iter().map(u64::from).collect())
    }

    /// Leaves a segment as it is that gives too little back (late abort, section 3.18). It counts as young from now on,
    /// and its counter as right.
    async fn defer(&self, segment: u64, found: &Cleaning) -> Result<(), LfsError> {
        let (usage, now) = (self.core.usage(segment).await?, self.seconds());
        let live = found.moves.iter().filter(|moved| moved.kept != Liveness::Period).count() + found.dat.len();
        let snapshot = found.moves.iter().filter(|moved| moved.kept == Liveness::Snapshot).count() as u32;
        let live = match self.core.has_counters() {
            true => usage.live.map(|_| LiveCounters { live: live as u32, snapshot, changed: now }),
            false => usage.live,
        };
        self.core.live_changes.borrow_mut().remove(&segment);
        self.core.mark_again(&found.moves, &found.dead).await?;
        self.core.set_usage(segment, SegmentUsage { head: UsageHead { changed: now, ..usage.head }, live }).await
    }

    /// The number of a segment in the order in which segments were taken; 0 if it has no log.
    pub(super) async fn sequence(&self, segment: u64) -> Result<u64, LfsError> {
        if let Some(sequence) = self.sequences.borrow().get(&segment) {
            return Ok(*sequence);
        }
        let place = self.core.geometry.segment(segment).start;
        let log = match self.core.usage(segment).await?.head.blocks {
            0 => None,
            _ => self.core.medium.read_log_header(&self.core.geometry, place).await?,
        };
        let sequence = log.map_or(0, |header| header.sequence);
        self.sequences.borrow_mut().insert(segment, sequence);
        Ok(sequence)
    }

    /// What a segment holds. `None`: its logs cannot be read, and it is left alone.
    pub(super) async fn describe(
        &self,
        segment: u64,
        snapshots: &[u64],
        protected: u64,
    ) -> Result<Option<Cleaning>, LfsError> {
        let Some(blocks) = self.logged(segment).await? else { return Ok(None) };
        let mut cleaning = Cleaning { victims: vec![segment], ..Cleaning::default() };
        for block in blocks {
            self.judge(block, snapshots, protected, &mut cleaning).await?;
        }
        Ok(Some(cleaning))
    }

    /// Blocks of which the logs of a segment tell. `None`: one cannot be read.
    pub(super) async fn logged(&self, segment: u64) -> Result<Option<Vec<LogBlock>>, LfsError> {
        let (core, superblock) = (&self.core, self.core.superblock.get());
        let (usage, mut place) = (core.usage(segment).await?, core.geometry.segment(segment).start);
        let end = place + u64::from(usage.head.blocks);
        let mut blocks = Vec::new();
        while place < end {
            // What cannot be read stays where it is.
            let Ok(Ok(log)) = core.medium.read_log(&superblock, &core.geometry, place).await else { return Ok(None) };
            let Ok(found) = log.blocks(&core.geometry) else { return Ok(None) };
            blocks.extend(found);
            place = log.end();
        }
        Ok(Some(blocks))
    }

    async fn judge(
        &self,
        block: LogBlock,
        snapshots: &[u64],
        protected: u64,
        cleaning: &mut Cleaning,
    ) -> Result<(), LfsError> {
        match block.what {
            Payload::Data { vblock, .. } | Payload::Node { vblock } => {
                let Some(entry) = self.core.dat_entry_in_use(vblock).await? else { return Ok(()) };
                // The virtual block was freed and stands for another block now, or the block has moved before.
                if entry.place != block.place {
                    return Ok(());
                }
                let kept = liveness(&entry, block.cno, snapshots, protected);
                match kept {
                    Liveness::Dead => {
                        cleaning.dead.push(DeadBlock { block, vblock, life: entry.start..entry.end });
                    }
                    Liveness::Live | Liveness::Snapshot | Liveness::Period => {
                        cleaning.moves.push(MovedBlock { block, kept });
                    }
                }
            }
            Payload::DatData { index } if self.core.dat_place(index, 0).await? == block.place => {
                cleaning.dat.push((index, 0));
            }
            Payload::DatNode { index, level } if self.core.dat_place(index, level).await? == block.place => {
                cleaning.dat.push((index, level));
            }
            Payload::DatData { .. } | Payload::DatNode { .. } => {}
        }
        Ok(())
    }

    /// Numbers of all snapshots, in ascending order.
    pub(super) async fn snapshots(&self) -> Result<Vec<u64>, LfsError> {
        let (core, mut numbers) = (&self.core, Vec::new());
        let mut next = core.cpfile_header().await?.next;
        while next != 0 && numbers.last().is_none_or(|last| *last < next) {
            numbers.push(next);
            next = core.checkpoint_head(next).await?.next;
        }
        Ok(numbers)
    }
}
