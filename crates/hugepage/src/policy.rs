//! All parameters, and what is to be done with one region.

use esker_base::Nanos;
use serde::{Deserialize, Serialize};

use crate::access::Tracking;
use crate::fairness::Tau;
use crate::merge_policy::SharingPolicy;
use crate::utilisation::Threshold;
use crate::view::{Backing, RegionView, Skip};

/// In which order the background scan visits processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// The process that deserves the next huge page most, by [`crate::fairness`].
    Fair,
    /// One process to its end before the next, as khugepaged does: for comparison.
    RoundRobin,
}

/// The parameters of a manager.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Policy {
    /// Use from which a region is promoted.
    pub promote: Threshold,
    /// Use below which a huge page is demoted. The gap to `promote` keeps a page that comes and goes from costing a
    /// copy each time.
    pub demote: Threshold,
    /// A region that was changed is left alone for so long.
    pub cooldown: Nanos,
    /// How heat is estimated.
    pub tracking: Tracking,
    /// From the beginning of one scan of access bits to that of the next.
    pub scan_period: Nanos,
    /// From clearing the bits to reading them.
    pub scan_interval: Nanos,
    /// Hot huge pages that were used in the last scan are cleared with this probability, in thousandths; others
    /// always.
    pub clear_hot_permille: u32,
    /// Access bits that a scan clears at most, divided among the processes that are awake. Of a process with more huge
    /// pages, the next scan goes on where this one stopped.
    pub scan_regions: u32,
    /// How much less a huge page in use counts than an idle one.
    pub tau: Tau,
    /// Order of the background scan.
    pub order: Order,
    /// Regions that the background scan looks at before it sleeps; those that are huge, or cannot be, cost nothing.
    pub quantum_regions: u32,
    /// How long it sleeps.
    pub quantum_sleep: Nanos,
    /// A process in which a whole pass found nothing to promote is left alone for so long.
    pub skip_after_miss: Nanos,
    /// Fragmentation from which memory is compacted.
    pub compact_at: f64,
    /// Time between two compactions; 0 for none.
    pub compact_interval: Nanos,
    /// Bytes that one moves at most.
    pub compact_bytes: u64,
    /// Huge pages that all processes together may have; the manager gives no more.
    pub budget: Option<u64>,
    /// Below this fragmentation faults take huge pages at once, and every region that is in use at all is promoted.
    pub greedy_below: Option<f64>,
    /// Which duplicates are shared, in processes that can be told to.
    pub sharing: SharingPolicy,
    /// How often a region with pinned pages is tried again, after `retry_after`, twice that and so on.
    pub retries: u32,
    /// See `retries`.
    pub retry_after: Nanos,
    /// After a promotion that found no block, none is tried for so long, or until more blocks are free.
    pub fragmented_backoff: Nanos,
    /// After a promotion that took longer than this, nothing is promoted for `backoff_factor` as long as it took.
    pub slow_promotion: Nanos,
    /// See `slow_promotion`: threads that use the regions stand still for one part in `backoff_factor + 1` of the time
    /// at most, however slow promotions are.
    pub backoff_factor: u32,
}

/// What to do with a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Make it huge.
    Promote,
    /// Make it base pages.
    Demote,
    /// Nothing.
    Leave(Reason),
}

/// Why nothing is done with a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// It cannot be huge.
    Skipped(Skip),
    /// Too little of it is in use.
    Sparse,
    /// It is huge and used well enough.
    Huge,
    /// It was changed just now.
    Cooling,
    /// Pages of it are shared with equal ones, and no process writes to them.
    Shared,
}

impl Reason {
    /// It in a word.
    pub fn word(self) -> &'static str {
        match self {
            Reason::Skipped(skip) => skip.word(),
            Reason::Sparse => "sparse",
            Reason::Huge => "huge_already",
            Reason::Cooling => "cooling_down",
            Reason::Shared => "pages_are_shared",
        }
    }
}

