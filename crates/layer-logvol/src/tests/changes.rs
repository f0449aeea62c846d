//! Checkpoints that list changes of leaves instead of writing the leaves.

use esker_base::Stream;
use esker_block::BioError;
use esker_testkit::{Bound, Journal, Recorder, crash};

use super::crash::{BLOCKS, CHECKPOINT, MEDIUM, Run, SEGMENT, apply_to, content_of, draw, image, judge, try_perform};
use super::*;

/// Clones of the first block beyond those that are changed, each a mapping of its own: they make the map large.
const MAPPINGS: u64 = 200;

impl Bench {
    async fn grow_map(&self) {
        let far = |i: u64| clone(0, 1, BLOCKS + 2 * i);
        let ops: Vec<RangeOp> = (0..MAPPINGS).map(far).collect();
        for some in ops.chunks(20) {
            self.ranges(some).await;
        }
    }

    fn lists(&self) -> u64 {
        self.volume.map.borrow().lists()
    }
}

#[test]
fn a_checkpoint_of_few_changes_in_many_leaves_writes_few_pages() {
    run(async |rt| {
        let media = media(MEDIUM);
        let bench = Bench::open(&rt, device(&rt, &media), SEGMENT, 1 << 30).await;
        bench.write(0, 8, 1).await;
        bench.grow_map().await;
        bench.checkpoint().await;
        let before = bench.stat("map_bytes");
        let far = |i: u64| clone(7, 1, BLOCKS + 20 * i);
        bench.ranges(&(0..10).map(far).collect::<Vec<_>>()).await;
        bench.checkpoint().await;
        let pages = (bench.stat("map_bytes") - before) / BLOCK as f64;
        assert!(bench.lists() == 1 && pages <= 4.0, "{pages} pages, {} of them list changes", bench.lists());
        let again = Bench::open(&rt, device(&rt, &media), SEGMENT, 1 << 30).await;
        assert_eq!((again.stat("records_replayed"), again.lists()), (0.0, 0), "an opening settles");
        let held = |bench: &Bench| (bench.stat("mappings"), bench.stat("mapped_bytes"));
        assert_eq!(held(&again), held(&bench));
        for i in 0..MAPPINGS {
            let place = |bench: &Bench| bench.volume.pieces(BLOCKS + 2 * i..BLOCKS + 2 * i + 1);
            assert_eq!(place(&again), place(&bench));
        }
    });
}

#[test]
fn lists_that_are_too_many_are_settled() {
    run(async |rt| {
        let bench = Bench::open(&rt, device(&rt, &media(MEDIUM)), SEGMENT, 1 << 30).await;
        bench.write(0, 8, 1).await;
        bench.grow_map().await;
        bench.checkpoint().await;
        let (mut most, mut settled) = (0, 0);
        for round in 0..40 {
            bench.ranges(&(0..4).map(|i| clone(round % 8, 1, BLOCKS + 80 * i)).collect::<Vec<_>>()).await;
            let before = bench.lists();
            bench.checkpoint().await;
            most = most.max(bench.lists());
            settled += u64::from(bench.lists() < before);
        }
        let nodes = bench.volume.map.borrow().nodes();
        assert!(
            (2..=nodes / 2).contains(&most) && settled > 0,
            "{most} lists of a map of {nodes}, {settled} times settled"
        );
        assert!(bench.volume.pages.borrow().free() > 0);
    });
}

