//! What power cuts leave.

use std::collections::BTreeMap;

use esker_base::Stream;
use esker_block::BioError;
use esker_block::store::SparseStore;
use esker_testkit::power::{self, RECORDED};
use esker_testkit::{Bound, Count, Image, Journal, Recorder, crash};

use super::*;
use crate::check::check;
use crate::segments::State;

static CUT: &[&Kind] = &[&crate::KIND, &RECORDED];

#[test]
fn a_volume_keeps_its_promises_in_every_crash_state() {
    let text = "a = recorded size=1MiB latency=3us; \
        vol = logvol block=512 page=512 segment=64KiB checkpoint_interval=64KiB size=64KiB on a";
    power::check_text(CUT, text, 1..=4, 6, 2000);
}

#[test]
fn a_volume_of_larger_blocks_keeps_them_over_smaller_sectors() {
    let text = "a = recorded size=1MiB latency=3us; \
        vol = logvol block=4096 segment=64KiB checkpoint_interval=256KiB size=128KiB on a";
    power::check_text(CUT, text, 1..=1, 6, 500);
}

/// Logical blocks of the model.
pub(super) const BLOCKS: u64 = 48;
pub(super) const MEDIUM: u64 = 320 << 10;
pub(super) const SEGMENT: u64 = 16 << 10;
pub(super) const CHECKPOINT: u64 = 48 << 10;

#[derive(Clone, Copy, Debug)]
pub(super) enum Act {
    Write(u64, u64, u8, bool),
    Ranges([RangeOp; 2]),
    Flush,
    Checkpoint,
    Collect,
}

pub(super) fn draw(rng: &mut Stream, number: u8) -> Act {
    let at = rng.below(BLOCKS / 2 - 4);
    let len = 1 + rng.below(4);
    let far = BLOCKS / 2 + rng.below(BLOCKS / 2 - 4);
    match rng.below(12) {
        0..=4 => Act::Write(rng.below(BLOCKS - 4), len, number, rng.chance(0.2)),
        5 => Act::Ranges([clone(at, len, far), delete(rng.below(BLOCKS - 4), len)]),
        6 => Act::Ranges([shift(far, len, at), clone(at, len, far)]),
        7 => Act::Ranges([shift(at, len, far), shift(far, len, at)]),
        8 => Act::Flush,
        9 | 10 => Act::Collect,
        _ => Act::Checkpoint,
    }
}

/// What each block holds.
pub(super) type Content = Vec<u8>;

pub(super) fn apply_to(content: &mut Content, act: &Act) {
    let index = |bytes: u64| (bytes / BLOCK as u64) as usize;
    match act {
        Act::Write(at, len, value, _) => content[*at as usize..(*at + *len) as usize].fill(*value),
        Act::Ranges(ops) => {
            for op in ops {
                let (src, dst) = op.ranges().unwrap();
                let (to, len) = (index(dst.start()), index(dst.len()));
                match src {
                    Some(src) => content.copy_within(index(src.start())..index(src.end()), to),
                    None => content[to..to + len].fill(0),
                }
                if let RangeOp::Move { src, .. } = op {
                    content[index(src.start())..index(src.end())].fill(0);
                }
            }
        }
        Act::Flush | Act::Checkpoint | Act::Collect => {}
    }
}

/// One run: what the volume held after each act, and when the acts began and were durable.
pub(super) struct Run {
    pub(super) journal: Journal,
    pub(super) contents: Vec<Content>,
    /// Events below that had happened when the act began.
    pub(super) began: Vec<u64>,
    /// Number of acts that were durable, by the number of events that had happened.
    pub(super) durable: BTreeMap<u64, usize>,
    /// Bytes that the collector copied.
    pub(super) moved: f64,
}

impl Run {
    /// A run that has not begun, over a volume of zeroes in so many blocks or sectors.
    pub(super) fn new(journal: &Journal, places: u64) -> Run {
        Run {
            journal: journal.clone(),
            contents: vec![vec![0; places as usize]],
            began: vec![],
            durable: BTreeMap::new(),
            moved: 0.0,
        }
    }

    /// Does the next act by `perform`, which tells whether it and all before it are durable then; `apply` does it to
    /// the content.
    pub(super) async fn step(&mut self, apply: impl FnOnce(&mut Content), perform: impl Future<Output = bool>) {
        self.began.push(self.journal.points());
        let mut content = self.contents.last().unwrap().clone();
        apply(&mut content);
        self.contents.push(content);
        if perform.await {
            self.durable.insert(self.journal.points(), self.began.len());
        }
    }
}

