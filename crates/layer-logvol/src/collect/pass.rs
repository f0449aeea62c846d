//! One pass over the map. It counts live blocks of closed segments, lists mappings into those that the pass before
//! chose, and points mappings at the copies of those that were cleaned without a list. The three sets of segments are
//! disjoint.
//!
//! It walks the map as it was when it began. What changes meanwhile is noted where it is applied, for segments that are
//! watched; and those are watched since before the pass began. So nothing can hide from it by moving past it, as
//! it could from a walk of the map itself.

use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

use esker_cleaning::{Selection, Situation, Summary, sampled};

use super::look::{ScanWorker, Seen, words};
use super::sweep::{Sharing, sweep};
use super::victim::{Listed, Reverse, Victim};
use super::{Breather, State, Vain};
use crate::map::{Extent, Mapping, Snapshot};
use crate::number::SegmentNo;
use crate::segments::{Segment, Stage, State as Use};
use crate::volume::{Volume, add};

/// Segments that one pass may choose at least, whatever their number.
const CHOSEN_MIN: u64 = 8;

impl Volume {
    /// Makes one pass.
    pub(crate) async fn pass(self: &Rc<Self>) {
        let limit = self.live_limit();
        let released = self.segments.borrow().released();
        let (snapshot, look) = self.begin_pass();
        let look = Arc::new(look);
        let sharing = Sharing::even(&snapshot, self.collector.settings.scanners);
        let visit = {
            let look = look.clone();
            Arc::new(move |snapshot: &Snapshot, range: Range<u64>| look.at(snapshot, range))
        };
        sweep(self.rt(), &snapshot, sharing, visit, &async |seen| self.take_seen(seen).await).await;
        drop(snapshot);
        self.end_pass();
        self.choose(&look, limit, released);
        add(&self.collector.counts.passes, 1);
    }

    /// What is to be noted, and the map as it is at the same moment.
    fn begin_pass(&self) -> (Snapshot, ScanWorker) {
        let mut segments = self.segments.borrow_mut();
        let mut state = self.collector.state.borrow_mut();
        let mut reported = Vec::new();
        let known: Vec<SegmentNo> = state.victims.keys().copied().collect();
        for segment in known {
            let Segment { stage, live, .. } = segments.get(segment);
            match stage {
                Stage::Candidate => state.begin(segment, live, self.collector.settings.memory),
                Stage::Forwarding => {}
                Stage::Rest | Stage::Ready | Stage::Cleaning => continue,
            }
            reported.push(segment);
        }
        for segment in &reported {
            // A list that would take too much memory was given up: its segment is cleaned without.
            if matches!(state.victims.get(segment), Some(Victim::Listed(_))) {
                segments.set_stage(*segment, Stage::Ready);
                state.ready.push_back(*segment);
            }
        }
        reported.retain(|segment| !matches!(state.victims.get(segment), Some(Victim::Listed(_))));
        let eligible = |(at, segment): &(SegmentNo, Segment)| segment.may_be_chosen() && !state.unreadable.contains(at);
        let all: Vec<SegmentNo> = segments.iter().filter(eligible).map(|(at, _)| at).collect();
        let most = (self.collector.settings.memory / 4 / (8 * words(&self.geometry)) as u64).max(CHOSEN_MIN) as usize;
        let start = all.partition_point(|segment| *segment < state.rotation);
        let counted: Vec<SegmentNo> = all[start..].iter().chain(&all[..start]).take(most).copied().collect();
        state.rotation = counted.last().map_or(state.rotation, |last| last.next());
        let look = ScanWorker::new(self.geometry, counted, &reported);
        (self.snapshot(), look)
    }

