//! One step of the cleaner (section 3.10): select, read, decide, order; or leave the victims as they are (3.18).

use std::collections::BTreeMap;

use esker_base::Errno;
use esker_rt::{Level, Rt};

use super::config::{CleanerConfig, LateAbort, StepLimits};
use super::{LfsCleaner, choice};
use crate::control::{
    Checkpoints, CleaningOrder, DatBlock, ENTRIES_MAX, LfsTotals, LiveInfo, MovedVirtual, SegmentInfo, SegmentUpdate,
    VirtualBlock, moved_flag, update_field,
};
use crate::format::{DatEntry, LogBlock, Payload};
use crate::liveness::{Liveness, liveness};

/// How a step ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StepEnd {
    /// Segments became clean.
    Cleaned,
    /// All victims were left: they would have given too little back.
    Deferred,
    /// There was no victim.
    Nothing,
    /// There was no room for the copies.
    NoRoom,
}

/// What a step did.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CleaningStep {
    /// How it ended.
    pub end: StepEnd,
    /// Whether the limits for short room were in force.
    pub is_pressed: bool,
    /// Segments that became clean.
    pub victims: Vec<u64>,
    /// Segments that were left.
    pub deferred: Vec<u64>,
    /// Blocks in the logs of all of them.
    pub blocks: u64,
    /// Blocks that were written again.
    pub copied: u64,
    /// Virtual blocks that were freed.
    pub freed: u64,
    /// Clean segments when it began.
    pub clean_before: u64,
}

/// Calls that a file system does not know. Each is tried once.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Unknown {
    /// It sets no usages: victims are never left.
    set_segments: bool,
    /// It sets usages without counters.
    counters: bool,
    /// It keeps no marks of what counters include.
    include: bool,
}

/// A checkpoint and both superblocks cost less than this part of a segment: so much more must a step give back to be
/// worth them.
const SYNC_GAIN: u64 = 8;

/// Blocks that a victim should give back.
fn gain_of(info: &SegmentInfo) -> u64 {
    u64::from(info.room.saturating_sub(info.live.map_or(0, |live| live.live)))
}

/// A victim and what lives in it.
struct Judged {
    info: SegmentInfo,
    /// Blocks in its logs.
    blocks: u64,
    moves: Vec<MovedVirtual>,
    dat: Vec<DatBlock>,
    /// Virtual blocks that nothing keeps, with their lives.
    freed: Vec<(u64, Option<(u64, u64)>)>,
    /// Virtual blocks that a snapshot has.
    in_snapshots: Vec<u64>,
}

impl Judged {
    fn copies(&self) -> u64 {
        (self.moves.len() + self.dat.len()) as u64
    }

    /// What counters should say.
    fn counters(&self, now: u64) -> LiveInfo {
        let in_period = self.moves.iter().filter(|moved| moved.flags == moved_flag::PERIOD).count() as u64;
        let live = (self.copies() - in_period) as u32;
        LiveInfo { live, snapshot: self.in_snapshots.len() as u32, changed: now }
    }
}

impl LfsCleaner {
    /// Makes one step, by the second set of limits if segments are short.
    pub(super) async fn step(
        &self,
        totals: &LfsTotals,
        config: &CleanerConfig,
        is_pressed: bool,
    ) -> Result<CleaningStep, Errno> {
        let limits = if is_pressed { &config.pressed } else { &config.relaxed };
        let mut step = CleaningStep {
            end: StepEnd::Nothing,
            is_pressed,
            victims: Vec::new(),
            deferred: Vec::new(),
            blocks: 0,
            copied: 0,
            freed: 0,
            clean_before: totals.clean,
        };
        let (victims, totals) = self.victims(totals, config, limits).await?;
        if victims.is_empty() {
            return Ok(step);
        }
        let protected = self.first_protected(&totals, config).await?;
        let snapshots = self.snapshots().await?;
        let mut judged = Vec::new();
        for info in victims {
            match self.judge(info, &snapshots, protected).await {
                // Another program has cleaned it since it was chosen, and the log has come to it.
                Err(Errno::EBUSY) => self.control.claim().await?,
                found => judged.push(found?),
            }
        }
        step.blocks = judged.iter().map(|victim| victim.blocks).sum();
        let (kept, left) = self.late_abort(judged, &totals, config, limits);
        if !left.is_empty() {
            step.deferred = left.iter().map(|victim| victim.info.segment).collect();
            self.leave(&left, totals.now).await?;
            step.end = StepEnd::Deferred;
        }
        self.order(kept, &mut step).await?;
        Ok(step)
    }

