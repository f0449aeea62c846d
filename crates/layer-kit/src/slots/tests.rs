//! What holds for the map as a whole, over media that outlive it.

mod damage;
mod history;
mod power;
mod use_of;

use std::rc::Rc;

use esker_base::{ByteRange, Nanos};
use esker_block::store::SparseStore;
use esker_block::{Device, Limits};
use esker_dev::{Defer, Media, MemoryDevice};
use esker_rt::mem::Pool;
use esker_rt::sim::{Sim, SimConfig};
use esker_rt::{Rt, sim};

use super::check::{SlotVerdict, check};
use super::*;
use crate::io::Io;

const BLOCK: u32 = 512;
/// The lower devices: home, and the one with the map.
const HOME: usize = 0;
const FAST: usize = 1;
const NOTE: [u8; NOTE_BYTES] = [7; NOTE_BYTES];

/// A map whose journal is full after a few commits.
fn shape(slots: u64, zones: u32) -> SlotShape {
    SlotShape {
        kind: SlotKind::Cache,
        unit: 8192,
        keys: 1000,
        slots: Some(slots),
        journal: 4096,
        zones,
        doubt: Doubt::Zones,
        suspects: Suspects::Dirty,
        commit: CommitRule::Group,
    }
}

/// A medium with room for the slots of a map and no more.
fn medium(shape: &SlotShape) -> Rc<Media> {
    let layout = SlotMap::plan(shape, &Limits::plain(1 << 40, BLOCK)).unwrap();
    Media::new(layout.end())
}

fn device(rt: &Rt, media: &Rc<Media>) -> Rc<dyn Device> {
    Rc::new(MemoryDevice::over(rt, media.clone(), BLOCK, Defer::Always(Nanos(1000))))
}

/// A map in use.
struct Rig {
    map: SlotMap,
    io: Io,
}

impl Rig {
    async fn open_on(rt: &Rt, devices: [Rc<dyn Device>; 2], shape: &SlotShape) -> Result<(Rig, Found), MapError> {
        let limits = devices[FAST].limits().clone();
        let io = Io::over(rt, &Pool::default(), devices.to_vec());
        let (map, found) = SlotMap::open(&io, FAST, shape, &limits).await?;
        Ok((Rig { map, io }, found))
    }

    async fn begin(&self) {
        self.map.begin(&self.io, &NOTE).await.unwrap();
    }

    async fn commit(&self) {
        self.map.commit(&self.io).await.unwrap();
    }

    async fn settle(&self) {
        self.map.settle(&self.io, &NOTE).await.unwrap();
    }

    /// Puts a unit into a slot that is free.
    fn fill(&self, key: u64, marks: SlotMarks) -> u32 {
        let slot = self.map.free(1)[0];
        self.map.set(&[(slot, Some(SlotEntry::of(key).with(marks)))], LowerSet::NONE);
        slot
    }

    fn give_up(&self, slot: u32) {
        self.map.set(&[(slot, None)], LowerSet::NONE);
    }

    fn entries(&self) -> Vec<Option<SlotEntry>> {
        (0..self.map.slots()).map(|slot| self.map.get(slot)).collect()
    }
}

/// Opens the map of a medium.
fn try_on<T: 'static, F: Future<Output = T> + 'static>(
    media: &Rc<Media>,
    shape: &SlotShape,
    body: impl FnOnce(Rig, Found) -> F + 'static,
) -> Result<T, MapError> {
    let (sim, shape) = (Sim::new(SimConfig::seeded(1)), shape.clone());
    let rt = sim.rt();
    let devices = [device(&rt, &Media::new(1 << 20)), device(&rt, media)];
    sim.block_on(async move {
        let (rig, found) = Rig::open_on(&rt, devices, &shape).await?;
        Ok(body(rig, found).await)
    })
}

/// The same where it can be opened.
fn on<T: 'static, F: Future<Output = T> + 'static>(
    media: &Rc<Media>,
    shape: &SlotShape,
    body: impl FnOnce(Rig, Found) -> F + 'static,
) -> T {
    try_on(media, shape, body).unwrap_or_else(|error| panic!("the device {error}"))
}

/// The same for a map that is begun at once.
fn begun<T: 'static, F: Future<Output = T> + 'static>(
    media: &Rc<Media>,
    shape: &SlotShape,
    body: impl FnOnce(Rc<Rig>) -> F + 'static,
) -> T {
    on(media, shape, async |rig, _| {
        rig.begin().await;
        body(Rc::new(rig)).await
    })
}

fn bytes_of(media: &Media) -> Vec<u8> {
    media.bytes(ByteRange::new(0, media.size()).unwrap())
}

/// The bytes of a medium, changed.
fn spoiled(media: &Media, change: impl FnOnce(&mut [u8])) -> Rc<Media> {
    let mut bytes = bytes_of(media);
    change(&mut bytes);
    let mut store = SparseStore::default();
    store.write(0, &bytes);
    Media::of(media.size(), store)
}

fn checked(media: &Media) -> Result<SlotVerdict, MapError> {
    let bytes = bytes_of(media);
    check(media.size(), &mut |at, out| {
        out.copy_from_slice(&bytes[at as usize..at as usize + out.len()]);
        Ok(())
    })
}

#[test]
fn one_seed_gives_one_run() {
    let outcome = sim::twice(SimConfig::seeded(4), |rt| async move {
        let shape = shape(40, 4);
        let devices = [device(&rt, &Media::new(1 << 20)), device(&rt, &medium(&shape))];
        let (rig, found) = Rig::open_on(&rt, devices, &shape).await.unwrap();
        rig.begin().await;
        for key in 0..40 {
            rig.fill(key, SlotMarks::DIRTY);
            rig.commit().await;
        }
        (found, rig.map.counts())
    });
    assert_eq!(outcome.0, Found::Fresh);
    assert!(outcome.1.checkpoints > 5 && outcome.1.commits > 39, "{outcome:?}");
}
