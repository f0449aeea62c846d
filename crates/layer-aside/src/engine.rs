//! The engine: opening, rest, and what a unit gains and loses.

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use esker_base::{Nanos, Time};
use esker_block::locks::RangeLocks;
use esker_block::{Below, BioError, Class, KindError, Latch, LayerHandle, Stat, Tag, Trouble, WorkPermit};
use esker_caching::Slot;
use esker_layer_kit::gate::{Gate, Ticket};
use esker_layer_kit::slots::{Found, LowerSet, MapError, NOTE_BYTES, SlotEntry, SlotMap, SlotMarks};
use esker_layer_kit::{Background, Io, Task, Then, Turn};
use esker_rt::Rt;
use esker_rt::mem::Pool;
use esker_rt::sync::Notify;

use crate::config::{AsideConfig, WriteMode};
use crate::counts::{AsideCounts, add};
use crate::director::Director;
use crate::dirty::DirtySlots;
use crate::fills::Missed;
use crate::units::Units;
use crate::{FAST, HOME, PAGE, known};

pub(crate) const BACKGROUND: Tag = Tag::of(Class::Background);
/// Time between two looks at zones, and how many follow the last touch: zones go quiet after 30 s.
const QUIET_LOOK: Nanos = Nanos::secs(10);
const QUIET_LOOKS: u32 = 6;
const ADVICE: &str = "Check the device below, then restart: what was synced is safe.";

/// A volume with copies beside it.
pub struct Aside<D> {
    pub(crate) config: AsideConfig,
    pub(crate) rt: Rt,
    pub(crate) pool: Pool,
    pub(crate) units: Units,
    pub(crate) gate: Gate,
    pub(crate) director: RefCell<D>,
    /// Units that are about to get their first copy by a write: other changes wait.
    pub(crate) arriving: RefCell<BTreeSet<u64>>,
    pub(crate) arrived: Notify,
    /// Units for which a fill is under way.
    pub(crate) filling: RefCell<BTreeSet<u64>>,
    /// Reads on their way home behind which a fill begins.
    pub(crate) missed: RefCell<BTreeMap<Ticket, Missed>>,
    /// Units whose copy was given up, and which the medium still names.
    pub(crate) named: RefCell<BTreeMap<u64, Slot>>,
    /// Slots that no unit has, and that may be written.
    pub(crate) free: RefCell<Vec<Slot>>,
    /// Overlapping writes through go one behind the other.
    pub(crate) locks: Rc<RangeLocks>,
    /// Lower devices that were written since they were flushed.
    pub(crate) written: [Cell<bool>; 2],
    flushes: Turn,
    /// Requests of clients that are under way at home, and when the last one ended.
    pub(crate) home_under_way: Cell<u64>,
    pub(crate) home_last: Cell<Time>,
    /// When a client last asked for something, or had an answer.
    pub(crate) asked_last: Cell<Time>,
    /// Slots whose copy is newer than home.
    pub(crate) dirty: RefCell<DirtySlots>,
    /// Slots that write-back has found dirty and has not come to yet.
    pub(crate) to_clean: RefCell<Vec<Slot>>,
    /// The medium says that the layer has stopped.
    pub(crate) is_settled: Cell<bool>,
    /// An operator has all copies written home.
    pub(crate) drains: Cell<bool>,
    /// Copies that were doubted at the start.
    pub(crate) suspects: u64,
    /// Looks at zones that are to come.
    looks_left: Cell<u32>,
    pub(crate) counts: AsideCounts,
    pub(crate) latch: Latch,
    pub(crate) background: Rc<Background>,
    pub(crate) handle: OnceCell<LayerHandle>,
}

