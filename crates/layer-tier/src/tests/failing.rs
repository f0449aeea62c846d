//! Ends that fail, and maps that cannot be written.

use std::rc::Rc;

use esker_block::{BioError, Device};
use esker_dev::{Defer, Media, MemoryDevice};
use esker_rt::{Sim, SimConfig};
use esker_stack::Export;
use esker_testkit::bench::{self, flush, read, try_read, try_write, write};
use esker_testkit::given;
use esker_testkit::races::valve::{CLIENT_WRITES, COPY_READS, COPY_WRITES, RECORDS, Valve, Valved};

use super::{KINDS, Sink, all_moved, end_of, moved, order, stat};

const TEXT: &str = "a = given; b = given; c = given; vol = tier devices=\"ssd; sas; sata\" extent=4KiB size=56KiB plan=none \
    throttle=false on a, b, c";

/// A tier whose extents 0 to 8 lie on end 0 and the others on end 1, with hands on its ends.
fn with<F: Future<Output = ()> + 'static>(body: impl FnOnce(Export, Vec<Rc<Valve>>) -> F + 'static) {
    let sim = Sim::new(SimConfig::seeded(1));
    let rt = sim.rt();
    sim.block_on(async move {
        let valves: Vec<Rc<Valve>> = (0..3).map(|_| Valve::new(&rt)).collect();
        let end = |valve: &Rc<Valve>| -> Rc<dyn Device> {
            let memory =
                MemoryDevice::over(&rt, Media::new(64 << 10), 512, Defer::Always(esker_base::Nanos::micros(5)));
            Valved::over(Rc::new(memory), valve)
        };
        let env = given(valves.iter().map(end)).with(Sink::default());
        let vol = bench::open_with(&rt, KINDS, TEXT, &env);
        vol.stack().opened().await;
        assert_eq!((end_of(&vol, 8).await, end_of(&vol, 9).await), (0, 1));
        body(vol, valves).await;
    });
}

/// First byte of an extent of end 1.
const ON_1: u64 = 9 * 4096;

#[test]
fn a_lost_end_fails_its_extents_only() {
    with(async |vol, valves| {
        write(&vol, ON_1, &[7; 512]).await;
        flush(&vol).await;
        valves[1].lose();
        assert!(matches!(try_read(&vol, ON_1, 512).await, Err(BioError::Gone(_))));
        assert!(matches!(try_write(&vol, ON_1, &[8; 512]).await, Err(BioError::Gone(_))));
        assert!(try_read(&vol, 8 * 4096, 8192).await.is_err(), "a part of it lies there");
        write(&vol, 0, &[9; 512]).await;
        flush(&vol).await;
        assert_eq!((read(&vol, 0, 512).await, stat(&vol, "ends_lost")), (vec![9; 512], 1));
        let refused = order(&vol, "place 0 1").await.unwrap_err();
        assert!(refused.contains("cannot be used"), "{refused}");
        moved(&vol, "place 9 2").await;
        assert_eq!((end_of(&vol, 9).await, stat(&vol, "abandoned")), (1, 0), "no move from there begins");
        valves[1].find();
        assert_eq!((read(&vol, ON_1, 512).await, stat(&vol, "ends_lost")), (vec![7; 512], 0));
        moved(&vol, "place 9 2").await;
        assert_eq!(read(&vol, ON_1, 512).await, [7; 512]);
    });
}

#[test]
fn nothing_is_planned_to_an_end_that_fails_moves() {
    with(async |vol, valves| {
        for (extent, failed) in [(0, 1), (1, 2), (2, 3)] {
            valves[2].fail_at(COPY_WRITES, 1);
            moved(&vol, &format!("place {extent} 2")).await;
            assert_eq!((stat(&vol, "bad_slots"), end_of(&vol, extent).await), (failed, 0));
        }
        assert!(order(&vol, "place 3 2").await.is_err());
        assert_eq!(stat(&vol, "ends_lost"), 1);
    });
}

#[test]
fn an_extent_that_cannot_be_read_stays() {
    with(async |vol, valves| {
        write(&vol, 0, &[3; 4096]).await;
        valves[0].fail_at(COPY_READS, 1);
        moved(&vol, "place 0 2").await;
        assert_eq!((end_of(&vol, 0).await, stat(&vol, "abandoned"), stat(&vol, "bad_slots")), (0, 1, 0));
        moved(&vol, "place 0 2").await;
        assert_eq!((end_of(&vol, 0).await, read(&vol, 0, 4096).await), (2, vec![3; 4096]));
    });
}

#[test]
fn behind_a_failed_flush_no_flush_succeeds_and_its_end_takes_no_change() {
    with(async |vol, valves| {
        write(&vol, ON_1, &[7; 512]).await;
        valves[1].lose();
        assert!(vol.submit(esker_block::Bio::flush()).await.result.is_err());
        valves[1].find();
        assert!(vol.submit(esker_block::Bio::flush()).await.result.is_err(), "what was written may be lost");
        assert!(matches!(try_write(&vol, ON_1, &[8; 512]).await, Err(BioError::Latched(_))));
        assert!(matches!(try_write(&vol, 8 * 4096, &[8; 8192]).await, Err(BioError::Latched(_))));
        write(&vol, 0, &[9; 512]).await;
        assert_eq!((read(&vol, ON_1, 512).await, stat(&vol, "latched")), (vec![7; 512], 1));
    });
}

#[test]
fn a_map_that_cannot_be_written_ends_all_changes() {
    with(async |vol, valves| {
        write(&vol, 0, &[7; 4096]).await;
        valves[0].fail_at(RECORDS, 1);
        moved(&vol, "place 0 2").await;
        assert_eq!((end_of(&vol, 0).await, stat(&vol, "latched"), stat(&vol, "bad_slots")), (0, 1, 0));
        for at in [0, ON_1] {
            let refused = try_write(&vol, at, &[8; 512]).await;
            assert!(matches!(refused, Err(BioError::Latched(_))), "{refused:?}");
        }
        assert_eq!(read(&vol, 0, 4096).await, [7; 4096]);
        order(&vol, "place 1 2").await.unwrap();
        bench::sleep(&vol, esker_base::Nanos::millis(10)).await;
        assert_eq!(stat(&vol, "queued"), 1, "no move begins");
    });
}

/// A write that waits for the switch of its extent is not taken if the record of that fails.
#[test]
fn a_write_that_waited_for_a_record_that_failed_is_refused() {
    with(async |vol, valves| {
        valves[0].forget();
        valves[0].stop(RECORDS);
        order(&vol, "place 0 2").await.unwrap();
        valves[0].reached(RECORDS, 1).await;
        let (rt, writer) = (vol.stack().rt().clone(), vol.clone());
        let write = rt.spawn("writer", async move { try_write(&writer, 0, &[8; 512]).await });
        rt.sleep(esker_base::Nanos::millis(1)).await;
        assert!(!write.is_done() && valves[0].seen(CLIENT_WRITES) == 0);
        valves[0].lose();
        valves[0].let_go(RECORDS);
        assert!(matches!(write.await, Err(BioError::Latched(_))));
        all_moved(&vol).await;
    });
}
