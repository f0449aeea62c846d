//! Space under the collector: equilibrium, throttling, the end of space, and what is not worth cleaning.

use esker_rt::sync::join_all;

use super::*;

async fn overwrite(vol: &Export, blocks: u64, rng: &mut Stream) {
    let buf = Buf::from_bytes(vol.stack().pool(), &[rng.below(256) as u8; 4 * BLOCK]);
    let done = vol.submit(Bio::write(rng.below(blocks / 4) * 4 * BLOCK as u64, buf)).await;
    assert_eq!(done.result.err(), None);
}

/// 16 MiB in 255 segments of 64 KiB.
const TEXT: &str = "a = memory size=16MiB defer=always latency=5us; \
    vol = logvol block=512 page=4KiB segment=64KiB checkpoint_interval=1MiB on a";

/// Demand 38.
#[test]
fn nothing_is_moved_while_less_than_half_is_used() {
    run(async |rt| {
        let vol = build(&rt, TEXT);
        let mut rng = Stream::named(1, "overwrites");
        for _ in 0..600 {
            overwrite(&vol, 2000, &mut rng).await;
        }
        rt.sleep(Nanos::millis(20)).await;
        assert!(told(&vol, "used_ratio") < 0.5 && told(&vol, "passes") == 0.0 && told(&vol, "moved_bytes") == 0.0);
    });
}

/// Demands 39, 40 and 48 at a small scale: with saturating overwrites of 54 % live data, allocation and reclamation
/// balance, used space rests, the cleaner's part of the traffic is what its share says, and no write waits long.
#[test]
fn saturating_overwrites_come_to_an_equilibrium() {
    run(async |rt| {
        let vol = build(&rt, TEXT);
        let blocks = 17_000;
        for i in 0..blocks / 8 {
            let buf = Buf::from_bytes(vol.stack().pool(), &[1; 8 * BLOCK]);
            assert_eq!(vol.submit(Bio::write(i * 8 * BLOCK as u64, buf)).await.result.err(), None);
        }
        let (stop, slowest) = (Rc::new(Cell::new(false)), Rc::new(Cell::new(Nanos::ZERO)));
        for writer in 0..8u64 {
            let (vol, clock, stop, slowest) = (vol.clone(), rt.clone(), stop.clone(), slowest.clone());
            let writer = async move {
                let mut rng = Stream::named(writer, "writer");
                while !stop.get() {
                    let start = clock.now();
                    overwrite(&vol, blocks, &mut rng).await;
                    slowest.set(slowest.get().max(clock.now().since(start)));
                }
            };
            rt.spawn("writer", writer).detach();
        }
        rt.sleep(Nanos::millis(300)).await;
        slowest.set(Nanos::ZERO);
        let look = || {
            let written = told(&vol, "record_bytes") + told(&vol, "data_bytes");
            let moved = told(&vol, "moved_bytes");
            (written, moved, told(&vol, "segments_freed"), told(&vol, "segments_free"), told(&vol, "cleaner_share"))
        };
        let (mut shares, mut free) = (Vec::new(), Vec::new());
        let before = look();
        for _ in 0..30 {
            rt.sleep(Nanos::millis(10)).await;
            let now = look();
            shares.push(now.4);
            free.push(now.3);
        }
        let after = look();
        stop.set(true);
        let segment = f64::from(64 << 10);
        let (written, moved) = (after.0 - before.0, after.1 - before.1);
        let (taken, freed) = ((written + moved) / segment, after.2 - before.2);
        assert!(freed > 100.0 && (taken - freed).abs() <= 0.1 * taken, "{taken} segments were taken, {freed} freed");
        let share = shares.iter().sum::<f64>() / shares.len() as f64;
        let part = 2.0 * moved / (2.0 * moved + written);
        assert!((part - share).abs() <= 0.1, "{part} of the traffic is the cleaner's, its share is {share}");
        assert!(free.iter().all(|free| *free > 4.0), "{free:?}");
        assert!(slowest.get() < Nanos::millis(20), "{:?}", slowest.get());
        assert!(told(&vol, "latched") == 0.0);
    });
}

