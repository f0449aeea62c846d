//! Pending events: what wakes at which instant, in the total order (deadline, counter).
//!
//! Events that are made in the order of their deadlines (equal service times, paced streams) stand in a queue, only the
//! others in a heap: the queue costs a fraction of it.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::task::Waker;

use esker_base::Time;

use crate::task::TaskId;

/// What an event wakes.
pub(crate) enum Wakes {
    /// A task of this world: the common case, without reference counting.
    Task(TaskId),
    /// A task that counts as queued already and only waited for its instant or for a simulated CPU.
    Queued(TaskId),
    /// A future inside a task, such as one branch of a join.
    Waker(Waker),
}

/// Names a pending event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TimerKey {
    slot: u32,
    counter: u64,
}

#[derive(Default)]
struct Slot {
    counter: u64,
    wakes: Option<Wakes>,
}

/// An event that is due.
pub(crate) struct Due {
    pub at: Time,
    pub counter: u64,
    pub wakes: Wakes,
}

/// A place in the heap, whose one number sorts by deadline, then counter: comparing it takes two instructions, where
/// three fields take a dozen.
#[derive(Clone, Copy)]
struct HeapKey(u128);

/// Bits of a [`HeapKey`] that number the event's slot: at most 16 million events are pending at once.
const SLOT_BITS: u32 = 24;
/// Bits that number the event: three days of events at 4 million a second.
const COUNTER_BITS: u32 = 40;

impl HeapKey {
    #[inline]
    fn new(at: Time, counter: u64, slot: u32) -> HeapKey {
        assert!(counter >> COUNTER_BITS == 0 && slot >> SLOT_BITS == 0, "a world has more events than it can number");
        HeapKey(u128::from(at.0) << 64 | u128::from(counter << SLOT_BITS | u64::from(slot)))
    }

    #[inline]
    fn at(self) -> Time {
        Time((self.0 >> 64) as u64)
    }

    #[inline]
    fn counter(self) -> u64 {
        self.0 as u64 >> SLOT_BITS
    }

    #[inline]
    fn slot(self) -> u32 {
        self.0 as u32 & ((1 << SLOT_BITS) - 1)
    }
}

/// Pending events. Cancelled ones stay in their place, are skipped, and never move time. They are removed when they
/// come to the front, or all at once when they outnumber the others: a bound on a wait that ends early costs no memory
/// until it is due.
#[derive(Default)]
pub(crate) struct Timers {
    /// Places in ascending order.
    lane: VecDeque<u128>,
    heap: BinaryHeap<Reverse<u128>>,
    slots: Vec<Slot>,
    free: Vec<u32>,
    counter: u64,
    /// Cancelled events that still have a place.
    cancelled: usize,
}

impl Timers {
    #[inline]
    pub(crate) fn insert(&mut self, at: Time, wakes: Wakes) -> TimerKey {
        let counter = self.counter;
        self.counter += 1;
        let entry = Slot { counter, wakes: Some(wakes) };
        let slot = match self.free.pop() {
            Some(slot) => {
                self.slots[slot as usize] = entry;
                slot
            }
            None => {
                self.slots.push(entry);
                (self.slots.len() - 1) as u32
            }
        };
        let place = HeapKey::new(at, counter, slot).0;
        match self.lane.back() {
            Some(last) if place < *last => self.heap.push(Reverse(place)),
            _ => self.lane.push_back(place),
        }
        TimerKey { slot, counter }
    }

    /// Forgets an event; nothing happens if it fired.
    #[inline]
    pub(crate) fn cancel(&mut self, key: TimerKey) {
        // After `clear` the slot may be gone.
        let Some(slot) = self.slots.get_mut(key.slot as usize) else { return };
        if slot.counter == key.counter && slot.wakes.take().is_some() {
            self.cancelled += 1;
            self.discard_cancelled();
            if self.cancelled > (self.lane.len() + self.heap.len()) / 2 {
                self.sweep();
            }
        }
    }

    /// Drops all cancelled events. The order of the others is theirs, not that of the places.
    fn sweep(&mut self) {
        let Timers { lane, heap, slots, free, .. } = self;
        let mut is_live = |place: u128| {
            let slot = HeapKey(place).slot();
            let is_live = slots[slot as usize].wakes.is_some();
            free.extend((!is_live).then_some(slot));
            is_live
        };
        lane.retain(|place| is_live(*place));
        heap.retain(|Reverse(place)| is_live(*place));
        self.cancelled = 0;
    }

    /// Drops cancelled events from the front, so that `next_deadline` names a live one.
    fn discard_cancelled(&mut self) {
        while self.cancelled > 0
            && let Some(place) = self.front()
            && self.slots[place.slot() as usize].wakes.is_none()
        {
            self.take_front();
            self.free.push(place.slot());
            self.cancelled -= 1;
        }
    }

