//! What a kind does that chooses by itself which units have copies, and when these are written home.
//!
//! All of it is optimistic, as fills and write-back are: bytes are copied, and the result counts if no change of the
//! unit came between.

use std::rc::Rc;

use esker_block::BioError;
use esker_caching::Slot;
use esker_layer_kit::{Background, Io};
use esker_rt::sync::join_all;

use crate::director::{Director, FreeSlots};
use crate::engine::Aside;

/// Copies that are on their way home at once.
const WIDTH: usize = 16;

/// How full the slots are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Space {
    /// Slots that there are.
    pub slots: u64,
    /// Slots with a copy.
    pub used: u64,
    /// Slots with a copy that is newer than home.
    pub dirty: u64,
}

impl Space {
    /// Slots without a copy. Those that were given up just now are among them.
    pub fn free(&self) -> u64 {
        self.slots - self.used
    }
}

impl<D: Director> Aside<D> {
    /// How full the slots are.
    pub fn space(&self) -> Space {
        Space { slots: u64::from(self.slots()), used: self.used(), dirty: self.dirty_count.get() }
    }

    /// Wakes and ends the tasks of the engine. It wakes them when a copy comes, goes or becomes dirty.
    pub fn background(&self) -> &Rc<Background> {
        &self.background
    }

    /// Whether changes are refused after a failure, or the layer has stopped.
    pub fn is_over(&self) -> bool {
        self.latch.is_set() || self.is_settled.get()
    }

    /// The slot with the copy of a unit, and whether the copy is newer than home.
    pub fn copy_of(&self, unit: u64) -> Option<(Slot, bool)> {
        self.units.find(unit).map(|slot| (slot, self.units.is_dirty(slot)))
    }

    /// Copies a whole unit from home into `slot`, or into one that the director chooses. Whether it has its copy now:
    /// not if it had one before, if a change came between, or if the slot is not free.
    ///
    /// # Errors
    /// Home's, or a latched layer. A failure of the fast device leaves the unit at home alone.
    pub async fn fetch(self: &Rc<Self>, io: &Io, unit: u64, slot: Option<Slot>) -> Result<bool, BioError> {
        self.latch.check()?;
        let Some(missed) = self.begin_copy(unit) else { return Ok(false) };
        if !self.may_publish(&missed) {
            self.fill_ended(unit, false);
            return Ok(false);
        }
        let range = self.units.range(unit);
        let read = self.read_home(io, range, &self.read_buf(0)).await;
        let chosen = || match slot {
            Some(slot) => self.take(slot).then_some(slot),
            None => self.choose_slot(unit, false),
        };
        let filled = match read.map(|payload| payload.zip(chosen())) {
            Ok(Some((payload, slot))) => Ok(self.fill_slot(io, &missed, range, payload, slot).await),
            Ok(None) => Ok(false),
            Err(error) => Err(error),
        };
        self.fill_ended(unit, filled == Ok(true));
        filled
    }

    /// Writes copies home, in this order, several at once. Answers how many are clean by that: those that changed
    /// meanwhile are not. The medium says so with the next [`Aside::sync`].
    ///
    /// # Errors
    /// The devices'.
    pub async fn write_home(&self, io: &Io, copies: &[(u64, Slot)]) -> Result<u64, BioError> {
        let mut cleaned = 0;
        for some in copies.chunks(WIDTH) {
            for is_clean in join_all(some.iter().map(|(unit, slot)| self.clean_one(io, *unit, *slot))).await {
                cleaned += u64::from(is_clean?);
            }
        }
        Ok(cleaned)
    }

    /// Gives the copy of a unit up, if it is clean and the map has room to note that. Whether it did.
    pub fn give_up_clean(self: &Rc<Self>, unit: u64) -> bool {
        let Some((slot, false)) = self.copy_of(unit) else { return false };
        let may = !self.is_over() && !self.units.map.is_full();
        if may {
            self.give_up(unit, slot);
        }
        may
    }

    /// All dirty copies in the order of home.
    pub fn dirty_in_order(&self) -> Vec<(u64, Slot)> {
        let slots = self.dirty.borrow().iter().map(|slot| slot as Slot).collect();
        let mut copies: Vec<(u64, Slot)> = self.units.keyed(slots).collect();
        copies.sort_unstable();
        copies
    }
}
