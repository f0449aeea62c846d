//! Trees that tracts share: snapshots, roll back and deletion of whole tracts, beside the collector and power cuts.

use esker_base::Stream;
use esker_block::BioError;
use esker_block::store::SparseStore;
use esker_testkit::{Bound, Count, Journal, Recorder, crash};

use super::crash::{CHECKPOINT, Content, MEDIUM, Run, SEGMENT, judge};
use super::*;
use crate::check::check;
use crate::map::TRACT;
use crate::segments::State;

/// Tracts of the model, and blocks of each.
const TRACTS: u64 = 4;
const BLOCKS: u64 = 30;

#[derive(Clone, Copy, Debug)]
enum Act {
    Write(u64, u64, u64, u8),
    /// A tract becomes what another one is.
    Snapshot(u64, u64),
    /// The same, and a third one goes, in one vector.
    Replace(u64, u64, u64),
    /// Only a part.
    Copy(u64, u64, u64),
    Delete(u64),
    Trim(u64, u64, u64),
    Flush,
    Checkpoint,
    Collect,
}

fn draw(rng: &mut Stream, number: u8) -> Act {
    let [a, b, c] = [0; 3].map(|_: u8| rng.below(TRACTS));
    let (at, len) = (rng.below(BLOCKS - 4), 1 + rng.below(4));
    match rng.below(20) {
        0..=8 => Act::Write(a, at, len, number),
        9..=11 if a != b => Act::Snapshot(a, b),
        12 if a != b && b != c && a != c => Act::Replace(a, b, c),
        13 if a != b => Act::Copy(a, b, at),
        14 => Act::Delete(a),
        15 => Act::Trim(a, at, len),
        16 => Act::Flush,
        17 | 18 => Act::Collect,
        _ => Act::Checkpoint,
    }
}

fn tract(number: u64) -> u64 {
    number * TRACT
}

fn ops(act: Act) -> Vec<RangeOp> {
    match act {
        Act::Snapshot(from, to) => vec![clone(tract(from), TRACT, tract(to))],
        Act::Replace(from, to, gone) => vec![clone(tract(from), TRACT, tract(to)), delete(tract(gone), TRACT)],
        Act::Copy(from, to, len) => vec![clone(tract(from), len + 1, tract(to))],
        Act::Delete(gone) => vec![delete(tract(gone), TRACT)],
        Act::Trim(from, at, len) => vec![delete(tract(from) + at, len)],
        Act::Write(..) | Act::Flush | Act::Checkpoint | Act::Collect => Vec::new(),
    }
}

fn apply_to(content: &mut Content, act: Act) {
    let cells = |tract: u64, at: u64, len: u64| (tract * BLOCKS + at) as usize..(tract * BLOCKS + at + len) as usize;
    match act {
        Act::Write(to, at, len, value) => content[cells(to, at, len)].fill(value),
        Act::Snapshot(from, to) | Act::Replace(from, to, _) => {
            content.copy_within(cells(from, 0, BLOCKS), (to * BLOCKS) as usize);
        }
        Act::Copy(from, to, len) => content.copy_within(cells(from, 0, len + 1), (to * BLOCKS) as usize),
        Act::Delete(gone) => content[cells(gone, 0, BLOCKS)].fill(0),
        Act::Trim(from, at, len) => content[cells(from, at, len)].fill(0),
        Act::Flush | Act::Checkpoint | Act::Collect => {}
    }
    if let Act::Replace(.., gone) = act {
        content[cells(gone, 0, BLOCKS)].fill(0);
    }
}

/// Does one act; tells whether it and all before it are durable now.
async fn perform(bench: &Bench, act: Act) -> bool {
    match act {
        Act::Write(to, at, len, value) => bench.write(tract(to) + at, len as usize, value).await,
        Act::Flush => bench.ok(Bio::flush()).await,
        Act::Checkpoint => bench.checkpoint().await,
        Act::Collect => bench.volume.collect_now(&bench.volume.store(bench.below())).await,
        act => bench.ranges(&ops(act)).await,
    }
    !matches!(act, Act::Write(..) | Act::Collect)
}

async fn values(bench: &Bench) -> Content {
    let mut all = Vec::new();
    for number in 0..TRACTS {
        all.extend(bench.values(tract(number), BLOCKS).await);
    }
    all
}

