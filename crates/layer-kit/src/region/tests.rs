//! Regions over devices that lose power, and over bytes that are wrong.

use std::collections::BTreeMap;

use esker_base::{ByteRange, Nanos};
use esker_block::store::SparseStore;
use esker_block::{Device, Limits};
use esker_dev::{Defer, Media, MemoryDevice};
use esker_rt::mem::Pool;
use esker_rt::sim::{Sim, SimConfig, twice};
use esker_rt::{Rt, sync};
use esker_testkit::crash::{self, Bound, Image};
use esker_testkit::recorder::{Journal, Recorder};

use super::*;

const SIZE: u64 = 1 << 20;
/// Where the areas of these tests lie.
const START: u64 = 64 << 10;

fn area_range() -> ByteRange {
    ByteRange::new(START, SIZE - START).unwrap()
}

fn io_over(rt: &Rt, device: Rc<dyn Device>) -> (Io, Limits) {
    let limits = device.limits().clone();
    (Io::over(rt, &Pool::default(), vec![device]), limits)
}

fn memory(rt: &Rt, media: &Rc<Media>, block: u32) -> (Io, Limits) {
    io_over(rt, Rc::new(MemoryDevice::over(rt, media.clone(), block, Defer::Always(Nanos(100)))))
}

fn content(region: &dyn Region) -> Vec<u8> {
    let mut out = vec![0; region.len() as usize];
    region.read(0, &mut out);
    out
}

/// All regions of an area with what they hold.
type Model = BTreeMap<String, Vec<u8>>;

async fn held(io: &Io, limits: &Limits) -> Result<Model, RegionError> {
    let area = Area::open(io, 0, area_range(), limits).await?;
    let mut model = Model::new();
    for name in area.names() {
        let region = area.restore(io, &name).await?.expect("the directory lists it");
        model.insert(name, content(&*region));
    }
    Ok(model)
}

/// Makes, changes, commits and frees regions, and calls `step` with what a restart must find from then on.
async fn life(io: &Io, limits: &Limits, step: &mut dyn FnMut(Model)) {
    let mut model = Model::new();
    step(model.clone());
    let area = Area::open(io, 0, area_range(), limits).await.unwrap();
    let a = area.malloc(io, "a", 10_000).await.unwrap();
    model.insert("a".into(), vec![0; 10_000]);
    step(model.clone());
    for round in 1..=3u8 {
        a.write(u64::from(round) * 2_000, &[round; 3_000]);
        a.write(0, &[round]);
        a.clone().commit(io).await.unwrap();
        model.insert("a".into(), content(&*a));
        step(model.clone());
    }
    let b = area.malloc(io, "b", 100).await.unwrap();
    model.insert("b".into(), vec![0; 100]);
    step(model.clone());
    b.write(50, &[9; 50]);
    b.commit(io).await.unwrap();
    model.insert("b".into(), [vec![0; 50], vec![9; 50]].concat());
    step(model.clone());
    area.free(io, "a").await.unwrap();
    model.remove("a");
    step(model.clone());
    // It gets the room of the first, headers and all.
    area.malloc(io, "c", 9_000).await.unwrap();
    model.insert("c".into(), vec![0; 9_000]);
    step(model);
}

/// What a restart finds after a crash that left `image`.
fn found(image: &Image, block: u32) -> Result<Model, RegionError> {
    found_in(image.over(&SparseStore::default()), block)
}

fn found_in(store: SparseStore, block: u32) -> Result<Model, RegionError> {
    let sim = Sim::new(SimConfig::seeded(0));
    let media = Media::of(SIZE, store);
    let (io, limits) = memory(&sim.rt(), &media, block);
    sim.block_on(async move { held(&io, &limits).await })
}

/// Cuts the power before every event of a life, and demands what was committed last or is being committed.
fn check_power_cuts(block: u32, states_max: u64) {
    let journal = Journal::default();
    let sim = Sim::new(SimConfig::seeded(1));
    let device = Recorder::leaf(&journal, &sim.rt(), &Media::new(SIZE), block, Defer::Always(Nanos(100)));
    let (io, limits) = io_over(&sim.rt(), device);
    let recorded = journal.clone();
    let steps: Vec<(u64, Model)> = sim.block_on(async move {
        let mut steps = Vec::new();
        life(&io, &limits, &mut |model| steps.push((recorded.points(), model))).await;
        steps
    });
    let bound = Bound { states_max, seed: 7 };
    let count = crash::for_each_state(&journal, bound, |point, images| {
        let last = steps.iter().rposition(|(at, _)| *at <= point).expect("the first step is at the start");
        let found = found(&images[0], block).map_err(|e| format!("crash before event {point}: {e}"))?;
        match steps[last..].iter().take(2).any(|(_, model)| *model == found) {
            true => Ok(()),
            false => Err(format!("crash before event {point}: neither step {last} nor the next one was found")),
        }
    });
    let count = count.unwrap();
    println!("{} states at {} points: blocks of {block}", count.states, count.points);
    assert!(count.points > 60 && count.states > count.points, "{count:?}");
}

