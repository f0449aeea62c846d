//! Free slots: copies are given up ahead, so that fills and writes find slots whose giving up is durable.

use std::rc::Rc;

use esker_base::ByteRange;
use esker_block::{BioError, LayerHandle, WorkPermit};
use esker_caching::Slot;
use esker_layer_kit::{Io, Then};

use crate::config::Room;
use crate::director::Director;
use crate::engine::Aside;
use crate::placing::Free;

/// Share of the slots that are kept free.
const SHARE: u32 = 256;
/// Slots that are kept free at least, where there are so many.
const LEAST: u32 = 64;
/// Slots of which at most this part is kept free.
const MOST: u32 = 8;

impl<D: Director> Aside<D> {
    /// Slots that are kept free.
    pub(crate) fn reserve(&self) -> usize {
        let slots = self.units.map.slots();
        (slots / SHARE).max(LEAST).min(slots / MOST).max(1) as usize
    }

    /// Whether fewer than `want` slots are free, or will be.
    fn is_low(&self, want: usize) -> bool {
        self.units.map.used() as usize + want > self.units.map.slots() as usize
    }

    /// Whether so many slots are free now.
    pub(crate) fn has_free(&self, want: usize) -> bool {
        let mut free = self.free.borrow_mut();
        if free.len() < want {
            let more = self.director.borrow_mut().take(want - free.len(), &Free(&self.units.map));
            free.extend(more);
        }
        if free.len() < want {
            self.background.wake();
        }
        free.len() >= want
    }

    /// A free slot.
    pub(crate) fn take_free(&self) -> Option<Slot> {
        self.has_free(1).then(|| self.free.borrow_mut().pop()).flatten()
    }

    /// A slot is free when no request reads it any more.
    pub(crate) fn drain(self: &Rc<Self>, slot: Slot, range: ByteRange) {
        let aside = self.clone();
        let work = async move {
            aside.gate.drained(range).await;
            aside.units.map.rested(slot);
            aside.background.wake();
        };
        self.rt.spawn("aside-drain", work).detach();
    }

    /// Gives copies up whenever few slots are free.
    pub(crate) async fn keep_reserve(self: Rc<Self>, handle: &LayerHandle) {
        let due = || (!self.is_settled.get() && self.has_work(self.reserve())).then_some((esker_base::Nanos::ZERO, ()));
        let work = async |permit: WorkPermit, ()| {
            self.evict(self.reserve());
            let has_given_up = !self.named.borrow().is_empty();
            match self.commit(&self.io(&permit)).await {
                Ok(()) if has_given_up => Then::Again,
                // All copies are held, or the layer is latched.
                Ok(()) | Err(_) => Then::Woken,
            }
        };
        self.background.run((&self.rt, Some(&self.latch)), handle, due, work).await;
    }

    /// Whether copies can be given up, or the medium still names some that were.
    fn has_work(&self, want: usize) -> bool {
        let is_low = self.config.room != Room::Kind && self.is_low(want);
        (is_low && self.dirty.borrow().count() < self.used()) || !self.named.borrow().is_empty()
    }

    /// Gives copies up for a write that found no free slot.
    ///
    /// # Errors
    /// The device's; the layer is latched then.
    pub(crate) async fn make_room(self: &Rc<Self>, io: &Io, want: usize) -> Result<(), BioError> {
        self.evict(want);
        self.commit(io).await?;
        // A slot is free when the task that waits for its last reader has run.
        self.rt.yield_now().await;
        Ok(())
    }

    /// Whether copies can be given up for a write.
    pub(crate) fn can_make_room(&self, want: usize) -> bool {
        self.config.room == Room::Awaited && self.has_work(want)
    }

    /// Gives copies up until `want` slots will be free.
    fn evict(self: &Rc<Self>, want: usize) {
        for _ in 0..want {
            if !self.is_low(want) || self.units.map.is_full() {
                return;
            }
            let victim = self.director.borrow_mut().victim(&self.units);
            let Some(slot) = victim else { return };
            if let Some(unit) = self.units.key_of(slot) {
                self.let_go(unit, slot);
            }
        }
    }

    /// A slot cannot be read. It is given up, and rests until the next start.
    pub(crate) fn quarantine(&self, unit: u64, slot: Slot) {
        self.units.map.rest(slot);
        self.director.borrow_mut().removed(slot);
        self.forget(unit, slot);
    }
}
