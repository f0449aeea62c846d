//! How long experiments take, roughly: the times that `docs/evidence/figures.md` names. Most were measured beside other
//! programs on two shared processors, some of a development build. Forms without a time there are absent.

/// Name of an experiment, and seconds of its quick and of its full form.
type Row = (&'static str, Option<u32>, Option<u32>);

/// The times, by name.
const TIMES: &[Row] = &[
    ("fs-fill", None, Some(240)),
    ("fs-tree", None, Some(600)),
    ("ingens-soak", None, Some(1800)),
    ("lfs-bimodal", None, Some(660)),
    ("lfs-hotcold", None, Some(85)),
    ("lfs-nilfs2-guest", None, Some(270)),
    ("lfs-parallel-snapshots", None, Some(360)),
    ("lfs-replay", None, Some(1140)),
    ("lfs-replay-full", None, Some(360)),
    ("lfs-snapshot", None, Some(840)),
    ("lfs-tracking", None, Some(270)),
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
