//! How long experiments take, roughly: on a virtual machine with two shared processors, most of them beside other
//! programs, so an idle machine is faster. Forms that were not timed are absent.
//!
//! Times of long forms stand in `docs/evidence/figures.md`, too.

/// Name of an experiment, and seconds of its quick and of its full form.
type Row = (&'static str, Option<u32>, Option<u32>);

/// Measured up to 2026-11-29.
const TIMES: &[Row] = &[
    ("fs-fill", None, Some(240)),
    ("fs-tree", None, Some(600)),
    ("ingens-soak", None, Some(1800)),
    ("lfs-bimodal", None, Some(660)),
    ("lfs-hotcold", None, Some(85)),
    ("lfs-nilfs2-guest", None, Some(270)),
    ("lfs-parallel-snapshots", Some(121), Some(360)),
    ("lfs-replay", None, Some(1140)),
    ("lfs-replay-full", None, Some(360)),
    ("lfs-snapshot", Some(52), Some(840)),
    ("lfs-tracking", None, Some(270)),
    ("rt-throughput", Some(10), None),
    ("sim-throughput", Some(8), None),
    ("ssd-wa", Some(10), None),
];

/// Seconds that the quick and the full form of an experiment take, where they were measured.
pub fn of(experiment: &str) -> [Option<u32>; 2] {
    TIMES.iter().find(|(name, ..)| *name == experiment).map_or([None; 2], |(_, quick, full)| [*quick, *full])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ALL;

    #[test]
    fn times_are_of_experiments_in_the_order_of_their_names() {
        assert!(TIMES.is_sorted_by(|a, b| a.0 < b.0));
        for (name, quick, full) in TIMES {
            assert!(
                ALL.iter().any(|experiment| experiment.name == *name),
                "{name}: no such experiment; remove its row"
            );
            assert!(quick.or(*full).is_some_and(|seconds| seconds > 0), "{name}: neither form was measured");
        }
        assert_eq!(of("no such experiment"), [None, None]);
    }
}
