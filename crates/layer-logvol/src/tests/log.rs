//! Batches, their order, and what they cost.

use super::*;
use crate::segments::State;

/// Opens over a gate.
async fn gated(rt: &Rt) -> (Bench, Keeper) {
    let (gate, keeper) = Gate::over(device(rt, &media(1 << 20)));
    (Bench::open(rt, gate, 64 << 10, 1 << 30).await, keeper)
}

/// Starts a write of blocks of one value in a task of its own; tells whether it has been answered.
fn start(bench: &Bench, lba: u64, blocks: usize, value: u8) -> Rc<Cell<bool>> {
    let answered = Rc::new(Cell::new(false));
    let (bench, told) = (bench.clone(), answered.clone());
    let rt = bench.rt.clone();
    rt.spawn("writer", async move {
        bench.write(lba, blocks, value).await;
        told.set(true);
    })
    .detach();
    answered
}

async fn quiesce(rt: &Rt) {
    rt.sleep(Nanos::millis(1)).await;
}

#[test]
fn a_batch_is_answered_only_after_those_before_it() {
    run(async |rt| {
        let (bench, keeper) = gated(&rt).await;
        keeper.shut.set(true);
        let first = start(&bench, 0, 1, 1);
        quiesce(&rt).await;
        // Enough for a second batch beside the first.
        let others: Vec<_> = (0..8).map(|i| start(&bench, i, 1, 2)).collect();
        quiesce(&rt).await;
        let waiting = keeper.waiting();
        assert_eq!(waiting.len(), 2, "two batches are on their way");
        keeper.let_go(waiting[1]);
        quiesce(&rt).await;
        assert!(!first.get() && others.iter().all(|other| !other.get()), "the second one has to wait");
        assert_eq!(bench.volume.snapshot().mappings(), 0, "and is not to be seen");
        keeper.open_all();
        quiesce(&rt).await;
        assert!(first.get() && others.iter().all(|other| other.get()));
        assert_eq!(bench.values(0, 9).await, [2, 2, 2, 2, 2, 2, 2, 2, 0]);
    });
}

#[test]
fn a_lone_write_takes_one_block_of_records_and_twenty_share_one() {
    run(async |rt| {
        let (bench, keeper) = gated(&rt).await;
        bench.write(0, 1, 1).await;
        let before = keeper.noted(OpKind::Write).len();
        bench.write(1, 1, 1).await;
        let writes = keeper.noted(OpKind::Write);
        assert_eq!(
            writes[before..].iter().map(|(_, len)| *len).collect::<Vec<_>>(),
            [2 * BLOCK as u64],
            "amplification 2"
        );
        let before = (bench.stat("batches"), bench.stat("record_bytes"), bench.stat("data_bytes"));
        let all: Vec<_> = (0..20).map(|i| start(&bench, 10 + i, 1, 3)).collect();
        quiesce(&rt).await;
        assert!(all.iter().all(|one| one.get()));
        let after = (bench.stat("batches"), bench.stat("record_bytes"), bench.stat("data_bytes"));
        let (records, data) = (after.1 - before.1, after.2 - before.2);
        assert_eq!((after.0 - before.0, data), (1.0, 20.0 * BLOCK as f64));
        assert!((records + data) / data <= 1.05, "amplification {}", (records + data) / data);
    });
}

#[test]
fn a_lone_writer_does_not_wait_for_company() {
    run(async |rt| {
        let (bench, _) = gated(&rt).await;
        bench.write(0, 1, 1).await;
        let start = rt.now();
        for i in 0..100 {
            bench.write(i, 1, 1).await;
        }
        // One request below for each, at 2 microseconds.
        let mean = rt.now().since(start).0 / 100;
        assert!(mean <= 2_100, "{mean} ns");
    });
}

#[test]
fn thirty_two_writers_share_their_blocks_of_records() {
    run(async |rt| {
        let (bench, _) = gated(&rt).await;
        let writers = (0..32u64).map(|writer| {
            let bench = bench.clone();
            async move {
                for i in 0..20 {
                    bench.write((writer * 7919 + i * 104_729) % 700, 1, writer as u8).await;
                }
            }
        });
        esker_rt::sync::join_all(writers.collect::<Vec<_>>()).await;
        let (records, batches) = (bench.stat("records"), bench.stat("batches"));
        assert!(records == 640.0 && batches <= records / 8.0, "{batches} blocks for {records} requests");
    });
}