fn record(seed: u64, acts: usize) -> Run {
    let sim = Sim::new(SimConfig::seeded(seed));
    let (rt, journal) = (sim.rt(), Journal::default());
    sim.block_on(async move {
        let mut run = Run::new(&journal, BLOCKS);
        let leaf = Recorder::leaf(&journal, &rt, &media(MEDIUM), BLOCK as u32, Defer::Always(Nanos::micros(3)));
        let bench = Bench::open(&rt, leaf, SEGMENT, CHECKPOINT).await;
        // In every other run the collector works beside the acts too.
        if seed.is_multiple_of(2) {
            let other = bench.clone();
            let collect = async move {
                loop {
                    other.rt.sleep(Nanos::micros(15)).await;
                    other.volume.collect_now(&other.volume.store(other.below())).await;
                }
            };
            rt.spawn("collect", collect).detach();
        }
        let mut rng = Stream::named(seed, "acts");
        for number in 0..acts {
            let act = draw(&mut rng, number as u8 + 1);
            run.step(|content| apply_to(content, &act), perform(&bench, &act)).await;
        }
        assert_eq!(bench.values(0, BLOCKS).await, *run.contents.last().unwrap(), "seed {seed}");
        run.moved = bench.stat("moved_bytes");
        run
    })
}

/// Does one act; tells whether it and all before it are durable now.
async fn perform(bench: &Bench, act: &Act) -> bool {
    try_perform(bench, act).await.unwrap_or_else(|error| panic!("{act:?}: {error}"))
}

/// The same, if it could be done.
pub(super) async fn try_perform(bench: &Bench, act: &Act) -> Result<bool, BioError> {
    match act {
        Act::Write(at, len, value, fua) => {
            let buf = Buf::from_bytes(bench.io.pool(), &vec![*value; *len as usize * BLOCK]);
            let bio = Bio::write(at * BLOCK as u64, buf);
            bench.submit(if *fua { bio.fua() } else { bio }).await.result?;
            Ok(*fua)
        }
        Act::Ranges(ops) => {
            bench.submit(Bio::ranges(*ops)).await.result?;
            Ok(true)
        }
        Act::Flush => {
            bench.submit(Bio::flush()).await.result?;
            Ok(true)
        }
        Act::Checkpoint => {
            bench.volume.checkpoint(&bench.volume.store(bench.below())).await?;
            bench.erase().await;
            Ok(true)
        }
        Act::Collect => {
            bench.volume.collect_now(&bench.volume.store(bench.below())).await;
            Ok(false)
        }
    }
}

pub(super) fn image(images: &[Image]) -> Rc<Media> {
    Media::of(MEDIUM, images[0].over(&SparseStore::default()))
}

/// What a volume over `media` holds, after a look of the checker before and after.
pub(super) fn content_of(media: &Rc<Media>) -> Content {
    let (sim, media) = (Sim::new(SimConfig::seeded(9)), media.clone());
    let rt = sim.rt();
    sim.block_on(async move {
        let device = device(&rt, &media);
        let io = Io::over(&rt, &Pool::default(), vec![device.clone()]);
        let before = check(&rt, io.pool(), io.below(), device.limits()).await;
        let bench = Bench::open(&rt, device.clone(), SEGMENT, CHECKPOINT).await;
        let after = check(&rt, io.pool(), io.below(), device.limits()).await.unwrap_or_else(|e| panic!("{e}"));
        if let Ok(before) = before {
            assert_eq!(
                (before.mappings, before.blocks),
                (after.mappings, after.blocks),
                "recovery is what was checked"
            );
        }
        assert_eq!(after.replayed, 0);
        let leak =
            bench.volume.segments().into_iter().find(|segment| segment.state == State::Closed && segment.live == 0);
        assert_eq!(leak, None, "what nothing refers to is free");
        bench.values(0, BLOCKS).await
    })
}

/// Each state is what the volume held after some act, and no durable act is missing.
pub(super) fn judge(run: &Run, point: u64, content: &Content) -> Result<(), String> {
    let least = run.durable.range(..=point).next_back().map_or(0, |(_, acts)| *acts);
    let most = run.began.partition_point(|began| *began <= point);
    match run.contents[least..=most].contains(content) {
        true => Ok(()),
        false => Err(format!("event {point}: {content:?} is not what any of acts {least} to {most} left")),
    }
}

fn every_state(seed: u64, acts: usize, states_max: u64) -> Count {
    let run = record(seed, acts);
    assert!(run.moved > 0.0, "seed {seed}: the collector has nothing to do");
    let bound = Bound { states_max, seed };
    crash::for_each_state(&run.journal, bound, |point, images| judge(&run, point, &content_of(&image(images))))
        .unwrap_or_else(|lost| panic!("seed {seed}: {lost}"))
}

#[test]
fn every_crash_state_is_a_whole_prefix_of_what_was_done() {
    let states: u64 = (1..=4).map(|seed| every_state(seed, 40, 6).states).sum();
    println!("{states} crash states of vectors, snapshots and cleaning");
    assert!(states > 1500, "only {states} states");
}

/// The issue asks for a million: `cargo test --release -p esker-layer-logvol a_million -- --ignored`.
#[test]
#[ignore = "takes many minutes"]
fn a_million_crash_states_lose_nothing() {
    let mut states = 0;
    for seed in 1000.. {
        states += every_state(seed, 60, 32).states;
        if states >= 1_000_000 {
            break;
        }
    }
    println!("{states} states");
}