fn record(seed: u64, acts: usize) -> Run {
    println!("seed {seed}");
    let sim = Sim::new(SimConfig::seeded(seed));
    let (rt, journal) = (sim.rt(), Journal::default());
    sim.block_on(async move {
        let mut run = Run::new(&journal, TRACTS * BLOCKS);
        let leaf = Recorder::leaf(&journal, &rt, &media(MEDIUM), BLOCK as u32, Defer::Always(Nanos::micros(3)));
        let bench = Bench::open(&rt, leaf, SEGMENT, CHECKPOINT).await;
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
            run.step(|content| apply_to(content, act), perform(&bench, act)).await;
        }
        assert_eq!(values(&bench).await, *run.contents.last().unwrap(), "seed {seed}");
        run.moved = bench.stat("moved_bytes");
        run
    })
}

/// What a volume holds that is opened; and that what is counted then is what it was when the checkpoint was written.
fn content_of(media: &Rc<Media>) -> Content {
    let (sim, media) = (Sim::new(SimConfig::seeded(9)), media.clone());
    let rt = sim.rt();
    sim.block_on(async move {
        let device = device(&rt, &media);
        let io = Io::over(&rt, &Pool::default(), vec![device.clone()]);
        let bench = Bench::open(&rt, device.clone(), SEGMENT, CHECKPOINT).await;
        let after = check(&rt, io.pool(), io.below(), device.limits()).await.unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(after.blocks, bench.volume.snapshot().blocks());
        let counts = |volume: &Volume| volume.segments().iter().map(|segment| segment.live).collect::<Vec<_>>();
        let before = counts(&bench.volume);
        assert!(!bench.volume.segments().iter().any(|s| s.state == State::Closed && s.live == 0), "a leak");
        let content = values(&bench).await;
        // Everything goes: no reference is left, and none was missing.
        for number in 0..TRACTS {
            bench.ranges(&[delete(tract(number), TRACT)]).await;
        }
        bench.checkpoint().await;
        assert!(counts(&bench.volume).iter().all(|live| *live == 0), "{before:?}");
        content
    })
}

/// The states of one run, and the bytes that its collector copied.
fn every_state(seed: u64, acts: usize, states_max: u64) -> (Count, f64) {
    let run = record(seed, acts);
    let bound = Bound { states_max, seed };
    let walked = crash::for_each_state(&run.journal, bound, |point, images| {
        judge(&run, point, &content_of(&Media::of(MEDIUM, images[0].over(&SparseStore::default()))))
    });
    (walked.unwrap_or_else(|lost| panic!("seed {seed}: {lost}")), run.moved)
}

#[test]
fn every_crash_state_of_shared_tracts_is_a_whole_prefix_of_what_was_done() {
    let runs: Vec<(Count, f64)> = (1..=4).map(|seed| every_state(seed, 40, 4)).collect();
    let states: u64 = runs.iter().map(|(count, _)| count.states).sum();
    println!("{states} crash states of shared tracts and cleaning");
    assert!(states > 800, "only {states} states");
    assert!(runs.iter().filter(|(_, moved)| *moved > 0.0).count() >= 2, "the collector has nothing to do");
}

/// A volume with so many extents in tract 0 that its tree has more nodes than are given back at once.
async fn strewn(rt: &Rt, bytes: u64) -> Bench {
    let bench = Bench::open(rt, device(rt, &media(bytes)), 64 << 10, 1 << 40).await;
    overwrite(&bench, 1).await.unwrap();
    bench
}

/// Blocks of [`strewn`].
const STREWN: u64 = 2_000;

async fn overwrite(bench: &Bench, value: u8) -> Result<(), BioError> {
    for i in 0..STREWN {
        let buf = Buf::from_bytes(bench.io.pool(), &[value; BLOCK]);
        let lba = i * 1_237 % STREWN * 2;
        bench.submit(Bio::write(lba * BLOCK as u64, buf)).await.result?;
    }
    Ok(())
}

