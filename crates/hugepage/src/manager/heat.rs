//! Scans of access bits: cleared at the beginning of an interval, read at its end.
//!
//! A process that has done nothing since the last scan is asleep: its pages cannot have been used, and nothing is
//! cleared, monitored or read for it. What it does after that is noticed at the next scan, from which on it is watched
//! again.

use std::collections::BTreeMap;

use esker_base::Time;

use super::{Manager, Tell};
use crate::access::{Access, Tracking};
use crate::process::Process;
use crate::view::{ProcView, Region};

/// What an interval tells of a process.
#[derive(Clone, Debug)]
pub(super) enum Watched {
    /// The bits of huge pages.
    Bits {
        /// Which were cleared.
        cleared: Vec<Region>,
        /// Hot ones, whose bits were not cleared and are still set.
        kept: Vec<Region>,
    },
    /// That none is in use, if its activity is still this.
    Asleep(u64),
}

impl Manager {
    /// Clears access bits, or reads them. True if it was due.
    pub(super) fn scan_access(&mut self, now: Time, view: &mut impl ProcView, tell: Tell<'_>) -> bool {
        match &self.reading {
            Some((at, _)) if now >= *at => {
                self.read_access(view);
                self.scan_sharing(now, view, tell);
            }
            None if now >= self.next_clear => self.clear_access(now, view),
            _ => return false,
        }
        true
    }

    fn clear_access(&mut self, now: Time, view: &mut impl ProcView) {
        let mut watched = BTreeMap::new();
        let mut awake = Vec::new();
        for (pid, record) in &mut self.records {
            record.forget_changes(now, self.policy.cooldown);
            record.take_huge(&view.huge(*pid), &self.policy.tracking);
            let activity = view.activity(*pid);
            let before = std::mem::replace(&mut record.activity, activity);
            match activity.filter(|activity| before == Some(*activity)) {
                Some(activity) => drop(watched.insert(*pid, Watched::Asleep(activity))),
                None => awake.push((*pid, record)),
            }
        }
        let share = (self.policy.scan_regions as usize).div_ceil(awake.len().max(1));
        for (pid, record) in awake {
            // Clearing costs a hot page an invalidation of its translation; one whose bit is clear has none to lose.
            let (mut cleared, kept) = record.take_for_scan(share, |access: &Access| {
                !access.is_hot(&self.policy.tracking)
                    || !access.was_used()
                    || self.rng.below(1000) < u64::from(self.policy.clear_hot_permille)
            });
            cleared.extend(record.mergeable_base().take(share));
            view.clear_accessed(pid, &cleared);
            watched.insert(pid, Watched::Bits { cleared, kept });
        }
        self.reading = Some((now + self.policy.scan_interval, watched));
        self.next_clear = now + self.policy.scan_period;
    }

    fn read_access(&mut self, view: &mut impl ProcView) {
        let Some((_, watched)) = self.reading.take() else { return };
        let tracking = self.policy.tracking;
        for (pid, watched) in watched {
            let Some(record) = self.records.get_mut(&pid) else { continue };
            match watched {
                Watched::Bits { cleared, kept } => {
                    let bits = view.accessed(pid, &cleared);
                    let known = cleared.into_iter().zip(bits).filter_map(|(region, bit)| Some((region, bit?)));
                    known.for_each(|(region, bit)| check(record, &tracking, region, bit));
                    for region in &kept {
                        if let Some(access) = record.huge.get_mut(region) {
                            observe(access, &tracking, true);
                        }
                    }
                }
                Watched::Asleep(activity) if view.activity(pid) == Some(activity) => {
                    let all = record.huge.values_mut().chain(record.mergeable.values_mut());
                    all.for_each(|access| observe(access, &tracking, false));
                }
                Watched::Asleep(_) => {}
            }
        }
    }
}

/// Takes a bit that was cleared and read, and judges by it whether the page was rightly taken for hot.
fn check(record: &mut Process, tracking: &Tracking, region: Region, accessed: bool) {
    let Some(access) = record.huge.get_mut(&region) else {
        // In base pages, of which only what is shared is watched.
        record.mergeable.get_mut(&region).into_iter().for_each(|access| observe(access, tracking, accessed));
        return;
    };
    let was_hot = access.is_hot(tracking);
    if access.observe(tracking, accessed) && was_hot {
        record.counts.hot_checked += 1;
        record.counts.hot_missed += u64::from(!accessed);
    }
}

fn observe(access: &mut Access, tracking: &Tracking, accessed: bool) {
    // The first bit of a new mapping is passed over, whatever it is.
    let _taken = access.observe(tracking, accessed);
}
