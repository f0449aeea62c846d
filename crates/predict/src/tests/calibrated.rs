//! Predictions with measured costs, and runs in real time.

use super::*;
use crate::calibration::times::GROUPS;
use crate::calibration::{Calibration, DeviceTimes, KindCost, OpName, Times, VERSION, WRITTEN_BY};
use crate::{CalibrationError, Load};

/// Reads take 1000 ns alone and twice that between two, on the CPU or beside it; a `pass` takes 10 ns and 2 per KiB.
fn calibration(kind: &str, on_cpu: bool) -> Calibration {
    let times = |depth: u32, ns: f64| Times {
        op: OpName::Read,
        len: 4096,
        depth,
        mixed: false,
        requests: 1,
        client_ns: 100.0,
        mean_ns: ns,
        groups_ns: vec![ns; GROUPS.len()],
    };
    let times = vec![times(1, 1000.0), times(2, 2000.0)];
    Calibration {
        written_by: WRITTEN_BY.to_string(),
        version: VERSION,
        machine: "a test".to_string(),
        seed: 1,
        rounds: 1,
        wakes: Vec::new(),
        calls: Vec::new(),
        kinds: vec![KindCost { name: "pass".to_string(), ns: 10.0, ns_per_kib: 2.0, spread_ns: 0.0 }],
        skipped: Vec::new(),
        devices: vec![DeviceTimes { kind: kind.to_string(), path: None, size: 1 << 20, block: 512, on_cpu, times }],
    }
}

fn with(calibration: Calibration, depth: u32, stack: &str) -> ComparisonPlan {
    ComparisonPlan {
        load: Load::Closed { depth, think: Nanos::ZERO },
        calibration: Some(("c.toml".to_string(), calibration)),
        ..plan(vec![steady("steady", 200)], vec![candidate("one", stack)])
    }
}

#[test]
fn measured_costs_of_device_layers_and_client_add_up() {
    let of = |stack: &str| compared(with(calibration("memory", true), 1, stack)).runs.remove(0);
    let bare = of("vol = memory size=1MiB @");
    assert_eq!((bare.all.max_ns, bare.elapsed_ns), (1000, 200 * 1100));
    let layered = of("vol = memory size=1MiB | pass | pass @");
    assert_eq!((layered.all.max_ns, layered.elapsed_ns), (1036, 200 * 1136));
}

#[test]
fn answers_of_models_are_seen_late_and_those_of_measured_devices_are_not() {
    let late = |kind: &str, on_cpu| Calibration {
        wakes: vec![crate::calibration::Wake { span_ns: 1, late_ns: vec![500.0; GROUPS.len()] }],
        ..calibration(kind, on_cpu)
    };
    let of = |calibration, stack: &str| compared(with(calibration, 1, stack)).runs.remove(0).reads;
    let model = "vol = null size=1MiB latency=1us @";
    let (bare, seen) = (of(calibration("memory", true), model), of(late("memory", true), model));
    assert_eq!((bare.p50_ns, seen.p50_ns), (1010, 1510), "a null device takes 10 ns of CPU");
    assert_eq!(of(late("memory", true), "vol = memory size=1MiB @").p50_ns, 1000);
}

#[test]
fn a_file_is_predicted_with_its_times_and_refused_without() {
    let file = "vol = file path=nowhere.img size=1MiB | pass @";
    let run = compared(with(calibration("file", false), 1, file)).runs.remove(0);
    assert_eq!((run.all.max_ns, run.failed), (1018, 0));
    assert!(run.stack.contains("nowhere.img"), "the report shows the real stack");
    let between_two = compared(with(calibration("file", false), 2, file)).runs.remove(0);
    assert!(between_two.all.max_ns >= 2000 && between_two.all.max_ns < 2200, "{:?}", between_two.all);
    let refused = |plan: ComparisonPlan| plan.compare(&silent()).unwrap_err();
    let unmeasured = refused(with(calibration("memory", true), 1, file));
    assert!(matches!(unmeasured, PredictError::Calibration(CalibrationError::NotMeasured { .. })), "{unmeasured}");
    let sizeless = refused(with(calibration("file", false), 1, "vol = file path=nowhere.img @"));
    assert!(sizeless.to_string().contains("has no size"), "{sizeless}");
    let cached = refused(with(calibration("file", false), 1, "vol = file path=x size=1MiB direct=false @"));
    assert!(cached.to_string().contains("holds no times"), "only the same way of access was measured: {cached}");
}

