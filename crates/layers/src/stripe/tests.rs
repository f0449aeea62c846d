use esker_block::{Bio, Device};
use esker_rt::sim::{SimConfig, twice};

use super::Stripe;
use crate::split::tests::check_layout;
use crate::testing::{check_conforms, check_refused, open, read, run, stat, write};

#[test]
fn stripes_behave_like_one_device() {
    let three = "a = memory size=200KiB; b = memory size=300KiB defer=always; c = memory size=250KiB; ";
    check_conforms(&format!("{three} vol = stripe chunk=4096 on a, b, c"));
    check_conforms(&format!("{three} vol = stripe chunk=64KiB on a, b, c"));
    check_conforms("a = memory size=100KiB; b = memory size=1MiB; vol = stripe chunk=512 on a, b");
}

#[test]
fn chunks_go_to_the_devices_in_turn() {
    twice(SimConfig::seeded(1), |rt| async move {
        let vol =
            open(&rt, "a = memory size=10KiB | stats; b = memory size=9KiB | stats; vol = stripe chunk=4096 on a, b");
        let [a, b] = ["a", "b"].map(|name| vol.stack().device(name).unwrap());
        assert_eq!((vol.limits().size, vol.limits().atomic), (16 << 10, 512), "whole chunks of the smaller device");
        let data: Vec<u8> = (0..16 << 10).map(|i| (i / 512) as u8).collect();
        write(&vol, 0, &data).await;
        assert_eq!(read(&a, 0, 8192).await, [&data[..4096], &data[8192..12288]].concat());
        assert_eq!(read(&b, 0, 8192).await, [&data[4096..8192], &data[12288..]].concat());
        assert_eq!(read(&vol, 512, 15 << 10).await, &data[512..512 + (15 << 10)]);
        run(&vol, Bio::discard(2048, 12 << 10)).await;
        assert_eq!(["a", "b"].map(|part| stat(&vol, part, "discards")), [1.0; 2], "one range on each device");
        assert_eq!(["a", "b"].map(|part| stat(&vol, part, "discard_bytes")), [6144.0; 2]);
    });
}

#[test]
fn chunks_that_do_not_fit_are_refused() {
    let of = |chunk: &str| {
        format!("a = memory size=8KiB block=4096; b = memory size=8KiB; vol = stripe chunk={chunk} on a, b")
    };
    check_refused(&of("3000"), "power of two");
    check_refused(&of("2048"), "at least 4096");
    check_refused(&of("16KiB"), "no bytes");
    check_refused(&of("4096"), "a power cut could tear a block");
}

proptest::proptest! {
    #[test]
    fn places_and_lengths_agree(shift in 0u32..6, lowers in 2u64..7, rows in 1u64..9) {
        check_layout(&Stripe { shift, lowers }, (lowers * rows) << shift);
    }
}