    /// The best victims, with the totals by which they were chosen.
    async fn victims(
        &self,
        totals: &LfsTotals,
        config: &CleanerConfig,
        limits: &StepLimits,
    ) -> Result<(Vec<SegmentInfo>, LfsTotals), Errno> {
        let count = limits.segments.min(self.victims_max.get()).max(1);
        let infos = self.infos(totals).await?;
        let choose = |infos: &[SegmentInfo], totals: &LfsTotals| {
            choice::choose(infos, totals, config, (self.slack.get(), count))
        };
        let chosen = choose(&infos, totals);
        let best = choose(&infos, &LfsTotals { protected_sequence: u64::MAX, ..*totals });
        let gain = |victims: &[SegmentInfo]| victims.iter().map(gain_of).sum::<u64>();
        let is_worth = match chosen.is_empty() {
            true => !best.is_empty(),
            false => gain(&best) > gain(&chosen) + totals.segment_blocks / SYNC_GAIN,
        };
        if !is_worth {
            return Ok((chosen, *totals));
        }
        // Recovery needs better ones. Superblocks that name the last checkpoint let them go.
        self.control.sync().await?;
        let totals = self.control.totals().await?;
        let infos = self.infos(&totals).await?;
        Ok((choose(&infos, &totals), totals))
    }

    /// Usages of all segments.
    pub(super) async fn infos(&self, totals: &LfsTotals) -> Result<Vec<SegmentInfo>, Errno> {
        let mut infos: Vec<SegmentInfo> = Vec::new();
        while (infos.len() as u64) < totals.segments {
            let more = self.control.segments(infos.len() as u64).await?;
            let is_next = more.first().is_some_and(|info| info.segment == infos.len() as u64);
            if !is_next {
                return Err(Errno::EIO);
            }
            infos.extend(more);
        }
        Ok(infos)
    }

    /// The first checkpoint that is protected.
    async fn first_protected(&self, totals: &LfsTotals, config: &CleanerConfig) -> Result<u64, Errno> {
        let since = totals.now.saturating_sub(config.protection_seconds());
        if config.protection_seconds() == 0 {
            return Ok(totals.cno);
        }
        let told = async |from| self.control.checkpoints(from, Checkpoints::All).await;
        choice::first_protected(&self.protected_hint, (since, totals.cno), told).await
    }

    /// All snapshots, in ascending order.
    async fn snapshots(&self) -> Result<Vec<u64>, Errno> {
        let (mut snapshots, mut from) = (Vec::new(), 1);
        loop {
            let more = self.control.checkpoints(from, Checkpoints::Snapshots).await?;
            let Some(last) = more.last().map(|info| info.cno) else { break };
            let is_last = more.len() < ENTRIES_MAX;
            snapshots.extend(more.into_iter().map(|info| info.cno));
            from = last + 1;
            if is_last {
                break;
            }
        }
        match snapshots.windows(2).all(|pair| pair[0] < pair[1]) {
            true => Ok(snapshots),
            false => Err(Errno::EIO),
        }
    }

    /// Reads a victim, and decides what of it lives.
    async fn judge(&self, info: SegmentInfo, snapshots: &[u64], protected: u64) -> Result<Judged, Errno> {
        let logs = self.control.logs(info.segment).await?;
        let blocks = u64::from(info.blocks);
        let (moves, dat, freed, in_snapshots) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let mut judged = Judged { info, blocks, moves, dat, freed, in_snapshots };
        let lives = self.lives(&logs.blocks).await?;
        for block in &logs.blocks {
            let (Payload::Data { vblock, .. } | Payload::Node { vblock }) = block.what else { continue };
            let Some(life) = lives.get(&vblock).filter(|life| life.place == block.place) else { continue };
            let entry = DatEntry { place: life.place, start: life.start, end: life.end, snapshot: 0 };
            let flags = match liveness(&entry, block.cno, snapshots, protected) {
                Liveness::Live => 0,
                Liveness::Snapshot => {
                    judged.in_snapshots.push(vblock);
                    moved_flag::SNAPSHOT
                }
                Liveness::Period => moved_flag::PERIOD,
                Liveness::Dead => {
                    let period = (block.cno != 0 && entry.start < entry.end).then_some((entry.start, entry.end));
                    judged.freed.push((vblock, period));
                    continue;
                }
            };
            // A start of 0 says that the flags are meant.
            judged.moves.push(MovedVirtual { place: block.place, period_start: 0, flags });
        }
        judged.dat = self.dat_in_place(&logs.blocks).await?;
        Ok(judged)
    }

