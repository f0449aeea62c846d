//! Which copies are newer than home, and which of them changed not long ago.

use esker_base::{Bits, Nanos, Time};
use esker_caching::Slot;

/// The slots whose copies home does not have.
pub(crate) struct DirtySlots {
    dirty: Bits,
    count: u64,
    /// Changed since `since`.
    recent: Bits,
    /// Changed in the time before, which lasted as long as a change counts as recent.
    earlier: Bits,
    since: Time,
}

impl DirtySlots {
    /// None of so many.
    pub(crate) fn new(slots: usize, now: Time) -> DirtySlots {
        DirtySlots {
            dirty: Bits::new(slots),
            count: 0,
            recent: Bits::new(slots),
            earlier: Bits::new(slots),
            since: now,
        }
    }

    /// How many there are.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// Keeps the set as the map has it.
    pub(crate) fn note(&mut self, slot: Slot, is_dirty: bool) {
        let slot = slot as usize;
        match (self.dirty.has(slot), is_dirty) {
            (false, true) => {
                self.dirty.set(slot);
                self.count += 1;
            }
            (true, false) => {
                self.dirty.clear(slot);
                self.count -= 1;
            }
            (false, false) | (true, true) => {}
        }
    }

    /// A copy changes.
    pub(crate) fn change(&mut self, slot: Slot) {
        self.recent.set(slot as usize);
    }

    /// All of them.
    pub(crate) fn all(&self) -> impl Iterator<Item = Slot> {
        self.dirty.iter().map(|slot| slot as Slot)
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
        let mut slots = DirtySlots::new(4, at(0));
        slots.note(1, true);
        slots.change(1);
        slots.note(2, true);
        assert_eq!((slots.count(), slots.is_old(1), slots.is_old(2), slots.is_old(3)), (2, false, true, false));
        assert_eq!(slots.ripen(at(29), age), Nanos::secs(1));
        assert!(!slots.is_old(1));
        assert_eq!(slots.ripen(at(30), age), age);
        assert!(!slots.is_old(1), "it may have changed just now");
        assert_eq!(slots.ripen(at(60), age), age);
        assert!(slots.is_old(1));
        slots.change(1);
        slots.note(2, false);
        assert_eq!((slots.count(), slots.is_old(1), slots.is_old(2)), (1, false, false));
        assert_eq!(slots.all().collect::<Vec<_>>(), [1]);
    }
}