#[test]
fn a_power_cut_at_any_write_leaves_the_last_commit() {
    check_power_cuts(512, 64);
    check_power_cuts(4096, 64);
}

#[test]
fn the_first_time_there_is_nothing_and_later_the_same_region() {
    twice(SimConfig::seeded(1), |rt| async move {
        let (io, limits) = memory(&rt, &Media::new(SIZE), 512);
        let area = Area::open(&io, 0, area_range(), &limits).await.unwrap();
        assert!(area.restore(&io, "map").await.unwrap().is_none());
        let map = area.malloc(&io, "map", 5_000).await.unwrap();
        map.write(4_999, &[1]);
        map.clone().commit(&io).await.unwrap();
        map.write(4_999, &[2]);
        let again = area.restore(&io, "map").await.unwrap().unwrap();
        assert_eq!((content(&*again)[4_999], again.name(), again.len()), (2, "map", 5_000));
        let restarted = held(&io, &limits).await.unwrap();
        assert_eq!(restarted["map"][4_999], 1, "what was not committed is not there");
        let usage = area.usage();
        assert_eq!((usage.regions, usage.memory, usage.disk), (1, 5_000, 24_576 + 24_576));
        area.free(&io, "map").await.unwrap();
        assert_eq!((area.usage().regions, area.usage().disk), (0, 24_576));
    });
}

#[test]
fn damage_is_an_error_and_never_wrong_content() {
    let media = Media::new(SIZE);
    let sim = Sim::new(SimConfig::seeded(1));
    let (io, limits) = memory(&sim.rt(), &media, 512);
    let (io2, limits2) = (io.clone(), limits.clone());
    let right = sim.block_on(async move {
        life(&io, &limits, &mut |_| {}).await;
        held(&io, &limits).await.unwrap()
    });
    let damaged = sim.block_on(async move {
        let mut damaged = 0;
        for at in (START..START + (160 << 10)).step_by(97) {
            let block = at - at % 512;
            let before = io2.read(io2.lower(0), block, 512).await.unwrap().to_vec();
            let mut bytes = before.clone();
            bytes[(at - block) as usize] ^= 0x20;
            let put = async |bytes: &[u8]| {
                let buf = esker_block::Buf::from_bytes(io2.pool(), bytes);
                io2.write(io2.lower(0), block, buf, false).await.unwrap();
            };
            put(&bytes).await;
            match held(&io2, &limits2).await {
                Ok(found) => assert_eq!(found, right, "byte {at}"),
                Err(RegionError::Header { .. } | RegionError::Corrupt { .. } | RegionError::Foreign { .. }) => {
                    damaged += 1
                }
                Err(other) => panic!("byte {at}: {other}"),
            }
            put(&before).await;
        }
        damaged
    });
    assert!(damaged > 50, "{damaged}");
}

#[test]
fn commits_that_meet_share_the_work_and_later_ones_go_on() {
    twice(SimConfig::seeded(1), |rt| async move {
        let journal = Journal::default();
        let device = Recorder::leaf(&journal, &rt, &Media::new(SIZE), 512, Defer::Always(Nanos(100)));
        let (io, limits) = io_over(&rt, device);
        let area = Area::open(&io, 0, area_range(), &limits).await.unwrap();
        let map = area.malloc(&io, "map", 5_000).await.unwrap();
        let before = journal.points();
        map.write(0, &[1]);
        map.clone().commit(&io).await.unwrap();
        let alone = journal.points() - before;
        map.write(0, &[2]);
        let commits = (0..8).map(|_| map.clone().commit(&io));
        let results = sync::join_all(commits).await;
        assert!(results.iter().all(Result::is_ok));
        assert_eq!(journal.points() - before, 2 * alone, "eight at once write what one writes");
        map.clone().commit(&io).await.unwrap();
        assert_eq!(journal.points() - before, 2 * alone, "what is committed is not written again");
    });
}

