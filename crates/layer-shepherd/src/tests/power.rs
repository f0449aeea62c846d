//! What power cuts leave.

use esker_block::Kind;
use esker_testkit::power::{self, RECORDED};

static KINDS: &[&Kind] = &[&crate::KIND, &esker_layers::error::KIND, &RECORDED];

/// Every so many writes fail, so that blocks are moved all the time.
fn check(every: u64, states_min: u64) {
    let text = format!(
        "a = recorded size=1MiB latency=3us; e = error ops=write,zero every={every} len=640KiB on a; \
         vol = shepherd retries=0 spares=1024 on e"
    );
    power::check_text(KINDS, &text, 1..=3, 10, states_min);
}

#[test]
fn a_shepherded_device_keeps_its_promises_in_every_crash_state() {
    check(2, 1000);
    check(5, 1000);
}
