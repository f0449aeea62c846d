//! What power cuts leave.

use std::rc::Rc;

use esker_base::Nanos;
use esker_block::{Bio, Buf, Device, Kind};
use esker_stack::Export;
use esker_testkit::power::{self, RECORDED};
use esker_testkit::soak::SoakLength;

static KINDS: &[&Kind] = &[&crate::KIND, &esker_layers::delay::KIND, &RECORDED];

fn check(layer: &str, fast: &str, states_min: u64) {
    let text = format!(
        "h = recorded size=64KiB latency=7us; r = recorded size={fast} latency=3us; \
         a = delay write=1us jitter=20us on r; vol = {layer} on h, a"
    );
    power::check_text(KINDS, &text, 1..=2, 7, states_min);
}

#[test]
fn a_cached_volume_keeps_its_promises_in_every_crash_state() {
    for mode in super::MODES {
        check(&format!("cache dirty_age=0s mode={mode} line=4KiB bypass=0"), "224KiB", 1000);
        check(&format!("cache dirty_age=0s mode={mode} line=16KiB bypass=0"), "256KiB", 1000);
    }
    // Always writing back; few slots; each answer durable; streams that pass by.
    check("cache dirty_age=0s line=4KiB dirty=0 clean_share=1 bypass=0", "224KiB", 1000);
    check("cache dirty_age=0s line=8KiB dirty=0 fill=before policy=lru", "216KiB", 1000);
    check("cache dirty_age=0s line=4KiB strict=true", "224KiB", 1000);
    check("cache dirty_age=0s line=4KiB bypass=4KiB", "224KiB", 1000);
}

/// Few slots for many lines: copies are given up all the time, and slots are used again.
#[test]
fn slots_that_are_used_again_lose_nothing_in_any_crash_state() {
    for mode in super::MODES {
        check(&format!("cache dirty_age=0s mode={mode} line=4KiB bypass=0 dirty=0.2 clean_share=1"), "172KiB", 1000);
        check(&format!("cache dirty_age=0s mode={mode} line=8KiB bypass=0 dirty=0.2 clean_share=1"), "188KiB", 1000);
    }
}

/// One client that writes twice as many lines as there are slots, again and again, and pauses. So copies are written
/// home and given up, and their slots are used again, each while the records of the others wait.
async fn churn(vol: Rc<Export>, top: Rc<dyn Device>) {
    let (rt, pool) = (vol.stack().rt().clone(), vol.stack().pool().clone());
    let mut rng = rt.rng("churn");
    for round in 0..60_u64 {
        let (at, len) = (rng.below(15) * 4096, 512 << rng.below(5));
        let bytes = vec![1 + (round % 251) as u8; len];
        let written = top.submit(Bio::write(at, Buf::from_bytes(&pool, &bytes))).await;
        assert_eq!(written.result.err(), None);
        if rng.below(3) == 0 {
            assert_eq!(top.submit(Bio::flush()).await.result.err(), None);
        }
        if rng.below(2) == 0 {
            let read = top.submit(Bio::read(rng.below(16) * 4096, Buf::unique(&pool, 4096))).await;
            assert_eq!(read.result.err(), None);
        }
        rt.sleep(Nanos::micros([3, 400, 11_000][rng.below(3) as usize])).await;
    }
    let told = |name| super::stat(&vol, name);
    println!("{} written back, {} given up", told("written_back"), told("given_up"));
}

#[test]
fn copies_that_come_and_go_lose_nothing_in_any_crash_state() {
    for (line, fast, mode) in [
        ("4KiB", "172KiB", "write-back"),
        ("8KiB", "188KiB", "write-back"),
        ("4KiB", "172KiB", "write-through"),
        ("4KiB", "172KiB", "write-around"),
    ] {
        let text = churned(mode, line, fast);
        assert!(power::check_script(KINDS, &text, 1..=2, 11, churn) > 1000);
    }
}

/// A cache with few slots.
fn churned(mode: &str, line: &str, fast: &str) -> String {
    format!(
        "h = recorded size=64KiB latency=7us; r = recorded size={fast} latency=3us; a = delay write=1us jitter=20us on r; \
         vol = cache dirty_age=0s mode={mode} line={line} bypass=0 clean_share=1 on h, a"
    )
}

/// States behind which the cache starts in each mode.
fn states_of_modes((line, fast): (&str, &str), seed: u64, states_max: u64) -> u64 {
    let pairs = super::MODES.iter().flat_map(|mode| super::MODES.iter().map(move |then| (mode, then)));
    let states = pairs.map(|(mode, then)| {
        let texts = [churned(mode, line, fast), churned(then, line, fast)];
        power::check_script_then(KINDS, [&texts[0], &texts[1]], seed..=seed, states_max, churn)
    });
    states.sum()
}

#[test]
fn a_start_in_another_mode_behind_a_crash_loses_nothing() {
    assert!(states_of_modes(("4KiB", "172KiB"), 3, 2) > 2000);
}

#[test]
#[ignore = "minutes: cargo xtask soak cache-crash"]
fn no_crash_loses_anything_for_a_long_time() {
    let length = SoakLength::told(1_000_000);
    let (mut states, mut seed) = (0, length.seed);
    while states < length.times {
        for geometry in [("4KiB", "172KiB"), ("8KiB", "188KiB"), ("16KiB", "256KiB")] {
            states += states_of_modes(geometry, seed, 23);
        }
        seed += 1;
        println!("{states} of {} states", length.times);
    }
}
