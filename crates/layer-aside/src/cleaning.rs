//! Write-back: copies that are newer than home go there, and are clean then.

use std::rc::Rc;

use esker_base::{Nanos, span};
use esker_block::{Below, Bio, BioError, Buf, LayerHandle};
use esker_caching::Slot;
use esker_layer_kit::slots::LowerSet;
use esker_layer_kit::{Io, Then};

use crate::config::Cleaning;
use crate::counts::add;
use crate::director::Director;
use crate::engine::{Aside, BACKGROUND};
use crate::placing::PLACED_MAX;
use crate::{FAST, HOME, PAGE};

/// Copies that go home between two looks at what is due.
const BATCH: usize = 32;
/// How long home has no client before it counts as idle.
const IDLE: Nanos = Nanos::millis(10);
/// How long write-back waits behind a failure.
const RETRY: Nanos = Nanos::secs(1);
/// Copies among which it looks for the coldest dirty ones.
const LOOK: usize = 16 * BATCH;

impl<D: Director> Aside<D> {
    /// Writes copies home whenever that is due.
    pub(crate) async fn clean_on(self: Rc<Self>, handle: &LayerHandle) {
        let Cleaning::Idle { dirty_max, share } = self.config.cleaning else { return };
        let is_due = || self.dirty_count.get() > 0 && !self.is_settled.get();
        let due = || is_due().then(|| (self.until_idle(dirty_max), ()));
        let work = async |permit: esker_block::WorkPermit, ()| {
            if self.until_idle(dirty_max) > Nanos::ZERO {
                return Then::Again;
            }
            self.clean_batch(&self.io(&permit), (dirty_max, share)).await
        };
        self.background.run((&self.rt, Some(&self.latch)), handle, due, work).await;
    }

    /// Whether there are so many dirty copies that write-back does not wait for an idle home.
    fn is_pressed(&self, dirty_max: f64) -> bool {
        let limit = dirty_max * f64::from(self.units.map.slots());
        self.drains.get() || self.dirty_count.get() as f64 > limit
    }

    /// How long write-back waits for home at least.
    fn until_idle(&self, dirty_max: f64) -> Nanos {
        if self.is_pressed(dirty_max) { Nanos::ZERO } else { Nanos(IDLE.0.saturating_sub(self.home_idle().0)) }
    }

    async fn clean_batch(&self, io: &Io, (dirty_max, share): (f64, f64)) -> Then {
        let begun = self.rt.now();
        let is_idle = self.home_idle() >= IDLE;
        let mut done = 0;
        for (unit, slot) in self.dirty_units() {
            match self.clean_one(io, unit, slot).await {
                Ok(is_clean) => done += u64::from(is_clean),
                Err(_) => return Then::After(RETRY),
            }
            if !self.is_pressed(dirty_max) && self.until_idle(dirty_max) > Nanos::ZERO {
                break;
            }
        }
        let took = self.rt.now().since(begun);
        let share = share.clamp(0.001, 1.0);
        match (done, is_idle || self.drains.get()) {
            // All of them are being changed.
            (0, _) => Then::After(IDLE),
            (_, true) => Then::Again,
            (_, false) => Then::After(Nanos((took.0 as f64 * (1.0 - share) / share) as u64)),
        }
    }

    /// Dirty units in the order of home: those among the coldest copies, else any.
    fn dirty_units(&self) -> Vec<(u64, Slot)> {
        let mut slots = Vec::new();
        self.director.borrow().coldest(&mut slots, LOOK);
        slots.retain(|slot| self.units.is_dirty(*slot));
        if slots.is_empty() {
            slots.extend(self.dirty.borrow().iter().take(BATCH).map(|slot| slot as Slot));
        }
        slots.truncate(BATCH);
        let mut units: Vec<(u64, Slot)> = self.units.keyed(slots).collect();
        units.sort_unstable();
        units
    }

    /// Writes all dirty copies home for an operator. Answers how many there were.
    ///
    /// # Errors
    /// The devices'.
    pub async fn write_back(&self, below: Below) -> Result<u64, BioError> {
        self.latch.check()?;
        self.clean_all(&self.io_below(below)).await
    }

    /// Writes all dirty copies home. Answers how many there were.
    ///
    /// # Errors
    /// The devices'.
    pub async fn clean_all(&self, io: &Io) -> Result<u64, BioError> {
        let mut cleaned = 0;
        self.drains.set(true);
        let result = async {
            if self.is_settled.get() {
                self.unsettle(io).await?;
            }
            while self.dirty_count.get() > 0 {
                for some in self.dirty_in_order().chunks(PLACED_MAX) {
                    cleaned += self.clean(io, some).await?;
                }
            }
            self.sync(io).await
        };
        let result = result.await;
        self.drains.set(false);
        result.map(|()| cleaned)
    }

    /// Writes a copy home. Whether it is clean then.
    pub(crate) async fn clean_one(&self, io: &Io, unit: u64, slot: Slot) -> Result<bool, BioError> {
        let range = self.units.range(unit);
        let watch = self.gate.watch(range, self.units.unit());
        let home_bound = self.gate.home_bound(range);
        if self.units.find(unit) != Some(slot) || !self.units.is_dirty(slot) || self.is_settled.get() {
            return Ok(false);
        }
        let mask = self.units.mask(slot);
        let mut page = 0;
        while page < self.units.pages_of_unit() {
            let run = (page..self.units.pages_of_unit()).take_while(|page| mask.has(*page)).count() as u64;
            if run > 0 {
                self.write_run(io, slot, range.start() + page * PAGE, run * PAGE).await?;
            }
            page += run.max(1);
        }
        drop(home_bound);
        if self.units.map.is_full() {
            self.commit(io).await?;
        }
        let is_same = !watch.is_changed() && self.units.find(unit) == Some(slot);
        if is_same {
            // Home must have it before the medium says so.
            self.mark(slot, false, LowerSet::one(HOME));
            add(&self.counts.written_back, 1);
        }
        Ok(is_same)
    }

    async fn write_run(&self, io: &Io, slot: Slot, at: u64, len: u64) -> Result<(), BioError> {
        for piece in self.pieces(span(at, len)) {
            let buf = self.read_buf(piece.len() as usize);
            let read = Bio::read(self.units.place(slot, piece.start()), buf).to(io.lower(FAST)).tagged(BACKGROUND);
            let read = io.send(read).await;
            read.result.inspect_err(|error| self.failed("a copy that home does not have cannot be read", error))?;
            let write = Bio::write(piece.start(), read.bio.buf).to(io.lower(HOME)).tagged(BACKGROUND);
            let written = io.send(write).await;
            self.wrote(HOME);
            written.result?;
        }
        Ok(())
    }

    /// A buffer for bytes that go from one device to the other.
    pub(crate) fn read_buf(&self, len: usize) -> Buf {
        if self.config.is_described { Buf::described(len, 0) } else { Buf::unique(&self.pool, len) }
    }
}
