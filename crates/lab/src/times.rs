//! How long experiments take, roughly: those of full forms from `docs/evidence/figures.md`, those of quick forms from
//! one run of each. Most were measured beside other programs on two shared processors, some of a development build.
//! Forms that were not timed are absent.

/// Name of an experiment, and seconds of its quick and of its full form.
type Row = (&'static str, Option<u32>, Option<u32>);

/// The times, by name.
const TIMES: &[Row] = &[
    ("able-theory", Some(1), None),
    ("advise", Some(95), None),
    ("caching-vs-tiering", Some(14), None),
    ("edt-adversarial", Some(44), None),
    ("edt-msr", Some(32), None),
    ("edt-msr-played", Some(13), None),
    ("edt-spc-played", Some(7), None),
    ("edt-subworkloads", Some(17), None),
    ("edt-throttle", Some(3), None),
    ("fs-fill", Some(17), Some(240)),
    ("fs-sync", Some(17), None),
    ("fs-tree", Some(58), Some(600)),
    ("ingens-soak", None, Some(1800)),
    ("lfs-bimodal", Some(9), Some(660)),
    ("lfs-hotcold", Some(18), Some(85)),
    ("lfs-nilfs2-guest", Some(69), Some(270)),
    ("lfs-parallel-snapshots", Some(44), Some(360)),
    ("lfs-replay", Some(362), Some(1140)),
    ("lfs-replay-full", Some(161), Some(360)),
    ("lfs-snapshot", Some(22), Some(840)),
    ("lfs-tracking", Some(7), Some(270)),
    ("tier-live", Some(169), None),
    ("try-quick", Some(26), None),
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