/// The power fails again while the volume is opened after a power cut, at every event: what it holds stays the same.
#[test]
fn recovery_that_is_broken_off_may_be_repeated() {
    let run = record(5, 30);
    let bound = Bound { states_max: 2, seed: 5 };
    let (mut tried, mut number) = (0, 0);
    let walked = crash::for_each_state(&run.journal, bound, |_, images| {
        number += 1;
        if number % 15 != 0 {
            return Ok::<(), String>(());
        }
        let before = image(images).image();
        let expected = content_of(&Media::of(MEDIUM, before.clone()));
        let journal = Journal::default();
        let sim = Sim::new(SimConfig::seeded(6));
        let (rt, recorded) = (sim.rt(), journal.clone());
        let media = Media::of(MEDIUM, before.clone());
        sim.block_on(async move {
            let leaf = Recorder::leaf(&recorded, &rt, &media, BLOCK as u32, Defer::Always(Nanos::micros(3)));
            Bench::open(&rt, leaf, SEGMENT, CHECKPOINT).await;
        });
        let bound = Bound { states_max: 4, seed: 7 };
        crash::for_each_state(&journal, bound, |point, images| {
            tried += 1;
            let again = content_of(&Media::of(MEDIUM, images[0].over(&before)));
            if again == expected { Ok(()) } else { Err(format!("event {point}: {again:?} instead of {expected:?}")) }
        })
        .map(drop)
    });
    walked.unwrap_or_else(|lost| panic!("{lost}"));
    assert!(tried > 100, "only {tried} states");
}

/// Between two power cuts the volume is written again, into the space in which the first one left its debris. In which
/// runs debris fits behind the new writes is chance, so there are several.
#[test]
fn what_a_power_cut_dropped_never_comes_back() {
    for seed in 1..=3 {
        check_dropped(seed);
    }
}

fn check_dropped(seed: u64) {
    let run = record(seed, 40);
    let mut number = 0;
    let walked = crash::for_each_state(&run.journal, Bound { states_max: 8, seed }, |_, images| {
        number += 1;
        let media = image(images);
        let mut expected = content_of(&media);
        let (sim, kept, writes) = (Sim::new(SimConfig::seeded(number)), media.clone(), number % 4);
        let rt = sim.rt();
        sim.block_on(async move {
            let bench = Bench::open(&rt, device(&rt, &kept), SEGMENT, CHECKPOINT).await;
            for i in 0..writes {
                bench.write(i, 1, 200 + i as u8).await;
            }
        });
        (0..writes).for_each(|i| expected[i as usize] = 200 + i as u8);
        let content = content_of(&media);
        if content == expected { Ok(()) } else { Err(format!("{content:?} instead of {expected:?}")) }
    });
    walked.unwrap_or_else(|lost| panic!("{lost}"));
    assert!(number > 400, "only {number} states");
}

/// A vector of 600 elements, whose records take 29 blocks: all of it or nothing, and all of it once it is answered.
#[test]
fn a_long_vector_is_whole_or_absent_in_every_crash_state() {
    const MEDIUM: u64 = 1 << 20;
    const SEGMENT: u64 = 64 << 10;
    let (sim, journal) = (Sim::new(SimConfig::seeded(2)), Journal::default());
    let (rt, recorded) = (sim.rt(), journal.clone());
    let (began, answered) = sim.block_on(async move {
        let leaf = Recorder::leaf(&recorded, &rt, &media(MEDIUM), BLOCK as u32, Defer::Always(Nanos::micros(3)));
        let bench = Bench::open(&rt, leaf, SEGMENT, 1 << 30).await;
        for at in (0..600).step_by(30) {
            bench.write(at, 30, 1 + (at / 30) as u8).await;
        }
        bench.ok(Bio::flush()).await;
        let began = recorded.points();
        let ops: Vec<RangeOp> = (0..600).map(|i| shift(i, 1, 10_000 + 2 * i)).collect();
        bench.ranges(&ops).await;
        (began, recorded.points())
    });
    let (mut old, mut new) = (0, 0);
    let bound = Bound { states_max: 40, seed: 3 };
    let walked = crash::for_each_state(&journal, bound, |point, images| {
        if point < began {
            return Ok::<(), String>(());
        }
        let media = Media::of(MEDIUM, images[0].over(&SparseStore::default()));
        let sim = Sim::new(SimConfig::seeded(9));
        let rt = sim.rt();
        let (sources, targets) = sim.block_on(async move {
            let bench = Bench::open(&rt, device(&rt, &media), SEGMENT, 1 << 30).await;
            (bench.values(0, 600).await, bench.values(10_000, 1200).await)
        });
        let all: Vec<u8> = (0..600).map(|i| 1 + (i / 30) as u8).collect();
        let images: Vec<u8> = targets.chunks(2).map(|pair| pair[0]).collect();
        let is_old = sources == all && targets.iter().all(|value| *value == 0);
        let is_new = sources.iter().all(|value| *value == 0) && images == all;
        (old, new) = (old + u32::from(is_old), new + u32::from(is_new));
        match (is_old && point < answered) || is_new {
            true => Ok(()),
            false => Err(format!("event {point} of {began} to {answered}: a part of the vector, or none of it")),
        }
    });
    walked.unwrap_or_else(|lost| panic!("{lost}"));
    assert!(old > 10 && new > 0, "{old} states without it, {new} with it");
}
