//! Which segments a cleaner takes: those that it may, in the order of a policy.

use std::cell::Cell;

use esker_cleaning::{Policy, Selection, Settled, Situation, Summary};

use super::config::{CleanerConfig, Recent};
use crate::control::{CheckpointInfo, LfsTotals, SegmentInfo, segment_flag};

/// What a policy sees of a segment.
pub fn summary(info: &SegmentInfo) -> Summary {
    let live = info.live.map_or(0, |live| live.live);
    Summary {
        blocks: info.room,
        live,
        mappings: live.into(),
        first: info.changed,
        last: info.changed,
        died: info.live.map(|live| live.changed),
    }
}

/// Whether a segment may be cleaned: full, sound, not in use, not needed by recovery, older than the last one that was
/// not the cleaner's, and older than what is protected.
pub fn is_eligible(info: &SegmentInfo, totals: &LfsTotals, protected_since: u64) -> bool {
    let flags = segment_flag::DIRTY | segment_flag::ACTIVE | segment_flag::ERROR;
    info.flags & flags == segment_flag::DIRTY
        && info.sequence < totals.protected_sequence
        && info.changed < totals.written
        && info.changed < protected_since
}

/// The best victims of all segments, best first.
pub fn choose(
    infos: &[SegmentInfo],
    totals: &LfsTotals,
    config: &CleanerConfig,
    (slack, count): (f64, usize),
) -> Vec<SegmentInfo> {
    let since = totals.now.saturating_sub(config.protection_seconds());
    let name = if totals.has_counters { config.policy.as_str() } else { POLICY_UNCOUNTED };
    let policy = esker_cleaning::policy::named(name).expect("a configuration names policies of the table");
    let settled = Settled { policy: Named(policy), since };
    let avoids = match config.avoid_recent {
        Recent::All => true,
        Recent::ByAge => name != "timestamp" && name != "greedy",
        Recent::Off => false,
    };
    let policy: &dyn Policy = if avoids { &settled } else { policy };
    let mut selection = Selection::new(policy, Situation { now: totals.written, slack }, count);
    for info in infos.iter().filter(|info| is_eligible(info, totals, since)) {
        selection.offer(info.segment as u32, &summary(info));
    }
    let chosen = selection.finish();
    chosen.into_iter().filter_map(|segment| infos.get(segment as usize).copied()).collect()
}

/// The first checkpoint that is protected: made at `since` or later, or the latest. `told` lists checkpoints from a
/// number on. The search begins at `hint`, which it moves on.
pub(crate) async fn first_protected<E>(
    hint: &Cell<u64>,
    (since, latest): (u64, u64),
    told: impl AsyncFn(u64) -> Result<Vec<CheckpointInfo>, E>,
) -> Result<u64, E> {
    loop {
        let infos = told(hint.get()).await?;
        let Some(last) = infos.last() else { return Ok(latest) };
        if let Some(first) = infos.iter().find(|info| info.created >= since) {
            hint.set(first.cno);
            return Ok(first.cno.min(latest));
        }
        hint.set(last.cno + 1);
    }
}

/// The policy where segments do not count what lives.
pub(crate) const POLICY_UNCOUNTED: &str = "timestamp";

/// A policy of the table as a part of another.
struct Named(&'static dyn Policy);

impl Policy for Named {
    fn worth(&self, segment: &Summary, situation: &Situation) -> esker_cleaning::Worth {
        self.0.worth(segment, situation)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::LiveInfo;

    const TOTALS: LfsTotals = LfsTotals {
        segments: 8,
        clean: 0,
        dirty: 8,
        reserved: 0,
        segment_blocks: 100,
        block_bytes: 4096,
        has_counters: true,
        now: 1_000,
        written: 900,
        protected_sequence: 50,
        cno: 9,
    };

    fn info(segment: u64, live: u32, changed: u64) -> SegmentInfo {
        let counters = Some(LiveInfo { live, snapshot: 0, changed });
        let flags = segment_flag::DIRTY;
        SegmentInfo { segment, room: 100, changed, blocks: 100, flags, sequence: segment, live: counters }
    }

    fn chosen(infos: &[SegmentInfo], config: &CleanerConfig) -> Vec<u64> {
        choose(infos, &TOTALS, config, (1.0, 8)).iter().map(|info| info.segment).collect()
    }

    fn policy(name: &str) -> CleanerConfig {
        CleanerConfig { policy: name.to_string(), ..CleanerConfig::usual() }
    }

    /// Item 35.
    #[test]
    fn active_clean_faulty_young_and_needed_segments_are_no_victims() {
        let all = vec![
            info(0, 10, 100),
            SegmentInfo { flags: segment_flag::DIRTY | segment_flag::ACTIVE, ..info(1, 10, 100) },
            SegmentInfo { flags: segment_flag::DIRTY | segment_flag::ERROR, ..info(2, 10, 100) },
            SegmentInfo { flags: 0, ..info(3, 10, 100) },
            info(4, 10, 900),
            SegmentInfo { sequence: 50, ..info(5, 10, 100) },
            info(6, 10, 500),
        ];
        assert_eq!(chosen(&all, &policy("greedy")), [0, 6]);
        let protecting = CleanerConfig { protection_period: esker_base::Nanos::secs(500), ..policy("greedy") };
        assert_eq!(chosen(&all, &protecting), [0], "segment 6 was written in the protected time");
    }

    /// Item 33, as far as the cleaner adds to the policies' own tests.
    #[test]
    fn each_policy_has_its_order() {
        let all = [info(0, 50, 400), info(1, 10, 800), info(2, 90, 10), info(3, 40, 700)];
        assert_eq!(chosen(&all, &policy("timestamp")), [2, 0, 3, 1]);
        assert_eq!(chosen(&all, &policy("greedy")), [1, 3, 0, 2]);
        // (1 - u) * age / (1 + u): 167, 82, 47, 86.
        assert_eq!(chosen(&all, &policy("cost-benefit")), [0, 3, 1, 2]);
        // (1 - u) * age / 2u: 250, 450, 49, 150.
        assert_eq!(chosen(&all, &policy("cost-benefit-2u")), [1, 0, 3, 2]);
    }

    #[test]
    fn segments_that_just_lost_blocks_are_avoided_as_configured() {
        let mut all = [info(0, 50, 400), info(1, 10, 400)];
        all[1].live = Some(LiveInfo { live: 10, snapshot: 0, changed: 990 });
        let with = |name: &str, avoid_recent| CleanerConfig {
            avoid_recent,
            protection_period: esker_base::Nanos::secs(100),
            ..policy(name)
        };
        assert_eq!(chosen(&all, &with("greedy", Recent::ByAge)), [1, 0]);
        assert_eq!(chosen(&all, &with("greedy", Recent::All)), [0]);
        assert_eq!(chosen(&all, &with("cost-benefit", Recent::ByAge)), [0]);
        assert_eq!(chosen(&all, &with("cost-benefit", Recent::Off)), [1, 0]);
    }

    #[test]
    fn without_counters_the_oldest_segments_are_taken() {
        let mut all = [info(0, 0, 400), info(1, 0, 300)];
        all.iter_mut().for_each(|info| info.live = None);
        let totals = LfsTotals { has_counters: false, ..TOTALS };
        let found = choose(&all, &totals, &policy("greedy"), (1.0, 8));
        assert_eq!(found.iter().map(|info| info.segment).collect::<Vec<_>>(), [1, 0]);
    }
}
