//! Which pages may be shared with equal ones, of processes that can be told so.
//!
//! Invariant: a region becomes huge only after its pages may no longer be shared, where the policy wants hot memory
//! huge; otherwise the kernel would split it again at the next duplicate that it finds.

use std::collections::BTreeSet;

use esker_base::Time;

use super::{Asker, Decision, Manager, Tell};
use crate::merge_policy::{Candidate, SharingPolicy, Verdict};
use crate::process::Process;
use crate::view::{ChangeError, Outcome, Pid, ProcView, Region, RegionAddress};
use esker_base::Nanos;

/// Runs of regions of one process whose pages may be shared: each costs the process up to two mappings, of which it may
/// have 65,530. Those at higher addresses stay private.
const RUNS_MAX: usize = 1024;
/// Regions that are made private in one request, of 0.4 ms each.
const PRIVATE_MAX: u64 = 16;

impl Manager {
    /// Finds the processes and pages that may be shared now.
    pub(super) fn scan_sharing(&mut self, now: Time, view: &mut impl ProcView, tell: Tell<'_>) {
        if self.policy.sharing == SharingPolicy::None {
            return;
        }
        let pids: Vec<Pid> = self.records.keys().copied().collect();
        for pid in pids {
            let regions = view.sharable(pid);
            let Some(record) = self.records.get_mut(&pid) else { continue };
            match regions {
                None => (record.mergeable, record.was_base) = Default::default(),
                Some(regions) => {
                    record.take_mergeable(view.mergeable(pid));
                    self.share(now, pid, &regions, view, tell);
                }
            }
        }
    }

    fn share(&mut self, now: Time, pid: Pid, regions: &[(Region, bool)], view: &mut impl ProcView, tell: Tell<'_>) {
        let (policy, tracking) = (self.policy.sharing, self.policy.tracking);
        let Some(record) = self.records.get_mut(&pid) else { return };
        let is_wanted = |(region, is_huge): &(Region, bool)| {
            // One that is huge and not known yet has only just become so.
            let is_hot = || record.huge.get(region).is_none_or(|access| access.is_hot(&tracking));
            let candidate = if *is_huge { Candidate::Huge { hot: is_hot(), twin: false } } else { Candidate::Base };
            let is_new = !record.mergeable.contains_key(region);
            let is_settled = *is_huge || record.was_base.contains(region);
            let is_cooling = record.is_cooling(*region, now, self.policy.cooldown);
            policy.judge(candidate) != Verdict::Keep && !(is_new && (is_cooling || !is_settled))
        };
        let wanted: BTreeSet<Region> = regions.iter().filter(|one| is_wanted(one)).map(|(region, _)| *region).collect();
        let wanted: BTreeSet<Region> = runs(&wanted).into_iter().take(RUNS_MAX).flat_map(regions_of).collect();
        let before: BTreeSet<Region> = record.mergeable.keys().copied().collect();
        record.was_base = regions.iter().filter(|(_, is_huge)| !is_huge).map(|(region, _)| *region).collect();
        let hot: Vec<Region> = hot_base(record, &self.policy.tracking).collect();
        for place in hot.into_iter().map(|region| RegionAddress { pid, region }) {
            if view.look(place).is_some_and(|look| look.used.count() >= self.policy.promote.pages()) {
                self.urgent.ask(place);
            }
        }
        let unwanted: BTreeSet<Region> = before.difference(&wanted).copied().collect();
        for run in runs(&unwanted).into_iter().flat_map(|run| in_parts(run, PRIVATE_MAX)) {
            self.set_mergeable(now, pid, run, false, view, tell);
        }
        // Also those of before: their mappings may be other ones by now.
        let is_done = runs(&wanted).into_iter().all(|(from, count)| view.set_mergeable(pid, from, count, true));
        for (from, count) in runs(&wanted.difference(&before).copied().collect()).into_iter().filter(|_| is_done) {
            tell(now, &Decision::Sharing { pid, from, count, mergeable: true });
        }
        if let Some(record) = self.records.get_mut(&pid) {
            record.take_mergeable(view.mergeable(pid));
        }
    }

    /// Tells a process about regions. False if it does not do it.
    fn set_mergeable(
        &mut self,
        now: Time,
        pid: Pid,
        (from, count): (Region, u64),
        mergeable: bool,
        view: &mut impl ProcView,
        tell: Tell<'_>,
    ) -> bool {
        let is_done = view.set_mergeable(pid, from, count, mergeable);
        if is_done {
            tell(now, &Decision::Sharing { pid, from, count, mergeable });
        }
        is_done
    }

    /// Whether a region that is used well enough stays in base pages because some are shared. A write to one of them,
    /// or heat, asks for its promotion; the background scan does not, nor does anybody where all duplicates are shared.
    pub(super) fn stays_shared(&self, place: RegionAddress, asker: Asker, view: &mut impl ProcView) -> bool {
        self.is_mergeable(place)
            && (asker == Asker::Scan || self.policy.sharing == SharingPolicy::All)
            && view.is_merged(place)
    }

    fn is_mergeable(&self, place: RegionAddress) -> bool {
        self.records.get(&place.pid).is_some_and(|record| record.mergeable.contains_key(&place.region))
    }

    /// Makes a region huge, after its pages were made private.
    pub(super) fn promote(
        &mut self,
        now: Time,
        place: RegionAddress,
        view: &mut impl ProcView,
        tell: Tell<'_>,
    ) -> Outcome {
        if self.is_mergeable(place) && self.policy.sharing != SharingPolicy::All {
            if !self.set_mergeable(now, place.pid, (place.region, 1), false, view, tell) {
                return Outcome { result: Err(ChangeError::Mergeable), took: Nanos(0) };
            }
            if let Some(record) = self.records.get_mut(&place.pid) {
                record.mergeable.remove(&place.region);
            }
        }
        view.promote(place)
    }
}

/// Regions in base pages that may be shared and have become hot.
fn hot_base(record: &Process, tracking: &crate::access::Tracking) -> impl Iterator<Item = Region> {
    record.mergeable_base().filter(|region| record.mergeable[region].is_hot(tracking))
}

/// Neighbours together: the first, and how many.
fn runs(regions: &BTreeSet<Region>) -> Vec<(Region, u64)> {
    let mut runs: Vec<(Region, u64)> = Vec::new();
    for region in regions {
        match runs.last_mut().filter(|(from, count)| from.0 + *count == region.0) {
            Some((_, count)) => *count += 1,
            None => runs.push((*region, 1)),
        }
    }
    runs
}

fn regions_of((from, count): (Region, u64)) -> impl Iterator<Item = Region> {
    (from.0..from.0 + count).map(Region)
}

/// A run as runs of at most so many.
fn in_parts((from, count): (Region, u64), most: u64) -> impl Iterator<Item = (Region, u64)> {
    (0..count).step_by(most as usize).map(move |at| (Region(from.0 + at), most.min(count - at)))
}
