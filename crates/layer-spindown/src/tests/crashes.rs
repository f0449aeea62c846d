//! What power cuts leave.

use esker_block::Kind;
use esker_testkit::power::{self, RECORDED};

static KINDS: &[&Kind] = &[&crate::KIND, &esker_layers::delay::KIND, &RECORDED];

fn check(args: &str, fast: &str, states_min: u64) {
    let text = format!(
        "h = recorded size=64KiB latency=7us; r = recorded size={fast} latency=3us; \
         a = delay write=1us jitter=20us on r; vol = spindown {args} on h, a"
    );
    power::check_text(KINDS, &text, 1..=3, 11, states_min);
}

/// Windows all the time, by misses and by pressure; few slots, which are used again.
#[test]
fn item_25_a_resting_volume_keeps_its_promises_in_every_crash_state() {
    check("", "224KiB", 1000);
    check("idle_after=100us pressure=0.2", "224KiB", 1000);
    check("idle_after=40us pressure=0", "172KiB", 1000);
    check("idle_after=200us pressure=0.5", "172KiB", 1000);
}
