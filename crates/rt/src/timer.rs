//! The event heap: what wakes at which instant, in the total order (deadline, counter).

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::task::Waker;

use esker_base::Time;

use crate::task::TaskId;

/// Whom an event wakes.
pub(crate) enum Wakes {
    /// A task of this world: the common case, without reference counting.
    Task(TaskId),
    /// A task that counts as queued already and only waited for its instant or for a simulated CPU.
    Queued(TaskId),
    /// Somebody inside a task, such as one branch of a join.
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

/// Pending events. Cancelled ones stay in the heap, are skipped, and never move time.
#[derive(Default)]
pub(crate) struct Timers {
    heap: BinaryHeap<Reverse<(u64, u64, u32)>>,
    slots: Vec<Slot>,
    free: Vec<u32>,
    counter: u64,
}

impl Timers {
    pub fn insert(&mut self, at: Time, wakes: Wakes) -> TimerKey {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot::default());
            (self.slots.len() - 1) as u32
        });
        let counter = self.counter;
        self.counter += 1;
        self.slots[slot as usize] = Slot { counter, wakes: Some(wakes) };
        self.heap.push(Reverse((at.0, counter, slot)));
        TimerKey { slot, counter }
    }

    /// Forgets an event; nothing happens if it fired.
    pub fn cancel(&mut self, key: TimerKey) {
        // After `clear` the slot may be gone.
        let Some(slot) = self.slots.get_mut(key.slot as usize) else { return };
        if slot.counter == key.counter && slot.wakes.take().is_some() {
            self.discard_cancelled();
        }
    }

    /// Drops cancelled events from the front, so that `next_deadline` names a live one.
    fn discard_cancelled(&mut self) {
        while let Some(Reverse((_, _, slot))) = self.heap.peek() {
            if self.slots[*slot as usize].wakes.is_some() {
                break;
            }
            let Reverse((_, _, slot)) = self.heap.pop().expect("peeked above");
            self.free.push(slot);
        }
    }

    /// The instant of the first live event.
    pub fn next_deadline(&self) -> Option<Time> {
        self.heap.peek().map(|Reverse((at, _, _))| Time(*at))
    }

    /// Takes the first event if its instant is not after `limit`.
    pub fn pop_due(&mut self, limit: Time) -> Option<Due> {
        if self.next_deadline()? > limit {
            return None;
        }
        let Reverse((at, counter, slot)) = self.heap.pop()?;
        let wakes = self.slots[slot as usize].wakes.take().expect("cancelled events never stand in front");
        self.free.push(slot);
        self.discard_cancelled();
        Some(Due { at: Time(at), counter, wakes })
    }

    /// Forgets everything.
    pub fn clear(&mut self) -> Vec<Slotted> {
        self.heap.clear();
        self.free.clear();
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
    fn cancelling_after_the_slot_was_reused_does_nothing() {
        let mut t = Timers::default();
        let old = at(&mut t, 1);
        assert!(t.pop_due(Time(1)).is_some());
        at(&mut t, 2);
        t.cancel(old);
        assert_eq!(t.next_deadline(), Some(Time(2)));
    }
}
