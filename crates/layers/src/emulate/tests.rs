use esker_base::span;
use esker_block::{Bio, Device, OpKind, RangeOp, Support};
use esker_rt::sim::{SimConfig, twice};

use crate::testing::{check_conforms, check_refused, open, read, run, stat, write};

#[test]
fn remapping_by_copy_behaves_like_remapping() {
    check_conforms("vol = memory size=1MiB | emulate");
    check_conforms("vol = memory size=256KiB defer=always | emulate staging=4096 width=2");
    check_conforms("vol = memory size=256KiB | poor | emulate staging=5000 ranges=3");
}

#[test]
fn what_is_emulated_is_said() {
    twice(SimConfig::seeded(1), |rt| async move {
        let support = |text: &str| [OpKind::Clone, OpKind::Zero].map(|kind| open(&rt, text).limits().support(kind));
        assert_eq!(support("vol = memory size=1MiB | emulate"), [Support::Emulated, Support::Native]);
        assert_eq!(support("vol = memory size=1MiB | poor | emulate"), [Support::Emulated; 2]);
    });
    check_refused("vol = memory size=1MiB block=4096 | emulate staging=512", "at least 4096");
    check_refused("vol = memory size=1MiB | emulate width=0", "at least 1");
}

#[test]
fn others_see_all_of_a_vector_or_nothing() {
    twice(SimConfig::seeded(1), |rt| async move {
        let vol = open(&rt, "vol = memory size=1MiB defer=always latency=10us | emulate staging=4096 width=2");
        write(&vol, 0, &[9; 64 << 10]).await;
        let (cloner, source) = (vol.clone(), span(0, 64 << 10));
        let cloning = rt.spawn("cloner", async move {
            let ops = [RangeOp::Clone { src: source, dst: 128 << 10 }, RangeOp::Clone { src: source, dst: 256 << 10 }];
            run(&cloner, Bio::ranges(ops)).await;
        });
        let mut seen = Vec::new();
        while !cloning.is_done() {
            let now = read(&vol, 128 << 10, 192 << 10).await;
            let (first, last) = (&now[..64 << 10], &now[128 << 10..]);
            assert!(first == last && first.iter().all(|b| *b == first[0]), "a part of the vector is visible");
            seen.push(first[0]);
        }
        assert_eq!(seen.last(), Some(&9));
        assert_eq!(stat(&vol, "vol", "copied_bytes"), f64::from(128 << 10));
    });
}

#[test]
fn a_moved_source_goes_only_after_the_copy_is_durable() {
    twice(SimConfig::seeded(1), |rt| async move {
        // The first flush fails, so the source must still be there.
        let text = "vol-1 = memory size=1MiB | poor | error ops=flush every=1; vol = emulate on vol-1";
        let vol = open(&rt, text);
        write(&vol, 0, &[4; 4096]).await;
        let done = vol.submit(Bio::ranges([RangeOp::Move { src: span(0, 4096), dst: 8192 }])).await;
        assert!(done.result.is_err_and(|e| e.to_string().contains("injected")));
        assert_eq!(read(&vol, 0, 4096).await, [4; 4096]);
    });
}
