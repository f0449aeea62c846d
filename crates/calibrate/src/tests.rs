use super::*;

fn options(only_devices: bool) -> Options {
    Options { machine: "test".to_string(), seed: 1, file: None, raw: Vec::new(), only_devices, taken_away: || 0 }
}

#[test]
fn quantiles_are_linear_between_values() {
    let values = || [4.0, 1.0, 3.0, 2.0].into_iter();
    assert_eq!((quantile(values(), 0.0), median(values()), quantile(values(), 1.0)), (1.0, 2.5, 4.0));
    assert_eq!(median(std::iter::empty()), 0.0);
}

#[test]
fn a_sample_is_taken_again_while_others_took_the_cpu_and_the_least_disturbed_one_counts() {
    use std::cell::Cell;
    let taken = Cell::new(0);
    let kept_of = |growths: &[u64]| {
        let mut at = 0;
        let kept = undisturbed(
            TRIES,
            || taken.get(),
            || {
                taken.set(taken.get() + growths[at]);
                at += 1;
                Ok::<_, ()>(at)
            },
        );
        (kept.unwrap(), at)
    };
    assert_eq!(kept_of(&[0]), (1, 1));
    assert_eq!(kept_of(&[3, 1, 0]), (3, 3));
    assert_eq!(kept_of(&[5, 2, 4, 2, 3, 9]), (2, 6));
}

#[test]
fn every_layer_is_measured_or_its_reason_told() {
    let (measured, skipped) = layers::all();
    let mut names: Vec<&str> = measured.iter().map(|layer| layer.name() as &str).collect();
    names.extend(skipped.iter().map(|kind| kind.name.as_str()));
    names.sort_unstable();
    let is_layer = |kind: &&&esker_block::Kind| matches!(kind.build, esker_block::Build::Layer(_));
    let mut all: Vec<&str> = esker_kinds::ALL.iter().filter(is_layer).map(|kind| kind.name).collect();
    all.sort_unstable();
    assert_eq!(names, all);
    assert!(measured.iter().any(|layer| layer.name() == "pass"));
    assert!(skipped.iter().all(|kind| !kind.why.is_empty()));
}

#[test]
fn a_round_measures_devices_in_an_order_that_holds_on_any_machine() {
    let mut calibrator = Calibrator::new(options(true));
    let mut steps = Vec::new();
    calibrator.round(&mut |step| steps.push(step.to_string())).unwrap();
    assert_eq!(steps.len(), calibrator.steps());
    steps.dedup();
    assert_eq!(steps, ["null", "memory", "wakes", "calls"]);
    let calibration = calibrator.finish();
    assert_eq!((calibration.rounds, calibration.kinds.len(), calibration.devices.len()), (1, 0, 4));
    for device in &calibration.devices {
        assert!(device.times.iter().all(|times| times.mean_ns > 0.0 && times.requests > 0), "{device:?}");
    }
    let memory = calibration.device("memory", 1 << 20).unwrap();
    let mean = |len| {
        memory.times.iter().find(|t| t.len == len && t.op == esker_predict::calibration::OpName::Read).unwrap().mean_ns
    };
    assert!(mean(65_536) > mean(4096), "more bytes take longer");
    let text = calibration.to_toml();
    assert_eq!(Calibration::parse("test", &text).unwrap(), calibration);
}

#[test]
fn every_class_of_calls_has_a_cost_that_a_replay_knows() {
    use esker_trace_replay::files::costs::CostClass;
    let mut calibrator = Calibrator::new(options(true));
    calibrator.round_of(Part::Calls, &mut |_| {}).unwrap();
    let calls = calibrator.finish().calls;
    let names: Vec<&str> = calls.iter().map(|call| call.name.as_str()).collect();
    assert_eq!(names, CostClass::ALL.map(CostClass::name));
    assert!(calls.iter().all(|call| call.file_system == "ram" && call.ns.is_finite() && call.ns_per_kib >= 0.0));
    let of = |name: &str| calls.iter().find(|call| call.name == name).unwrap();
    assert!(of("stat").ns > 0.0 && of("write").ns_per_kib > 0.0);
}
