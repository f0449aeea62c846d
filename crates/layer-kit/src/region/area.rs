//! Many regions on a part of a lower device.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use esker_base::ByteRange;
use esker_block::Limits;

use super::directory::{DIRECTORY_SIZE, Directory, Entry, REGIONS_MAX};
use super::header::{GRAIN_MIN, HEADER_SLOT, grain_for, grains_max};
use super::pair::{Layout, Pair, place};
use super::{NAME_MAX, Region, RegionError, RegionFuture, Regions, Usage};
use crate::io::Io;
use crate::turn::Turn;

/// Bytes that the directory takes.
const DIRECTORY_PLACE: u64 = 2 * HEADER_SLOT + 2 * DIRECTORY_SIZE;
/// Name of the directory in messages.
const DIRECTORY: &str = "";

/// Regions on a part of a lower device. Cheap to clone.
#[derive(Clone)]
pub struct Area(Rc<Inner>);

struct Inner {
    lower: usize,
    range: ByteRange,
    unit: u32,
    block: u32,
    transfer_max: u32,
    /// Waited for before anything of the directory changes.
    turn: Turn,
    store: Rc<Pair>,
    directory: RefCell<Directory>,
    live: RefCell<BTreeMap<String, Rc<Pair>>>,
}

impl Area {
    /// The area in `range` of lower device `lower`, whose limits these are. Zeroes are an area without regions.
    ///
    /// # Errors
    /// A range that cannot hold an area, something else in it, damage, and what the lower device answers.
    pub async fn open(io: &Io, lower: usize, range: ByteRange, limits: &Limits) -> Result<Area, RegionError> {
        let layout = directory_layout(lower, range, limits)?;
        let (store, directory) = match Pair::load(io, DIRECTORY, layout.clone()).await? {
            None => (Pair::fresh(DIRECTORY, layout), Directory::default()),
            Some(store) => {
                let directory = Directory::decode(&store.bytes(), rest(range));
                let damage = |error: super::directory::DirectoryError| RegionError::Corrupt {
                    name: DIRECTORY.to_string(),
                    at: range.start(),
                    what: error.to_string(),
                };
                (store, directory.map_err(damage)?)
            }
        };
        let unit = store.layout().unit;
        Ok(Area(Rc::new(Inner {
            lower,
            range,
            unit,
            block: limits.block,
            transfer_max: limits.transfer_max,
            turn: Turn::default(),
            store: Rc::new(store),
            directory: RefCell::new(directory),
            live: RefCell::default(),
        })))
    }

    /// Makes `range` an area without regions, whatever it held.
    ///
    /// # Errors
    /// A range that cannot hold an area, and what the lower device answers.
    pub async fn format(io: &Io, lower: usize, range: ByteRange, limits: &Limits) -> Result<(), RegionError> {
        directory_layout(lower, range, limits)?;
        Ok(Pair::clear(io, lower, range.start()).await?)
    }

    /// Names of all regions.
    pub fn names(&self) -> Vec<String> {
        self.0.directory.borrow().entries.keys().cloned().collect()
    }
}

/// What is left for regions.
fn rest(range: ByteRange) -> ByteRange {
    let start = range.start() + DIRECTORY_PLACE;
    ByteRange::new(start, range.end() - start).expect("an area holds its directory")
}

fn directory_layout(lower: usize, range: ByteRange, limits: &Limits) -> Result<Layout, RegionError> {
    let refuse =
        |what: &str| Err(RegionError::BadPlace { start: range.start(), len: range.len(), what: what.to_string() });
    if u64::from(limits.block) > GRAIN_MIN {
        return refuse("the lower device has blocks of more than 4096 bytes; put `align block=4KiB` on it");
    }
    if !range.is_aligned(GRAIN_MIN) {
        return refuse("begin and length must be multiples of 4096");
    }
    if range.len() < DIRECTORY_PLACE {
        return refuse("an area has at least 24576 bytes");
    }
    if range.end() > limits.size {
        return refuse("it ends beyond the lower device");
    }
    let (unit, transfer_max) = (unit(limits), limits.transfer_max);
    let layout =
        Layout { lower, start: range.start(), size: DIRECTORY_SIZE, unit, grain: 4096, transfer_max, region: 0 };
    Ok(layout)
}

/// The largest header that the lower device writes whole or not at all.
fn unit(limits: &Limits) -> u32 {
    let most = limits.atomic.max(limits.block).clamp(512, HEADER_SLOT as u32);
    1 << most.ilog2()
}

impl Inner {
    fn layout(&self, name: &str, size: u64) -> Result<Layout, RegionError> {
        if name.is_empty() || name.len() > NAME_MAX || name.contains('\0') {
            return Err(RegionError::BadName(name.to_string()));
        }
        let max = grains_max(self.unit).saturating_mul(1 << 31);
        let grain = grain_for(size, self.unit, u64::from(self.block)).filter(|_| size > 0);
        let grain = grain.ok_or(RegionError::BadSize { size, max })?;
        let (lower, unit, transfer_max) = (self.lower, self.unit, self.transfer_max);
        Ok(Layout { lower, start: 0, size, unit, grain, transfer_max, region: 0 })
    }

