//! How fast the collector works: a share of the device that grows with used space, as `cleaning` has it.
//!
//! Without a clock, and without knowing what the device can do: each byte that is written obliges the cleaner to read
//! or write so many that both have their shares. The one that is behind goes first: the cleaner waits until something
//! is owed, or nothing writes; writers wait while more is owed than they may run ahead. That is a part of the free
//! space, so that bursts pass freely as long as there is much of it, and writers slow down by and by when there is not.

use std::cell::Cell;
use std::rc::Rc;

use esker_base::{Nanos, Time};
use esker_cleaning::Pacing;
use esker_rt::sync::{Notify, race};

use super::clean::CHUNK;
use crate::volume::{ReserveClass, Volume, add};

/// No client has written for so long: the device is the cleaner's.
const IDLE: Nanos = Nanos::millis(1);
/// Writers may run ahead by this part of the free space, in bytes of cleaning.
const AHEAD: f64 = 0.25;
/// Bytes of cleaning owed for a byte written, at most.
const RATIO_MAX: f64 = 64.0;

/// The debts of both sides.
pub(super) struct Pace {
    pacing: Pacing,
    /// Share of used space.
    used: Cell<f64>,
    /// Bytes of cleaning that are owed.
    owed: Cell<f64>,
    /// Bytes of cleaning that may be owed while writers go on.
    ahead: Cell<f64>,
    last_write: Cell<Time>,
    changed: Notify,
    /// Whether there are tasks that clean, and how many of them wait to be let into the stack.
    is_attended: Cell<bool>,
    outside: Cell<u32>,
    /// Nothing could be cleaned the last time, for want of room.
    is_stuck: Cell<bool>,
}

impl Pace {
    pub(super) fn new(pacing: Pacing) -> Pace {
        Pace {
            pacing,
            used: Cell::new(0.0),
            owed: Cell::new(0.0),
            ahead: Cell::new(f64::INFINITY),
            last_write: Cell::new(Time::ZERO),
            changed: Notify::default(),
            is_attended: Cell::new(false),
            outside: Cell::new(0),
            is_stuck: Cell::new(false),
        }
    }

    /// The cleaner's share of the device.
    pub(super) fn share(&self) -> f64 {
        self.pacing.at(self.used.get()).cleaner
    }

    pub(super) fn used(&self) -> f64 {
        self.used.get()
    }

    fn set(&self, used: f64, spare: f64) {
        self.used.set(used);
        self.ahead.set((spare * AHEAD).max(2.0 * CHUNK as f64));
        if self.share() == 0.0 {
            self.owed.set(0.0);
        }
    }

    /// Tasks that clean begin.
    pub(super) fn attend(&self) {
        self.is_attended.set(true);
    }

    /// One of them waits until it is let into the stack: nothing may wait for it meanwhile.
    pub(super) fn leave(&self) {
        self.outside.set(self.outside.get() + 1);
    }

    pub(super) fn enter(&self) {
        self.outside.set(self.outside.get() - 1);
    }

    /// Whether the cleaner found room the last time: nothing waits for one that finds none.
    pub(super) fn set_stuck(&self, is_stuck: bool) {
        self.is_stuck.set(is_stuck);
    }

    /// So many bytes are written.
    fn owe(&self, bytes: u64) {
        let share = self.share();
        let ratio = (share / (1.0 - share)).min(RATIO_MAX);
        let more = ratio * bytes as f64;
        // One batch may owe more than the bound, which would else cut the share of the cleaner.
        let most = self.ahead.get() + more.max(2.0 * CHUNK as f64);
        self.owed.set((self.owed.get() + more).min(most));
    }

    fn is_behind(&self) -> bool {
        let is_at_work = self.is_attended.get() && self.outside.get() == 0 && !self.is_stuck.get();
        is_at_work && self.owed.get() > self.ahead.get()
    }
}

impl Volume {
    /// Space was taken or came back.
    pub(crate) fn note_space(&self) {
        let kept = self.kept_back(ReserveClass::Writers);
        let segments = self.segments.borrow();
        // What a checkpoint would free is as good as free.
        let spare = segments.free().saturating_sub(kept) + segments.dead_count(u64::MAX);
        let usable = self.geometry.segments.saturating_sub(kept).max(1);
        let pace = &self.collector.pace;
        pace.set(1.0 - (spare as f64 / usable as f64).min(1.0), (spare * self.geometry.segment_bytes()) as f64);
        if pace.share() > 0.0 {
            self.collector.wake();
        }
    }

    /// Whether writers must wait for the cleaner. They never wait for one that has nothing to do.
    pub(crate) fn is_cleaner_behind(&self) -> bool {
        let is_behind = self.collector.pace.is_behind() && self.is_collecting();
        if is_behind {
            add(&self.collector.counts.held_writers, 1);
        }
        is_behind
    }

    fn is_collecting(&self) -> bool {
        !self.collector.state.borrow().victims.is_empty() || self.collector.scanning.is_taken()
    }

    /// So many bytes are written.
    pub(crate) fn owe_cleaning(&self, bytes: u64) {
        let pace = &self.collector.pace;
        pace.owe(bytes);
        pace.last_write.set(self.rt().now());
        pace.changed.notify_all();
    }

    /// Time since the last write.
    pub(crate) fn quiet_for(&self) -> Nanos {
        self.rt().now().since(self.collector.pace.last_write.get())
    }

    /// Waits until the cleaner may read and write so many bytes.
    pub(super) async fn earn(self: &Rc<Self>, bytes: u64) {
        let pace = &self.collector.pace;
        loop {
            let is_idle = self.quiet_for() >= IDLE;
            if pace.owed.get() > 0.0 || is_idle || self.is_urgent() || self.collector.tasks.is_closed() {
                break;
            }
            race(pace.changed.wait(), self.rt().sleep(IDLE)).await;
        }
        // What was done ahead counts, but not for long.
        pace.owed.set((pace.owed.get() - bytes as f64).max(-2.0 * CHUNK as f64));
        self.start_batches();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_may_owe_all_of_its_cleaning_and_no_more_than_that_waits() {
        let pace = Pace::new(Pacing::new(0.5, 0.9, 1.0, 0.8).expect("rises"));
        let (bytes, little) = (2 << 20, 2.0 * CHUNK as f64);
        pace.set(0.9, 0.0);
        pace.owe(bytes);
        let all = 4.0 * bytes as f64;
        assert!((pace.owed.get() - all).abs() < 1.0, "{} of {all} are owed", pace.owed.get());
        (0..9).for_each(|_| pace.owe(bytes));
        assert!((pace.owed.get() - little - all).abs() < 1.0, "debts do not pile up: {}", pace.owed.get());
        pace.set(0.1, 1e9);
        assert_eq!(pace.owed.get(), 0.0, "with enough space nothing is owed");
    }
}