#[test]
fn clients_that_turn_slowly_find_as_few_in_flight_as_when_they_were_measured() {
    let mut slow = calibration("file", false);
    slow.devices[0].times[1].client_ns = 1000.0;
    slow.devices[0].times[0].client_ns = 1000.0;
    let row =
        Times { depth: 16, mean_ns: 4000.0, groups_ns: vec![4000.0; GROUPS.len()], ..slow.devices[0].times[1].clone() };
    slow.devices[0].times.push(row);
    let run = compared(with(slow, 16, "vol = file path=nowhere.img size=1MiB @")).runs.remove(0);
    assert!(run.all.mean_ns.abs_diff(4000) < 60, "the row says 4000 for 16 such clients: {:?}", run.all);
}

#[test]
fn reads_and_writes_take_each_others_time_as_far_as_they_are_mixed() {
    let times = |op, mixed, ns: f64| Times {
        mixed,
        op,
        mean_ns: ns,
        groups_ns: vec![ns; GROUPS.len()],
        ..calibration("memory", true).devices[0].times[0].clone()
    };
    let mut mixed = calibration("memory", true);
    mixed.devices[0].times = vec![
        times(OpName::Read, false, 1000.0),
        times(OpName::Write, false, 1000.0),
        times(OpName::Read, true, 3000.0),
        times(OpName::Write, true, 5000.0),
    ];
    let of = |write_every: u64| {
        let op = |at: u64| if at % write_every == write_every - 1 { 'W' } else { 'R' };
        let records = trace("t", (0..4000).map(|at| (at, at % 256 * 8, 8, op(at))));
        let plan = ComparisonPlan { traces: vec![records], ..with(mixed.clone(), 1, "vol = memory size=1MiB @") };
        compared(plan).runs.remove(0)
    };
    let near = |ns: u64, told: f64| assert!((ns as f64 / told - 1.0).abs() < 0.03, "{ns} instead of {told}");
    let (halves, quarter, pure) = (of(2), of(4), of(5000));
    assert_eq!(pure.all.max_ns, 1000);
    near(halves.reads.mean_ns, 3000.0);
    near(halves.writes.mean_ns, 5000.0);
    near(quarter.reads.mean_ns, 2000.0);
    near(quarter.writes.mean_ns, 5000.0);
}

#[test]
fn a_calibrated_prediction_is_the_same_twice_and_says_what_it_rests_on() {
    let stack = "a = memory size=4MiB; b = memory size=4MiB; s = stripe on a,b; t = stats on s; export vol = t";
    let make = || ComparisonPlan { verify: true, ..with(calibration("memory", true), 4, stack) };
    let comparison = compared(make());
    assert_eq!(comparison.to_json(), compared(make()).to_json());
    assert!(text(&comparison).contains("c.toml, measured on a test"));
    assert!(text(&comparison).contains("memory: "), "the error known for the class is told");
}

#[test]
fn the_same_plan_runs_in_real_time_on_carried_bytes_and_paced_models() {
    let model = "vol = ssd-model size=8MiB read=1ms @";
    for stack in ["vol = memory size=8MiB | stats @", model] {
        let load = Load::Closed { depth: 2, think: Nanos::ZERO };
        let making = Making { wraps: true, fill: 0.0 };
        let plan = ComparisonPlan { load, making, ..plan(vec![busy("t", 40)], vec![candidate("real", stack)]) };
        let prepared = plan.prepare(&silent()).unwrap();
        let run = prepared.run_realtime(0, &silent()).unwrap();
        assert_eq!((run.all.requests, run.failed, run.digest.as_deref()), (40, 0, None), "{stack}");
        assert!(stack != model || run.reads.p50_ns >= 1_000_000, "a paced model is never early: {:?}", run.reads);
    }
}
