//! What power cuts leave.

use esker_block::Kind;
use esker_testkit::power::{self, RECORDED};

static KINDS: &[&Kind] = &[&crate::KIND, &esker_layers::delay::KIND, &RECORDED];

fn check(layer: &str, log: &str, states_min: u64) {
    let text = format!(
        "h = recorded size=64KiB latency=7us; r = recorded size={log} latency=3us; \
         a = delay write=1us jitter=20us on r; vol = {layer} on h, a"
    );
    power::check_text(KINDS, &text, 1..=3, 11, states_min);
}

#[test]
fn an_off_loaded_volume_keeps_its_promises_in_every_crash_state() {
    // Writes of the log overtake each other. Home never needed; home taking in what is there all the time; a log that
    // wraps around and is full most of the time.
    check("offload idle_after=0s", "512KiB", 1000);
    check("offload idle_after=1h", "512KiB", 1000);
    check("offload idle_after=40us", "64KiB", 2000);
    check("offload idle_after=0s high_watermark=0.3", "48KiB", 2000);
    check("offload idle_after=0s high_watermark=1", "40KiB", 2000);
}
