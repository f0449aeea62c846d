use super::*;
use crate::headroom::Headroom;
use crate::measure::Latencies;
use crate::outcome::{Fitted, Latency};

fn run(name: &str, p99_ms: u64, price: f64) -> CandidateRun {
    let latency = Latency {
        requests: 100,
        mean_ns: 0,
        p50_ns: 0,
        p95_ns: 0,
        p99_ns: Nanos::millis(p99_ms).0,
        p999_ns: 0,
        max_ns: 0,
    };
    CandidateRun {
        name: name.to_string(),
        what: String::new(),
        stack: String::new(),
        served: None,
        all: latency,
        latencies: Latencies::pooled([]),
        reads: latency,
        writes: latency,
        flushes: Latency { requests: 0, ..latency },
        volumes: Vec::new(),
        elapsed_ns: 0,
        drain_ns: 0,
        requests_per_s: 0.0,
        bytes_per_s: 0.0,
        inflight_max: 0,
        played: 0,
        saturated: None,
        headroom: None,
        failed: 0,
        first_failure: None,
        fitted: Fitted::default(),
        devices: Vec::new(),
        layers: Vec::new(),
        busy: None,
        energy_j: None,
        price_usd: Some(price),
        known_errors: Vec::new(),
        digest: None,
        events: 0,
        cdf: Vec::new(),
        intervals: Vec::new(),
    }
}

fn chosen(runs: &[CandidateRun], target_ms: u64) -> Verdict {
    Verdict::of(runs, Nanos::millis(target_ms), None)
}

#[test]
fn the_cheapest_that_meets_the_target_wins() {
    let runs = [run("disk", 90, 150.0), run("stripe", 15, 600.0), run("ssd", 1, 290.0)];
    let verdict = chosen(&runs, 20);
    assert_eq!((verdict.name.as_str(), verdict.met), ("ssd", true));
    assert!(verdict.reasons[0].contains("above the target of 20.0 ms by 70.0 ms"), "{:?}", verdict.reasons);
    assert!(verdict.reasons[1].contains("2.1 times as much as ssd"), "{:?}", verdict.reasons);
    assert_eq!(verdict.changes, ["A target of 90.0 ms or more would choose disk ($150)."]);
}

#[test]
fn an_unknown_price_is_not_compared() {
    let raw = CandidateRun { price_usd: None, ..run("raw", 1, 0.0) };
    let verdict = chosen(&[raw, run("disk", 2, 150.0)], 20);
    assert_eq!(verdict.name, "disk");
    assert!(verdict.reasons[0].contains("its price is not known to be below that of disk"), "{:?}", verdict.reasons);
}

#[test]
fn of_equally_cheap_ones_the_faster_wins() {
    let verdict = chosen(&[run("a", 9, 100.0), run("b", 8, 100.0)], 20);
    assert_eq!(verdict.name, "b");
    assert!(verdict.reasons[0].contains("costs the same as b"));
}

#[test]
fn what_is_saturated_or_fails_never_meets_a_target() {
    let mut runs = [run("full", 1, 10.0), run("broken", 1, 20.0), run("fine", 10, 300.0)];
    runs[0].saturated = Some("it fell behind".to_string());
    (runs[1].failed, runs[1].first_failure) = (3, Some("I/O error".to_string()));
    let verdict = chosen(&runs, 20);
    assert_eq!(verdict.name, "fine");
    assert!(verdict.reasons[0].contains("it fell behind") && verdict.reasons[1].contains("3 requests failed"));
}

#[test]
fn if_none_meets_the_target_the_nearest_that_keeps_up_wins() {
    let mut runs = [run("full", 30, 10.0), run("slow", 90, 20.0), run("nearest", 40, 300.0)];
    runs[0].saturated = Some("it fell behind".to_string());
    let verdict = chosen(&runs, 20);
    assert_eq!((verdict.name.as_str(), verdict.met), ("nearest", false));
    assert!(verdict.headline.contains("no candidate has a p99 of at most 20.0 ms"));
    runs.iter_mut().for_each(|run| run.saturated = Some("it fell behind".to_string()));
    assert_eq!(chosen(&runs, 20).name, "full");
}

#[test]
fn an_unknown_price_counts_as_the_highest() {
    let mut runs = [run("unknown", 1, 0.0), run("known", 10, 900.0)];
    runs[0].price_usd = None;
    assert_eq!(chosen(&runs, 20).name, "known");
}

#[test]
fn changes_tell_the_thresholds_on_both_sides() {
    let runs = [run("slow", 90, 10.0), run("middle", 15, 20.0), run("fast", 1, 30.0)];
    let verdict = chosen(&runs, 20);
    assert_eq!(verdict.name, "middle");
    assert_eq!(
        verdict.changes,
        ["A target of 90.0 ms or more would choose slow ($10).", "A target below 15.0 ms would choose fast ($30)."]
    );
    assert_eq!(chosen(&runs[2..], 20).changes, ["No target would change the choice."]);
}

#[test]
fn a_verdict_at_another_load_says_at_which_and_how_much_more_is_borne() {
    let headroom = Headroom { factor: 3.25, missed: Some(3.5), requests: None };
    let run = CandidateRun { headroom: Some(headroom), ..run("a", 5, 100.0) };
    let verdict = Verdict::of(&[run], Nanos::millis(10), Some("at 3.69 times the recorded load"));
    for words in ["at 3.69 times the recorded load", "bears 3.2 times this load"] {
        assert!(verdict.headline.contains(words), "{}", verdict.headline);
    }
    assert!(
        verdict.reasons[0].contains("bears 3.2 times") && !verdict.reasons[0].contains("flushes"),
        "{:?}",
        verdict.reasons
    );
}
