//! What power cuts leave.

use esker_block::Kind;
use esker_testkit::power::{self, RECORDED};

static KINDS: &[&Kind] = &[&crate::KIND, &esker_layers::delay::KIND, &RECORDED];

fn check(args: &str, area: &str, states_min: u64) {
    let text = format!(
        "h = recorded size=64KiB latency=7us; r = recorded size={area} latency=3us; \
         a = delay write=1us jitter=20us on r; vol = reorg {args} on h, a"
    );
    power::check_text(KINDS, &text, 1..=3, 11, states_min);
}

#[test]
fn a_reorganised_volume_keeps_its_promises_in_every_crash_state() {
    check("", "224KiB", 1000);
    check("write_buffer=0.9", "224KiB", 1000);
    check("write_buffer=0.5", "172KiB", 1000);
}
