//! Speeds, and times in reports.

use super::*;
use crate::report::compare::{Named, compare};
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
        assert!(thread.last_ns - thread.first_ns >= thread.busy_ns, "{thread:?}");
    }
    let first = report.threads.iter().map(|thread| thread.first_ns).min().expect("there are threads");
    let last = report.threads.iter().map(|thread| thread.last_ns).max().expect("there are threads");
    assert_eq!(last - first, report.elapsed_ns);
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
    let (text, page) = (text(&report), page(std::slice::from_ref(&report), "test").unwrap());
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

/// A program that thinks, and does more than a trace shows.
fn hiding(more: impl FnOnce(&mut Draft)) -> Report {
    let mut draft = Draft::of(1);
    draft.file("/f", 1 << 20);
    draft.open(0, "/f", RW, 3);
    more(&mut draft);
    let (_, mut report) =
        play_as(&draft.program(), Order::Root(Rules::default() | Rules::THREAD_STAGE), Speed::Scaled(1.0));
    report.target.file_system = "ext4".to_string();
    report.with_prediction()
}

fn map(draft: &mut Draft, flags: MapFlags) {
    let call = Call::Map { fd: Fd(3), address: 0, len: 1 << 18, offset: 0, flags };
    draft.call(0, call, Outcome::Done(0x10_0000));
}

const SHARED: MapFlags = MapFlags::PROT_READ.union(MapFlags::PROT_WRITE).union(MapFlags::MAP_SHARED);

#[test]
fn a_replay_that_leaves_io_out_predicts_nothing_and_says_what() {
    let ring = |draft: &mut Draft| {
        draft.call(0, Call::ring(false), Outcome::Done(4));
        draft.call(0, Call::UringEnter { ring: Fd(4), submit: 2, wait: 2 }, Outcome::Done(2));
    };
    let polled = |draft: &mut Draft| draft.call(0, Call::ring(true), Outcome::Done(4));
    let written = |draft: &mut Draft| {
        map(draft, SHARED);
        let flags = MapSyncFlags::MS_SYNC;
        draft.call(0, Call::MapSync { address: 0x10_0000, len: 4096, flags }, Outcome::Done(0));
    };
    let cases = [
        (hiding(ring), "2 io_uring submissions were not played"),
        (hiding(polled), "requests of 1 io_uring that the kernel polls (IORING_SETUP_SQPOLL) were not seen"),
        (hiding(written), "writes through 1 shared map of files were not played"),
    ];
    for (report, why) in cases {
        assert_eq!((&report.prediction, report.no_prediction.as_deref()), (&None, Some(why)));
        assert_eq!(report.mismatches.count, 0);
        let line = format!("prediction   none: {why}");
        assert!(
            text(&report).contains(&line) && page(std::slice::from_ref(&report), "test").unwrap().contains(&line),
            "{}",
            text(&report)
        );
        let json: serde_json::Value = serde_json::to_value(&report).unwrap();
        assert!(json["prediction"].is_null() && json["no_prediction"] == why && !json["left_out"].is_null());
    }
}

#[test]
fn rings_without_requests_and_maps_that_are_only_read_predict_as_before() {
    let unused = hiding(|draft| draft.call(0, Call::ring(false), Outcome::Done(4)));
    assert!(unused.prediction.is_some() && !text(&unused).contains("warning: "), "{}", text(&unused));
    let read = hiding(|draft| map(draft, MapFlags::PROT_READ | MapFlags::MAP_PRIVATE));
    assert!(read.prediction.is_some(), "{:?}", read.no_prediction);
    let warning = "warning: reads through 1 map of files were not recorded and not played";
    assert!(text(&read).contains(warning), "{}", text(&read));
}

#[test]
fn a_comparison_has_no_relative_time_where_io_was_left_out() {
    let named = |name: &str, report: Report| Named { name: name.to_string(), report };
    let whole = || hiding(|draft| draft.call(0, Call::ring(false), Outcome::Done(4)));
    let reports = [named("a.json", hiding(|draft| map(draft, SHARED))), named("b.json", whole())];
    let compared = compare(&reports).unwrap();
    assert_eq!(compared.targets.iter().map(|row| row.relative).collect::<Vec<_>>(), [None, None]);
    let line = "a.json: prediction none: writes through 1 shared map of files were not played";
    let (told, page) = (compared.text(), compared.page(&reports, "test").unwrap());
    assert!(told.contains("I/O not played") && told.contains("no prediction") && told.contains(line), "{told}");
    assert!(page.contains(line), "{page}");
    let json = serde_json::to_value(&compared).unwrap();
    assert_eq!(json["targets"][0]["no_relative"], "I/O not played");
    let whole = [named("a.json", whole()), named("b.json", whole())];
    let compared = compare(&whole).unwrap();
    assert!(compared.targets.iter().all(|row| row.relative.is_some()) && !compared.text().contains("none: "));
}

#[test]
fn a_browser_shows_replays_and_their_comparison_wide_and_narrow_light_and_dark() {
    let other = || play_as(&busy(4, 4000, 6), ROOT(), Speed::Afap).1;
    let [first, second] = [on_ext4(Rules::default(), Speed::Afap), on_ext4(Rules::default(), Speed::Scaled(1.0))];
    esker_testkit::browser::check("replay", &page(&[first.clone(), second.clone()], "test").unwrap());
    esker_testkit::browser::check("replay-of-threads", &page(&[other()], "test").unwrap());
    let named = |name: &str, report: Report| Named { name: name.to_string(), report };
    let reports = [named("afap.json", first), named("a/folder/with/a/long/name/natural.json", second)];
    let shown = compare(&reports).unwrap().page(&reports, "test").unwrap();
    for text in ["stat", "thread time in ms", "elapsed time in ms", "natural.json"] {
        assert!(shown.contains(text), "{text} is missing in {shown}");
    }
    esker_testkit::browser::check("compare", &shown);
    let threads = [named("one.json", other()), named("two.json", other())];
    esker_testkit::browser::check("compare-threads", &compare(&threads).unwrap().page(&threads, "test").unwrap());
}