impl<D: Director> Aside<D> {
    /// Opens the map and learns which units have copies.
    ///
    /// # Errors
    /// The map is damaged or another one; home is not the one of the last stop.
    pub async fn open(config: AsideConfig, io: &Io, mut director: D) -> Result<Rc<Aside<D>>, KindError> {
        let told = |error: &dyn std::fmt::Display| KindError::Outside(format!("{}: {error}", config.name));
        let refused = |error: MapError| {
            KindError::of_medium(error.is_damage(), format!("{}: the fast device {error}", config.name))
        };
        let (map, found) = SlotMap::open(io, FAST, &config.shape, &config.fast).await.map_err(refused)?;
        let (suspects, note) = match &found {
            Found::Fresh => (0, None),
            Found::Clean { note } => (0, Some(*note)),
            Found::Unclean { suspects, .. } => (*suspects, None),
        };
        let is_changed = match &note {
            Some(note) => known::is_changed(io, &config, note).await.map_err(|error| told(&error))?,
            None => false,
        };
        if is_changed && !config.adopts_home {
            return Err(told(&"home was changed without this layer; adopt = \"home\" gives the copies up"));
        }
        let slots = map.slots();
        director.begin(slots);
        let latch = Latch::new(&config.name);
        let aside = Rc::new(Aside {
            rt: io.rt().clone(),
            pool: io.pool().clone(),
            to_clean: RefCell::default(),
            dirty: RefCell::new(DirtySlots::new(slots as usize, config.unit / PAGE, io.rt().now())),
            units: Units::new(map, config.unit),
            gate: Gate::default(),
            director: RefCell::new(director),
            arriving: RefCell::default(),
            arrived: Notify::default(),
            filling: RefCell::default(),
            missed: RefCell::default(),
            named: RefCell::default(),
            free: RefCell::default(),
            locks: Rc::default(),
            written: [Cell::new(true), Cell::new(true)],
            flushes: Turn::default(),
            home_under_way: Cell::default(),
            home_last: Cell::new(io.rt().now()),
            asked_last: Cell::new(io.rt().now()),
            is_settled: Cell::default(),
            drains: Cell::default(),
            suspects,
            looks_left: Cell::new(QUIET_LOOKS),
            counts: AsideCounts::default(),
            latch,
            background: Rc::default(),
            handle: OnceCell::default(),
            config,
        });
        let begun = aside.begin(io, is_changed).await;
        begun.map_err(|error| KindError::Outside(format!("{}: {error}", aside.config.name)))?;
        Ok(aside)
    }

    /// Says on the medium that a stop from now on is not clean, and learns which units have copies. A mode without
    /// write-back brings home what another mode has left.
    async fn begin(self: &Rc<Self>, io: &Io, gives_up: bool) -> Result<(), BioError> {
        self.unsettle(io).await?;
        self.learn(io, gives_up).await?;
        if self.config.mode != WriteMode::Back {
            self.clean_all(io).await?;
        }
        Ok(())
    }

    async fn learn(&self, io: &Io, gives_up: bool) -> Result<(), BioError> {
        for slot in 0..self.units.map.slots() {
            let Some(entry) = self.units.map.get(slot) else { continue };
            if gives_up {
                self.units.map.set(&[(slot, None)], LowerSet::NONE);
                if self.units.map.is_full() {
                    self.commit(io).await?;
                }
                continue;
            }
            self.units.index(entry.key, slot);
            self.director.borrow_mut().placed(entry.key, slot);
            self.note_dirty(slot, entry.marks.has(SlotMarks::DIRTY));
        }
        self.commit(io).await
    }

    /// Says on the medium that the layer works.
    ///
    /// # Errors
    /// The device's.
    pub(crate) async fn unsettle(&self, io: &Io) -> Result<(), BioError> {
        self.units.map.begin(io, &[0; NOTE_BYTES]).await.map_err(known::failed)?;
        self.is_settled.set(false);
        Ok(())
    }

    /// The tasks that work by themselves.
    pub fn tasks(self: &Rc<Self>, handle: &LayerHandle) -> Vec<Task> {
        let is_first = self.handle.set(handle.clone()).is_ok();
        debug_assert!(is_first, "a layer is opened once");
        let (reserve, cleaning, quiet) = (self.clone(), self.clone(), self.clone());
        let (of_reserve, of_cleaning, of_quiet) = (handle.clone(), handle.clone(), handle.clone());
        vec![
            ("aside-reserve", Box::pin(async move { reserve.keep_reserve(&of_reserve).await })),
            ("aside-clean", Box::pin(async move { cleaning.clean_on(&of_cleaning).await })),
            ("aside-quiet", Box::pin(async move { quiet.quieten(&of_quiet).await })),
        ]
    }