    #[inline]
    fn front(&self) -> Option<HeapKey> {
        match (self.lane.front(), self.heap.peek()) {
            (Some(a), Some(Reverse(b))) => Some(HeapKey(*a.min(b))),
            (Some(a), None) => Some(HeapKey(*a)),
            (None, b) => b.map(|Reverse(b)| HeapKey(*b)),
        }
    }

    #[inline]
    fn take_front(&mut self) -> Option<HeapKey> {
        match (self.lane.front(), self.heap.peek()) {
            (Some(a), b) if b.is_none_or(|Reverse(b)| a < b) => self.lane.pop_front().map(HeapKey),
            _ => self.heap.pop().map(|Reverse(place)| HeapKey(place)),
        }
    }

    /// The instant of the first live event.
    #[inline]
    pub(crate) fn next_deadline(&self) -> Option<Time> {
        self.front().map(HeapKey::at)
    }

    /// Takes the first event if its instant is not after `limit`.
    #[inline]
    pub(crate) fn pop_due(&mut self, limit: Time) -> Option<Due> {
        if self.next_deadline()? > limit {
            return None;
        }
        let place = self.take_front()?;
        let wakes = self.slots[place.slot() as usize].wakes.take().expect("cancelled events never stand in front");
        self.free.push(place.slot());
        if self.cancelled > 0 {
            self.discard_cancelled();
        }
        Some(Due { at: place.at(), counter: place.counter(), wakes })
    }

    /// Forgets everything.
    pub(crate) fn clear(&mut self) -> Vec<Slotted> {
        self.lane.clear();
        self.heap.clear();
        self.free.clear();
        self.cancelled = 0;
        std::mem::take(&mut self.slots).into_iter().filter_map(|s| s.wakes).map(Slotted).collect()
    }
}

/// A forgotten event, to be dropped outside the heap's borrow (dropping a waker may run code).
pub(crate) struct Slotted(#[expect(dead_code, reason = "held only to be dropped")] Wakes);

#[cfg(test)]
mod tests {
    use super::*;

    fn at(t: &mut Timers, time: u64) -> TimerKey {
        t.insert(Time(time), Wakes::Waker(Waker::noop().clone()))
    }

    #[test]
    fn events_of_one_instant_fire_in_the_order_they_were_made() {
        let mut t = Timers::default();
        let (a, b) = (at(&mut t, 5), at(&mut t, 5));
        at(&mut t, 3);
        let order: Vec<_> = std::iter::from_fn(|| t.pop_due(Time(9))).map(|d| (d.at.0, d.counter)).collect();
        assert_eq!(order, [(3, 2), (5, a.counter), (5, b.counter)]);
    }

    #[test]
    fn the_order_does_not_depend_on_the_order_of_making() {
        let mut t = Timers::default();
        let mut expected = Vec::new();
        for i in 0..500u64 {
            let time = if i % 3 == 0 { i * 7 } else { i * 7919 % 1009 };
            let key = at(&mut t, time);
            match i % 5 {
                4 => t.cancel(key),
                _ => expected.push((time, key.counter)),
            }
        }
        expected.sort_unstable();
        let order: Vec<_> = std::iter::from_fn(|| t.pop_due(Time(u64::MAX))).map(|d| (d.at.0, d.counter)).collect();
        assert_eq!(order, expected);
    }

    #[test]
    fn a_cancelled_event_neither_fires_nor_holds_time() {
        let mut t = Timers::default();
        let far = at(&mut t, 1_000_000);
        let near = at(&mut t, 10);
        t.cancel(near);
        assert_eq!(t.next_deadline(), Some(Time(1_000_000)));
        t.cancel(far);
        assert_eq!(t.next_deadline(), None);
        assert!(t.pop_due(Time(u64::MAX)).is_none());
    }

    #[test]
    fn cancelled_events_never_outnumber_the_others_for_long() {
        let mut t = Timers::default();
        let lasting: Vec<u64> = (0..10).map(|i| 1000 + i * 7919 % 1009).collect();
        for time in &lasting {
            at(&mut t, *time);
        }
        for i in 0..10_000u64 {
            let bound = at(&mut t, 5_000 + i * 31 % 4001);
            t.cancel(bound);
            assert!(t.lane.len() + t.heap.len() <= 2 * lasting.len() + 1 && t.slots.len() <= 2 * lasting.len() + 1);
        }
        let mut expected = lasting;
        expected.sort_unstable();
        let order: Vec<_> = std::iter::from_fn(|| t.pop_due(Time(u64::MAX))).map(|d| d.at.0).collect();
        assert_eq!(order, expected);
    }

    #[test]
    fn cancelling_after_the_slot_was_reused_does_nothing() {
        let mut t = Timers::default();
        let old = at(&mut t, 1);
        assert!(t.pop_due(Time(1)).is_some());
        at(&mut t, 2);
        t.cancel(old);
        assert_eq!(t.next_deadline(), Some(Time(2)));
    }
}