    /// Takes what a piece of the map held.
    async fn take_seen(&self, seen: Seen) {
        add(&self.collector.counts.scanned, seen.mappings);
        let mut breather = Breather::of(self);
        for listed in seen.found {
            let mapping = listed.mapping();
            let extent = mapping.extent;
            let segment = self.geometry.segment_of(extent.pba);
            match self.copies_of(extent, segment) {
                Some(parts) => {
                    for (part, to) in parts {
                        self.repoint(Mapping { extent: part, ..mapping }, to);
                        breather.step().await;
                    }
                }
                None => self.collector.state.borrow_mut().arrive(segment, mapping, self.collector.settings.memory),
            }
        }
    }

    /// Where the blocks of an extent were copied to, if its segment was cleaned without a list.
    fn copies_of(&self, extent: Extent, segment: SegmentNo) -> Option<Vec<(Extent, u64)>> {
        let state = self.collector.state.borrow();
        let Some(Victim::Copied(forward)) = state.victims.get(&segment) else { return None };
        let parts = forward.of(extent.pba % self.geometry.segment, extent.len.into());
        let part = |(at, to, len)| (Extent { lba: extent.lba + at, pba: extent.pba + at, len: len as u32 }, to);
        Some(parts.into_iter().map(part).collect())
    }

    /// Points what a leaf still has of a mapping at its copy.
    pub(super) fn repoint(&self, mapping: Mapping, to: u64) {
        let moved = self.repoint_mapping(mapping, to);
        add(&self.collector.counts.remapped_blocks, moved);
        add(&self.collector.counts.stale, u64::from(moved == 0));
    }

    /// Lists are complete; segments whose mappings were pointed at their copies are done, unless a clone of one came
    /// since.
    fn end_pass(&self) {
        let mut segments = self.segments.borrow_mut();
        let mut state = self.collector.state.borrow_mut();
        let known: Vec<SegmentNo> = state.victims.keys().copied().collect();
        for segment in known {
            let Segment { stage, live, .. } = segments.get(segment);
            match stage {
                Stage::Candidate => {
                    segments.set_stage(segment, Stage::Ready);
                    state.ready.push_back(segment);
                }
                Stage::Forwarding if live == 0 => {
                    state.drop_victim(segment);
                    segments.set_stage(segment, Stage::Rest);
                    state.copies.end_claims(segment, &mut segments);
                    add(&self.collector.counts.forwarded, 1);
                }
                Stage::Rest | Stage::Ready | Stage::Cleaning | Stage::Forwarding => {}
            }
        }
    }

    /// Chooses what the next pass prepares: the best of those that were counted, as many as may be and as memory
    /// allows.
    fn choose(&self, look: &ScanWorker, limit: f64, released: u64) {
        let mut segments = self.segments.borrow_mut();
        let mut state = self.collector.state.borrow_mut();
        let least = self.least_dead(limit);
        let summaries: Vec<Option<Summary>> = look
            .counted
            .iter()
            .enumerate()
            .map(|(at, segment)| self.summary(&segments.get(*segment), look.live(at)))
            .map(|summary| summary.filter(|summary| u64::from(summary.dead()) >= least))
            .collect();
        let mut is_in_vain = true;
        for at in self.victims_of(&summaries) {
            let segment = look.counted[at as usize];
            let live = segments.get(segment).live;
            if let Some(stage) = state.admit(segment, look, at as usize, live, self.collector.settings.memory) {
                segments.set_stage(segment, stage);
                is_in_vain = false;
            }
        }
        let resting = segments.iter().filter(|(_, segment)| segment.may_be_chosen()).count() as u64;
        state.conclude(is_in_vain, look.counted.len() as u64, resting, Vain { released, limit });
    }

