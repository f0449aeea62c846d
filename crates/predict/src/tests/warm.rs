//! What is played before counting begins.

use super::*;
use crate::Warm;

/// The trace of a second, of which the first half is warm-up.
fn half(warm: Warm, load: Load) -> Comparison {
    let memory = candidate("d", "vol = disk-model size=1GiB @");
    let limit = Limit { warm: Some(warm), ..Limit::default() };
    compared(ComparisonPlan { limit, load, verify: true, ..plan(vec![steady("steady", 100)], vec![memory]) })
}

fn whole(load: Load) -> Comparison {
    let memory = candidate("d", "vol = disk-model size=1GiB @");
    compared(ComparisonPlan { load, ..plan(vec![steady("steady", 100)], vec![memory]) })
}

#[test]
fn only_requests_behind_the_warm_up_count() {
    for load in [Load::Open, Load::Closed { depth: 3, think: Nanos::ZERO }] {
        let comparison = half(Warm::Span(Nanos::millis(500)), load);
        let (run, all) = (&comparison.runs[0], &whole(load).runs[0]);
        assert_eq!((run.all.requests, run.volumes[0].reads.requests, run.played), (50, 50, 100), "{load:?}");
        assert_eq!(run.intervals.iter().map(|interval| interval.requests).sum::<u64>(), 50);
        assert_eq!((comparison.traces[0].requests, comparison.traces[0].warm), (100, 50));
        assert!(run.elapsed_ns < all.elapsed_ns, "{load:?}: {} of {}", run.elapsed_ns, all.elapsed_ns);
        let device = &run.devices[0];
        assert!(device.read_bytes < all.devices[0].read_bytes && device.energy_j < all.devices[0].energy_j);
        assert_eq!(run.digest, all.digest, "what is counted changes nothing of what happens");
    }
}

#[test]
fn time_counts_from_the_end_of_the_warm_up() {
    let run = &half(Warm::Span(Nanos::millis(500)), Load::Open).runs[0];
    let last = Nanos::millis(490).0;
    assert!((last..last + Nanos::millis(30).0).contains(&run.elapsed_ns), "{}", run.elapsed_ns);
}

#[test]
fn a_second_pass_over_all_traces_finds_a_cache_that_is_warm() {
    let cached = "[device.home]\nkind = \"disk-model\"\nsize = \"1GiB\"\n\
                  [device.fast]\nkind = \"memory\"\nsize = \"64MiB\"\n\
                  [device.vol]\nkind = \"cache\"\non = [\"home\", \"fast\"]\nfill = \"before\"\n\
                  [[export]]\nname = \"vol\"\ndevice = \"vol\"\n";
    let misses = |warm| {
        let limit = Limit { warm, ..Limit::default() };
        let cached = vec![candidate("c", cached)];
        let run = compared(ComparisonPlan { limit, ..plan(vec![steady("a", 100)], cached) }).runs.remove(0);
        (run.all.requests, run.devices[0].read_bytes > 0)
    };
    assert_eq!(misses(None), (100, true));
    assert_eq!(misses(Some(Warm::Once)), (100, false));
}

#[test]
fn traces_of_different_lengths_begin_their_second_pass_together() {
    let limit = Limit { warm: Some(Warm::Once), ..Limit::default() };
    let both = candidate("m", "a = memory size=1MiB @\nb = memory size=1MiB @");
    let traces = vec![steady("a", 100), steady("b", 20)];
    let comparison = compared(ComparisonPlan { limit, verify: true, ..plan(traces, vec![both]) });
    let run = &comparison.runs[0];
    assert_eq!(run.volumes.iter().map(|volume| volume.reads.requests).collect::<Vec<_>>(), [100, 20]);
    assert_eq!((run.played, run.intervals[0].requests), (240, 2));
    assert!(comparison.caveats.iter().any(|line| line.contains("played twice")));
}

#[test]
fn a_warm_up_that_leaves_nothing_to_count_is_refused() {
    let limit = Limit { warm: Some(Warm::Span(Nanos::secs(5))), ..Limit::default() };
    let memory = vec![candidate("m", "vol = memory size=1MiB @")];
    let refused = ComparisonPlan { limit, ..plan(vec![steady("s", 100)], memory) }.compare(&silent()).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "the warm-up lasts 5.00 s and the traces end at 990 ms, so no request counts; choose a shorter --warm, or `once`"
    );
}