impl Policy {
    /// The source's parameters (its table of defaults). Where it gives none: demotion below 85 %, a cool-down of 10 s,
    /// `tau` of 0.25, five retries, a rest of ten times its time after a promotion of more than 5 ms, and of a minute
    /// after one that found no block, as khugepaged has (`alloc_sleep_millisecs`).
    pub const fn ingens() -> Policy {
        Policy {
            promote: percent(90),
            demote: percent(85),
            cooldown: Nanos::secs(10),
            tracking: Tracking::INGENS,
            scan_period: Nanos::secs(10),
            scan_interval: Nanos::secs(2),
            clear_hot_permille: 200,
            scan_regions: u32::MAX,
            tau: Tau::ESX,
            order: Order::Fair,
            quantum_regions: 8,
            quantum_sleep: Nanos::secs(10),
            skip_after_miss: Nanos::secs(120),
            compact_at: 0.8,
            compact_interval: Nanos::secs(5),
            compact_bytes: 100 << 20,
            budget: None,
            greedy_below: None,
            sharing: SharingPolicy::None,
            retries: 5,
            retry_after: Nanos::millis(100),
            fragmented_backoff: Nanos::secs(60),
            slow_promotion: Nanos::millis(5),
            backoff_factor: 10,
        }
    }

    /// Short times and small quanta, so that rare paths become common.
    pub const fn tiny() -> Policy {
        Policy {
            cooldown: Nanos::millis(10),
            scan_period: Nanos::millis(20),
            scan_interval: Nanos::millis(20),
            quantum_regions: 2,
            quantum_sleep: Nanos::millis(10),
            skip_after_miss: Nanos::millis(120),
            compact_interval: Nanos::millis(5),
            retries: 2,
            retry_after: Nanos::millis(1),
            ..Policy::ingens()
        }
    }

    /// What khugepaged does with its defaults: a process after the other, 16 MiB in 10 s, and every region with a page.
    pub const fn khugepaged() -> Policy {
        Policy {
            promote: percent(1),
            demote: percent(1),
            order: Order::RoundRobin,
            skip_after_miss: Nanos(0),
            ..Policy::ingens()
        }
    }

    /// What is wrong with it, by the names of the configuration.
    pub fn fault(&self) -> Option<&'static str> {
        let unit = |value: f64| (0.0..=1.0).contains(&value);
        match self {
            _ if self.demote > self.promote => Some("demote_percent must not be above promote_percent"),
            _ if !unit(self.compact_at) => Some("compact_at must be from 0 to 1"),
            _ if self.greedy_below.is_some_and(|below| !unit(below)) => Some("greedy_below must be from 0 to 1"),
            _ if self.clear_hot_permille > 1000 => Some("access.clear_hot must be from 0 to 1"),
            _ if self.scan_regions == 0 => Some("access.scan_max must be 2 MiB at least"),
            _ if self.quantum_regions == 0 => Some("quantum must be 2 MiB at least"),
            _ if self.fragmented_backoff == Nanos(0) => Some("fragmented_backoff must be above 0"),
            _ if self.quantum_sleep == Nanos(0) => Some("quantum_sleep must be above 0"),
            _ if self.scan_interval == Nanos(0) => Some("access.interval must be above 0"),
            _ if self.scan_interval > self.scan_period => Some("access.interval must not be above access.period"),
            _ => self.tracking.fault(),
        }
    }

    /// Decides about a region. `cooling`: it was changed just now; `greedy`: contiguity is plentiful.
    pub fn judge(&self, look: &RegionView, cooling: bool, greedy: bool) -> Action {
        let used = look.used.count();
        let enough = if greedy { 1 } else { self.promote.pages() };
        let too_few = if greedy { 0 } else { self.demote.pages() };
        match (look.backing, look.skip) {
            (Backing::Base, Some(skip)) => Action::Leave(Reason::Skipped(skip)),
            (Backing::Huge | Backing::Split, _) if used < too_few && cooling => Action::Leave(Reason::Cooling),
            (Backing::Huge | Backing::Split, _) if used < too_few => Action::Demote,
            (Backing::Huge, _) => Action::Leave(Reason::Huge),
            (Backing::Split, Some(skip)) => Action::Leave(Reason::Skipped(skip)),
            (Backing::Base | Backing::Split, None) if used < enough => Action::Leave(Reason::Sparse),
            (Backing::Base | Backing::Split, None) if cooling => Action::Leave(Reason::Cooling),
            (Backing::Base | Backing::Split, None) => Action::Promote,
        }
    }
}

