//! A block device that was measured: reading leaves it as it was, and what was not measured is not predicted.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use esker_base::Nanos;
use esker_base::units::{KIB, MIB};
use esker_calibrate::{Calibrator, Options, Part, RawDevice};
use esker_predict::{Calibration, Candidate, CandidateRun, ComparisonPlan, Load, PredictError, Trace, Watch};
use esker_stack::Spec;
use esker_sys::loop_device::{self, LoopSetup};
use esker_trace_block::{Op, Record};

const SIZE: u64 = 8 * MIB;

/// A loop device over a file of ones; released when dropped.
struct Loop {
    dir: tempfile::TempDir,
    device: PathBuf,
}

impl Loop {
    fn new() -> Option<Loop> {
        let dir = tempfile::tempdir().expect("a folder can be made");
        let file = dir.path().join("medium");
        fs::write(&file, vec![1; SIZE as usize]).expect("the folder takes 8 MiB");
        match loop_device::configure(&file, LoopSetup { block: 512, read_only: false, partitions: false }) {
            Ok(device) => Some(Loop { dir, device }),
            Err(error) => {
                esker_testkit::skip(esker_testkit::Ability::Attach, format_args!("no loop device: {error}"));
                None
            }
        }
    }

    fn is_untouched(&self) -> bool {
        File::open(&self.device).and_then(|device| device.sync_all()).expect("it is there");
        fs::read(self.dir.path().join("medium")).expect("it is there").iter().all(|byte| *byte == 1)
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        // Gone already is fine.
        let _gone = loop_device::clear(&self.device);
    }
}

fn measured(device: &Path, overwrite: bool) -> Calibration {
    let raw = vec![RawDevice { path: device.display().to_string(), overwrite }];
    let options =
        Options { machine: "test".to_string(), seed: 1, file: None, raw, only_devices: true, taken_away: || 0 };
    let mut calibrator = Calibrator::new(options);
    calibrator.round_of(Part::Waiting, &mut |_| {}).expect("the device can be measured");
    let mut calibration = calibrator.finish();
    calibration.devices.retain(|device| device.kind == "raw");
    calibration
}

/// Reads and writes in turn, on a stack that names the device.
fn predicted(device: &Path, calibration: Calibration) -> Result<CandidateRun, PredictError> {
    let op = |at| if at % 2 == 0 { Op::Read } else { Op::Write };
    let record = |at| Record { at: Nanos(at), volume: 0, op: op(at), offset: at * 4 * KIB, len: 4 * KIB, who: 0 };
    let text = format!("vol = raw path={} | stats @", device.display());
    let spec = Spec::parse("raw", &text).expect("the test's own text");
    let plan = ComparisonPlan {
        candidates: vec![Candidate::of("raw", "", spec)],
        load: Load::Closed { depth: 1, think: Nanos::ZERO },
        calibration: Some(("test".to_string(), calibration)),
        ..ComparisonPlan::of(vec![Trace::from_records("half", (0..400).map(record).collect())])
    };
    let silent: Watch = std::sync::Arc::new(|_| {});
    Ok(plan.compare(&silent)?.runs.remove(0))
}

#[test]
fn a_block_device_is_only_read_unless_it_may_be_overwritten() {
    let Some(medium) = Loop::new() else { return };
    let read = measured(&medium.device, false);
    assert!(medium.is_untouched(), "measuring reads wrote");
    assert_eq!((read.devices[0].size, read.devices[0].times.len()), (SIZE, 12));
    let run = predicted(&medium.device, read.clone()).expect("the device was measured");
    assert_eq!((run.reads.requests, run.fitted.unsupported), (200, 200), "nothing is known of its writes");
    assert!(run.reads.p50_ns > 0);
    assert_eq!(Calibration::parse("read", &read.to_toml()).expect("it reads back"), read);

    let written = measured(&medium.device, true);
    assert!(!medium.is_untouched(), "writes were measured without writing");
    let run = predicted(&medium.device, written).expect("the device was measured");
    assert_eq!((run.reads.requests, run.writes.requests, run.fitted.unsupported), (200, 200, 0));
}

#[test]
fn another_device_is_not_predicted_with_the_times_of_the_measured_one() {
    let Some(medium) = Loop::new() else { return };
    let mut calibration = measured(&medium.device, false);
    calibration.devices[0].path = Some("/dev/another".to_string());
    let refused = predicted(&medium.device, calibration).unwrap_err().to_string();
    assert!(refused.contains("holds no times for it") && refused.contains("--device"), "{refused}");
}
