use esker_base::Nanos;
use esker_rt::real::RealConfig;
use esker_trace_calls::generate::{Shape, apple_desktop};
use esker_trace_calls::{Platform, Trace};
use esker_trace_order::model::compile;
use esker_trace_order::rules::Rules;

use super::*;
use crate::kernel::{ExchangeBy, FsyncMeans};
use crate::testing::FULL_INIT;

mod hostile;

fn job(name: &str, trace: Trace) -> ReplayInput {
    ReplayInput { name: name.to_string(), program: compile(trace, &mut |_| {}).unwrap() }
}

fn options(order: Order) -> RunOptions {
    let kernel = KernelOptions {
        fsync: FsyncMeans::Durable,
        exchange: ExchangeBy::Rename,
        platform: Platform::Linux,
        keep_modes: false,
        seed: 1,
    };
    RunOptions {
        order,
        speed: Speed::Afap,
        init: FULL_INIT,
        replay: ReplayOptions { kernel, patience: Nanos(20_000_000_000) },
        repeat: 1,
    }
}

fn play(jobs: Vec<ReplayInput>, options: RunOptions) -> Vec<Report> {
    let dir = crate::testing::private_dir();
    let reactor = Reactor::new(RealConfig::seeded(1)).unwrap();
    run(jobs, dir.path(), options, &reactor, &mut |_| {}).unwrap()
}

/// What came out otherwise, for messages.
fn differing(report: &Report) -> String {
    let lines = report.mismatches.listed.iter().take(12);
    let lines = lines.map(|one| format!("{}: {}: {} not {}", one.action, one.call, one.actual, one.expected));
    lines.chain(report.stopped.clone()).collect::<Vec<_>>().join("\n")
}

#[test]
fn apples_patterns_fail_no_call_in_any_order_that_is_kept() {
    for order in [Order::Root(Rules::default()), Order::Temporal, Order::Single] {
        let reports = play(vec![job("apple", apple_desktop(Shape::tiny(1)))], options(order));
        assert_eq!(reports[0].mismatches.count, 0, "{}: {}", order.name(), differing(&reports[0]));
    }
}

#[test]
fn repetitions_begin_with_the_same_tree() {
    let jobs = vec![job("apple", apple_desktop(Shape::tiny(2)))];
    let reports = play(jobs, RunOptions { repeat: 3, ..options(Order::Root(Rules::default())) });
    assert_eq!(reports[0].mismatches.count, 0, "{}", differing(&reports[0]));
    assert_eq!(reports[0].repeats_ns.len(), 3);
    let mut sorted = reports[0].repeats_ns.clone();
    sorted.sort_unstable();
    assert_eq!(reports[0].elapsed_ns, sorted[1], "the one in the middle");
}

#[test]
fn two_traces_are_replayed_at_once_on_one_tree() {
    let mut other = apple_desktop(Shape::tiny(3));
    // Another user's files: the traces share no name, as a player of music and a program for pictures do.
    esker_trace_calls::anonymise::anonymise(&mut other, 9);
    let jobs = vec![job("apple", apple_desktop(Shape::tiny(3))), job("other", other)];
    let reports = play(jobs, options(Order::Root(Rules::default())));
    for report in &reports {
        assert_eq!(report.mismatches.count, 0, "{}: {}", report.trace, differing(report));
    }
}
