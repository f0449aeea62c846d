//! A device below without space: at each write in turn, for one write and for many.

use esker_base::Stream;
use esker_block::BioError;
use esker_testkit::{Bound, Journal, Recorder, crash};

use super::crash::{
    BLOCKS, CHECKPOINT, Content, MEDIUM, Run, SEGMENT, apply_to, content_of, draw, image, judge, try_perform,
};
use super::*;

/// Which writes find no space: so many from one on. Each of them leaves a part of its bytes, or all.
#[derive(Clone, Copy, Debug)]
struct Lack {
    from: u64,
    count: u64,
    leaves_all: bool,
}

/// A device that lacks space for a while.
struct Tight {
    inner: Rc<dyn Device>,
    lack: Lack,
    seen: Rc<Cell<u64>>,
}

impl Device for Tight {
    fn limits(&self) -> &Limits {
        self.inner.limits()
    }

    fn submit(&self, bio: Bio) -> Step<Done> {
        if bio.op != esker_block::Op::Write {
            return self.inner.submit(bio);
        }
        self.seen.set(self.seen.get() + 1);
        let Lack { from, count, leaves_all } = self.lack;
        if !(from..from.saturating_add(count)).contains(&self.seen.get()) {
            return self.inner.submit(bio);
        }
        let left = if leaves_all { bio.len() } else { bio.len() / 2 / BLOCK as u64 * BLOCK as u64 };
        let bytes = bio.buf.to_vec()[..left as usize].to_vec();
        let part = Bio::write(bio.offset(), Buf::from_bytes(&Pool::default(), &bytes));
        let below = (left > 0).then(|| self.inner.submit(part));
        Step::later(async move {
            if let Some(below) = below {
                below.await.result.unwrap();
            }
            bio.fail(BioError::NoSpace("the device below".into()))
        })
    }
}

fn is_short(error: &BioError) -> bool {
    matches!(error, BioError::NoSpace(_))
}

/// What a run was, and how many writes came below.
struct Told {
    run: Run,
    writes: u64,
    failed: usize,
}

/// Does acts one after the other over a device that lacks space. What fails changes nothing here, and may be found
/// after a crash as long as no later act has succeeded.
fn record(seed: u64, acts: usize, lack: Lack) -> Told {
    let (sim, journal) = (Sim::new(SimConfig::seeded(seed)), Journal::default());
    let (rt, recorded, seen) = (sim.rt(), journal.clone(), Rc::new(Cell::new(0)));
    let counted = seen.clone();
    let (run, failed) = sim.block_on(async move {
        let leaf = Recorder::leaf(&recorded, &rt, &media(MEDIUM), BLOCK as u32, Defer::Always(Nanos::micros(3)));
        let leaf: Rc<dyn Device> = Rc::new(Tight { inner: leaf, lack, seen });
        let bench = loop {
            match Bench::try_open(&rt, leaf.clone(), SEGMENT, CHECKPOINT).await {
                Ok(bench) => break bench,
                Err(error) => assert!(error.contains("it cannot be written: no space"), "{error}"),
            }
        };
        let mut run = Run::new(&recorded, BLOCKS);
        // Where the first act stands that failed since the last one that changed something.
        let (mut ghost, mut failed) = (None, 0);
        let mut rng = Stream::named(seed, "acts");
        for number in 0..acts {
            let act = draw(&mut rng, number as u8 + 1);
            let before: Content = run.contents.last().unwrap().clone();
            let mut after = before.clone();
            apply_to(&mut after, &act);
            run.began.push(recorded.points());
            run.contents.push(after.clone());
            match try_perform(&bench, &act).await {
                Ok(is_durable) => {
                    let wrote = after != before;
                    ghost = ghost.filter(|_| !wrote);
                    if is_durable {
                        run.durable.insert(recorded.points(), ghost.unwrap_or(run.began.len()));
                    }
                }
                Err(error) => {
                    assert!(is_short(&error), "{lack:?}: {act:?}: {error}");
                    ghost = ghost.or(Some(run.began.len()));
                    failed += 1;
                    run.began.push(recorded.points());
                    run.contents.push(before);
                }
            }
            assert_eq!(bench.values(0, BLOCKS).await, *run.contents.last().unwrap(), "{lack:?}: {act:?}");
        }
        assert_eq!(bench.volume.latch.why(), None, "{lack:?}");
        (run, failed)
    });
    Told { run, writes: counted.get(), failed }
}

/// Each crash state, at most so many for each event, is what some act left.
fn check_cuts(told: &Told, lack: Lack, states_max: u64) -> u64 {
    let bound = Bound { states_max, seed: lack.from };
    let judged = crash::for_each_state(&told.run.journal, bound, |point, images| {
        judge(&told.run, point, &content_of(&image(images)))
    });
    judged.unwrap_or_else(|lost| panic!("{lack:?}: {lost}")).states
}

