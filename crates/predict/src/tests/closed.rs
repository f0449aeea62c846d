//! Closed loop.

use super::*;
use crate::Load;

fn closed(depth: u32, think: Nanos, stack: &str) -> CandidateRun {
    let load = Load::Closed { depth, think };
    let plan = plan(vec![steady("steady", 400)], vec![candidate("one", stack)]);
    compared(ComparisonPlan { load, ..plan }).runs.remove(0)
}

const IDLE_SSD: &str = "vol = ssd-model size=1GiB overhead=10us read=40us unit_rate=1GB host_rate=4GB @";
/// Of a read of 4 KiB on it.
const READ: u64 = 10_000 + 40_000 + 4_096 + 1_024;

#[test]
fn one_client_asks_again_as_soon_as_it_is_answered() {
    let run = closed(1, Nanos::ZERO, IDLE_SSD);
    assert_eq!((run.all.requests, run.inflight_max, run.all.max_ns), (400, 1, READ));
    assert_eq!(run.elapsed_ns, 400 * READ, "recorded times do not matter");
    assert_eq!((run.saturated, run.failed), (None, 0));
}

#[test]
fn clients_think_between_an_answer_and_the_next_request() {
    let run = closed(1, Nanos::micros(100), IDLE_SSD);
    assert_eq!((run.all.max_ns, run.elapsed_ns), (READ, 400 * (READ + 100_000)));
}

#[test]
fn as_many_requests_are_in_flight_as_asked() {
    let stack = "vol = null size=1GiB latency=50us @";
    let run = closed(16, Nanos::ZERO, stack);
    assert_eq!((run.inflight_max, run.all.requests), (16, 400));
    assert!((run.requests_per_s - 16.0 / 50e-6).abs() < 0.01 * run.requests_per_s, "{}", run.requests_per_s);
    assert_eq!(run.intervals.iter().map(|interval| interval.requests).sum::<u64>(), 400);
}

#[test]
fn intervals_grow_with_a_run_of_unknown_length() {
    let run = closed(1, Nanos::millis(1), "vol = null size=1GiB @");
    assert!(run.elapsed_ns >= 400_000_000 && run.intervals.len() <= 100);
    let last = run.intervals.last().unwrap();
    assert!(last.at_ns < run.elapsed_ns && last.at_ns * 2 > run.elapsed_ns, "{last:?}");
    assert_eq!(run.intervals.iter().map(|interval| interval.requests).sum::<u64>(), 400);
}

#[test]
fn every_volume_has_its_own_clients_and_the_page_says_how_requests_came() {
    let load = Load::Closed { depth: 3, think: Nanos::ZERO };
    let comparison =
        compared(ComparisonPlan { load, verify: true, ..plan(vec![busy("a", 300), busy("b", 90)], Vec::new()) });
    for run in &comparison.runs {
        let requests = run.volumes.iter().map(|volume| volume.reads.requests + volume.writes.requests);
        assert_eq!((requests.collect::<Vec<_>>(), run.inflight_max), (vec![300, 90], 6), "{}", run.name);
    }
    assert!(comparison.speed.is_none());
    assert!(text(&comparison).contains("closed loop: 3 requests in flight for each trace"));
    let json: serde_json::Value = serde_json::from_str(&comparison.to_json()).unwrap();
    assert_eq!(json["load"], serde_json::json!({ "mode": "closed", "depth": 3, "think_ns": 0 }));
}

#[test]
fn no_depth_is_refused() {
    let load = Load::Closed { depth: 0, think: Nanos::ZERO };
    let refused = ComparisonPlan { load, ..plan(vec![steady("t", 9)], Vec::new()) }.compare(&silent()).unwrap_err();
    assert!(refused.to_string().contains("depth 0 is out of range; choose 1 to 4096"));
}