/// While a pass is made that finds nothing to clean, writers owe more than they may. Once it has ended they go on,
/// though none of them is under way that could come back and wake the others.
#[test]
fn a_pass_in_vain_lets_the_writers_go_on_whom_it_held() {
    run(async |rt| {
        let text = "a = memory size=8MiB defer=always latency=2us; \
            vol = logvol gc_start=0.5 block=512 page=4KiB segment=64KiB checkpoint_interval=64MiB on a";
        let vol = build(&rt, text);
        let blocks = 11_000;
        let writers = (0..8u64).map(|writer| {
            let vol = vol.clone();
            rt.spawn("writer", async move {
                for i in (writer..blocks).step_by(8) {
                    let buf = Buf::from_bytes(vol.stack().pool(), &[1; BLOCK]);
                    // Scattered, so that each block is a mapping of its own and passes take their time.
                    let lba = i * 4_099 % blocks * 2;
                    assert_eq!(vol.submit(Bio::write(lba * BLOCK as u64, buf)).await.result.err(), None);
                }
            })
        });
        join_all(writers.collect::<Vec<_>>()).await;
        assert!(
            told(&vol, "passes") > 1.0 && told(&vol, "writers_held") > 0.0,
            "writers were held while passes were made"
        );
    });
}

/// A device on which the cleaner's requests take longer.
struct Slow {
    rt: Rt,
    inner: Rc<dyn Device>,
    delay: Nanos,
}

impl Device for Slow {
    fn limits(&self) -> &Limits {
        self.inner.limits()
    }

    fn submit(&self, bio: Bio) -> Step<Done> {
        if bio.tag.class != esker_block::Class::Background {
            return self.inner.submit(bio);
        }
        let (rt, inner, delay) = (self.rt.clone(), self.inner.clone(), self.delay);
        Step::later(async move {
            rt.sleep(delay).await;
            inner.submit(bio).await
        })
    }
}

/// Demand 41: where nothing is free and cleaning is slow, writers are held and do not fail, and go on when space is
/// back; reads and deletions are answered meanwhile, at once.
#[test]
fn writers_wait_for_a_slow_cleaner_and_reads_and_deletions_do_not() {
    run(async |rt| {
        let slow = Slow { rt: rt.clone(), inner: device(&rt, &media(1 << 20)), delay: Nanos::millis(10) };
        let bench = Bench::open(&rt, Rc::new(slow), SEGMENT, 64 << 10).await;
        bench.fill(5000..5100).await;
        let (written, ended) = (Rc::new(Cell::new(0u64)), Rc::new(Cell::new(0)));
        for writer in 0..4u64 {
            let (bench, written, ended) = (bench.clone(), written.clone(), ended.clone());
            let work = async move {
                let mut rng = Stream::named(writer, "writer");
                for i in 0..800u64 {
                    let lba = writer * 200 + rng.below(200);
                    try_write(&bench, lba, i as u8).await.unwrap_or_else(|e| panic!("write {i} of {writer}: {e}"));
                    written.set(written.get() + 1);
                }
                ended.set(ended.get() + 1);
            };
            rt.spawn("writer", work).detach();
        }
        let mut held = 0;
        while ended.get() < 4 {
            let before = written.get();
            rt.sleep(Nanos::millis(2)).await;
            if written.get() > before || ended.get() == 4 || held == 40 {
                continue;
            }
            let start = rt.now();
            assert_eq!(bench.values(5000 + held, 1).await, [(5000 + held) as u8 + 1]);
            bench.ranges(&[delete(5000 + held, 1)]).await;
            assert!(rt.now().since(start) < Nanos::millis(1), "{:?}", rt.now().since(start));
            assert_eq!((written.get(), bench.values(5000 + held, 1).await), (before, vec![0]));
            held += 1;
        }
        assert!(held > 10, "writers were held {held} times");
    });
}

