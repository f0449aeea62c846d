use esker_base::span;
use esker_block::{Bio, Device, RangeOp};
use esker_rt::sim::{SimConfig, twice};

use crate::testing::{check_conforms, check_refused, open, read, run, write};

#[test]
fn the_window_behaves_like_a_device() {
    check_conforms("vol = memory size=2MiB defer=always | offset start=4096 size=1MiB");
    check_conforms("vol = memory size=1MiB | emulate | offset start=8KiB");
}

#[test]
fn the_window_shows_what_lies_below_it() {
    twice(SimConfig::seeded(1), |rt| async move {
        let vol = open(&rt, "d = memory size=64KiB; e = emulate on d; vol = offset start=4096 size=8KiB on e");
        let below = vol.stack().device("d").unwrap();
        assert_eq!(vol.limits().size, 8192);
        write(&vol, 512, &[7; 512]).await;
        assert_eq!(read(&below, 4096 + 512, 512).await, [7; 512]);
        run(&vol, Bio::ranges([RangeOp::Move { src: span(512, 512), dst: 1024 }])).await;
        assert_eq!(read(&below, 4096 + 1024, 512).await, [7; 512]);
        run(&vol, Bio::ranges([RangeOp::Delete { at: span(1024, 512) }])).await;
        assert_eq!(read(&below, 4096, 8192).await, [0; 8192]);
    });
}

#[test]
fn windows_that_do_not_fit_are_refused() {
    let of = |args: &str| format!("vol = memory size=64KiB block=4096 | offset {args}");
    check_refused(&of("start=60KiB size=8KiB"), "leaves the device; the device below has 65536 bytes");
    check_refused(&of("start=18446744073709551615 size=2"), "leaves the device");
    check_refused(&of("start=64KiB"), "is empty");
    check_refused(&of("start=512 size=4096"), "between blocks");
}
