use esker_base::Nanos;
use esker_block::Bio;
use esker_rt::sim::{SimConfig, twice};
use esker_stack::Export;

use crate::testing::{check_conforms, open, read, run, write};

/// How long `bio` takes.
async fn time(vol: &Export, bio: Bio) -> Nanos {
    let begin = vol.stack().rt().now();
    run(vol, bio).await;
    vol.stack().rt().now().since(begin)
}

#[test]
fn waiting_changes_nothing_else() {
    check_conforms("vol = memory size=1MiB | delay read=10us write=20us jitter=50us");
}

#[test]
fn each_kind_of_request_waits_its_time() {
    twice(SimConfig::seeded(1), |rt| async move {
        let vol = open(&rt, "vol = memory size=1MiB | delay read=1ms write=2ms flush=3ms");
        let floor = open(&rt, "vol = memory size=1MiB | delay");
        let cases = [(1, Bio::extents(0, 512)), (2, Bio::zero(0, 512)), (2, Bio::discard(0, 512)), (3, Bio::flush())];
        for (ms, bio) in cases {
            let took = time(&vol, bio).await;
            assert!(took >= Nanos::millis(ms) && took < Nanos::millis(ms) + Nanos::micros(10), "{took} for {ms} ms");
        }
        assert!(time(&floor, Bio::flush()).await < Nanos::micros(10), "no delay was asked for");
        write(&vol, 0, &[3; 512]).await;
        assert_eq!(read(&vol, 0, 512).await, [3; 512]);
    });
}

#[test]
fn jitter_is_even_and_bounded() {
    twice(SimConfig::seeded(1), |rt| async move {
        let vol = open(&rt, "vol = memory size=1MiB | delay write=1ms jitter=1ms");
        let mut total = Nanos::ZERO;
        for _ in 0..200 {
            let took = time(&vol, Bio::zero(0, 512)).await;
            assert!(took >= Nanos::millis(1) && took < Nanos::millis(2) + Nanos::micros(10), "{took}");
            total += took;
        }
        let mean = total / 200;
        assert!(mean > Nanos::micros(1400) && mean < Nanos::micros(1600), "{mean}");
    });
}
