use esker_block::conformance::Options;
use esker_testkit::kept::{peek, poke};
use esker_testkit::power::{self, RECORDED};
use esker_testkit::{Bound, KEPT, bench};

use super::{BITS, HEAD, KIND, State, check};

static KINDS: &[&esker_block::Kind] = &[&KIND, &KEPT, &RECORDED];

#[test]
fn superblocks_keep_the_promises_of_the_common_header() {
    let older = State { id: 7, generation: 8, size: 1 << 20, written: vec![1; BITS].into_iter().map(|_| 0).collect() };
    let mut newer = State { generation: 9, ..older.clone() };
    newer.written[3] = 0x21;
    esker_framing::conformance::check(&older, &newer);
}

#[test]
fn what_was_there_before_reads_as_zeroes_until_it_is_written() {
    poke(9001, "a", HEAD, &[7; 64 << 10]);
    bench::with(KINDS, "a = kept bed=9001 size=128KiB; vol = blank on a", async |vol| {
        bench::write(&vol, 5000 / 512 * 512, &[1; 512]).await;
        let read = bench::read(&vol, 0, 16 << 10).await;
        assert!(read.iter().enumerate().all(|(at, byte)| *byte == u8::from((4608..5120).contains(&at))));
        assert_eq!(check(&peek(9001, "a", HEAD)), Ok(4));
    });
}

#[test]
fn a_blank_device_keeps_its_promises_in_every_crash_state() {
    let open = |rt: &esker_rt::Rt, bed| -> std::rc::Rc<dyn esker_block::Device> {
        let text = format!("a = recorded bed={bed} size=256KiB latency=3us; vol = blank on a");
        std::rc::Rc::new(bench::open(rt, KINDS, &text))
    };
    let count = power::check(open, Options::power_cuts(3), Bound { states_max: 8, seed: 3 });
    assert!(count.unwrap_or_else(|broken| panic!("{broken}")).states > 500);
}
