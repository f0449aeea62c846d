//! Which copies are newer than home, which of their pages are, and which copies changed not long ago.
//!
//! The map tells dirty copies alone. What is known of pages is in memory: behind a start, all pages of a dirty copy
//! count as newer than home.

use std::ops::Range;

use esker_base::{Bits, Nanos, Time};
use esker_caching::Slot;

/// The slots whose copies home does not have.
pub(crate) struct DirtySlots {
    dirty: Bits,
    count: u64,
    /// Pages of copies, one slot behind the other.
    pages: Bits,
    pages_of_slot: usize,
    /// Changed since `since`.
    recent: Bits,
    /// Changed in the time before, which lasted as long as a change counts as recent.
    earlier: Bits,
    since: Time,
}

impl DirtySlots {
    /// None of so many slots of so many pages.
    pub(crate) fn new(slots: usize, pages_of_slot: u64, now: Time) -> DirtySlots {
        let pages_of_slot = pages_of_slot as usize;
        DirtySlots {
            dirty: Bits::new(slots),
            count: 0,
            pages: Bits::new(slots * pages_of_slot),
            pages_of_slot,
            recent: Bits::new(slots),
            earlier: Bits::new(slots),
            since: now,
        }
    }

    /// How many there are.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// Keeps the set as the map has it. All pages of a copy that becomes dirty do.
    pub(crate) fn note(&mut self, slot: Slot, is_dirty: bool) {
        match (self.dirty.has(slot as usize), is_dirty) {
            (false, true) => {
                self.dirty.set(slot as usize);
                self.count += 1;
                self.pages.set_range(self.places(slot));
            }
            (true, false) => {
                self.dirty.clear(slot as usize);
                self.count -= 1;
                self.places(slot).for_each(|place| self.pages.clear(place));
            }
            (false, false) | (true, true) => {}
        }
    }

    /// Pages of a copy change: it is dirty, if it was not.
    pub(crate) fn change(&mut self, slot: Slot, pages: Range<u64>) {
        self.recent.set(slot as usize);
        if !self.dirty.has(slot as usize) {
            self.dirty.set(slot as usize);
            self.count += 1;
        }
        let first = self.places(slot).start;
        self.pages.set_range(first + pages.start as usize..first + pages.end as usize);
    }

    /// Whether a page of a copy may be newer than home.
    pub(crate) fn has_page(&self, slot: Slot, page: u64) -> bool {
        self.pages.has(self.places(slot).start + page as usize)
    }

    fn places(&self, slot: Slot) -> Range<usize> {
        let first = slot as usize * self.pages_of_slot;
        first..first + self.pages_of_slot
    }

    /// Bytes of memory.
    pub(crate) fn bytes(&self) -> usize {
        (3 * self.dirty.len() + self.pages.len()) / 8
    }

    /// All of them.
    pub(crate) fn all(&self) -> impl Iterator<Item = Slot> {
        self.dirty.iter().map(|slot| slot as Slot)
    }

    /// Those that have not changed for a while.
    pub(crate) fn old(&self) -> impl Iterator<Item = Slot> {
        self.dirty.iter_outside([&self.recent, &self.earlier]).map(|slot| slot as Slot)
    }

    /// Whether a copy is dirty, and has not changed for a while.
    pub(crate) fn is_old(&self, slot: Slot) -> bool {
        let slot = slot as usize;
        self.dirty.has(slot) && !self.recent.has(slot) && !self.earlier.has(slot)
    }

    /// Lets copies grow old that have not changed for `age`, and at most twice that. Answers when others may.
    pub(crate) fn ripen(&mut self, now: Time, age: Nanos) -> Nanos {
        if now.since(self.since) >= age {
            std::mem::swap(&mut self.recent, &mut self.earlier);
            self.recent.clear_all();
            self.since = now;
        }
        age.saturating_sub(now.since(self.since))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_is_old_when_nothing_has_changed_it_for_a_while() {
        let at = |seconds: u64| Time::default() + Nanos::secs(seconds);
        let age = Nanos::secs(30);
        let mut slots = DirtySlots::new(4, 16, at(0));
        slots.change(1, 0..1);
        slots.note(1, true);
        slots.note(2, true);
        assert_eq!((slots.count(), slots.is_old(1), slots.is_old(2), slots.is_old(3)), (2, false, true, false));
        assert_eq!(slots.ripen(at(29), age), Nanos::secs(1));
        assert!(!slots.is_old(1));
        assert_eq!(slots.ripen(at(30), age), age);
        assert!(!slots.is_old(1), "it may have changed just now");
        assert_eq!(slots.ripen(at(60), age), age);
        assert!(slots.is_old(1));
        assert_eq!(slots.old().collect::<Vec<_>>(), [1, 2]);
        slots.change(1, 3..5);
        slots.note(2, false);
        assert_eq!((slots.count(), slots.is_old(1), slots.is_old(2)), (1, false, false));
        assert_eq!((slots.all().collect::<Vec<_>>(), slots.old().count()), (vec![1], 0));
    }

    #[test]
    fn the_pages_that_change_are_known_until_the_copy_is_clean() {
        let mut slots = DirtySlots::new(4, 16, Time::default());
        let dirty = |slots: &DirtySlots, slot| (0..16).filter(|page| slots.has_page(slot, *page)).collect::<Vec<_>>();
        slots.change(2, 3..5);
        slots.note(2, true);
        slots.change(2, 15..16);
        assert_eq!((dirty(&slots, 2), dirty(&slots, 1).len(), dirty(&slots, 3).len()), (vec![3, 4, 15], 0, 0));
        slots.note(2, false);
        assert_eq!((dirty(&slots, 2).len(), slots.count()), (0, 0));
        slots.note(2, true);
        assert_eq!(dirty(&slots, 2).len(), 16, "what changed is not known");
    }
}
