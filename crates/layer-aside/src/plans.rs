//! What a kind does that chooses by itself which units have copies, and when these are written home.
//!
//! All of it is optimistic, as fills and write-back are: bytes are copied, and the result counts if no change of the
//! unit came between.

use std::rc::Rc;

use esker_block::BioError;
use esker_caching::Slot;
use esker_layer_kit::{Background, Io};

use crate::director::Director;
use crate::engine::Aside;

/// How full the slots are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SlotSpace {
    /// Slots that there are.
    pub slots: u64,
    /// Slots with a copy.
    pub used: u64,
    /// Slots with a copy that is newer than home.
    pub dirty: u64,
    /// Slots that the engine keeps free: it gives copies up if there are fewer.
    pub kept: u64,
}

impl SlotSpace {
    /// Slots without a copy beyond those that are kept free. Some may have been given up just now.
    pub fn free(&self) -> u64 {
        self.slots.saturating_sub(self.used + self.kept)
    }
}

impl<D: Director> Aside<D> {
    /// How full the slots are.
    pub fn space(&self) -> SlotSpace {
        SlotSpace {
            slots: u64::from(self.slots()),
            used: self.used(),
            dirty: self.dirty.borrow().count(),
            kept: self.reserve() as u64,
        }
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

    /// The unit with its copy in a slot, and whether the copy is newer than home.
    pub fn copy_in(&self, slot: Slot) -> Option<(u64, bool)> {
        self.units.key_of(slot).map(|unit| (unit, self.units.is_dirty(slot)))
    }

    /// Copies a whole unit from home into a free slot. Whether it has its copy now: not if it had one before, if a
    /// change came between, or if no slot is free.
    ///
    /// # Errors
    /// Home's, or a latched layer. A failure of the fast device leaves the unit at home alone.
    pub async fn fetch_one(self: &Rc<Self>, io: &Io, unit: u64) -> Result<bool, BioError> {
        self.latch.check()?;
        let Some(missed) = self.begin_copy(unit) else { return Ok(false) };
        if !self.may_publish(&missed) {
            self.fill_ended(unit, false);
            return Ok(false);
        }
        let range = self.units.range(unit);
        let read = self.read_home(io, range, &self.read_buf(0)).await;
        let filled = match read.map(|payload| self.take_free().map(|slot| (payload, slot))) {
            Ok(Some((payload, slot))) => Ok(self.fill_slot(io, &missed, range, payload, slot).await),
            Ok(None) => Ok(false),
            Err(error) => Err(error),
        };
        self.fill_ended(unit, filled == Ok(true));
        filled
    }

    /// Units whose copy is newer than home, in the order of home.
    pub fn dirty_in_order(&self) -> Vec<u64> {
        let dirty = self.dirty.borrow();
        let mut units: Vec<u64> = self.units.keyed(dirty.all()).map(|(unit, _)| unit).collect();
        units.sort_unstable();
        units
    }
}
