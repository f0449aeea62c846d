//! How long experiments take, roughly: those of full forms from `docs/evidence/figures.md`, those of quick forms from
//! one run of each. Most were measured beside other programs on two shared processors, some of a development build.
//! Forms that were not timed are absent.

/// Name of an experiment, and seconds of its quick and of its full form.
type Row = (&'static str, Option<u32>, Option<u32>);

/// The times, by name.
const TIMES: &[Row] = &[
    ("able-complexity", Some(44), None),
    ("able-predicted-vs-observed", Some(1), None),
    ("able-theory", Some(1), None),
    ("advise", Some(95), None),
    ("anvil-clone-vs-cp", Some(13), None),
    ("anvil-gc-hotcold", Some(108), None),
    ("anvil-gc-scaling", Some(10), None),
    ("anvil-gc-steady", Some(25), None),
    ("anvil-recovery", Some(43), None),
    ("anvil-scanner-threads", Some(6), None),
    ("anvil-snapshot", Some(250), None),
    ("artc-cache", Some(37), None),
    ("artc-compile", Some(2), None),
    ("artc-concurrency", Some(72), None),
    ("artc-flash", Some(53), None),
    ("artc-ground-truth", Some(1), None),
    ("artc-init", Some(50), None),
    ("artc-leveldb", Some(254), None),
    ("artc-micro", Some(12), None),
    ("artc-overhead", Some(24), None),
    ("artc-semantics", Some(224), None),
    ("artc-slices", Some(20), None),
    ("artc-uring", Some(37), None),
    ("attach-vs-raw", Some(84), None),
    ("borg", Some(6), None),
    ("cache-guest", Some(41), None),
    ("cache-hit", Some(29), None),
    ("cache-live", Some(121), None),
    ("cache-modes", Some(71), None),
    ("caching-vs-tiering", Some(14), None),
    ("cleaning-policies", Some(23), None),
    ("data-path", Some(33), None),
    ("device-calibration", Some(3), None),
    ("edt-adversarial", Some(44), None),
    ("edt-msr", Some(32), None),
    ("edt-msr-played", Some(13), None),
    ("edt-spc", Some(1), None),
    ("edt-spc-played", Some(7), None),
    ("edt-subworkloads", Some(17), None),
    ("edt-table", Some(1), None),
    ("edt-throttle", Some(3), None),
    ("exces", Some(3), None),
    ("file-vs-fio", Some(87), None),
    ("first-answer", Some(231), None),
    ("fs-calls", Some(5), None),
    ("fs-fill", Some(17), Some(240)),
    ("fs-harness", Some(93), None),
    ("fs-sync", Some(17), None),
    ("fs-tree", Some(58), Some(600)),
    ("growth", Some(170), None),
    ("hostile-clients", Some(37), None),
    ("ingens-bloat", Some(1), None),
    ("ingens-fair", Some(220), None),
    ("ingens-fault-latency", Some(3), None),
    ("ingens-fragmented", Some(280), None),
    ("ingens-khugepaged", Some(117), None),
    ("ingens-misprediction", Some(45), None),
    ("ingens-overhead", Some(322), None),
    ("ingens-redis", Some(226), None),
    ("ingens-scan", Some(54), None),
    ("ingens-soak", None, Some(1800)),
    ("lfs-bimodal", Some(9), Some(660)),
    ("lfs-hotcold", Some(18), Some(85)),
    ("lfs-nilfs2-guest", Some(69), Some(270)),
    ("lfs-parallel-snapshots", Some(44), Some(360)),
    ("lfs-replay", Some(362), Some(1140)),
    ("lfs-replay-full", Some(161), Some(360)),
    ("lfs-snapshot", Some(22), Some(840)),
    ("lfs-tracking", Some(7), Some(270)),
    ("library-calls", Some(5), None),
    ("map-commit", Some(1), None),
    ("mrc-accuracy", Some(74), None),
    ("nbd-vs-peers", Some(170), None),
    ("paced-ext4", Some(63), None),
    ("packages", Some(666), None),
    ("rt-throughput", Some(5), None),
    ("ssd-wa", Some(5), None),
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
