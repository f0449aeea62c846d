//! What power cuts leave: blocks that were promised, and tables that agree with each other.

use std::rc::Rc;

use esker_base::{ByteRange, Nanos, Stream};
use esker_block::store::SparseStore;
use esker_block::{Bio, Buf, Device, Kind};
use esker_dev::{Defer, Media, MemoryDevice};
use esker_layer_kit::Io;
use esker_rt::mem::Pool;
use esker_rt::sim::{Sim, SimConfig};
use esker_rt::sync::join_all;
use esker_rt::{Rt, sim};
use esker_testkit::crash::{self, Bound, Count, Image};
use esker_testkit::power::{self, RECORDED};
use esker_testkit::recorder::{Journal, Recorder, bytes_of};
use esker_testkit::{Log, Promise};

use super::{Volume, checked, config, open_on};
use crate::journal::SECTOR;
use crate::layout::{Layout, SUPERBLOCKS};

/// A volume over recorded media that lacks no room, or room now and then.
#[derive(Clone, Copy, Debug)]
struct Case {
    device: u64,
    block: u32,
    /// Blocks of the volume, if not as many as there is room for.
    blocks: Option<u64>,
    verify: bool,
}

impl Case {
    async fn open(self, rt: &Rt, device: Rc<dyn Device>) -> Volume {
        let size = self.blocks.map(|blocks| blocks * u64::from(self.block));
        let config = config(device.limits(), size);
        let opened = open_on(rt, device, crate::store::Config { verify: self.verify, ..config }).await;
        opened.unwrap_or_else(|error| panic!("the lower device {error}"))
    }

    fn media(self, image: SparseStore) -> Rc<Media> {
        Media::of(self.device, image)
    }

    /// What a volume over a medium holds.
    fn content(self, image: SparseStore) -> SparseStore {
        let media = self.media(image);
        let sim = Sim::new(SimConfig::seeded(0));
        let (rt, device) = (sim.rt(), Rc::new(MemoryDevice::over(&sim.rt(), media, self.block, Defer::Never)));
        sim.block_on(async move { content(&self.open(&rt, device).await).await })
    }
}

async fn content(volume: &Volume) -> SparseStore {
    let len = volume.limits().size;
    let done = volume.submit(Bio::read(0, Buf::unique(volume.io.pool(), len as usize))).await;
    assert_eq!(done.result.err(), None, "everything can be read");
    let mut store = SparseStore::default();
    store.write_buf(0, &done.buf);
    store
}

/// Requests that bring few different contents, so that blocks are shared, left and taken again.
async fn work(rng: &mut Stream, rt: &Rt, device: Rc<dyn Device>, batches: u64) {
    let (pool, block) = (Pool::default(), u64::from(device.limits().block));
    let blocks = device.limits().size / block;
    for batch in 0..batches {
        let mut tasks = Vec::new();
        // The three parts of the volume are used at once.
        for part in 0..3 {
            let (first, room) = (blocks / 3 * part, blocks / 3);
            let len = 1 + rng.below(3.min(room));
            let at = (first + rng.below(room - len + 1)) * block;
            let mut bio = match rng.below(12) {
                0 => Bio::flush(),
                1 => Bio::discard(at, len * block),
                2 => Bio::zero(at, len * block),
                _ => {
                    let bytes: Vec<u8> = (0..len).flat_map(|_| any_content(rng, batch, block as usize)).collect();
                    Bio::write(at, Buf::from_bytes(&pool, &bytes))
                }
            };
            bio.flags.fua = rng.chance(0.1);
            let device = device.clone();
            tasks.push(rt.spawn("client", async move { device.submit(bio).await }));
        }
        for done in join_all(tasks).await {
            let is_full = matches!(done.result, Err(esker_block::BioError::NoSpace(_)));
            assert!(done.result.is_ok() || is_full, "{:?}", done.result);
        }
    }
}

fn any_content(rng: &mut Stream, batch: u64, block: usize) -> Vec<u8> {
    match rng.below(8) {
        0 => vec![0; block],
        1..4 => Buf::described(block, 1000 + batch * 8 + rng.below(8)).to_vec(),
        _ => Buf::described(block, 1 + rng.below(4)).to_vec(),
    }
}

