//! What is known of one process.

use std::collections::{BTreeMap, BTreeSet};

use esker_base::{Nanos, Time};

use crate::access::{Access, Tracking};
use crate::fairness::Claim;
use crate::policy::Reason;
use crate::view::{ChangeError, Region};

/// What was done in a process, or in all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Regions that became huge.
    pub promotions: u64,
    /// Regions that became base pages.
    pub demotions: u64,
    /// Regions that the background scan looked at.
    pub looked: u64,
    /// Changes that were refused, by reason.
    pub refused: BTreeMap<ChangeError, u64>,
    /// Regions that were left alone, by reason.
    pub left: BTreeMap<Reason, u64>,
    /// Hot huge pages whose access bit was cleared, and read at the end of the interval.
    pub hot_checked: u64,
    /// Those of them that had not been used: mispredictions.
    pub hot_missed: u64,
}

impl Counts {
    /// Adds those of another process.
    pub fn add(&mut self, one: &Counts) {
        self.promotions += one.promotions;
        self.demotions += one.demotions;
        self.looked += one.looked;
        self.hot_checked += one.hot_checked;
        self.hot_missed += one.hot_missed;
        one.refused.iter().for_each(|(refusal, count)| *self.refused.entry(*refusal).or_default() += count);
        one.left.iter().for_each(|(reason, count)| *self.left.entry(*reason).or_default() += count);
    }

    /// What was checked, and missed, since an earlier count.
    pub fn heat_since(&self, before: &Counts) -> Counts {
        let hot_checked = self.hot_checked - before.hot_checked;
        Counts { hot_checked, hot_missed: self.hot_missed - before.hot_missed, ..Counts::default() }
    }

    /// The share of hot pages that were predicted wrongly; nothing before any was checked.
    pub fn misprediction(&self) -> Option<f64> {
        (self.hot_checked > 0).then(|| self.hot_missed as f64 / self.hot_checked as f64)
    }
}

/// A process.
#[derive(Clone, Debug)]
pub struct Process {
    /// Its shares.
    pub shares: u64,
    /// Its huge pages with their heat.
    pub huge: BTreeMap<Region, Access>,
    /// Where the background scan goes on.
    pub cursor: Region,
    /// Promotions of the pass under way.
    pub promoted_in_pass: u64,
    /// Left alone until then.
    pub excluded_until: Option<Time>,
    /// How much it had done when its access bits were last to be cleared; nothing if that cannot be told.
    pub activity: Option<u64>,
    /// The last region that a scan of access bits has come to.
    pub access_cursor: Option<Region>,
    /// Regions whose pages may be shared, with their heat since they are in base pages.
    pub mergeable: BTreeMap<Region, Access>,
    /// Regions that were in base pages when sharing was last looked at.
    pub was_base: BTreeSet<Region>,
    /// When regions were changed.
    changed: BTreeMap<Region, Time>,
    /// What was done.
    pub counts: Counts,
}

impl Process {
    /// A process that is met with the huge pages that it has.
    pub fn new(shares: u64, huge: Vec<Region>, tracking: &Tracking) -> Process {
        let huge = huge.into_iter().map(|region| (region, Access::promoted(tracking))).collect();
        Process {
            shares,
            huge,
            cursor: Region(0),
            promoted_in_pass: 0,
            excluded_until: None,
            activity: None,
            access_cursor: None,
            mergeable: BTreeMap::new(),
            was_base: BTreeSet::new(),
            changed: BTreeMap::new(),
            counts: Counts::default(),
        }
    }

    /// Its claim to the next huge page.
    pub fn claim(&self, tracking: &Tracking) -> Claim {
        let idle = self.huge.values().filter(|access| !access.is_hot(tracking)).count();
        Claim { shares: self.shares, huge: self.huge.len() as u64, idle: idle as u64 }
    }

    /// Takes the list of huge pages that it has now: new ones begin their history, others end it.
    pub fn take_huge(&mut self, now_huge: &[Region], tracking: &Tracking) {
        let old = std::mem::take(&mut self.huge);
        let kept = |region: &Region| old.get(region).copied().unwrap_or_else(|| Access::promoted(tracking));
        self.huge = now_huge.iter().map(|region| (*region, kept(region))).collect();
    }

    /// Takes huge pages for a scan of access bits, from where the last one stopped, until `cleared_max` of them are
    /// to be cleared by the word of `is_cleared`. Returns those, and the others that it came by.
    pub fn take_for_scan(
        &mut self,
        cleared_max: usize,
        mut is_cleared: impl FnMut(&Access) -> bool,
    ) -> (Vec<Region>, Vec<Region>) {
        let (mut cleared, mut kept) = (Vec::new(), Vec::new());
        let from = self.access_cursor.take();
        let is_later = |region: &Region| from.is_none_or(|from| *region > from);
        let (later, earlier): (Vec<_>, Vec<_>) = self.huge.iter().partition(|(region, _)| is_later(region));
        for (region, access) in later.into_iter().chain(earlier) {
            if cleared.len() == cleared_max {
                break;
            }
            let taken = if is_cleared(access) { &mut cleared } else { &mut kept };
            taken.push(*region);
            self.access_cursor = Some(*region);
        }
        (cleared, kept)
    }

    /// Regions whose pages may be shared and that are in base pages.
    pub fn mergeable_base(&self) -> impl Iterator<Item = Region> {
        self.mergeable.keys().copied().filter(|region| !self.huge.contains_key(region))
    }

    /// Takes the list of regions whose pages may be shared now.
    pub fn take_mergeable(&mut self, now: impl IntoIterator<Item = Region>) {
        let old = std::mem::take(&mut self.mergeable);
        let kept = |region: &Region| old.get(region).copied().unwrap_or(Access::IDLE);
        self.mergeable = now.into_iter().map(|region| (region, kept(&region))).collect();
    }

    /// Notes that a region is huge now, or no longer.
    pub fn note(&mut self, region: Region, is_huge: bool, tracking: &Tracking) {
        match is_huge {
            true => drop(self.huge.entry(region).or_insert_with(|| Access::promoted(tracking))),
            false => drop(self.huge.remove(&region)),
        }
    }

    /// Notes a change by this program.
    pub fn changed(&mut self, region: Region, now: Time) {
        self.changed.insert(region, now);
    }

    /// Whether a region was changed within the last `cooldown`.
    pub fn is_cooling(&self, region: Region, now: Time, cooldown: Nanos) -> bool {
        self.changed.get(&region).is_some_and(|at| now < *at + cooldown)
    }

    /// Forgets changes that no longer matter.
    pub fn forget_changes(&mut self, now: Time, cooldown: Nanos) {
        self.changed.retain(|_, at| now < *at + cooldown);
    }

    /// Regions whose last change is remembered.
    pub fn remembered(&self) -> usize {
        self.changed.len()
    }

    /// Whether the background scan passes over it.
    pub fn is_excluded(&self, now: Time) -> bool {
        self.excluded_until.is_some_and(|until| now < until)
    }
}
