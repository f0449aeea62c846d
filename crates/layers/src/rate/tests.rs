use esker_block::{Bio, Buf, Device};
use esker_rt::sim::{SimConfig, twice};
use esker_rt::sync::join_all;

use crate::testing::{check_conforms, check_refused, open};

/// When each of `count` requests made at once is answered, in microseconds.
fn answers(text: &'static str, count: u64, len: usize) -> Vec<u64> {
    twice(SimConfig::seeded(1), move |rt| async move {
        let vol = open(&rt, text);
        let requests = (0..count).map(|_| {
            let (vol, rt) = (vol.clone(), rt.clone());
            rt.clone().spawn("client", async move {
                let bio = if len == 0 { Bio::flush() } else { Bio::write(0, Buf::zeroed(vol.stack().pool(), len)) };
                assert!(vol.submit(bio).await.result.is_ok());
                rt.now().0 / 1000
            })
        });
        join_all(requests).await
    })
}

fn check_about(actual: u64, expected_us: u64) {
    assert!(actual >= expected_us && actual <= expected_us + 200, "{actual} us instead of {expected_us} us");
}

#[test]
fn a_bound_changes_nothing_else() {
    check_conforms("vol = memory size=1MiB | rate iops=100000 bytes=1GiB");
}

#[test]
fn requests_come_at_the_rate_in_order() {
    let at = answers("vol = memory size=1MiB | rate iops=1000 burst=0", 50, 512);
    assert!(at.is_sorted(), "first come, first served: {at:?}");
    check_about(at[49], 49_000);
    check_about(answers("vol = memory size=1MiB | rate iops=1000 burst=0", 11, 0)[10], 10_000);
}

#[test]
fn bytes_are_bounded_and_the_stricter_bound_holds() {
    check_about(answers("vol = memory size=1MiB | rate bytes=4MB burst=0", 11, 4096)[10], 10_240);
    check_about(answers("vol = memory size=1MiB | rate bytes=4MB iops=500 burst=0", 11, 4096)[10], 20_000);
    check_about(answers("vol = memory size=1MiB | rate bytes=4MB burst=0", 20, 0)[19], 0);
}

#[test]
fn a_rate_without_a_bound_is_refused() {
    check_refused("vol = memory size=1MiB | rate", "give iops, bytes or both");
    check_refused("vol = memory size=1MiB | rate iops=0", "above 0");
}