/// Runs a case, then checks and opens every state that a power cut could have left of its medium.
fn check(case: Case, seed: u64, batches: u64) -> Count {
    let (journal, sim) = (Journal::default(), Sim::new(SimConfig::seeded(seed)));
    let defer = Defer::Always(Nanos::micros(3));
    let leaf = Recorder::leaf(&journal, &sim.rt(), &Media::new(case.device), case.block, defer);
    let (rt, recorded, mut rng) = (sim.rt(), journal.clone(), Stream::named(seed, "work"));
    let before = sim.block_on(async move {
        let volume = Rc::new(case.open(&rt, leaf).await);
        let before = content(&volume).await;
        let top = Recorder::above(&recorded, volume, before.clone());
        work(&mut rng, &rt, top, batches).await;
        before
    });
    let log = journal.top();
    let window = ByteRange::new(0, case_size(case)).unwrap();
    let mut judge = Judge { log: &log, promise: Promise::of(&log, 0), before: &before, window };
    let count = crash::for_each_state(&journal, Bound { states_max: 13, seed }, |point, images| {
        let image = images[0].over(&SparseStore::default());
        if is_made(&image) {
            let verdict = checked(&case.media(image.clone()));
            if verdict.wrong > 0 {
                return Err(format!("seed {seed}, crash before event {point}: {:?}", verdict.findings));
            }
        }
        judge.judge(point, &case.content(image)).map_err(|lost| format!("seed {seed}: {lost}"))
    });
    let count = count.unwrap_or_else(|broken| panic!("{broken}"));
    println!("{} crash states: {case:?}, seed {seed}", count.states);
    count
}

fn case_size(case: Case) -> u64 {
    let size = case.blocks.map(|blocks| blocks * u64::from(case.block));
    Layout::plan(case.device, u64::from(case.block), size).unwrap().size()
}

/// Whether there is a volume already.
fn is_made(image: &SparseStore) -> bool {
    bytes_of(image, ByteRange::new(0, SUPERBLOCKS).unwrap()).iter().any(|byte| *byte != 0)
}

struct Judge<'a> {
    log: &'a Log,
    promise: Promise<'a>,
    before: &'a SparseStore,
    window: ByteRange,
}

impl Judge<'_> {
    fn judge(&mut self, point: u64, after: &SparseStore) -> Result<(), esker_testkit::Lost> {
        if self.promise.point() != point {
            self.promise = Promise::of(self.log, point);
        }
        let (before, after) = (|range| bytes_of(self.before, range), |range| bytes_of(after, range));
        self.promise.judge(self.window, &before, &after)
    }
}

const PLENTY: Case = Case { device: 64 << 10, block: 512, blocks: None, verify: false };
const SCARCE: Case = Case { device: 40 << 10, block: 512, blocks: Some(40), verify: false };

#[test]
fn every_crash_state_keeps_its_promises_and_its_tables_agree() {
    let mut states = 0;
    for seed in 1..=3 {
        states += check(PLENTY, seed, 60).states;
    }
    assert!(states > 3000, "only {states} states");
}

#[test]
fn every_crash_state_of_a_volume_without_room_keeps_its_promises() {
    let mut states = 0;
    for seed in 1..=3 {
        states += check(SCARCE, seed, 60).states;
        states += check(Case { verify: true, ..SCARCE }, seed, 30).states;
    }
    assert!(states > 3000, "only {states} states");
}

#[test]
fn every_crash_state_over_large_blocks_keeps_its_promises() {
    let large = Case { device: 160 << 10, block: 4096, blocks: Some(20), verify: false };
    let states = check(large, 5, 60).states;
    assert!(states > 1000, "only {states} states");
}

/// The same through a stack, with the suite that every device passes.
#[test]
fn the_layer_in_a_stack_keeps_its_promises_in_every_crash_state() {
    static KINDS: &[&Kind] = &[&crate::KIND, &RECORDED];
    power::check_text(KINDS, "vol = recorded size=128KiB latency=3us | dedup block=512 cache=64KiB", 3..=3, 9, 500);
}

