//! Write-back: copies that are newer than home go there, and are clean then.

use std::rc::Rc;

use esker_base::{Nanos, span};
use esker_block::{Below, Bio, BioError, Buf, LayerHandle};
use esker_caching::Slot;
use esker_layer_kit::gate::Watch;
use esker_layer_kit::slots::LowerSet;
use esker_layer_kit::{Io, Then};

use crate::config::Cleaning;
use crate::counts::add;
use crate::director::Director;
use crate::engine::{Aside, BACKGROUND};
use crate::placing::PLACED_MAX;
use crate::{FAST, HOME, PAGE};

/// Copies that go home between two looks at what is due.
const BATCH: usize = 16;
/// How long home has no client before it counts as idle.
const IDLE: Nanos = Nanos::millis(10);
/// How long write-back waits behind a failure.
const RETRY: Nanos = Nanos::secs(1);
/// Copies among which it looks for the coldest dirty ones.
const LOOK: usize = 512;
/// What a look finds serves until so small a part of all copies has gone home: then others are the coldest.
const LOOK_PART: usize = 64;

/// A copy that was written home, and may lie there in a volatile cache.
pub(crate) struct SentHome {
    unit: u64,
    slot: Slot,
    /// From before it was read.
    watch: Watch,
}

impl<D: Director> Aside<D> {
    /// Writes copies home whenever that is due.
    pub(crate) async fn clean_on(self: Rc<Self>, handle: &LayerHandle) {
        let Cleaning::Idle { dirty_max, share, age } = self.config.cleaning else { return };
        let is_due = || self.dirty.borrow().count() > 0 && !self.is_settled.get();
        let due = || is_due().then(|| (self.until_idle(dirty_max), ()));
        let work = async |permit: esker_block::WorkPermit, ()| {
            if self.until_idle(dirty_max) > Nanos::ZERO {
                return Then::Again;
            }
            self.clean_batch(&self.io(&permit), (dirty_max, share, age)).await
        };
        self.background.run((&self.rt, Some(&self.latch)), handle, due, work).await;
    }

    /// Whether there are so many dirty copies that write-back does not wait for an idle home.
    fn is_pressed(&self, dirty_max: f64) -> bool {
        let limit = dirty_max * f64::from(self.units.map.slots());
        self.drains.get() || self.dirty.borrow().count() as f64 > limit
    }

    /// How long write-back waits for home at least.
    fn until_idle(&self, dirty_max: f64) -> Nanos {
        if self.is_pressed(dirty_max) { Nanos::ZERO } else { Nanos(IDLE.0.saturating_sub(self.home_idle().0)) }
    }

    async fn clean_batch(&self, io: &Io, (dirty_max, share, age): (f64, f64, Nanos)) -> Then {
        let begun = self.rt.now();
        let is_idle = self.home_idle() >= IDLE;
        let until_old = self.dirty.borrow_mut().ripen(begun, age);
        let units = self.dirty_units(age == Nanos::ZERO || self.is_pressed(dirty_max));
        if units.is_empty() {
            return Then::After(until_old.max(IDLE));
        }
        let (mut sent, mut failure) = (Vec::new(), None);
        for (unit, slot) in units {
            match self.send_copy_home(io, unit, slot).await {
                Ok(one) => sent.extend(one),
                Err(error) => failure = Some(error),
            }
            let is_late = !self.is_pressed(dirty_max) && self.until_idle(dirty_max) > Nanos::ZERO;
            if is_late || failure.is_some() {
                break;
            }
        }
        let done = match (self.are_home(io, sent).await, failure) {
            (Ok(done), None) => done,
            (Err(_), _) | (_, Some(_)) => return Then::After(RETRY),
        };
        let took = self.rt.now().since(begun);
        let share = share.clamp(0.001, 1.0);
        match (done, is_idle || self.drains.get()) {
            // All of them are being changed.
            (0, _) => Then::After(IDLE),
            (_, true) => Then::Again,
            (_, false) => Then::After(Nanos((took.0 as f64 * (1.0 - share) / share) as u64)),
        }
    }