    /// Makes the map whole and says that the stop is clean.
    ///
    /// # Errors
    /// The devices'.
    pub async fn quiesce(self: &Rc<Self>, io: &Io) -> Result<(), BioError> {
        if self.latch.is_set() {
            return Ok(());
        }
        self.is_settled.set(true);
        io.flush_all().await?;
        let note = known::note(io, &self.config).await?;
        self.units.map.settle(io, &note).await.map_err(known::failed)
    }

    /// Lets zones of the map go quiet, so that a crash leaves few copies to doubt.
    async fn quieten(self: Rc<Self>, handle: &LayerHandle) {
        let due = || (self.looks_left.get() > 0 && !self.is_settled.get()).then_some((QUIET_LOOK, ()));
        let work = async |permit: WorkPermit, ()| {
            self.looks_left.set(self.looks_left.get() - 1);
            // A failure latches, and that ends the task.
            let _failed = self.of_map(self.units.map.quiet(&self.io(&permit)).await);
            Then::Again
        };
        self.background.run((&self.rt, Some(&self.latch)), handle, due, work).await;
    }

    /// Has the medium say that the copy in a slot may differ from home.
    ///
    /// # Errors
    /// The device's; the layer is latched then.
    pub(crate) async fn touch(&self, io: &Io, slot: Slot) -> Result<(), BioError> {
        self.looks_left.set(QUIET_LOOKS);
        self.background.wake();
        self.of_map(self.units.map.touch(io, &[slot]).await)
    }

    /// What is below, for an order.
    pub fn io_below(&self, below: Below) -> Io {
        Io::new(&self.rt, &self.pool, below)
    }

    /// What is below, for a piece of work.
    pub fn io(&self, permit: &WorkPermit) -> Io {
        Io::new(&self.rt, &self.pool, permit.below().clone())
    }

    /// Ends the tasks.
    pub fn close(&self) {
        self.background.close();
    }

    /// What it tells about itself.
    pub fn stats(&self) -> Vec<Stat> {
        let sizes = [u64::from(self.units.map.slots()), self.used(), self.dirty.borrow().count(), self.suspects];
        self.counts.told(sizes, self.memory(), self.latch.is_set())
    }

    /// Units that have a copy.
    pub(crate) fn used(&self) -> u64 {
        u64::from(self.units.map.used())
    }

    /// Bytes of memory of map, index and director.
    pub fn memory(&self) -> usize {
        self.units.bytes() + self.director.borrow().bytes() + self.dirty.borrow().bytes()
    }

    /// What an operator must know.
    pub fn trouble(&self) -> Option<Trouble> {
        self.latch.trouble()
    }

    /// What a kind decides with.
    pub fn director(&self) -> &RefCell<D> {
        &self.director
    }

    /// Slots of the map.
    pub fn slots(&self) -> u32 {
        self.units.map.slots()
    }

    /// Units that have a copy, those first that are needed last.
    pub fn coldest(&self) -> Vec<(u64, Slot)> {
        let mut slots = Vec::new();
        self.director.borrow().coldest(&mut slots, usize::MAX);
        self.units.keyed(slots).collect()
    }

    /// A unit has its copy in a slot. `after`: what must be flushed before the medium says so.
    pub(crate) fn publish(&self, unit: u64, slot: Slot, marks: SlotMarks, after: LowerSet) {
        self.units.map.set(&[(slot, Some(SlotEntry { key: unit, cursor: 0, marks }))], after);
        self.units.index(unit, slot);
        self.director.borrow_mut().placed(unit, slot);
        self.note_dirty(slot, marks.has(SlotMarks::DIRTY));
        self.background.wake();
    }