#[test]
fn a_failed_commit_latches_its_region() {
    twice(SimConfig::seeded(1), |rt| async move {
        let injector = esker_testkit::Injector::new("error flush 5".parse().unwrap());
        let inner = Rc::new(MemoryDevice::over(&rt, Media::new(SIZE), 512, Defer::Never));
        let (io, limits) = io_over(&rt, esker_testkit::Faulty::over(&rt, inner, &injector));
        let area = Area::open(&io, 0, area_range(), &limits).await.unwrap();
        let map = area.malloc(&io, "map", 100).await.unwrap();
        map.write(0, &[1]);
        map.clone().commit(&io).await.unwrap();
        map.write(0, &[2]);
        let first = map.clone().commit(&io).await.unwrap_err();
        let second = map.clone().commit(&io).await.unwrap_err();
        assert!(matches!(first, RegionError::Io(_)), "{first}");
        assert!(second.to_string().contains("since one failed: I/O error: injected"), "{second}");
        assert_eq!(held(&io, &limits).await.unwrap()["map"][0], 1);
    });
}

#[test]
fn bad_names_sizes_and_places_are_refused_with_reasons() {
    let errors = twice(SimConfig::seeded(1), |rt| async move {
        let (io, limits) = memory(&rt, &Media::new(SIZE), 512);
        let area = Area::open(&io, 0, area_range(), &limits).await.unwrap();
        area.malloc(&io, "map", 100).await.unwrap();
        let open = async |start: u64, len: u64, limits: &Limits| {
            let opened = Area::open(&io, 0, ByteRange::new(start, len).unwrap(), limits).await;
            opened.map(drop).unwrap_err().to_string()
        };
        let large = Limits { block: 8192, ..limits.clone() };
        [
            area.malloc(&io, "", 1).await.map(drop).unwrap_err().to_string(),
            area.malloc(&io, &"x".repeat(33), 1).await.map(drop).unwrap_err().to_string(),
            area.malloc(&io, "zero", 0).await.map(drop).unwrap_err().to_string(),
            area.malloc(&io, "huge", u64::MAX).await.map(drop).unwrap_err().to_string(),
            area.malloc(&io, "map", 100).await.map(drop).unwrap_err().to_string(),
            area.malloc(&io, "large", SIZE).await.map(drop).unwrap_err().to_string(),
            area.free(&io, "nobody").await.unwrap_err().to_string(),
            open(512, 1 << 19, &limits).await,
            open(0, 8192, &limits).await,
            open(0, 2 * SIZE, &limits).await,
            open(0, SIZE, &large).await,
        ]
    });
    let words = [
        "cannot name a region",
        "cannot name a region",
        "a region of 0 bytes",
        "a region of 18446744073709551615 bytes",
        "already",
        "are free",
        "no region \"nobody\"",
        "multiples of 4096",
        "at least 24576",
        "ends beyond",
        "align",
    ];
    for (error, words) in errors.iter().zip(words) {
        assert!(error.contains(words), "{error:?} should say {words:?}");
    }
}

#[test]
fn something_else_on_the_medium_is_no_area_until_it_is_formatted() {
    twice(SimConfig::seeded(1), |rt| async move {
        let (io, limits) = memory(&rt, &Media::new(SIZE), 512);
        let buf = esker_block::Buf::from_bytes(io.pool(), &[0x5a; 8192]);
        io.write(io.lower(0), START, buf, false).await.unwrap();
        let error = Area::open(&io, 0, area_range(), &limits).await.map(drop).unwrap_err();
        assert!(matches!(error, RegionError::Foreign { at: START, .. }), "{error}");
        Area::format(&io, 0, area_range(), &limits).await.unwrap();
        assert_eq!(held(&io, &limits).await.unwrap(), Model::new());
    });
}

/// A medium that version 2 of this format wrote: later ones must read it, and this one writes it again.
const GOLDEN: &[u8] = include_bytes!("golden/area-2.img.zst");

#[test]
fn the_golden_image_is_read_and_written_as_it_always_was() {
    let golden = zstd::decode_all(GOLDEN).unwrap();
    let mut store = SparseStore::default();
    store.write(START, &golden);
    let read = found_in(store, 512).unwrap();
    let media = Media::new(SIZE);
    let sim = Sim::new(SimConfig::seeded(1));
    let (io, limits) = memory(&sim.rt(), &media, 512);
    let last = sim.block_on(async move {
        let mut last = Model::new();
        life(&io, &limits, &mut |model| last = model).await;
        last
    });
    let written = media.bytes(ByteRange::new(START, golden.len() as u64).unwrap());
    assert!(read == last, "the golden image holds other regions than it should");
    assert!(written == golden, "the format has changed: say so on its page and in the changelog");
}