    /// Lives of the virtual blocks of logs.
    async fn lives(&self, blocks: &[LogBlock]) -> Result<BTreeMap<u64, VirtualBlock>, Errno> {
        let vblocks = blocks.iter().filter_map(|block| match block.what {
            Payload::Data { vblock, .. } | Payload::Node { vblock } => Some(vblock),
            Payload::DatData { .. } | Payload::DatNode { .. } => None,
        });
        let mut vblocks: Vec<u64> = vblocks.collect();
        vblocks.sort_unstable();
        vblocks.dedup();
        let mut lives = BTreeMap::new();
        for some in vblocks.chunks(ENTRIES_MAX) {
            let told = self.control.virtual_blocks(some.to_vec()).await?;
            lives.extend(told.into_iter().map(|life| (life.vblock, life)));
        }
        Ok(lives)
    }

    /// Blocks of the DAT that are where logs have them.
    async fn dat_in_place(&self, blocks: &[LogBlock]) -> Result<Vec<DatBlock>, Errno> {
        let logged = blocks.iter().filter_map(|block| match block.what {
            Payload::DatData { index } => Some(DatBlock { index, level: 0, place: block.place }),
            Payload::DatNode { index, level } => Some(DatBlock { index, level, place: block.place }),
            Payload::Data { .. } | Payload::Node { .. } => None,
        });
        let logged: Vec<DatBlock> = logged.collect();
        let mut live = Vec::new();
        for some in logged.chunks(ENTRIES_MAX) {
            let told = self.control.dat_blocks(some.to_vec()).await?;
            live.extend(
                some.iter().zip(told).filter(|(logged, now)| logged.place == now.place).map(|(logged, _)| *logged),
            );
        }
        Ok(live)
    }

    /// Victims that are cleaned, and those that give too little back.
    fn late_abort(
        &self,
        judged: Vec<Judged>,
        totals: &LfsTotals,
        config: &CleanerConfig,
        limits: &StepLimits,
    ) -> (Vec<Judged>, Vec<Judged>) {
        let least = limits.min_reclaimable.blocks(totals);
        let gain = |victim: &Judged| totals.segment_blocks.saturating_sub(victim.copies());
        match config.late_abort {
            _ if self.unknown.get().set_segments => (judged, Vec::new()),
            LateAbort::Off => (judged, Vec::new()),
            LateAbort::Segment => judged.into_iter().partition(|victim| gain(victim) >= least),
            LateAbort::Batch => {
                let all: u64 = judged.iter().map(gain).sum();
                let is_enough = all >= least.saturating_mul(judged.len() as u64);
                if is_enough { (judged, Vec::new()) } else { (Vec::new(), judged) }
            }
        }
    }

    /// Leaves victims: they count as young from now on, and their counters as right.
    async fn leave(&self, left: &[Judged], now: u64) -> Result<(), Errno> {
        let has_counters = left.iter().all(|victim| victim.info.live.is_some()) && !self.unknown.get().counters;
        let update = |victim: &Judged, fields| SegmentUpdate {
            segment: victim.info.segment,
            fields,
            changed: now,
            blocks: victim.info.blocks,
            flags: victim.info.flags,
            live: victim.counters(now),
        };
        let updates = |fields| left.iter().map(|victim| update(victim, fields)).collect::<Vec<_>>();
        let all = update_field::CHANGED | if has_counters { update_field::COUNTERS } else { 0 };
        let mut set = self.control.set_segments(updates(all)).await;
        if has_counters && set == Err(Errno::EINVAL) {
            self.give_up("counters of live blocks are not set", |unknown| unknown.counters = true);
            set = self.control.set_segments(updates(update_field::CHANGED)).await;
        }
        match set {
            Ok(()) => {}
            Err(Errno::ENOTTY) => {
                self.give_up("segments are not left", |unknown| unknown.set_segments = true);
                return Ok(());
            }
            Err(errno) => return Err(errno),
        }
        let protected: Vec<u64> = left.iter().flat_map(|victim| victim.in_snapshots.iter().copied()).collect();
        if protected.is_empty() || self.unknown.get().include {
            return Ok(());
        }
        match self.control.include(protected).await {
            Err(Errno::ENOTTY) => self.unknown.set(Unknown { include: true, ..self.unknown.get() }),
            other => other?,
        }
        Ok(())
    }

