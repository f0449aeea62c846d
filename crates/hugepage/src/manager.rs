//! Everything together: what is done next, one small step at a time.
//!
//! Each call of [`Manager::turn`] does at most one change to one region, so that a request of a fault waits for one
//! promotion at most, however long a scan is under way. In this order: requests of faults, access bits, compaction, the
//! background scan.

mod heat;
mod scan;
mod sharing;

use std::collections::BTreeMap;

use esker_base::{Nanos, Stream, Time};

use crate::fairness::{Claim, imbalance};
use crate::policy::{Action, Policy, Reason};
use crate::process::{Counts, Process};
use crate::starvation::{FEW_BLOCKS, MADE_RESTS, Starvation};
use crate::urgent::Urgent;
use crate::view::{ChangeError, Outcome, Pid, ProcView, Region, RegionAddress};

use heat::Watched;
use scan::Quantum;

/// The origin of a look at a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asker {
    /// A fault, or a free.
    Signal,
    /// The background scan.
    Scan,
}

/// Something that was decided, for a log.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Decision {
    /// A process is managed from now on.
    Met(Pid),
    /// It is gone, or no longer selected.
    Lost(Pid),
    /// A region became huge or base pages.
    Changed {
        /// Which.
        place: RegionAddress,
        /// True: huge.
        promoted: bool,
        /// Pages in use.
        used: u32,
        /// The origin of the request.
        asker: Asker,
        /// How long it took.
        took: Nanos,
    },
    /// A change was refused.
    Refused {
        /// Where.
        place: RegionAddress,
        /// Why.
        refusal: ChangeError,
        /// When it is tried again.
        again: Option<Time>,
    },
    /// A region that was asked for is left as it is.
    Left {
        /// Where.
        place: RegionAddress,
        /// Pages in use.
        used: u32,
        /// Why.
        reason: Reason,
    },
    /// Pages of regions may be shared with equal ones from now on, or may no longer.
    Sharing {
        /// Whose.
        pid: Pid,
        /// The first.
        from: Region,
        /// How many.
        count: u64,
        /// Whether they may.
        mergeable: bool,
    },
    /// A whole pass over a process promoted nothing, or the limit of its group was reached.
    Excluded {
        /// Which.
        pid: Pid,
        /// Until when.
        until: Time,
    },
    /// Faults take huge pages at once from now on, or no longer.
    Greedy {
        /// Whether they do.
        greedy: bool,
        /// The fragmentation that decided it.
        fragmentation: f64,
    },
    /// Memory was compacted.
    Compacted {
        /// Bytes moved.
        bytes: u64,
        /// Fragmentation before.
        fragmentation: f64,
    },
    /// A promotion was slow; there is none for a while.
    Resting {
        /// Until when.
        until: Time,
        /// How long it took.
        took: Nanos,
    },
    /// A promotion found no free block; none is tried until then, or until there are more.
    Starved {
        /// Until when at most.
        until: Time,
        /// Blocks that are free nevertheless.
        blocks: u64,
    },
}

/// Takes decisions as they are made.
pub type Tell<'a> = &'a mut dyn FnMut(Time, &Decision);

/// The manager of huge pages.
#[derive(Debug)]
pub struct Manager {
    policy: Policy,
    rng: Stream,
    records: BTreeMap<Pid, Process>,
    urgent: Urgent,
    quantum: Option<Quantum>,
    next_quantum: Time,
    /// The process that an in-turn scan visits.
    turn_of: Pid,
    next_memory: Time,
    next_clear: Time,
    /// When the bits that were cleared are read, and of which huge pages they were.
    reading: Option<(Time, BTreeMap<Pid, Watched>)>,
    resting_until: Time,
    starved: Option<Starvation>,
    greedy: bool,
    fragmentation: f64,
    /// Counts of processes that are gone.
    gone: Counts,
}

impl Manager {
    /// A manager that has not met anybody. `seed`: which hot pages are cleared in a scan.
    ///
    /// # Panics
    /// If the policy has a [`Policy::fault`].
    pub fn new(policy: Policy, seed: u64) -> Manager {
        assert_eq!(policy.fault(), None, "a policy is checked before it is used");
        Manager {
            policy,
            rng: Stream::named(seed, "hugepage"),
            records: BTreeMap::new(),
            urgent: Urgent::default(),
            quantum: None,
            next_quantum: Time(0),
            turn_of: Pid(0),
            next_memory: Time(0),
            next_clear: Time(0),
            reading: None,
            resting_until: Time(0),
            starved: None,
            greedy: false,
            fragmentation: 1.0,
            gone: Counts::default(),
        }
    }

