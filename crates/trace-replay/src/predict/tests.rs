use esker_base::Nanos;
use esker_rt::real::RealConfig;
use esker_trace_calls::generate::{Shape, apple_desktop};
use esker_trace_calls::{Entry, Platform};
use esker_trace_order::model::compile;

use super::*;
use crate::kernel::{ExchangeBy, FsyncMeans, KernelOptions};
use crate::testing::FULL_INIT;

fn options() -> PredictOptions {
    let (fsync, exchange) = (FsyncMeans::Durable, ExchangeBy::Rename);
    let kernel = KernelOptions { fsync, exchange, platform: Platform::Linux, keep_modes: false, seed: 1 };
    let replay = ReplayOptions { kernel, patience: Nanos(20_000_000_000) };
    PredictOptions { init: FULL_INIT, replay, prepared: false, own: Vec::new(), repeat: 1 }
}

fn predicted(dir: &Path, options: &PredictOptions) -> Result<Report, RunError> {
    let mut trace = apple_desktop(Shape::tiny(1));
    trace.snapshot.entries.insert(PathBytes::from("/usr/lib/x"), Entry::plain(EntryKind::File { size: 3 << 20 }));
    let job = ReplayInput { name: "job".to_string(), program: compile(trace, &mut |_| {}).unwrap() };
    let reactor = Reactor::new(RealConfig::seeded(1)).unwrap();
    Ok(predict(vec![job], dir, options, &reactor, &mut |_| {})?.remove(0))
}

#[test]
fn files_outside_of_the_systems_directories_are_the_programs_own_unless_others_are_named() {
    let is_own = |own: &[&str], path: &str| {
        let own = own.iter().map(|dir| PathBytes::from(*dir)).collect();
        PredictOptions { own, ..options() }.is_own(&PathBytes::from(path))
    };
    let paths = ["/usr/lib/x", "/etc/x", "/user/x", "/home/a/db", "/home/ab"];
    assert_eq!(paths.map(|path| is_own(&[], path)), [false, false, true, true, true]);
    assert_eq!(paths.map(|path| is_own(&["/usr", "/home/a"], path)), [true, false, false, true, false]);
}

#[test]
fn a_prediction_replays_by_the_rules_that_predict_best_at_natural_speed() {
    let dir = crate::testing::private_dir();
    let report = predicted(dir.path(), &PredictOptions { repeat: 2, ..options() }).unwrap();
    assert_eq!((report.how.mode.as_str(), report.how.speed.as_str()), ("root", "natural"));
    let has = |rule: &str| report.how.rules.split(' ').any(|one| one == rule);
    assert_eq!(["thread_stage", "file_rw", "fd_rw", "file_seq", "fd_seq"].map(has), [true, true, true, false, false]);
    assert_eq!((report.repeats_ns.len(), report.mismatches.count), (2, 0));
    assert_eq!(report.prediction.map(|prediction| prediction.elapsed_ns), Some(report.elapsed_ns));
}

#[test]
fn a_tree_that_is_prepared_is_not_made() {
    let dir = crate::testing::private_dir();
    let prepared = PredictOptions { prepared: true, ..options() };
    let absent = predicted(dir.path(), &prepared).map(|report| report.trace);
    assert!(absent.is_err_and(|error| error.to_string().contains("was not initialised")));
    let made = predicted(dir.path(), &options()).unwrap().init.unwrap();
    assert_eq!((made.mode.as_str(), made.bytes > 0), ("full", true));
    let twice = PredictOptions { repeat: 2, ..prepared };
    // The replay in the middle of two is the longer one, whichever tree it began with.
    let again = predicted(dir.path(), &twice).unwrap().init.unwrap();
    assert!(["none", "delta"].contains(&again.mode.as_str()), "{}", again.mode);
}
