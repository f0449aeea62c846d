//! What power cuts leave.

use esker_block::Kind;
use esker_testkit::power::{self, RECORDED};

static KINDS: &[&Kind] = &[&crate::KIND, &esker_layers::delay::KIND, &RECORDED];

fn check(layer: &str, fast: &str, states_min: u64) {
    let text = format!(
        "h = recorded size=64KiB latency=7us; r = recorded size={fast} latency=3us; \
         a = delay write=1us jitter=20us on r; vol = {layer} on h, a"
    );
    power::check_text(KINDS, &text, 1..=3, 11, states_min);
}

#[test]
fn a_cached_volume_keeps_its_promises_in_every_crash_state() {
    for mode in super::MODES {
        check(&format!("cache mode={mode} line=4KiB bypass=0"), "224KiB", 1000);
        check(&format!("cache mode={mode} line=16KiB bypass=0"), "256KiB", 1000);
    }
    // Always writing back; few slots; each answer durable; streams that pass by.
    check("cache line=4KiB dirty=0 clean_share=1 bypass=0", "224KiB", 1000);
    check("cache line=8KiB dirty=0 fill=before policy=lru", "216KiB", 1000);
    check("cache line=4KiB strict=true", "224KiB", 1000);
    check("cache line=4KiB bypass=4KiB", "224KiB", 1000);
}

/// Few slots for many lines: copies are given up all the time, and slots are used again.
#[test]
fn slots_that_are_used_again_lose_nothing_in_any_crash_state() {
    for mode in super::MODES {
        check(&format!("cache mode={mode} line=4KiB bypass=0 dirty=0.2 clean_share=1"), "172KiB", 1000);
        check(&format!("cache mode={mode} line=8KiB bypass=0 dirty=0.2 clean_share=1"), "188KiB", 1000);
    }
}