/// Pages of a checkpoint that failed have the generation of the next one, whose lists would be void for them.
#[test]
fn a_checkpoint_behind_one_that_failed_lists_nothing() {
    run(async |rt| {
        let (media, is_full) = (media(MEDIUM), Rc::new(Cell::new(false)));
        // Only slots are written so that they are durable at once.
        let lacks_space = {
            let is_full = is_full.clone();
            move |bio: &Bio| (bio.flags.fua && is_full.get()).then(|| BioError::NoSpace("the device below".into()))
        };
        let full = Rc::new(Failing { inner: device(&rt, &media), fails: lacks_space });
        let bench = Bench::open(&rt, full, SEGMENT, 1 << 30).await;
        bench.write(0, 8, 1).await;
        bench.grow_map().await;
        is_full.set(true);
        let failed = bench.volume.checkpoint(&bench.volume.store(bench.below())).await;
        assert!(matches!(failed, Err(BioError::NoSpace(_))), "{failed:?}");
        is_full.set(false);
        bench.ranges(&(0..10).map(|i: u64| clone(7, 1, BLOCKS + 20 * i)).collect::<Vec<_>>()).await;
        bench.checkpoint().await;
        assert_eq!(bench.lists(), 0);
        let again = Bench::open(&rt, device(&rt, &media), SEGMENT, 1 << 30).await;
        for i in 0..MAPPINGS {
            let place = |bench: &Bench| bench.volume.pieces(BLOCKS + 2 * i..BLOCKS + 2 * i + 1);
            assert_eq!(place(&again), place(&bench), "block {i}");
        }
    });
}

fn record(seed: u64, acts: usize) -> (Run, u64) {
    let sim = Sim::new(SimConfig::seeded(seed));
    let (rt, journal) = (sim.rt(), Journal::default());
    sim.block_on(async move {
        let mut run = Run::new(&journal, BLOCKS);
        let leaf = Recorder::leaf(&journal, &rt, &media(MEDIUM), BLOCK as u32, Defer::Always(Nanos::micros(3)));
        let bench = Bench::open(&rt, leaf, SEGMENT, CHECKPOINT).await;
        run.step(|content| content[0] = 1, async {
            bench.write(0, 1, 1).await;
            false
        })
        .await;
        run.step(|_| {}, async {
            bench.grow_map().await;
            bench.checkpoint().await;
            true
        })
        .await;
        let (mut rng, mut longest) = (Stream::named(seed, "acts"), 0);
        for number in 0..acts {
            let act = draw(&mut rng, number as u8 + 2);
            let perform = async {
                let is_durable = try_perform(&bench, &act).await.unwrap_or_else(|error| panic!("{act:?}: {error}"));
                // Every other act ends with a checkpoint, so that lists follow each other.
                if number % 2 == 0 {
                    bench.checkpoint().await;
                }
                is_durable || number % 2 == 0
            };
            run.step(|content| apply_to(content, &act), perform).await;
            longest = longest.max(bench.lists());
        }
        assert_eq!(bench.values(0, BLOCKS).await, *run.contents.last().unwrap(), "seed {seed}");
        (run, longest)
    })
}

#[test]
fn every_crash_state_of_listed_changes_is_a_whole_prefix() {
    let mut states = 0;
    for seed in 1..=3 {
        let (run, longest) = record(seed, 40);
        assert!(longest >= 2, "seed {seed}: at most {longest} lists");
        let bound = Bound { states_max: 3, seed };
        let walked =
            crash::for_each_state(&run.journal, bound, |point, images| judge(&run, point, &content_of(&image(images))));
        states += walked.unwrap_or_else(|lost| panic!("seed {seed}: {lost}")).states;
    }
    assert!(states > 500, "only {states} states");
}

#[test]
fn a_checkpoint_for_space_waits_until_as_much_is_dead_as_is_free() {
    run(async |rt| {
        let bench = Bench::open(&rt, device(&rt, &media(MEDIUM)), SEGMENT, 1 << 30).await;
        let mut waited = 0;
        for round in 0..40 {
            bench.write(0, 16, round).await;
            if bench.volume.is_checkpoint_worth_it() {
                break;
            }
            waited = waited.max(bench.volume.dead_now());
        }
        assert!(waited >= 3, "a checkpoint was worth it when {waited} segments were dead");
        assert!(bench.volume.is_checkpoint_worth_it(), "it never is");
    });
}
