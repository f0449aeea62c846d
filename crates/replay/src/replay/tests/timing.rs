//! Speeds, and times in reports.

use super::*;
use crate::report::html::page;
use crate::report::text::text;

#[test]
fn times_of_a_report_sum_up() {
    let program = busy(4, 4000, 6);
    let (_, report) = play_as(&program, ROOT(), Speed::Afap);
    let in_calls: u64 = report.threads.iter().map(|thread| thread.busy_ns).sum();
    assert_eq!(report.categories.iter().map(|category| category.time_ns).sum::<u64>(), in_calls);
    assert_eq!(report.calls.iter().map(|call| call.count).sum::<u64>(), program.len() as u64);
    for thread in &report.threads {
        let all = thread.busy_ns + thread.waiting_ns + thread.delay_ns + thread.idle_ns;
        assert!(all.abs_diff(report.elapsed_ns) <= report.elapsed_ns / 100, "{thread:?} of {}", report.elapsed_ns);
    }
    assert!(report.outstanding_mean > 0.0 && report.outstanding_mean <= 4.0);
    assert!(report.resident_bytes > 0);
}

#[test]
fn computation_is_slept_and_nothing_is_early() {
    let program = thinking();
    let (finished, report) = play_as(&program, ROOT(), Speed::Scaled(1.0));
    assert!(report.elapsed_ns >= 59_900_000, "{}", report.elapsed_ns);
    assert!(report.threads.iter().map(|thread| thread.delay_ns).sum::<u64>() > 50_000_000);
    let mut issues: Vec<u64> =
        finished.played.iter().flat_map(|played| &played.stamps).map(|stamp| stamp.issue_ns).collect();
    issues.sort_unstable();
    for (at, issue) in issues.iter().skip(2).enumerate() {
        assert!(*issue >= 3_000_000 * (at as u64 + 1) - 100_000, "call {at} at {issue}");
    }
}

#[test]
fn one_thread_computes_while_another_one_waits_and_does_not_wait_again() {
    let mut draft = Draft::of(2);
    draft.file("/f", 10);
    let stat = || Call::Stat { file: Object::Path { at: At::cwd("/f"), follow: true }, seen: None };
    draft.call(0, stat(), Outcome::Done(0));
    draft.call_from(0, 2000, 61_000_000, Call::Poll { fds: Vec::new(), timeout_ms: -1 }, Outcome::Done(1));
    for call in 1..=20u64 {
        draft.call_from(1, 3_000_000 * call, 3_000_000 * call + 1000, stat(), Outcome::Done(0));
    }
    let (finished, report) = play_as(&draft.program(), Order::Single, Speed::Scaled(1.0));
    let last = finished.played[0].stamps[20];
    assert!(last.called && last.issue_ns >= 59_900_000, "{last:?}: what was computed beside the wait was slept");
    assert!(report.elapsed_ns < 100_000_000, "what was waited for is not slept again: {}", report.elapsed_ns);
}

/// A finished replay, as if on ext4.
fn on_ext4(rules: Rules, speed: Speed) -> Report {
    let (_, mut report) = play_as(&thinking(), Order::Root(rules), speed);
    report.target.file_system = "ext4".to_string();
    report.with_prediction()
}

#[test]
fn a_replay_at_natural_speed_predicts_with_a_stated_error() {
    let report = on_ext4(Rules::default() | Rules::THREAD_STAGE, Speed::Scaled(1.0));
    let prediction = report.prediction.clone().expect("it is one");
    let worst = prediction.known_errors.iter().filter_map(|known| known.worst).fold(0.0, f64::max);
    assert_eq!((prediction.elapsed_ns, prediction.error), (report.elapsed_ns, Some(worst)));
    assert_eq!(prediction.holds(report.elapsed_ns), Some(true));
    let known = prediction.known_errors[0].text();
    let (text, page) = (text(&report), page(&report, "test").unwrap());
    let json = serde_json::to_string(&report).unwrap();
    for told in [&text, &page] {
        assert!(told.contains("\nprediction   ") && told.contains("known error: "), "{told}");
    }
    assert!(text.contains(&known), "{text}");
    assert_eq!(Report::from_json(&json).unwrap().prediction, Some(prediction));
}

#[test]
fn what_predicts_nothing_or_was_never_measured_says_so() {
    let unmeasured = on_ext4(Rules::default(), Speed::Scaled(1.0));
    assert_eq!(unmeasured.prediction.as_ref().map(|prediction| prediction.error), Some(None));
    assert!(
        text(&unmeasured).contains(
            "none was measured but in mode root with thread_stage and file_rw and fd_rw, root with thread_stage and file_seq and \
             fd_seq, single, temporal on btrfs, ext3, ext4, xfs"
        ),
        "{}",
        text(&unmeasured)
    );
    let hasty = on_ext4(Rules::default() | Rules::THREAD_STAGE, Speed::Afap);
    assert!(hasty.prediction.is_none() && text(&hasty).contains("prediction   none: computation was not slept"));
    let mut failing = on_ext4(Rules::default() | Rules::THREAD_STAGE, Speed::Scaled(1.0));
    failing.mismatches.count = failing.mismatches.compared;
    let failing = failing.with_prediction();
    assert!(failing.prediction.is_none() && text(&failing).contains("prediction   none: it was stopped, or more"));
}
