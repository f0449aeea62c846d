//! Which slot a copy gets: plans have the first slots, writes the others.

use std::collections::BTreeSet;

use esker_caching::{Lines, Slot};
use esker_layer_aside::{Access, Director, Fill, Free, Put};

/// Slots that a write looks at for one that is free.
const LOOK: u32 = 1024;

/// Slots `0..reads` belong to plans, the others are a ring that takes writes: random writes follow each other there.
#[derive(Clone, Debug)]
pub struct RingDirector {
    write_buffer: f64,
    slots: Slot,
    reads: Slot,
    /// The slot of the ring that is looked at next.
    hand: Slot,
    /// Slots of the ring that have a copy.
    filled: Slot,
    /// Slots of the ring that were taken since the last plan.
    taken: Slot,
    /// The ring had no slot for so many writes.
    pub full: u64,
}

impl RingDirector {
    /// `write_buffer`: the ring's share of the slots.
    pub fn new(write_buffer: f64) -> RingDirector {
        RingDirector { write_buffer, slots: 0, reads: 0, hand: 0, filled: 0, taken: 0, full: 0 }
    }

    /// Slots of plans.
    pub fn reads(&self) -> Slot {
        self.reads
    }

    /// Slots of the ring that have a copy.
    pub fn filled(&self) -> Slot {
        self.filled
    }

    /// A plan begins: how the ring is now. What it takes from now on counts for the next plan.
    pub fn planning(&mut self) -> RingDirector {
        let now = self.clone();
        self.taken = 0;
        now
    }

    /// The slots of the ring that must be free for the writes to come, the oldest ones: as many as the last interval
    /// took, and a quarter more. `used`: slots that have a copy.
    pub fn ring_to_free(&self, used: &BTreeSet<Slot>) -> BTreeSet<Slot> {
        let ring = self.slots - self.reads;
        let want = (self.taken / 4 * 5).min(ring);
        let free = ring - used.range(self.reads..).count() as Slot;
        let from_hand = used.range(self.hand..).chain(used.range(self.reads..self.hand));
        from_hand.take(want.saturating_sub(free) as usize).copied().collect()
    }

    /// Gives the ring another share. Copies stay where they are. `used`: the slots that have one.
    pub fn set_share(&mut self, write_buffer: f64, used: impl Iterator<Item = Slot>) {
        self.write_buffer = write_buffer;
        self.begin(self.slots);
        self.filled = used.filter(|slot| *slot >= self.reads).count() as Slot;
    }
}

impl Director for RingDirector {
    fn begin(&mut self, slots: u32) {
        self.slots = slots;
        self.reads = slots - (f64::from(slots) * self.write_buffer).round() as Slot;
        (self.hand, self.filled) = (self.reads, 0);
    }

    fn hit(&mut self, _: Slot, _: Access) {}

    fn read_miss(&mut self, _: u64, _: Access) -> Fill {
        Fill::No
    }

    fn write_miss(&mut self, _: u64, _: Access) -> Put {
        match self.filled < self.slots - self.reads {
            true => Put::Aside,
            false => {
                self.full += 1;
                Put::Home
            }
        }
    }

    /// The next free slots of the ring.
    fn take(&mut self, want: usize, free: &Free<'_>) -> Vec<Slot> {
        let mut taken = Vec::new();
        for _ in 0..LOOK.min(self.slots - self.reads) {
            if taken.len() == want {
                break;
            }
            if free.one(self.hand) {
                taken.push(self.hand);
                self.taken += 1;
            }
            self.hand = if self.hand + 1 < self.slots { self.hand + 1 } else { self.reads };
        }
        taken.reverse();
        taken
    }

    fn victim(&mut self, _: &dyn Lines) -> Option<Slot> {
        None
    }

    fn placed(&mut self, _: u64, slot: Slot) {
        self.filled += Slot::from(slot >= self.reads);
    }

    fn removed(&mut self, slot: Slot) {
        self.filled -= Slot::from(slot >= self.reads);
    }

    fn coldest(&self, _: &mut Vec<Slot>, _: usize) {}

    fn bytes(&self) -> usize {
        0
    }
}