/// 1 GiB in requests of 4 KiB leaves at most one extent for each 32 KiB; here 8 MiB, in the same pattern.
#[test]
fn sequential_writes_are_merged() {
    run(async |rt| {
        let (gate, _) = Gate::over(device(&rt, &media(32 << 20)));
        let bench = Bench::open(&rt, gate, 1 << 20, 1 << 40).await;
        let next = Rc::new(Cell::new(0));
        let writers = (0..32).map(|_| {
            let (bench, next) = (bench.clone(), next.clone());
            async move {
                while next.get() < 2048 {
                    let lba = next.replace(next.get() + 1) * 8;
                    bench.write(lba, 8, 1).await;
                }
            }
        });
        esker_rt::sync::join_all(writers.collect::<Vec<_>>()).await;
        let mappings = bench.stat("mappings");
        assert!(bench.stat("mapped_bytes") >= 8e6 && mappings <= 256.0, "{mappings} extents in 8 MiB");
    });
}

#[test]
fn segments_are_written_from_front_to_back() {
    run(async |rt| {
        let (bench, keeper) = gated(&rt).await;
        let g = bench.volume.geometry();
        keeper.log.borrow_mut().clear();
        for i in 0..600u64 {
            bench.write(i * 31 % 400, 1 + (i % 3) as usize, i as u8).await;
        }
        let (mut ends, mut anew) = (std::collections::BTreeMap::new(), 0.0);
        let segments = bench.volume.segments();
        let is_log = |at: u64| {
            let segment = at.checked_sub(g.start).map(|at| (at / g.segment_bytes()) as usize);
            segment.and_then(|segment| segments.get(segment)).is_some_and(|segment| segment.state != State::Map)
        };
        for (kind, at, len) in keeper.log.borrow().iter().filter(|entry| is_log(entry.1)) {
            let segment = (at - g.start) / g.segment_bytes();
            if *kind == OpKind::Write {
                let front = g.start + segment * g.segment_bytes();
                let end = ends.entry(segment).or_insert(front);
                if at != end {
                    assert_eq!(*at, front, "segment {segment} was to go on at {end}");
                    anew += 1.0;
                }
                *end = at + len;
            }
        }
        assert!(ends.len() > 5, "{ends:?}");
        let freed = bench.stat("segments_freed");
        assert!(anew <= freed, "{anew} segments began anew, {freed} were freed");
    });
}

#[test]
fn a_forced_write_is_flushed_and_an_ordinary_one_is_not() {
    run(async |rt| {
        let mut config = config(&*device(&rt, &media(1 << 20)), 64 << 10, 1 << 30);
        config.volatile = true;
        let (gate, keeper) = Gate::over(device(&rt, &media(1 << 20)));
        let io = Io::over(&rt, &Pool::default(), vec![gate]);
        let volume = Volume::open(config, &rt, io.pool(), io.below().clone()).await.unwrap();
        let flushes = || keeper.noted(OpKind::Flush).len();
        let write = async |fua: bool| {
            let buf = Buf::from_bytes(io.pool(), &[1; BLOCK]);
            let bio = if fua { Bio::write(0, buf).fua() } else { Bio::write(0, buf) };
            volume.clone().change(io.below().clone(), bio).await.result.unwrap();
        };
        let before = flushes();
        write(false).await;
        assert_eq!(flushes() - before, 0);
        write(true).await;
        assert_eq!(flushes() - before, 1);
        volume.clone().change(io.below().clone(), Bio::flush()).await.result.unwrap();
        assert_eq!(flushes() - before, 1, "everything is durable already");
        write(false).await;
        volume.clone().change(io.below().clone(), Bio::flush()).await.result.unwrap();
        assert_eq!(flushes() - before, 2);
    });
}

#[test]
fn a_failed_batch_latches_and_reads_go_on() {
    use esker_testkit::{Fault, FaultPlan, Faulty, Injector};
    run(async |rt| {
        let injector = Injector::new(FaultPlan(vec![Fault::Error(Some(OpKind::Write), 40)]));
        let faulty = Faulty::over(&rt, device(&rt, &media(1 << 20)), &injector);
        let bench = Bench::open(&rt, faulty, 64 << 10, 1 << 30).await;
        let mut written = 0;
        for i in 0..100 {
            let buf = Buf::from_bytes(bench.io.pool(), &[i as u8 + 1; BLOCK]);
            match bench.submit(Bio::write(i * BLOCK as u64, buf)).await.result {
                Ok(_) => written += 1,
                Err(error) => {
                    assert!(i == written || matches!(error, esker_block::BioError::Latched(_)), "{i}: {error}");
                }
            }
        }
        assert!((10..90).contains(&written) && injector.fired() == 1, "{written} writes were answered");
        let values = bench.values(0, written + 3).await;
        assert!((0..written).all(|i| values[i as usize] == i as u8 + 1) && values[written as usize..] == [0; 3]);
        assert_eq!(bench.stat("latched"), 1.0);
    });
}