    /// The best segments by their places, best first: of all, or each of a few that are drawn.
    fn victims_of(&self, summaries: &[Option<Summary>]) -> Vec<u32> {
        let most = (self.geometry.segments / 100).max(CHOSEN_MIN);
        let (policy, situation) = (self.collector.policy, self.situation(summaries, most));
        let offered = || summaries.iter().enumerate().filter_map(|(at, summary)| Some((at as u32, (*summary)?)));
        if let Some(choices) = self.collector.settings.choices {
            // Drawn among those that may be chosen, so that one is always found if there is any.
            let (all, mut draws) = (offered().collect::<Vec<_>>(), self.collector.draws.borrow_mut());
            let look = |at: u32| Some(all[at as usize].1);
            let victims = sampled(policy, &situation, all.len() as u32, &look, (choices, most as usize), &mut draws);
            return victims.into_iter().map(|at| all[at as usize].0).collect();
        }
        let mut selection = Selection::new(policy, situation, most as usize);
        offered().for_each(|(at, summary)| selection.offer(at, &summary));
        selection.finish()
    }

    /// What policies are told of a segment that a pass has counted, if it may still be chosen and is not dead anyway.
    fn summary(&self, segment: &Segment, live: u32) -> Option<Summary> {
        let Segment { live: mappings, first, last, .. } = *segment;
        let blocks = self.geometry.segment as u32;
        let may_be_chosen = segment.may_be_chosen() && mappings > 0 && segment.state == Use::Closed;
        may_be_chosen.then_some(Summary { blocks, live, mappings, first, last, died: None })
    }

    fn situation(&self, summaries: &[Option<Summary>], most: u64) -> Situation {
        let dead: u64 = summaries.iter().flatten().map(|summary| u64::from(summary.dead())).sum();
        let count = summaries.iter().flatten().count().max(1) as u64;
        let now = self.log.borrow().seq;
        Situation::of_pass(now, dead, dead / count * most.min(count))
    }

    /// Blocks that must be dead in a victim if up to `limit` of it may be live. The head of a segment of copies is dead
    /// too, so one that is as full as can be is never moved.
    fn least_dead(&self, limit: f64) -> u64 {
        let blocks = self.geometry.segment;
        let least = ((1.0 - limit) * blocks as f64) as u64;
        least.max(1 + (blocks / 64).max(2))
    }
}

impl State {
    /// A pass begins that lists the mappings into a segment, of which there are at most `references`.
    fn begin(&mut self, segment: SegmentNo, references: u64, memory: u64) {
        let Some(victim) = self.victims.get_mut(&segment) else { return };
        let others = self.memory - victim.bytes();
        match others + victim.bytes_with(references) <= memory {
            true => victim.begin(references),
            false => victim.give_up(),
        }
        self.memory = others + victim.bytes();
        self.memory_peak = self.memory_peak.max(self.memory);
    }

    /// Takes a segment as victim if there is memory for it, with a list of its mappings or, if that could never be,
    /// without: what the collector does with it from now on.
    fn admit(
        &mut self,
        segment: SegmentNo,
        look: &ScanWorker,
        at: usize,
        references: u64,
        memory: u64,
    ) -> Option<Stage> {
        let bits = look.bits(at);
        let (mapped, listed) = (Victim::bytes_mapped(&bits, references), Victim::bytes_listed(&bits));
        let spare = memory.saturating_sub(self.memory);
        // One segment may always be cleaned, however little memory there is.
        let is_only = self.victims.is_empty();
        if mapped <= spare {
            self.keep(segment, Victim::Mapped(Reverse::new(bits, references)));
            return Some(Stage::Candidate);
        }
        if mapped > memory / 2 && (listed <= spare || is_only) {
            self.keep(segment, Victim::Listed(bits));
            self.ready.push_back(segment);
            return Some(Stage::Ready);
        }
        None
    }

    /// Remembers whether passes are worth their time.
    fn conclude(&mut self, is_in_vain: bool, counted: u64, resting: u64, vain: Vain) {
        self.counted_in_vain = if is_in_vain { self.counted_in_vain + counted } else { 0 };
        let saw_all = self.counted_in_vain >= resting;
        self.vain = (is_in_vain && saw_all).then_some(vain);
    }
}

/// Where a mapping leads, for sorting.
pub(super) fn place(listed: &Listed) -> u64 {
    listed.mapping().extent.pba
}
