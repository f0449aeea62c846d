//! Several heads of the log: what a batch splits, a replay puts together.

use esker_base::Stream;
use esker_rt::sync::join_all;
use esker_testkit::{Bound, Journal, Recorder, crash};

use super::crash::{BLOCKS, CHECKPOINT, MEDIUM, Run, SEGMENT, content_of, image, judge};
use super::*;
use crate::segments::State;

/// Logical blocks that are overwritten; those behind are written once and deleted.
const HOT: u64 = 8;

#[derive(Clone, Copy, Debug)]
enum Act {
    /// Overwrites one block and writes another for the first time, at once.
    Pair(u64, u64, u8),
    /// Writes one block for the first time, alone: its records go to its own head.
    Cold(u64, u8),
    Delete(u64),
    Flush,
    Checkpoint,
    Collect,
}

impl Bench {
    fn buf(&self, blocks: usize, value: u8) -> Buf {
        Buf::from_bytes(self.io.pool(), &vec![value; blocks * BLOCK])
    }

    /// Two writes that meet in one batch.
    async fn write_pair(&self, blocks: usize, [hot, cold]: [u64; 2], value: u8) {
        let write = |lba: u64| self.submit(Bio::write(lba * BLOCK as u64, self.buf(blocks, value)));
        for done in join_all([write(hot), write(cold)]).await {
            assert_eq!(done.result.err(), None);
        }
    }

    async fn perform(&self, act: &Act) -> bool {
        match *act {
            Act::Pair(hot, cold, value) => self.write_pair(1, [hot, cold], value).await,
            Act::Cold(lba, value) => self.write(lba, 1, value).await,
            Act::Delete(lba) => self.ok(Bio::discard(lba * BLOCK as u64, BLOCK as u64)).await,
            Act::Flush => self.ok(Bio::flush()).await,
            Act::Checkpoint => self.checkpoint().await,
            Act::Collect => self.volume.collect_now(&self.volume.store(self.below())).await,
        }
        matches!(act, Act::Flush | Act::Checkpoint)
    }

    fn open_segments(&self) -> usize {
        self.volume.segments().iter().filter(|segment| segment.state == State::Open).count()
    }
}

fn draw(rng: &mut Stream, content: &[u8], number: u8) -> Act {
    let cold = HOT + rng.below(BLOCKS - HOT);
    match rng.below(10) {
        0 => Act::Flush,
        1 => Act::Checkpoint,
        2 => Act::Collect,
        _ if content[cold as usize] != 0 => Act::Delete(cold),
        3..6 => Act::Cold(cold, number),
        _ => Act::Pair(rng.below(HOT), cold, number),
    }
}

fn apply(content: &mut [u8], act: &Act) {
    match *act {
        Act::Pair(hot, cold, value) => [hot, cold].into_iter().for_each(|lba| content[lba as usize] = value),
        Act::Cold(lba, value) => content[lba as usize] = value,
        Act::Delete(lba) => content[lba as usize] = 0,
        Act::Flush | Act::Checkpoint | Act::Collect => {}
    }
}

fn record(seed: u64, acts: usize) -> Run {
    let sim = Sim::new(SimConfig::seeded(seed));
    let (rt, journal) = (sim.rt(), Journal::default());
    sim.block_on(async move {
        let mut run = Run::new(&journal, BLOCKS);
        let leaf = Recorder::leaf(&journal, &rt, &media(MEDIUM), BLOCK as u32, Defer::Always(Nanos::micros(3)));
        let bench = Bench::open(&rt, leaf, SEGMENT, CHECKPOINT).await;
        for hot in 0..HOT {
            run.step(|content| content[hot as usize] = 1, async {
                bench.write(hot, 1, 1).await;
                false
            })
            .await;
        }
        let mut rng = Stream::named(seed, "acts");
        for number in 0..acts {
            let act = draw(&mut rng, run.contents.last().unwrap(), number as u8 + 2);
            run.step(|content| apply(content, &act), bench.perform(&act)).await;
        }
        assert_eq!(bench.values(0, BLOCKS).await, *run.contents.last().unwrap(), "seed {seed}");
        assert_eq!(bench.open_segments(), 2, "seed {seed}: each class has a head");
        run
    })
}

