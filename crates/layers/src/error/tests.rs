use esker_base::span;
use esker_block::{Bio, Device, RangeOp};
use esker_rt::sim::{SimConfig, twice};

use crate::testing::{check_conforms, check_refused, open, stat};

/// Which of `count` requests fail, as text.
fn failures(args: &'static str, count: u64, bio: fn(u64) -> Bio) -> String {
    twice(SimConfig::seeded(3), move |rt| async move {
        let vol = open(&rt, &format!("e = memory size=1MiB | emulate | error {args}; vol = pass on e"));
        let mut failed = String::new();
        for i in 0..count {
            let result = vol.submit(bio(i)).await.result;
            if let Err(error) = &result {
                assert_eq!(error.to_string(), "I/O error: injected by e");
            }
            failed.push(if result.is_err() { 'x' } else { '.' });
        }
        assert_eq!(stat(&vol, "e", "failed"), failed.matches('x').count() as f64);
        failed
    })
}

#[test]
fn without_a_cause_nothing_fails() {
    check_conforms("vol = memory size=1MiB | error");
    assert_eq!(failures("every=1 armed=false", 4, |_| Bio::flush()), "....");
}

#[test]
fn every_nth_matching_request_fails() {
    assert_eq!(failures("every=3", 7, |_| Bio::flush()), "..x..x.");
    assert_eq!(failures("every=1 ops=write,zero", 3, |_| Bio::flush()), "...");
    assert_eq!(failures("every=1 start=4096 len=512", 4, |i| Bio::zero(4096 - 512 + 512 * i, 512)), ".x..");
    assert_eq!(failures("every=1 start=4096 len=512", 2, |_| Bio::flush()), "xx", "a flush is about everything");
    let clone = |i: u64| Bio::ranges([RangeOp::Clone { src: span(512 * i, 512), dst: 8192 }]);
    assert_eq!(failures("every=1 ops=clone start=512 len=512", 3, clone), ".x.");
    assert_eq!(failures("every=1 ops=delete", 2, clone), "..");
}

#[test]
fn chance_is_seeded_and_about_right() {
    let seen = failures("probability=0.25", 400, |_| Bio::flush());
    let failed = seen.matches('x').count();
    assert!((70..130).contains(&failed), "{failed} of 400 at 25 %");
    assert!(!seen.contains(&"x".repeat(20)), "{seen}");
}

#[test]
fn unknown_words_are_refused() {
    check_refused(
        "vol = memory size=1MiB | error ops=\"read, wirte\"",
        "words separated by commas: read, write, flush",
    );
    check_refused("vol = memory size=1MiB | error start=18446744073709551615 len=2", "64 bits");
}