    /// Dirty units in the order of home: those among the coldest copies, else any. Without `young`, those that changed
    /// not long ago are left out: they are likely to change again. A look walks many copies, so what it finds serves
    /// for several batches.
    fn dirty_units(&self, young: bool) -> Vec<(u64, Slot)> {
        let dirty = self.dirty.borrow();
        let is_due = |slot: &Slot| dirty.is_old(*slot) || young && self.units.is_dirty(*slot);
        let mut found = self.to_clean.borrow_mut();
        found.retain(is_due);
        if found.is_empty() {
            self.director.borrow().coldest(&mut found, LOOK);
            found.retain(is_due);
        }
        let most = (self.slots() as usize / LOOK_PART).clamp(BATCH, LOOK);
        match found.is_empty() {
            true if young => found.extend(dirty.all().take(most)),
            true => found.extend(dirty.old().take(most)),
            false => found.truncate(most),
        }
        let some = found.len().min(BATCH);
        let mut units: Vec<(u64, Slot)> = self.units.keyed(found.drain(..some)).collect();
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
            while self.dirty.borrow().count() > 0 {
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

    /// Writes the pages of a copy home that may be newer, unless it has gone or is clean.
    ///
    /// # Errors
    /// The devices'.
    pub(crate) async fn send_copy_home(&self, io: &Io, unit: u64, slot: Slot) -> Result<Option<SentHome>, BioError> {
        let range = self.units.range(unit);
        let watch = self.gate.watch(range, self.units.unit());
        let home_bound = self.gate.home_bound(range);
        if self.units.find(unit) != Some(slot) || !self.units.is_dirty(slot) || self.is_settled.get() {
            return Ok(None);
        }
        let mask = self.units.mask(slot);
        let mut page = 0;
        while page < self.units.pages_of_unit() {
            let is_newer = |page: &u64| mask.has(*page) && self.dirty.borrow().has_page(slot, *page);
            let run = (page..self.units.pages_of_unit()).take_while(is_newer).count() as u64;
            if run > 0 {
                self.write_run(io, slot, range.start() + page * PAGE, run * PAGE).await?;
            }
            page += run.max(1);
        }
        drop(home_bound);
        Ok(Some(SentHome { unit, slot, watch }))
    }

    /// Copies were written home. Those that have not changed since are clean behind a flush. Answers how many.
    ///
    /// # Errors
    /// The devices'.
    pub(crate) async fn are_home(&self, io: &Io, sent: Vec<SentHome>) -> Result<u64, BioError> {
        if sent.is_empty() {
            return Ok(0);
        }
        self.flush_home(io).await?;
        let mut count = 0;
        for one in sent {
            count += u64::from(self.is_home(io, one.unit, one.slot, || one.watch.is_changed()).await?);
        }
        Ok(count)
    }

    /// A copy is home and durable there. Whether it is clean now: it is the same, and has not changed.
    ///
    /// # Errors
    /// The device's.
    pub(crate) async fn is_home(
        &self,
        io: &Io,
        unit: u64,
        slot: Slot,
        is_changed: impl FnOnce() -> bool,
    ) -> Result<bool, BioError> {
        if self.units.map.is_full() {
            self.commit(io).await?;
        }
        let is_same = self.units.find(unit) == Some(slot) && !self.is_settled.get();
        let is_clean = is_same && !is_changed();
        if is_clean {
            self.mark(slot, false, LowerSet::NONE);
            add(&self.counts.written_back, 1);
        }
        Ok(is_clean)
    }

    /// Makes what was written back durable. A commit must not do so: clients would wait for a busy disk with it.
    ///
    /// # Errors
    /// The device's; the layer is latched then, because the flush may have been that of a client's write.
    pub(crate) async fn flush_home(&self, io: &Io) -> Result<(), BioError> {
        io.flush(io.lower(HOME)).await.inspect_err(|error| self.failed("a flush failed", error))
    }

    async fn write_run(&self, io: &Io, slot: Slot, at: u64, len: u64) -> Result<(), BioError> {
        for piece in self.pieces(span(at, len)) {
            let buf = self.read_buf(piece.len() as usize);
            let read = Bio::read(self.units.place(slot, piece.start()), buf).to(io.lower(FAST)).tagged(BACKGROUND);
            let read = io.send(read).await;
            read.result.inspect_err(|error| self.failed("a copy that home does not have cannot be read", error))?;
            let write = Bio::write(piece.start(), read.bio.buf).to(io.lower(HOME)).tagged(BACKGROUND);
            io.send(write).await.result?;
        }
        Ok(())
    }

    /// A buffer for bytes that go from one device to the other.
    pub(crate) fn read_buf(&self, len: usize) -> Buf {
        if self.config.is_described { Buf::described(len, 0) } else { Buf::unique(&self.pool, len) }
    }
}