#[test]
fn every_crash_state_of_two_heads_is_a_whole_prefix() {
    let mut states = 0;
    for seed in 1..=4 {
        let run = record(seed, 80);
        let bound = Bound { states_max: 6, seed };
        let walked =
            crash::for_each_state(&run.journal, bound, |point, images| judge(&run, point, &content_of(&image(images))));
        states += walked.unwrap_or_else(|lost| panic!("seed {seed}: {lost}")).states;
    }
    println!("{states} crash states of two heads");
    assert!(states > 1000, "only {states} states");
}

/// Each pair fills the rest of both heads, so that the next one opens segments in both. Single writes and checkpoints
/// see to it that either has the lower number.
#[test]
fn a_batch_that_opens_two_segments_is_found_again() {
    const LONG: usize = 20;
    let media = media(MEDIUM);
    let content = Rc::new(RefCell::new(vec![0u8; 2 * BLOCKS as usize]));
    for round in 0..60u64 {
        let (media, content) = (media.clone(), content.clone());
        run(async move |rt| {
            let mut rng = Stream::named(round, "steps");
            let bench = Bench::open(&rt, device(&rt, &media), SEGMENT, 1 << 40).await;
            assert_eq!(bench.values(0, 2 * BLOCKS).await, *content.borrow(), "round {round}");
            for step in 0..4 + rng.below(8) {
                let value = (round * 12 + step) as u8 | 1;
                if rng.chance(0.3) {
                    bench.checkpoint().await;
                }
                if rng.chance(0.3) {
                    bench.write(0, LONG, value).await;
                } else {
                    bench.ok(Bio::discard(BLOCKS * BLOCK as u64, (LONG * BLOCK) as u64)).await;
                    bench.write_pair(LONG, [0, BLOCKS], value).await;
                    content.borrow_mut()[BLOCKS as usize..][..LONG].fill(value);
                }
                content.borrow_mut()[..LONG].fill(value);
            }
        });
    }
}

/// One block of records serves both heads, and one head suffices where all data is of one class.
#[test]
fn a_batch_has_one_block_of_records_however_many_heads_it_goes_to() {
    run(async |rt| {
        let (gate, keeper) = Gate::over(device(&rt, &media(MEDIUM)));
        let bench = Bench::open(&rt, gate, SEGMENT, 1 << 40).await;
        bench.write(0, 1, 1).await;
        bench.write_pair(1, [0, 10], 2).await;
        let writes = || keeper.noted(OpKind::Write).len();
        let blocks = || keeper.noted(OpKind::Write).iter().map(|(_, len)| *len).sum::<u64>() / BLOCK as u64;
        let before = (writes(), blocks());
        bench.write_pair(1, [0, 11], 3).await;
        assert_eq!((writes() - before.0, blocks() - before.1), (2, 3), "two requests, and one block of records");
        let before = (writes(), blocks());
        bench.write_pair(1, [0, 1], 4).await;
        bench.write_pair(1, [0, 1], 5).await;
        let (requests, written) = (writes() - before.0, blocks() - before.1);
        assert!(requests <= 3 && written <= 6, "{requests} requests, {written} blocks");
        assert_eq!(bench.values(0, 2).await, [5, 5]);
    });
}

/// Blocks that only a clone still has are moved to segments of their own.
#[test]
fn what_only_a_snapshot_holds_is_kept_apart() {
    const FAR: u64 = 1 << 20;
    run(async |rt| {
        let bench = Bench::open(&rt, device(&rt, &media(1 << 20)), SEGMENT, 1 << 40).await;
        for lba in 0..60 {
            bench.write(lba, 1, lba as u8 + 1).await;
        }
        bench.ranges(&[clone(0, 60, FAR)]).await;
        for lba in (0..60).step_by(2) {
            bench.write(lba, 1, 200).await;
        }
        for lba in (1..60).step_by(4) {
            bench.ranges(&[delete(lba, 1), delete(FAR + lba, 1)]).await;
        }
        for _ in 0..3 {
            bench.volume.collect_now(&bench.volume.store(bench.below())).await;
        }
        let g = bench.volume.geometry();
        let class_of = |lba: u64| {
            let pba = bench.volume.pieces(lba..lba + 1)[0].pba;
            bench.volume.segments()[g.segment_of(pba).index()].class
        };
        assert_eq!(class_of(FAR + 2), esker_cleaning::Class::HELD, "only the clone has it");
        assert_ne!(class_of(3), esker_cleaning::Class::HELD, "the volume has it too");
        assert_eq!(bench.values(FAR + 2, 2).await, [3, 4]);
    });
}