    /// Room and number for a new region.
    fn reserve(&self, name: &str, size: u64) -> Result<Layout, RegionError> {
        let layout = self.layout(name, size)?;
        let mut directory = self.directory.borrow_mut();
        if directory.entries.contains_key(name) {
            return Err(RegionError::Exists(name.to_string()));
        }
        if directory.entries.len() >= REGIONS_MAX {
            return Err(RegionError::TooMany(directory.entries.len()));
        }
        let needed = layout.footprint().unwrap_or(u64::MAX);
        let room = directory.find_room(rest(self.range), needed);
        let room = room.map_err(|free| RegionError::NoSpace { size, needed, free })?;
        directory.last += 1;
        Ok(Layout { start: room.start(), region: directory.last, ..layout })
    }

    async fn store_directory(&self, io: &Io) -> Result<(), RegionError> {
        let bytes = self.directory.borrow().encode();
        self.store.write(0, &bytes);
        self.store.clone().commit(io).await
    }

    async fn malloc(&self, io: &Io, name: &str, size: u64) -> Result<Rc<Pair>, RegionError> {
        let layout = self.reserve(name, size)?;
        Pair::clear(io, self.lower, layout.start).await?;
        let (region, place) = (layout.region, place(&layout).expect("room was found for it"));
        let pair = Rc::new(Pair::fresh(name, layout));
        pair.clone().commit(io).await?;
        // Only now does anybody find it.
        self.directory.borrow_mut().entries.insert(name.to_string(), Entry { place, size, region });
        let stored = self.store_directory(io).await;
        if stored.is_err() {
            self.directory.borrow_mut().entries.remove(name);
        }
        stored?;
        self.live.borrow_mut().insert(name.to_string(), pair.clone());
        Ok(pair)
    }

    async fn restore(&self, io: &Io, name: &str) -> Result<Option<Rc<Pair>>, RegionError> {
        if let Some(pair) = self.live.borrow().get(name) {
            return Ok(Some(pair.clone()));
        }
        let Some(entry) = self.directory.borrow().entries.get(name).cloned() else { return Ok(None) };
        let layout = Layout { start: entry.place.start(), region: entry.region, ..self.layout(name, entry.size)? };
        let at = layout.start;
        let Some(pair) = Pair::load(io, name, layout).await? else {
            let what = "the directory knows it, but it was never committed".to_string();
            return Err(RegionError::Corrupt { name: name.to_string(), at, what });
        };
        let pair = Rc::new(pair);
        self.live.borrow_mut().insert(name.to_string(), pair.clone());
        Ok(Some(pair))
    }

    async fn free(&self, io: &Io, name: &str) -> Result<(), RegionError> {
        let entry = self.directory.borrow_mut().entries.remove(name);
        let entry = entry.ok_or_else(|| RegionError::Unknown(name.to_string()))?;
        let stored = self.store_directory(io).await;
        match &stored {
            Ok(()) => drop(self.live.borrow_mut().remove(name)),
            Err(_) => drop(self.directory.borrow_mut().entries.insert(name.to_string(), entry)),
        }
        stored
    }
}

impl Regions for Area {
    fn malloc(&self, io: &Io, name: &str, size: u64) -> RegionFuture<Rc<dyn Region>> {
        let (inner, io, name) = (self.0.clone(), io.clone(), name.to_string());
        Box::pin(async move {
            let made = inner.turn.alone(inner.malloc(&io, &name, size)).await;
            made.map(|pair| pair as Rc<dyn Region>)
        })
    }

    fn restore(&self, io: &Io, name: &str) -> RegionFuture<Option<Rc<dyn Region>>> {
        let (inner, io, name) = (self.0.clone(), io.clone(), name.to_string());
        Box::pin(async move {
            let found = inner.turn.alone(inner.restore(&io, &name)).await;
            found.map(|found| found.map(|pair| pair as Rc<dyn Region>))
        })
    }

    fn free(&self, io: &Io, name: &str) -> RegionFuture<()> {
        let (inner, io, name) = (self.0.clone(), io.clone(), name.to_string());
        Box::pin(async move { inner.turn.alone(inner.free(&io, &name)).await })
    }

    fn usage(&self) -> Usage {
        let directory = self.0.directory.borrow();
        let taken: u64 = directory.entries.values().map(|entry| entry.place.len()).sum();
        Usage {
            regions: directory.entries.len() as u64,
            memory: self.0.live.borrow().values().map(|pair| pair.len()).sum(),
            disk: DIRECTORY_PLACE + taken,
            disk_free: self.0.range.len() - DIRECTORY_PLACE - taken,
        }
    }
}