#[test]
fn a_snapshot_costs_no_nodes_and_no_data_and_a_roll_back_neither() {
    run(async |rt| {
        let bench = strewn(&rt, 8 << 20).await;
        let (nodes, data) = (bench.volume.map.borrow().nodes(), bench.stat("data_bytes"));
        for number in 1..=20 {
            bench.ranges(&[clone(0, TRACT, tract(number))]).await;
        }
        let added = bench.volume.map.borrow().nodes() - nodes;
        assert!(added <= 1 && bench.stat("data_bytes") == data, "{added} nodes");
        overwrite(&bench, 2).await.unwrap();
        bench.ranges(&[clone(tract(7), TRACT, 0)]).await;
        assert_eq!((bench.values(0, 1).await, bench.values(tract(20) + 2, 1).await), (vec![1], vec![1]));
        bench.volume.give_back_all().await;
        assert_eq!(bench.volume.map.borrow().nodes() - nodes, added, "what was overwritten is gone");
    });
}

#[test]
fn a_deleted_snapshot_is_free_with_the_next_checkpoint() {
    run(async |rt| {
        let bench = strewn(&rt, 8 << 20).await;
        bench.ranges(&[clone(0, TRACT, tract(1))]).await;
        overwrite(&bench, 2).await.unwrap();
        bench.checkpoint().await;
        let before = bench.stat("segments_free");
        bench.ranges(&[delete(tract(1), TRACT)]).await;
        assert!(bench.volume.map.borrow().has_dead(), "not all of it is given back at once");
        bench.checkpoint().await;
        let least = (STREWN * BLOCK as u64 / (64 << 10)) as f64;
        assert!(bench.stat("segments_free") >= before + least, "{before} before, {}", bench.stat("segments_free"));
    });
}

#[test]
fn a_full_volume_takes_what_a_deleted_snapshot_had() {
    run(async |rt| {
        let bench = strewn(&rt, 8 << 20).await;
        let mut snapshots = 0;
        while overwrite(&bench, 2 + snapshots).await.is_ok() {
            snapshots += 1;
            bench.ranges(&[clone(0, TRACT, tract(snapshots.into()))]).await;
        }
        assert!(snapshots > 1, "{snapshots} snapshots fill it");
        bench.checkpoint().await;
        for number in 1..=snapshots {
            bench.ranges(&[delete(tract(number.into()), TRACT)]).await;
        }
        overwrite(&bench, 99).await.unwrap_or_else(|e| panic!("{e}"));
    });
}

/// What the collector moves for all trees at once is in its new place for all of them after a crash, too.
#[test]
fn moved_blocks_of_shared_trees_are_found_after_a_crash() {
    let media = media(4 << 20);
    let kept = media.clone();
    run(async move |rt| {
        let bench = Bench::open(&rt, device(&rt, &kept), 64 << 10, 1 << 40).await;
        for i in 0..900u64 {
            bench.write(i * 7 % 300 * 2, 1, (i % 300 * 7 % 250) as u8 + 1).await;
        }
        for number in 1..9 {
            bench.ranges(&[clone(0, TRACT, tract(number))]).await;
            bench.write(number * 2, 1, 251).await;
        }
        bench.checkpoint().await;
        let written = bench.stat("map_bytes");
        for _ in 0..4 {
            bench.volume.collect_now(&bench.volume.store(bench.below())).await;
        }
        assert!(bench.stat("moved_bytes") > 0.0);
        bench.checkpoint().await;
        // Each leaf once, whatever shares it.
        let nodes = bench.volume.map.borrow().pages() as f64;
        assert!(bench.stat("map_bytes") - written <= nodes * BLOCK as f64, "{nodes} nodes");
        // The old places are used for something else.
        for i in 0..3_000u64 {
            bench.write(tract(20) + i % 40, 1, 252).await;
        }
    });
    run(async move |rt| {
        let bench = Bench::open(&rt, device(&rt, &media), 64 << 10, 1 << 40).await;
        for lba in 0..300u64 {
            let value = (0..900).rev().find(|i| i * 7 % 300 == lba).map(|i| (i % 300 * 7 % 250) as u8 + 1).unwrap();
            for number in 0..9 {
                let is_later = (1..9).contains(&lba) && (number == 0 || lba < number);
                let expected = if is_later { 251 } else { value };
                assert_eq!(bench.values(tract(number) + 2 * lba, 1).await, [expected], "block {lba} of {number}");
            }
        }
    });
}
