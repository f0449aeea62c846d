//! Speeds, and times in reports.

use super::*;

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