    /// Changes the marks of a copy.
    pub(crate) fn mark(&self, slot: Slot, is_dirty: bool, after: LowerSet) {
        let Some(entry) = self.units.map.get(slot) else { return };
        if entry.marks.has(SlotMarks::DIRTY) == is_dirty {
            return;
        }
        let marks = match is_dirty {
            true => entry.marks.with(SlotMarks::DIRTY),
            false => entry.marks.without(SlotMarks::DIRTY),
        };
        self.units.map.set(&[(slot, Some(SlotEntry { marks, ..entry }))], after);
        self.note_dirty(slot, is_dirty);
        if is_dirty {
            self.background.wake();
        }
    }

    /// Keeps the set of dirty slots as the map has it.
    pub(crate) fn note_dirty(&self, slot: Slot, is_dirty: bool) {
        self.dirty.borrow_mut().note(slot, is_dirty);
    }

    /// Gives a copy up. Its slot is free when the medium says so and no request reads it any more.
    pub(crate) fn give_up(self: &Rc<Self>, unit: u64, slot: Slot) {
        self.director.borrow_mut().removed(slot);
        self.let_go(unit, slot);
    }

    /// The same for a copy that the director chose.
    pub(crate) fn let_go(self: &Rc<Self>, unit: u64, slot: Slot) {
        self.units.map.rest(slot);
        self.forget(unit, slot);
        self.drain(slot, self.units.range(unit));
    }

    /// A unit has no copy any more.
    pub(crate) fn forget(&self, unit: u64, slot: Slot) {
        self.note_dirty(slot, false);
        self.units.unindex(unit, slot);
        self.units.map.set(&[(slot, None)], LowerSet::NONE);
        self.named.borrow_mut().insert(unit, slot);
        add(&self.counts.given_up, 1);
        self.background.wake();
    }

    /// What came of writing the map. A failure latches.
    fn of_map(&self, result: Result<(), MapError>) -> Result<(), BioError> {
        result.map_err(known::failed).inspect_err(|error| self.failed("the map could not be written", error))
    }

    /// Latches because a lower device failed.
    pub(crate) fn failed(&self, what: &str, error: &BioError) {
        self.latch.set_after(&self.rt, what, error, ADVICE);
    }

    /// A request of a client goes home.
    pub(crate) fn home_begins(&self) {
        self.home_under_way.set(self.home_under_way.get() + 1);
        self.director.borrow_mut().home_begins();
    }

    /// It has ended.
    pub(crate) fn home_ended(&self) {
        self.home_under_way.set(self.home_under_way.get() - 1);
        self.home_last.set(self.rt.now());
        self.director.borrow_mut().home_ended();
    }

    /// How long home has had no client.
    pub fn home_idle(&self) -> Nanos {
        match self.home_under_way.get() {
            0 => self.rt.now().since(self.home_last.get()),
            _ => Nanos::ZERO,
        }
    }

    /// A write has ended: a flush that begins now must reach the device.
    pub(crate) fn wrote(&self, lower: usize) {
        self.written[lower].set(true);
    }

    /// Makes all completed changes durable.
    ///
    /// # Errors
    /// The devices'; the layer is latched then.
    pub async fn sync(&self, io: &Io) -> Result<(), BioError> {
        // A flush that finds nothing written waits for the one that took it.
        self.flushes.alone(self.flush(io)).await?;
        self.commit(io).await
    }

    async fn flush(&self, io: &Io) -> Result<(), BioError> {
        self.latch.check()?;
        for lower in [FAST, HOME] {
            if self.written[lower].replace(false)
                && let Err(error) = io.flush(io.lower(lower)).await
            {
                self.failed("a flush failed", &error);
                return Err(error);
            }
        }
        Ok(())
    }

    /// Makes all changes of the map durable.
    ///
    /// # Errors
    /// The device's; the layer is latched then.
    pub(crate) async fn commit(&self, io: &Io) -> Result<(), BioError> {
        let named = self.named.borrow().clone();
        self.of_map(self.units.map.commit(io).await)?;
        self.named.borrow_mut().retain(|unit, slot| named.get(unit) != Some(slot));
        Ok(())
    }
}
