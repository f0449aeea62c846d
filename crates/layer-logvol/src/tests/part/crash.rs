//! Power cuts between changes of sectors: what is found is what some of the changes left, the first ones, all of each.

use esker_block::store::SparseStore;
use esker_testkit::{Count, Journal, Recorder, crash};

use super::super::crash::{Content, Run, judge};
use super::*;

const BLOCKS: u64 = 6;
const SECTORS: u64 = BLOCKS * IN_BLOCK;
const MEDIUM: u64 = 1 << 20;
const SEGMENT: u64 = 64 << 10;
const CHECKPOINT: u64 = 192 << 10;

#[derive(Clone, Copy, Debug)]
enum Act {
    Write {
        at: u64,
        len: u64,
        value: u8,
        fua: bool,
    },
    Zero {
        at: u64,
        len: u64,
    },
    /// A block to another one.
    Clone(u64, u64),
    Flush,
    Checkpoint,
}

fn draw(rng: &mut Stream, value: u8) -> Act {
    let len = 1 + rng.below(2 * IN_BLOCK);
    let at = rng.below(SECTORS - len + 1);
    match rng.below(12) {
        0..=5 => Act::Write { at, len: len.min(1 + rng.below(4)), value, fua: rng.chance(0.3) },
        6 => Act::Write { at, len, value, fua: false },
        7 | 8 => Act::Zero { at, len },
        9 => Act::Clone(rng.below(3), 3 + rng.below(3)),
        10 => Act::Flush,
        _ => Act::Checkpoint,
    }
}

fn apply_to(content: &mut Content, act: &Act) {
    let span = |at: u64, len: u64| at as usize..(at + len) as usize;
    match *act {
        Act::Write { at, len, value, .. } => content[span(at, len)].fill(value),
        Act::Zero { at, len } => content[span(at, len)].fill(0),
        Act::Clone(from, to) => content.copy_within(span(from * IN_BLOCK, IN_BLOCK), (to * IN_BLOCK) as usize),
        Act::Flush | Act::Checkpoint => {}
    }
}

/// Does one act; tells whether it and all before it are durable now.
async fn perform(bench: &Bench, act: &Act) -> bool {
    match *act {
        Act::Write { at, len, value, fua } => {
            let bio = write_of(bench, at, len, value);
            change(bench, if fua { bio.fua() } else { bio }).await;
            fua
        }
        Act::Zero { at, len } => {
            change(bench, Bio::zero(at * SECTOR, len * SECTOR)).await;
            false
        }
        Act::Clone(from, to) => {
            let src = esker_base::ByteRange::new(from * LARGE, LARGE).unwrap();
            change(bench, Bio::ranges([RangeOp::Clone { src, dst: to * LARGE }])).await;
            true
        }
        Act::Flush => {
            change(bench, Bio::flush()).await;
            true
        }
        Act::Checkpoint => {
            bench.checkpoint().await;
            true
        }
    }
}

fn record(seed: u64, acts: usize) -> Run {
    println!("seed {seed}");
    let sim = Sim::new(SimConfig::seeded(seed));
    let (rt, journal) = (sim.rt(), Journal::default());
    sim.block_on(async move {
        let mut run = Run::new(&journal, SECTORS);
        let leaf = Recorder::leaf(&journal, &rt, &media(MEDIUM), BLOCK as u32, Defer::Always(Nanos::micros(3)));
        let bench = open_large(&rt, leaf, SEGMENT, CHECKPOINT).await;
        let mut rng = Stream::named(seed, "acts");
        for number in 0..acts {
            let act = draw(&mut rng, number as u8 + 1);
            run.step(|content| apply_to(content, &act), perform(&bench, &act)).await;
        }
        assert_eq!(sectors(&bench, BLOCKS).await, *run.contents.last().unwrap());
        run
    })
}

fn content_of(store: SparseStore) -> Content {
    let sim = Sim::new(SimConfig::seeded(9));
    let rt = sim.rt();
    sim.block_on(async move {
        let bench = open_large(&rt, device(&rt, &Media::of(MEDIUM, store)), SEGMENT, CHECKPOINT).await;
        sectors(&bench, BLOCKS).await
    })
}

fn every_state(seed: u64) -> Count {
    let run = record(seed, 40);
    let bound = Bound { states_max: 6, seed };
    let judged = crash::for_each_state(&run.journal, bound, |point, images| {
        judge(&run, point, &content_of(images[0].over(&SparseStore::default())))
    });
    judged.unwrap_or_else(|lost| panic!("seed {seed}: {lost}"))
}

#[test]
fn every_crash_state_holds_whole_changes_of_sectors_and_their_neighbours() {
    let states: u64 = (1..=3).map(|seed| every_state(seed).states).sum();
    assert!(states > 800, "only {states} states");
}