/// Demands 17 and 42: where all is live nothing is moved for ever, writes fail soon, and go on when something is
/// deleted.
#[test]
fn a_volume_full_of_live_data_says_so_and_does_not_churn() {
    run(async |rt| {
        let (bench, _) = small(&rt, 512 << 10, 64 << 10).await;
        let mut written = 0;
        while try_write(&bench, written, written as u8).await.is_ok() {
            written += 1;
        }
        assert!(written > 500, "{written} of 1024 blocks");
        let (moved, start) = (bench.stat("moved_bytes"), rt.now());
        for i in 0..50 {
            assert!(matches!(try_write(&bench, written + i, 1).await, Err(BioError::NoSpace(_))));
        }
        assert!(bench.stat("moved_bytes") - moved <= 4.0 * SEGMENT as f64, "it churns");
        assert!(rt.now().since(start) < Nanos::millis(50), "it takes {:?}", rt.now().since(start));
        for lba in 0..written {
            assert_eq!(bench.values(lba, 1).await, [lba as u8]);
        }
        // Every third block: no segment is empty, and only moving what is left makes space.
        for lba in (0..written).step_by(3) {
            bench.ranges(&[delete(lba, 1)]).await;
        }
        for i in 0..written / 6 {
            try_write(&bench, 10_000 + i, 7).await.unwrap_or_else(|e| panic!("write {i} after deletions: {e}"));
        }
        assert!((1..written).filter(|lba| lba % 3 != 0).all(|lba| bench.volume.pieces(lba..lba + 1).len() == 1));
    });
}

/// What was written in pieces and out of order lies together again after it was moved (5.21).
#[test]
fn moving_merges_what_belongs_together() {
    run(async |rt| {
        let (bench, _) = small(&rt, 4 << 20, 1 << 40).await;
        for i in 0..400u64 {
            bench.write(i ^ 7, 1, i as u8).await;
        }
        let before = bench.stat("mappings");
        for _ in 0..8 {
            bench.volume.collect_now(&bench.volume.store(bench.below())).await;
        }
        let after = bench.stat("mappings");
        assert!(before > 300.0 && after < before * 0.7, "{before} mappings, {after} afterwards");
    });
}

/// What segments of copies are is known after the volume is opened anew, so that policies go on as before.
#[test]
fn copies_are_told_from_new_data_after_a_restart() {
    run(async |rt| {
        let (gate, _) = Gate::over(device(&rt, &media(1 << 20)));
        let bench = Bench::open(&rt, gate.clone(), SEGMENT, 1 << 40).await;
        bench.fill(0..60).await;
        bench.volume.collect_now(&bench.volume.store(bench.below())).await;
        bench.volume.collect_now(&bench.volume.store(bench.below())).await;
        bench.checkpoint().await;
        let of_copies = |bench: &Bench| -> Vec<(usize, u64, esker_cleaning::Class)> {
            let all = bench.volume.segments().into_iter().enumerate();
            let copies = all.filter(|(_, segment)| segment.live > 0 && !segment.class.is_new());
            copies.map(|(at, segment)| (at, segment.first, segment.class)).collect()
        };
        let before = of_copies(&bench);
        assert!(before.len() > 1, "{before:?}");
        assert_eq!(of_copies(&Bench::open(&rt, gate, SEGMENT, 1 << 40).await), before);
    });
}

/// A block that cannot be read stays where it is, and its segment is left alone.
#[test]
fn what_cannot_be_read_is_not_moved_and_costs_one_visit() {
    use esker_testkit::{Fault, FaultPlan, Faulty, Injector};
    run(async |rt| {
        let injector = Injector::new(FaultPlan(vec![Fault::Error(Some(OpKind::Read), 30)]));
        let faulty = Faulty::over(&rt, device(&rt, &media(1 << 20)), &injector);
        let bench = Bench::open(&rt, faulty, SEGMENT, 1 << 40).await;
        bench.fill(0..60).await;
        for _ in 0..6 {
            bench.volume.collect_now(&bench.volume.store(bench.below())).await;
        }
        assert_eq!((injector.fired(), bench.stat("segments_unreadable")), (1, 1.0));
        assert_eq!(bench.stat("latched"), 0.0);
        for lba in 0..60 {
            assert_eq!(bench.values(lba, 1).await, [lba as u8 + 1]);
        }
    });
}