    /// Does what is due, one step of it, and says when there is more to do: `now` if at once. A step that took time is
    /// over at that time.
    pub fn turn(&mut self, now: Time, view: &mut impl ProcView, tell: Tell<'_>) -> Time {
        self.meet(now, view, tell);
        self.look_for_blocks(now, view);
        for place in view.signals() {
            self.urgent.ask(place);
        }
        if now >= self.next_memory {
            self.look_at_memory(now, view, tell);
        }
        if now >= self.resting_until
            && let Some(place) = self.next_urgent(now)
        {
            return now + self.decide(now, place, Asker::Signal, view, tell);
        }
        if self.scan_access(now, view, tell) {
            return now;
        }
        if now >= self.resting_until
            && let Some(took) = self.scan_quantum(now, view, tell)
        {
            return now + took;
        }
        self.next_due(now)
    }

    /// When something is due, if nothing happens before.
    fn next_due(&self, now: Time) -> Time {
        let access = self.reading.as_ref().map_or(self.next_clear, |(at, _)| *at);
        let urgent = self.urgent.due(self.has_room()).unwrap_or(Time(u64::MAX));
        let work = self.next_quantum.min(urgent).max(self.resting_until);
        let blocks = self.starved.as_ref().map_or(Time(u64::MAX), Starvation::next_look);
        access.min(work).min(self.next_memory).min(blocks).max(now)
    }

    /// Takes new processes and drops those that are gone.
    fn meet(&mut self, now: Time, view: &mut impl ProcView, tell: Tell<'_>) {
        let seen: BTreeMap<Pid, u64> = view.processes().into_iter().collect();
        let lost: Vec<Pid> = self.records.keys().copied().filter(|pid| !seen.contains_key(pid)).collect();
        lost.into_iter().for_each(|pid| self.lose(now, pid, tell));
        for (pid, shares) in seen {
            if let Some(record) = self.records.get_mut(&pid) {
                record.shares = shares;
                continue;
            }
            tell(now, &Decision::Met(pid));
            self.records.insert(pid, Process::new(shares, view.huge(pid), &self.policy.tracking));
        }
    }

    fn lose(&mut self, now: Time, pid: Pid, tell: Tell<'_>) {
        self.urgent.forget(pid);
        self.leave(pid);
        if let Some(record) = self.records.remove(&pid) {
            tell(now, &Decision::Lost(pid));
            self.gone.add(&record.counts);
        }
    }

    /// Compacts if memory is fragmented, and sets how faults are served.
    fn look_at_memory(&mut self, now: Time, view: &mut impl ProcView, tell: Tell<'_>) {
        let every =
            if self.policy.compact_interval == Nanos(0) { Nanos::secs(5) } else { self.policy.compact_interval };
        self.next_memory = now + every;
        self.fragmentation = view.fragmentation();
        let fragmentation = self.fragmentation;
        if let Some(below) = self.policy.greedy_below {
            let greedy = fragmentation < below;
            if greedy != self.greedy {
                self.greedy = greedy;
                view.set_greedy(greedy);
                tell(now, &Decision::Greedy { greedy, fragmentation });
            }
        }
        if self.policy.compact_interval > Nanos(0) && fragmentation >= self.policy.compact_at {
            let bytes = view.compact(self.policy.compact_bytes);
            tell(now, &Decision::Compacted { bytes, fragmentation });
        }
    }

    /// Ends starvation if it has been long enough, or if there are more blocks.
    fn look_for_blocks(&mut self, now: Time, view: &mut impl ProcView) {
        if self.starved.take_if(|starved| starved.is_over(now, || view.free_blocks())).is_some() {
            view.listen(true);
        }
    }

    /// The request that comes first: that of the waiting process that deserves the next huge page most.
    fn next_urgent(&mut self, now: Time) -> Option<RegionAddress> {
        let has_room = self.has_room();
        self.urgent.again(now).or_else(|| {
            let pid = self.first_of(self.urgent.who(has_room))?;
            self.urgent.take(pid, has_room)
        })
    }

    /// Looks at a region and does what the policy says. Returns how long that took.
    fn decide(
        &mut self,
        now: Time,
        place: RegionAddress,
        asker: Asker,
        view: &mut impl ProcView,
        tell: Tell<'_>,
    ) -> Nanos {
        let (Some(record), Some(look)) = (self.records.get(&place.pid), view.look(place)) else {
            self.urgent.done(place);
            return Nanos(0);
        };
        let is_cooling = record.is_cooling(place.region, now, self.policy.cooldown);
        let used = look.used.count();
        let action = match self.policy.judge(&look, is_cooling, self.greedy) {
            Action::Promote if self.stays_shared(place, asker, view) => Action::Leave(Reason::Shared),
            action @ (Action::Promote | Action::Demote | Action::Leave(_)) => action,
        };
        match action {
            Action::Leave(reason) => {
                let Some(record) = self.records.get_mut(&place.pid) else { return Nanos(0) };
                *record.counts.left.entry(reason).or_default() += 1;
                record.note(place.region, reason == Reason::Huge, &self.policy.tracking);
                self.urgent.done(place);
                if asker == Asker::Signal {
                    tell(now, &Decision::Left { place, used, reason });
                }
                Nanos(0)
            }
            action @ (Action::Promote | Action::Demote) => {
                let promoted = action == Action::Promote;
                let outcome = match promoted {
                    true if !self.has_room() => Outcome { result: Err(ChangeError::NoContiguity), took: Nanos(0) },
                    true => self.promote(now, place, view, tell),
                    false => view.demote(place),
                };
                match outcome.result {
                    Ok(()) => {
                        let took = outcome.took;
                        tell(now, &Decision::Changed { place, promoted, used, asker, took });
                        self.note_change(now, place, promoted);
                    }
                    Err(refusal) => self.note_refusal(now, place, refusal, asker, tell),
                }
                if promoted {
                    self.rest_after(now, outcome, view, tell);
                }
                outcome.took
            }
        }
    }

