use esker_block::{Bio, Device};
use esker_rt::sim::{SimConfig, twice};

use super::Concat;
use crate::split::tests::check_layout;
use crate::testing::{check_conforms, check_refused, open, read, run, stat, write};

const THREE: &str =
    "a = memory size=12KiB; b = memory size=64KiB defer=always; c = memory size=40KiB block=4096 | align; ";

#[test]
fn joined_devices_behave_like_one() {
    check_conforms(&format!("{THREE} vol = concat on a, b, c"));
    check_conforms("vol = memory size=1MiB | concat");
}

#[test]
fn requests_that_cross_a_border_are_split_there() {
    twice(SimConfig::seeded(1), |rt| async move {
        let vol = open(&rt, &format!("{THREE} vol = concat on a, b, c"));
        let [a, b, c] = ["a", "b", "c"].map(|name| vol.stack().device(name).unwrap());
        assert_eq!((vol.limits().size, vol.limits().block, vol.limits().atomic), (116 << 10, 512, 512));
        let data: Vec<u8> = (0..116 << 10).map(|i| (i / 512) as u8).collect();
        write(&vol, 0, &data).await;
        let below = [read(&a, 0, 12 << 10).await, read(&b, 0, 64 << 10).await, read(&c, 0, 40 << 10).await].concat();
        assert_eq!(below, data);
        run(&vol, Bio::zero(8192, 72 << 10)).await;
        assert_eq!(read(&vol, 0, 84 << 10).await, [&data[..8192], &[0; 72 << 10], &data[80 << 10..84 << 10]].concat());
        assert!(vol.submit(Bio::extents(8192, 72 << 10)).await.result.is_ok());
    });
}

#[test]
fn a_flush_reaches_every_device_and_any_failure_counts() {
    twice(SimConfig::seeded(1), |rt| async move {
        let text = "a = memory size=8KiB | stats; b = memory size=8KiB | error ops=write every=1 | stats; vol = concat on a, b";
        let vol = open(&rt, text);
        run(&vol, Bio::flush()).await;
        assert_eq!(["a", "b"].map(|part| stat(&vol, part, "flushes")), [1.0; 2]);
        let buf = esker_block::Buf::zeroed(vol.stack().pool(), 1024);
        let done = vol.submit(Bio::write(8192 - 512, buf)).await;
        assert!(done.result.is_err_and(|e| e.to_string().contains("injected")));
        assert_eq!(done.buf.len(), 1024);
    });
}

#[test]
fn blocks_that_a_power_cut_would_tear_are_refused() {
    let text = "a = memory size=8KiB; b = memory size=8KiB block=4096; vol = concat on a, b";
    check_refused(text, "put `align block=512` on the device with the larger blocks");
    check_conforms(&text.replace("block=4096", "block=4096 | align block=512"));
}

#[test]
fn sizes_that_overflow_and_nothing_to_join_are_refused() {
    let half = "memory size=8388608TiB";
    check_refused(&format!("a = {half}; b = {half}; vol = concat on a, b"), "more than fit in 64 bits");
    check_refused("vol = concat", "at least 1");
}

proptest::proptest! {
    #[test]
    fn places_and_lengths_agree(sizes in proptest::collection::vec(1u64..2000, 1..6)) {
        let ends: Vec<u64> = sizes.iter().scan(0, |end, size| { *end += size; Some(*end) }).collect();
        let size = *ends.last().unwrap();
        check_layout(&Concat { ends }, size);
    }
}