    /// Notes that the file system does not know a call, and says so once.
    fn give_up(&self, what: &str, note: impl FnOnce(&mut Unknown)) {
        let mut unknown = self.unknown.get();
        note(&mut unknown);
        self.unknown.set(unknown);
        self.rt.log_event(Level::Warn, "lfs_cleaner_degraded", &[], format_args!("cleaner: from now on {what}"));
    }

    /// Orders what lives in victims to move. Takes half of them where there is no room for so many copies.
    async fn order(&self, mut victims: Vec<Judged>, step: &mut CleaningStep) -> Result<(), Errno> {
        while !victims.is_empty() {
            match self.control.clean(order_of(&victims)).await {
                Ok(cleaned) => {
                    step.victims = victims.iter().map(|victim| victim.info.segment).collect();
                    (step.copied, step.freed, step.end) = (cleaned.copied, cleaned.freed, StepEnd::Cleaned);
                    self.victims_max.set(self.victims_max.get().saturating_mul(2));
                    return Ok(());
                }
                Err(Errno::ENOMEM) if victims.len() > 1 => {
                    victims.truncate(victims.len() / 2);
                    self.victims_max.set(victims.len());
                }
                Err(Errno::ENOMEM) => {
                    step.end = StepEnd::NoRoom;
                    return Ok(());
                }
                // Another program has cleaned one of them, or the log has come to it.
                Err(Errno::EBUSY) => {
                    self.control.claim().await?;
                    return Ok(());
                }
                Err(errno) => return Err(errno),
            }
        }
        Ok(())
    }
}

fn order_of(victims: &[Judged]) -> CleaningOrder {
    let freed = || victims.iter().flat_map(|victim| &victim.freed);
    let mut periods: Vec<(u64, u64)> = freed().filter_map(|(_, period)| *period).collect();
    periods.sort_unstable();
    periods.dedup();
    CleaningOrder {
        victims: victims.iter().map(|victim| victim.info.segment).collect(),
        moves: victims.iter().flat_map(|victim| victim.moves.iter().copied()).collect(),
        dat: victims.iter().flat_map(|victim| victim.dat.iter().copied()).collect(),
        freed: freed().map(|(vblock, _)| *vblock).collect(),
        periods,
    }
}

impl CleaningStep {
    /// Share of the cleaned segments that was not copied, in percent.
    pub fn efficiency(&self) -> f64 {
        if self.blocks == 0 { 100.0 } else { 100.0 * (1.0 - self.copied as f64 / self.blocks as f64) }
    }

    /// Writes a line of the log.
    pub(super) fn log(&self, rt: &Rt) {
        let listed = |numbers: &[u64]| numbers.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
        let (victims, deferred) = (listed(&self.victims), listed(&self.deferred));
        let efficiency = format!("{:.2}", self.efficiency());
        let end = format!("{:?}", self.end).to_lowercase();
        let fields: [(&str, &dyn std::fmt::Display); 9] = [
            ("end", &end),
            ("segments", &victims),
            ("deferred", &deferred),
            ("blocks", &self.blocks),
            ("copied", &self.copied),
            ("freed", &self.freed),
            ("efficiency", &efficiency),
            ("clean_before", &self.clean_before),
            ("pressed", &self.is_pressed),
        ];
        let level = if self.end == StepEnd::Nothing { Level::Debug } else { Level::Info };
        let text = format_args!(
            "cleaner: {end}: segments [{victims}], deferred [{deferred}], {} blocks, {} copied, {} freed, \
             efficiency {efficiency} %, {} clean before",
            self.blocks, self.copied, self.freed, self.clean_before
        );
        rt.log_event(level, "lfs_cleaned", &fields, text);
    }
}
