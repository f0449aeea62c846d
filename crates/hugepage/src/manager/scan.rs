//! The background scan: a part of one process, then a rest, then of the process that deserves it next (Ingens, the
//! schedule of its promotion thread).

use std::cmp::Reverse;

use esker_base::{Nanos, Time};

use super::{Asker, Decision, Manager, Tell};
use crate::policy::Order;
use crate::view::{Backing, Pid, ProcView, Region, RegionAddress};

/// A part of the background scan.
#[derive(Clone, Copy, Debug)]
pub(super) struct Quantum {
    pid: Pid,
    left: u32,
}

impl Manager {
    /// One step of the background scan: one region. Nothing if it sleeps.
    pub(super) fn scan_quantum(&mut self, now: Time, view: &mut impl ProcView, tell: Tell<'_>) -> Option<Nanos> {
        if self.quantum.is_none() {
            if now < self.next_quantum {
                return None;
            }
            self.begin_quantum(now, self.policy.quantum_regions);
        }
        let Some(quantum) = self.quantum else {
            self.end_quantum(now);
            return None;
        };
        let record = self.records.get_mut(&quantum.pid)?;
        let Some((region, look)) = view.next(quantum.pid, record.cursor) else {
            self.end_pass(now, quantum, tell);
            return Some(Nanos(0));
        };
        record.cursor = Region(region.0 + 1);
        let cost = u32::from(look.backing != Backing::Huge && look.skip.is_none());
        record.counts.looked += u64::from(cost);
        let left = quantum.left - cost;
        self.quantum = Some(Quantum { left, ..quantum });
        let place = RegionAddress { pid: quantum.pid, region };
        let took = self.decide(now, place, Asker::Scan, view, tell);
        if left == 0 {
            self.end_quantum(now);
        }
        Some(took)
    }

    /// Ends a part of this process.
    pub(super) fn leave(&mut self, pid: Pid) {
        self.quantum = self.quantum.filter(|quantum| quantum.pid != pid);
    }

    fn begin_quantum(&mut self, now: Time, left: u32) {
        self.quantum = self.choose(now).map(|pid| Quantum { pid, left });
    }

    fn end_quantum(&mut self, now: Time) {
        self.quantum = None;
        self.next_quantum = now + self.policy.quantum_sleep;
    }

    /// At the end of a process the quantum goes on with the process that deserves it now.
    fn end_pass(&mut self, now: Time, quantum: Quantum, tell: Tell<'_>) {
        let Some(record) = self.records.get_mut(&quantum.pid) else { return };
        record.cursor = Region(0);
        let found = std::mem::take(&mut record.promoted_in_pass);
        if found == 0 && self.policy.skip_after_miss > Nanos(0) {
            let until = now + self.policy.skip_after_miss;
            record.excluded_until = Some(until);
            tell(now, &Decision::Excluded { pid: quantum.pid, until });
        }
        self.turn_of = Pid(quantum.pid.0 + 1);
        self.quantum = None;
        // A round over processes in which there is nothing to look at must come to an end.
        if quantum.left > 1 {
            self.begin_quantum(now, quantum.left - 1);
        }
        if self.quantum.is_none() {
            self.end_quantum(now);
        }
    }

    /// The process that the background scan visits.
    fn choose(&self, now: Time) -> Option<Pid> {
        self.first_of(self.records.iter().filter(|(_, record)| !record.is_excluded(now)).map(|(pid, _)| *pid))
    }

    /// The first of these in the order of their numbers.
    pub(super) fn first_of(&self, mut pids: impl Iterator<Item = Pid> + Clone) -> Option<Pid> {
        match self.policy.order {
            Order::RoundRobin => pids.clone().find(|pid| *pid >= self.turn_of).or_else(|| pids.next()),
            Order::Fair => pids.max_by(|a, b| {
                let claim = |pid: &Pid| self.records[pid].claim(&self.policy.tracking);
                // Of equal claims the lower number comes first.
                claim(a).compare(&claim(b), self.policy.tau).then(Reverse(a).cmp(&Reverse(b)))
            }),
        }
    }
}
