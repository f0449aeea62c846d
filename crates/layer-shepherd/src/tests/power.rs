//! What power cuts leave.

use std::rc::Rc;

use esker_block::conformance::Options;
use esker_block::{Device, Env, Kind};
use esker_rt::Rt;
use esker_testkit::power::{self, RECORDED};
use esker_testkit::{Bound, bench};

static KINDS: &[&Kind] = &[&crate::KIND, &esker_layers::error::KIND, &RECORDED];

fn open(rt: &Rt, text: &str, env: &Env) -> Rc<dyn Device> {
    Rc::new(bench::open_with(rt, KINDS, text, env))
}

/// Every so many writes fail, so that blocks are moved all the time.
fn check(every: u64, states_min: u64) {
    let text = format!(
        "a = recorded size=1MiB latency=3us; e = error ops=write,zero every={every} len=640KiB on a; \
         vol = shepherd retries=0 spares=1024 on e"
    );
    let mut states = 0;
    for seed in 1..=3 {
        let bound = Bound { states_max: 10, seed };
        let count = power::check(|rt, env| open(rt, &text, env), Options::power_cuts(seed), bound);
        states += count.unwrap_or_else(|broken| panic!("{text}: {broken}")).states;
    }
    println!("{states} states: every {every}");
    assert!(states >= states_min, "every {every}: only {states} states");
}

#[test]
fn a_shepherded_device_keeps_its_promises_in_every_crash_state() {
    check(2, 1000);
    check(5, 1000);
}