    /// Whether a promotion is worth trying: there may be a block, and more may be huge than are.
    fn has_room(&self) -> bool {
        let huge = || self.records.values().map(|record| record.huge.len() as u64).sum::<u64>();
        self.starved.is_none() && self.policy.budget.is_none_or(|budget| huge() < budget)
    }

    fn note_change(&mut self, now: Time, place: RegionAddress, promoted: bool) {
        self.urgent.done(place);
        let Some(record) = self.records.get_mut(&place.pid) else { return };
        record.note(place.region, promoted, &self.policy.tracking);
        record.changed(place.region, now);
        match promoted {
            true => record.counts.promotions += 1,
            false => record.counts.demotions += 1,
        }
        record.promoted_in_pass += u64::from(promoted);
    }

    fn note_refusal(&mut self, now: Time, place: RegionAddress, refusal: ChangeError, asker: Asker, tell: Tell<'_>) {
        let Some(record) = self.records.get_mut(&place.pid) else { return };
        *record.counts.refused.entry(refusal).or_default() += 1;
        let tries = self.urgent.tries(place);
        let again = (refusal == ChangeError::Pinned && tries < self.policy.retries)
            .then(|| now + self.policy.retry_after * (1 << tries.min(16)));
        match again {
            Some(at) => self.urgent.ask_again(place, at),
            // What a signal tells is told once.
            None if refusal == ChangeError::NoContiguity && asker == Asker::Signal => self.urgent.want(place),
            None => self.urgent.done(place),
        }
        if refusal == ChangeError::NoContiguity && asker == Asker::Scan {
            // No other process would get one either; where the scan stopped, it goes on once there may be some.
            if record.cursor == Region(place.region.0 + 1) {
                record.cursor = place.region;
            }
            self.quantum = None;
            self.next_quantum = now + self.policy.quantum_sleep;
        }
        tell(now, &Decision::Refused { place, refusal, again });
        if refusal == ChangeError::Limit {
            // Its group is full: more would be refused too, or push out what is in use.
            let until = now + self.policy.skip_after_miss;
            record.excluded_until = Some(until);
            self.leave(place.pid);
            tell(now, &Decision::Excluded { pid: place.pid, until });
        }
    }

    /// Rests after a promotion that was slow, tried in vain, or for which the kernel had to make a block.
    fn rest_after(&mut self, now: Time, outcome: Outcome, view: &mut impl ProcView, tell: Tell<'_>) {
        let Outcome { result, took } = outcome;
        if took > self.policy.slow_promotion {
            self.resting_until = now + took + took * u64::from(self.policy.backoff_factor);
            tell(now, &Decision::Resting { until: self.resting_until, took });
        }
        // One that took no time was not tried.
        let most = match result {
            Err(ChangeError::NoContiguity) if took > Nanos(0) => self.policy.fragmented_backoff,
            Ok(()) if took > self.policy.slow_promotion => self.policy.fragmented_backoff.min(took * MADE_RESTS),
            _ => return,
        };
        let (until, blocks) = (now + took + most, view.free_blocks());
        if result.is_err() || blocks < FEW_BLOCKS {
            self.starved = Some(Starvation::new(now + took, until, blocks));
            view.listen(false);
            tell(now, &Decision::Starved { until, blocks });
        }
    }

    /// What is known of processes.
    pub fn records(&self) -> &BTreeMap<Pid, Process> {
        &self.records
    }

    /// The parameters.
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// The claim of each process.
    pub fn claims(&self) -> Vec<(Pid, Claim)> {
        self.records.iter().map(|(pid, record)| (*pid, record.claim(&self.policy.tracking))).collect()
    }

    /// How far from fair things are; 0 is fair.
    pub fn imbalance(&self) -> f64 {
        let claims: Vec<Claim> = self.claims().into_iter().map(|(_, claim)| claim).collect();
        imbalance(&claims, self.policy.tau)
    }

    /// Requests that wait.
    pub fn waiting(&self) -> usize {
        self.urgent.len()
    }

    /// Fragmentation when it was last looked at.
    pub fn fragmentation(&self) -> f64 {
        self.fragmentation
    }

    /// Whether faults take huge pages at once.
    pub fn is_greedy(&self) -> bool {
        self.greedy
    }

    /// What was done in all processes since the start.
    pub fn counts(&self) -> Counts {
        let mut all = self.gone.clone();
        self.records.values().for_each(|record| all.add(&record.counts));
        all
    }
}

#[cfg(test)]
mod tests;