#[test]
fn each_write_may_find_no_space_and_nothing_that_was_answered_is_lost() {
    let writes = record(3, 80, Lack { from: u64::MAX, count: 0, leaves_all: false }).writes;
    assert!(writes > 60, "{writes} writes");
    let (mut failed, mut states) = (0, 0);
    for from in 1..=writes {
        for (count, leaves_all) in [(1, true), (1, false), (7, true), (40, false)] {
            let lack = Lack { from, count, leaves_all };
            let told = record(3, 80, lack);
            failed += told.failed;
            if (from + count) % 9 == 0 {
                states += check_cuts(&told, lack, 2);
            }
        }
    }
    assert!(failed > 500 && states > 5000, "{failed} acts failed, {states} states");
}

#[test]
fn requests_that_are_under_way_together_fail_behind_the_first_that_finds_no_space() {
    let mut last = 0;
    for (seed, leaves_all) in (1..=60).flat_map(|seed| [(seed, true), (seed, false)]) {
        let (lack, rounds) = (Lack { from: 4 + seed % 20, count: 1 + seed % 3, leaves_all }, 1 + (seed / 20) as u8 * 2);
        let media = media(MEDIUM);
        let kept = media.clone();
        let (sim, seen) = (Sim::new(SimConfig::seeded(seed)), Rc::new(Cell::new(0)));
        let rt = sim.rt();
        let (held, failed): (Vec<u8>, Vec<Vec<u8>>) = sim.block_on(async move {
            let leaf: Rc<dyn Device> = Rc::new(Tight { inner: device(&rt, &kept), lack, seen });
            let bench = Bench::open(&rt, leaf, SEGMENT, CHECKPOINT).await;
            let (mut held, mut failed) = (vec![0; BLOCKS as usize], vec![vec![]; BLOCKS as usize]);
            for round in 0..rounds {
                let tasks = (0..BLOCKS).map(|lba| {
                    let (bench, value) = (bench.clone(), round * 30 + 1 + lba as u8 % 30);
                    let write = async move {
                        let buf = Buf::from_bytes(bench.io.pool(), &[value; BLOCK]);
                        (value, bench.submit(Bio::write(lba * BLOCK as u64, buf)).await.result)
                    };
                    rt.spawn("write", write)
                });
                let answers = esker_rt::sync::join_all(tasks.collect::<Vec<_>>()).await;
                for (lba, (value, result)) in answers.into_iter().enumerate() {
                    match result {
                        Ok(_) => (held[lba], failed[lba]) = (value, vec![]),
                        Err(error) => {
                            assert!(is_short(&error), "{error}");
                            failed[lba].push(value);
                        }
                    }
                }
                assert_eq!(bench.values(0, BLOCKS).await, held, "{lack:?}, round {round}");
            }
            (held, failed)
        });
        last += usize::from(failed.iter().any(|values| !values.is_empty()));
        // The log is perhaps still broken off: what was answered is there, and of what failed last some may be.
        for (lba, found) in content_of(&media).into_iter().enumerate() {
            let is_fine = found == held[lba] || failed[lba].contains(&found);
            let may_be = (held[lba], &failed[lba]);
            assert!(is_fine, "{lack:?}, {rounds} rounds: block {lba} holds {found}, not one of {may_be:?}");
        }
    }
    assert!(last > 10, "the last round failed {last} times");
}

/// A medium that was written and left without a stop, and the device on which it is opened without space.
fn opened_short(body: impl AsyncFn(Bench, Rc<Cell<u64>>) + 'static) {
    let media = media(MEDIUM);
    let kept = media.clone();
    run(async move |rt| {
        let bench = Bench::open(&rt, device(&rt, &kept), SEGMENT, CHECKPOINT).await;
        for lba in 0..40 {
            bench.write(lba, 1, lba as u8 + 1).await;
        }
    });
    run(async move |rt| {
        let seen = Rc::new(Cell::new(0));
        let lack = Lack { from: 1, count: 1000, leaves_all: false };
        let leaf: Rc<dyn Device> = Rc::new(Tight { inner: device(&rt, &media), lack, seen: seen.clone() });
        let bench = Bench::open(&rt, leaf, SEGMENT, CHECKPOINT).await;
        body(bench, seen).await;
    });
}

#[test]
fn a_volume_is_opened_without_space_below_is_read_and_says_so_until_there_is_some() {
    opened_short(async |bench, seen| {
        let expected: Vec<u8> = (1..=40).collect();
        assert_eq!(bench.values(0, 40).await, expected);
        let error = bench.submit(Bio::discard(0, BLOCK as u64)).await.result.unwrap_err();
        assert!(is_short(&error), "{error}");
        let trouble = format!("{:?}", bench.volume.shortage_trouble());
        assert!(trouble.contains("the device below has no space"), "{trouble}");
        bench.ok(Bio::flush()).await;
        seen.set(1000);
        bench.ok(Bio::discard(0, BLOCK as u64)).await;
        assert_eq!((bench.volume.shortage_trouble(), bench.values(0, 2).await), (None, vec![0, 2]));
    });
}