const fn percent(percent: i64) -> Threshold {
    match Threshold::percent(percent) {
        Some(threshold) => threshold,
        None => panic!("not a percentage"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::utilisation::Util;

    fn look(used: u32, backing: Backing) -> RegionView {
        let mut pages = Util::EMPTY;
        pages.set_range(0..used);
        RegionView { used: pages, backing, skip: None }
    }

    fn check(used: u32, backing: Backing, expected: Action) {
        assert_eq!(Policy::ingens().judge(&look(used, backing), false, false), expected, "{used} pages, {backing:?}");
    }

    #[test]
    fn a_region_is_promoted_from_its_461st_page_on() {
        check(460, Backing::Base, Action::Leave(Reason::Sparse));
        check(461, Backing::Base, Action::Promote);
        check(512, Backing::Huge, Action::Leave(Reason::Huge));
    }

    #[test]
    fn demotion_is_deferred_down_to_its_own_threshold() {
        check(502, Backing::Huge, Action::Leave(Reason::Huge));
        check(436, Backing::Huge, Action::Leave(Reason::Huge));
        check(435, Backing::Huge, Action::Demote);
        check(502, Backing::Split, Action::Promote);
        check(450, Backing::Split, Action::Leave(Reason::Sparse));
        check(256, Backing::Split, Action::Demote);
    }

    #[test]
    fn what_was_changed_just_now_is_left_alone() {
        for (used, backing) in [(512, Backing::Base), (10, Backing::Huge)] {
            let action = Policy::ingens().judge(&look(used, backing), true, false);
            assert_eq!(action, Action::Leave(Reason::Cooling));
        }
    }

    #[test]
    fn with_plenty_of_contiguity_every_region_in_use_is_promoted_and_none_demoted() {
        let judge = |look: RegionView| Policy::ingens().judge(&look, false, true);
        assert_eq!(judge(look(1, Backing::Base)), Action::Promote);
        assert_eq!(judge(look(0, Backing::Base)), Action::Leave(Reason::Sparse));
        assert_eq!(judge(look(1, Backing::Huge)), Action::Leave(Reason::Huge));
    }

    #[test]
    fn regions_that_cannot_be_huge_are_left_with_the_reason() {
        for skip in [Skip::Advised, Skip::File, Skip::Partial, Skip::Special] {
            let look = RegionView { skip: Some(skip), ..look(512, Backing::Base) };
            assert_eq!(Policy::ingens().judge(&look, false, false), Action::Leave(Reason::Skipped(skip)));
        }
    }

    #[test]
    fn faults_are_named_by_their_key() {
        assert_eq!([Policy::ingens(), Policy::tiny(), Policy::khugepaged()].map(|policy| policy.fault()), [None; 3]);
        let faulty = |change: fn(&mut Policy)| {
            let mut policy = Policy::ingens();
            change(&mut policy);
            policy.fault().unwrap_or_default()
        };
        assert!(faulty(|p| p.demote = percent(91)).contains("demote_percent"));
        assert!(faulty(|p| p.compact_at = 1.5).contains("compact_at"));
        assert!(faulty(|p| p.greedy_below = Some(-0.1)).contains("greedy_below"));
        assert!(faulty(|p| p.scan_interval = Nanos::secs(11)).contains("access.interval"));
        assert!(faulty(|p| p.tracking.bits = 0).contains("access.bits"));
    }

    proptest::proptest! {
        #[test]
        fn no_promotion_breaks_the_bound_of_bloat(used in 0..=512u32, promote in 1..=100i64) {
            let policy = Policy { promote: percent(promote), demote: percent(1), ..Policy::ingens() };
            if policy.judge(&look(used, Backing::Base), false, false) == Action::Promote {
                proptest::prop_assert!(512.0 / f64::from(used) <= policy.promote.bloat_max() + 1e-12);
                proptest::prop_assert!(policy.promote.bloat_max() <= 100.0 / promote as f64);
            }
        }
    }
}