/// Demand 47: however the workers share the map, each mapping is looked at once.
#[test]
fn every_mapping_is_seen_once_however_the_map_is_shared_out() {
    use crate::collect::sweep::{Sharing, sweep};
    use crate::map::{Extent, Fanout, Map, Snapshot, TRACT};
    run(async |rt| {
        let mut map = Map::new(Fanout { leaf: 20, inner: 20, roots: 8, index: 20, changes: 20 });
        let mut rng = Stream::named(3, "map");
        for i in 0..60_000u64 {
            let lba = if i % 3 == 0 { rng.below(1 << 46) % (40 * TRACT) } else { rng.below(1 << 18) };
            map.map(Extent { lba, pba: i * 2, len: 1 }, &mut |_| {});
        }
        let snapshot = map.snapshot();
        let all: Vec<Extent> = snapshot.from(0).collect();
        let end = snapshot.end();
        let lopsided = Sharing { ranges: vec![0..end, end..end, end..end], is_dynamic: true };
        for sharing in [Sharing::even(&snapshot, 1), Sharing::even(&snapshot, 7), lopsided] {
            let seen = RefCell::new(Vec::new());
            let visit = |snapshot: &Snapshot, range: std::ops::Range<u64>| {
                snapshot.leaves(range).map(|mapping| mapping.extent).collect::<Vec<Extent>>()
            };
            let each = async |part: Vec<Extent>| seen.borrow_mut().extend(part);
            sweep(&rt, &snapshot, sharing.clone(), std::sync::Arc::new(visit), &each).await;
            let mut seen = seen.into_inner();
            seen.sort();
            assert!(seen == all, "{} of {} mappings, {sharing:?}", seen.len(), all.len());
        }
    });
}

/// A segment of copies always has a dead block, its head: moving it because of that would never end.
#[test]
fn what_is_as_full_as_can_be_is_never_moved() {
    run(async |rt| {
        let (bench, _) = small(&rt, 1 << 20, 1 << 40).await;
        for i in 0..400 {
            bench.write(i, 1, i as u8).await;
        }
        let collect = async || {
            bench.volume.collect_now(&bench.volume.store(bench.below())).await;
            bench.checkpoint().await;
            bench.stat("moved_bytes")
        };
        for _ in 0..12 {
            collect().await;
        }
        let before = collect().await;
        assert!(before >= (300 * BLOCK) as f64, "{before} bytes were moved");
        for _ in 0..4 {
            assert_eq!(collect().await, before);
        }
    });
}

/// Demand 44: while a pass lists what was chosen it counts what may be chosen next, and so prepares segments with one
/// walk through the map instead of two. The first pass only counts: it takes what each of the two walks would take at
/// least.
#[test]
fn every_pass_prepares_segments() {
    run(async |rt| {
        let device = device(&rt, &media(4 << 20));
        let config = Config { collector: Settings::default(), ..config(&*device, SEGMENT, 1 << 40) };
        let io = Io::over(&rt, &Pool::default(), vec![device]);
        let volume = Volume::open(config, &rt, io.pool(), io.below().clone()).await.unwrap();
        let bench = Bench { rt: rt.clone(), io, volume };
        for lba in 0..2000 {
            bench.write(lba * 2, 1, 1).await;
        }
        let pass = async || {
            let (start, before) = (rt.now(), bench.stat("gc_ready"));
            bench.pass().await;
            (rt.now().since(start).0 as f64, bench.stat("gc_ready") - before)
        };
        let (walk, _) = pass().await;
        let mut in_all = 0.0;
        for nr in 1..10 {
            let (took, prepared) = pass().await;
            assert!(prepared > 0.0, "pass {nr} prepared nothing");
            in_all += took;
        }
        assert!(9.0 * 2.0 * walk > 1.5 * in_all, "nine passes took {in_all} ns, and a walk {walk}");
    });
}

/// Victims that are the best of a few drawn ones keep a volume going as well, and nonsense is refused.
#[test]
fn a_few_drawn_segments_are_choice_enough() {
    run(async |rt| {
        let vol = |choices: &str| {
            let params = format!("block=512 page=512 segment=16KiB checkpoint_interval=256KiB {choices}");
            try_build(&rt, &format!("a = memory size=4MiB defer=always latency=2us; vol = logvol {params} on a"))
        };
        let mut moved = Vec::new();
        for choices in ["", "gc_sample=10", "gc_sample=1"] {
            let vol = vol(choices).unwrap();
            let mut rng = Stream::named(1, "overwrites");
            for _ in 0..12_000 {
                overwrite(&vol, 4500, &mut rng).await;
            }
            assert!(told(&vol, "used_ratio") < 0.99);
            moved.push(told(&vol, "moved_bytes"));
        }
        println!("moved by all, 10 and 1 choices: {moved:?}");
        assert!(moved[1] < 1.3 * moved[0] && moved[2] > 1.1 * moved[0], "{moved:?}");
        for wrong in ["gc_sample=0", "gc_sample=1025"] {
            assert!(vol(wrong).err().is_some_and(|error| error.contains("1 to 1024")));
        }
    });
}
