use std::cell::Cell;
use std::rc::Rc;

use esker_block::{Bio, BioError, Buf, Device};
use esker_rt::sim::{Sim, SimConfig};

use crate::testing::{check_conforms, open, run, start_write, stat, write};

#[test]
fn a_verify_conforms() {
    check_conforms("vol = memory size=256KiB defer=always | verify");
    check_conforms(
        "a = memory size=64KiB defer=always; b = memory size=64KiB; vol = stripe chunk=4096 on a, b | verify",
    );
}

/// Every write is spoiled on its way down: all are found.
#[test]
fn each_silent_corruption_is_detected() {
    let sim = Sim::new(SimConfig::seeded(1));
    let rt = sim.rt();
    sim.block_on(async move {
        let vol = open(&rt, "raw = memory size=64KiB; s = spoil at=700 every=1KiB on raw; vol = verify on s");
        for block in 0..100u64 {
            let at = block % 64 * 1024;
            let done = vol.submit(Bio::write(at, Buf::from_bytes(vol.stack().pool(), &[block as u8; 1024]))).await;
            assert_eq!(done.result, Err(BioError::Corrupt(at + 700)), "write {block}");
        }
        assert_eq!(stat(&vol, "vol", "corrupt_writes"), 100.0);
    });
}

#[test]
fn overlapping_writes_raise_no_false_alarm() {
    let sim = Sim::new(SimConfig::seeded(1));
    let rt = sim.rt();
    let ended = Rc::new(Cell::new(false));
    let flag = ended.clone();
    sim.block_on(async move {
        let vol = open(&rt, "raw = memory size=64KiB | delay write=5us read=20us; vol = verify on raw");
        let writes: Vec<_> = (0..20u8).map(|i| start_write(&vol, 512 * u64::from(i % 3), vec![i; 2048])).collect();
        for write in writes {
            write.await;
        }
        run(&vol, Bio::zero(0, 4096)).await;
        write(&vol, 0, &[1; 512]).await;
        assert_eq!(stat(&vol, "vol", "corrupt_writes"), 0.0);
        flag.set(true);
    });
    assert!(ended.get());
}
