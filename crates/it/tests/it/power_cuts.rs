//! Every layer keeps what it promises in every state that a power cut can leave below it.

use std::rc::Rc;
use std::sync::LazyLock;

use esker_block::conformance::Options;
use esker_block::{Device, Env, Kind};
use esker_rt::Rt;
use esker_rt::mem::Pool;
use esker_stack::{Spec, Stack};
use esker_testkit::power::{self, Broken, RECORDED};
use esker_testkit::{Bound, Count};

use crate::conformance::{SAMPLES, give_key, is_real_only};

static KINDS: LazyLock<Vec<&'static Kind>> =
    LazyLock::new(|| esker_kinds::ALL.iter().copied().chain([&RECORDED]).collect());

/// Builds `v` of a stack text with recorded media in the place of memory.
fn open(rt: &Rt, text: &str, env: &Env) -> Rc<dyn Device> {
    give_key(rt);
    let mut spec = Spec::parse("sample", text).unwrap_or_else(|e| panic!("{text}: {e}"));
    for device in spec.devices.iter_mut().filter(|device| ["memory", RECORDED.name].contains(&device.kind.as_str())) {
        device.kind = RECORDED.name.into();
        device.args.remove("defer");
    }
    let stack =
        Stack::build_with(rt, &Pool::default(), &KINDS, &spec, env.clone()).unwrap_or_else(|e| panic!("{text}: {e}"));
    Rc::new(stack.device("v").expect("the text names it"))
}

/// Runs of each stack.
const SEEDS: u64 = 4;

fn cut(text: &str, seed: u64) -> Result<Count, Broken> {
    let bound = Bound { states_max: 10, seed };
    power::check(|rt, env| open(rt, text, env), Options::power_cuts(seed), bound)
}

/// Cuts the power of a stack at every event of several runs.
fn check(text: &str, runs: u64, states_min: u64) {
    let mut states = 0;
    for seed in 1..=runs {
        let count = cut(text, seed).unwrap_or_else(|broken| panic!("{text}: {broken}"));
        assert!(count.points > 60, "{text}: {count:?}");
        states += count.states;
    }
    println!("{states} states: {text}");
    assert!(states >= states_min, "only {states} states: {text}");
}

#[test]
fn every_layer_keeps_its_promises_in_every_crash_state() {
    let stands_on_memory = |text: &str| text.contains("= memory");
    let samples = SAMPLES.iter().filter(|sample| stands_on_memory(sample.stack) && !is_real_only(sample));
    let mut names = Vec::new();
    for sample in samples {
        check(sample.stack, 3, 2000);
        names.push(sample.kind);
    }
    let data_moving = ["offset", "concat", "stripe", "align", "emulate", "delay", "rate"];
    assert!(data_moving.iter().all(|kind| names.contains(kind)), "{names:?}");
}

#[test]
fn align_keeps_neighbours_and_forced_writes_in_every_crash_state() {
    check("v = memory size=64KiB block=4096 latency=5us | align", 3, 1000);
}

/// The page of `emulate`: a range vector is durable when it is answered and not atomic; a moved source goes only after
/// its copy is durable; all else is as below.
#[test]
fn emulate_keeps_what_its_page_says_in_every_crash_state() {
    check("v = recorded size=64KiB latency=5us | emulate staging=2048 width=3 ranges=4", SEEDS, 5000);
    check("v = recorded size=64KiB latency=5us zero=false | emulate staging=1024 width=2", SEEDS, 5000);
}

#[test]
fn a_stack_of_all_data_moving_layers_keeps_its_promises_in_every_crash_state() {
    let text = "a = memory size=64KiB block=4096 latency=3us; b = memory size=64KiB block=4096 latency=7us; \
        c = memory size=32KiB block=4096; s = stripe chunk=4096 on a, b; v = concat on s, c | align \
        | emulate staging=4096 width=2 | offset start=512 | delay write=1us jitter=5us | rate iops=10000000 | stats";
    check(text, SEEDS, 5000);
}
