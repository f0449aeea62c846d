//! Which empty slots may be taken.
//!
//! Invariant: a slot that something durable may still name is never given out, nor one from which a request may still
//! read. A slot whose entry went is *given up* until the record that says so is durable. It *rests* as long as its
//! owner says. A slot that was given out is *held* until it has an entry or is given back.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Slots behind the hand that are known to be free at most; beyond that the hand goes back.
const READY_MAX: usize = 1 << 16;

/// Free slots, and those among the empty ones that must not be taken.
#[derive(Default)]
pub(super) struct FreeSlots {
    /// Slots below were given out, or are used.
    hand: u32,
    /// Slots below the hand that became free.
    ready: BTreeSet<u32>,
    held: BTreeSet<u32>,
    /// Slots without entry, with the number of the group that says so; in its order.
    given_up: VecDeque<(u64, u32)>,
    unsettled: BTreeSet<u32>,
    /// Slots from which requests may still read, each with how often it was said.
    resting: BTreeMap<u32, u32>,
}

impl FreeSlots {
    /// Bytes of memory.
    pub(super) fn bytes(&self) -> usize {
        (self.ready.len() + self.held.len() + self.unsettled.len()) * 8
            + (self.given_up.len() + self.resting.len()) * 16
    }

    /// Whether an empty slot may be taken.
    pub(super) fn may_take(&self, slot: u32) -> bool {
        !self.held.contains(&slot) && !self.unsettled.contains(&slot) && !self.resting.contains_key(&slot)
    }

    /// Takes up to `want` slots of `slots`.
    pub(super) fn take(&mut self, want: usize, slots: u32, is_empty: impl Fn(u32) -> bool) -> Vec<u32> {
        let mut taken = Vec::new();
        while taken.len() < want {
            let slot = match self.ready.pop_first() {
                Some(slot) => slot,
                None if self.hand < slots => {
                    self.hand += 1;
                    self.hand - 1
                }
                None => break,
            };
            if is_empty(slot) && self.may_take(slot) {
                self.held.insert(slot);
                taken.push(slot);
            }
        }
        taken
    }

    /// Takes one slot, if it is free.
    pub(super) fn take_one(&mut self, slot: u32, is_empty: bool) -> bool {
        let takes = is_empty && self.may_take(slot);
        if takes {
            self.held.insert(slot);
        }
        takes
    }

    /// A held slot has an entry now: whether it was held.
    pub(super) fn used(&mut self, slot: u32) -> bool {
        self.held.remove(&slot)
    }

    /// A held slot was not needed.
    pub(super) fn give_back(&mut self, slot: u32) {
        assert!(self.held.remove(&slot), "slot {slot} was not given out");
        self.offer(slot);
    }

    /// The entry of a slot went; group `number` says so.
    pub(super) fn give_up(&mut self, slot: u32, number: u64) {
        self.given_up.push_back((number, slot));
        self.unsettled.insert(slot);
    }

    /// All groups up to `number` are durable.
    pub(super) fn arrived(&mut self, number: u64) {
        while let Some((_, slot)) = self.given_up.front().copied().filter(|(needed, _)| *needed <= number) {
            self.given_up.pop_front();
            self.unsettled.remove(&slot);
            self.offer(slot);
        }
    }

    /// Requests may read from a slot.
    pub(super) fn rest(&mut self, slot: u32) {
        *self.resting.entry(slot).or_default() += 1;
    }

    /// They have ended.
    pub(super) fn rested(&mut self, slot: u32) {
        let times = self.resting.get_mut(&slot).unwrap_or_else(|| panic!("slot {slot} does not rest"));
        *times -= 1;
        if *times == 0 {
            self.resting.remove(&slot);
            self.offer(slot);
        }
    }

    /// A slot may have become free; [`FreeSlots::take`] looks whether it is.
    fn offer(&mut self, slot: u32) {
        match slot < self.hand {
            true if self.ready.len() < READY_MAX => drop(self.ready.insert(slot)),
            true => self.hand = slot,
            // The hand comes by.
            false => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_is_taken_again_behind_its_commit_and_its_readers() {
        let mut free = FreeSlots::default();
        assert_eq!(free.take(9, 4, |slot| slot != 1), [0, 2, 3]);
        assert!(free.used(2) && free.used(3) && !free.used(2));
        free.rest(2);
        free.rest(2);
        free.give_up(2, 5);
        free.give_up(3, 6);
        free.arrived(5);
        assert!(free.take(9, 4, |_| true).is_empty());
        free.rested(2);
        assert!(free.take(9, 4, |_| true).is_empty());
        free.rested(2);
        assert_eq!(free.take(9, 4, |_| true), [2]);
        free.arrived(6);
        free.give_back(2);
        assert_eq!(free.take(1, 4, |_| true), [2]);
        assert!(free.take_one(3, true) && !free.take_one(3, true) && !free.take_one(0, true));
        assert!(free.take(9, 4, |_| true).is_empty());
    }

    #[test]
    fn the_hand_finds_what_became_free_before_it_came_by() {
        let mut free = FreeSlots::default();
        assert!(free.take_one(5, true) && free.used(5));
        free.give_up(5, 1);
        free.arrived(1);
        assert_eq!(free.take(9, 8, |_| true), [0, 1, 2, 3, 4, 5, 6, 7]);
    }
}