/// What a second power cut finds when the first one's journal is being replayed.
#[test]
fn a_power_cut_while_a_journal_is_replayed_changes_nothing() {
    let (first, sim) = (Journal::default(), Sim::new(SimConfig::seeded(9)));
    let leaf = Recorder::leaf(&first, &sim.rt(), &Media::new(PLENTY.device), PLENTY.block, Defer::Always(Nanos(1000)));
    let rt = sim.rt();
    sim.block_on(async move {
        let volume = Rc::new(PLENTY.open(&rt, leaf).await);
        work(&mut Stream::named(9, "work"), &rt, volume, 12).await;
    });
    let (mut states, mut replays) = (0, 0);
    let bound = Bound { states_max: 2, seed: 9 };
    let outcome = crash::for_each_state(&first, bound, |point, images: &[Image]| {
        let image = images[0].over(&SparseStore::default());
        if point % 7 != 0 || !is_made(&image) {
            return Ok(());
        }
        replays += 1;
        let expected = PLENTY.content(image.clone());
        let second = reopened(image.clone());
        let count = crash::for_each_state(&second, Bound { states_max: 8, seed: point }, |at, images| {
            let found = PLENTY.content(images[0].over(&image));
            let window = ByteRange::new(0, case_size(PLENTY)).unwrap();
            match bytes_of(&found, window) == bytes_of(&expected, window) {
                true => Ok(()),
                false => Err(format!("cut before event {point}, and again before event {at} of the replay")),
            }
        })?;
        states += count.states;
        Ok(())
    });
    outcome.unwrap_or_else(|what: String| panic!("{what}"));
    println!("{states} crash states of {replays} replays");
    assert!(replays > 10 && states > 300, "{states} states of {replays} replays");
}

/// The journal of a volume's opening over a medium.
fn reopened(image: SparseStore) -> Journal {
    let (journal, sim) = (Journal::default(), Sim::new(SimConfig::seeded(2)));
    let media = PLENTY.media(image);
    let leaf = Recorder::leaf(&journal, &sim.rt(), &media, PLENTY.block, Defer::Always(Nanos(1000)));
    let rt = sim.rt();
    sim.block_on(async move { drop(PLENTY.open(&rt, leaf).await) });
    journal
}

/// A torn commit leaves sectors behind its tear. What is written later must not make them count again.
#[test]
fn what_a_torn_commit_left_behind_its_tear_never_counts() {
    let media = Media::new(PLENTY.device);
    let run = |media: &Rc<Media>, first: u64, count: u64| {
        let (media, sim) = (media.clone(), Sim::new(SimConfig::seeded(1)));
        let (rt, device) = (sim.rt(), Rc::new(MemoryDevice::over(&sim.rt(), media, 512, Defer::Never)));
        sim.block_on(async move {
            let volume = PLENTY.open(&rt, device).await;
            for number in first..first + count {
                super::write(&volume, number, &super::unique(number)).await;
            }
            super::flush(&volume).await;
        });
    };
    run(&media, 0, 14);
    // The second of two sectors got there and the first did not: nothing of the commit counts.
    let io = |media: &Rc<Media>, sim: &Sim| {
        let device: Rc<dyn Device> = Rc::new(MemoryDevice::over(&sim.rt(), media.clone(), 512, Defer::Never));
        Io::over(&sim.rt(), &Pool::default(), vec![device])
    };
    let sim = Sim::new(SimConfig::seeded(1));
    let lower = io(&media, &sim);
    sim.block_on(async move {
        let zeroes = Buf::zeroed(lower.pool(), SECTOR);
        lower.write(lower.lower(0), SUPERBLOCKS, zeroes, false).await.unwrap();
    });
    // One sector of records, where the tear was.
    run(&media, 30, 7);
    let verdict = checked(&media);
    assert_eq!((verdict.records, verdict.mapped, verdict.wrong), (7, 7, 0), "{verdict:?}");
}

#[test]
fn one_seed_gives_one_run() {
    let outcome = sim::twice(SimConfig::seeded(4), |rt| async move {
        let device: Rc<dyn Device> =
            Rc::new(MemoryDevice::over(&rt, Media::new(64 << 10), 512, Defer::Always(Nanos(1000))));
        let volume = Rc::new(PLENTY.open(&rt, device).await);
        work(&mut rt.rng("work"), &rt, volume.clone(), 40).await;
        volume.dedup.stats().into_iter().map(|stat| (stat.name, stat.value as u64)).collect::<Vec<_>>()
    });
    assert!(outcome.iter().any(|(name, value)| *name == "hits" && *value > 20), "{outcome:?}");
}
