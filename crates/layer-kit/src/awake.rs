//! When a lower device last worked for clients, and when it rests: one clock for all layers that leave a device alone.
//!
//! No request asks a device to rest. It does so by its own timer, if nothing reaches it for long enough. So a layer
//! only counts the idle time, and sends nothing of its own to a device that rests.

use std::cell::Cell;

use esker_base::{Nanos, Time};

/// The wakefulness of one lower device.
#[derive(Debug)]
pub struct Awake {
    idle_after: Nanos,
    worked_last: Cell<Time>,
}

impl Awake {
    /// A device that works now, and rests when it has not worked for `idle_after`. With zero it always rests.
    pub fn new(idle_after: Nanos, now: Time) -> Awake {
        Awake { idle_after, worked_last: Cell::new(now) }
    }

    /// Whether the device should be left alone.
    pub fn is_resting(&self, now: Time) -> bool {
        now.since(self.worked_last.get()) >= self.idle_after
    }

    /// The device works now. Whether that wakes it.
    pub fn work(&self, now: Time) -> bool {
        let was_resting = self.is_resting(now);
        self.worked_last.set(now.max(self.worked_last.get()));
        was_resting
    }

    /// How long the device has not worked.
    pub fn idle(&self, now: Time) -> Nanos {
        now.since(self.worked_last.get())
    }

    /// When it rests, if it does not work before.
    pub fn rests_at(&self) -> Time {
        self.worked_last.get() + self.idle_after
    }

    /// Whether it ever counts as awake.
    pub fn can_wake(&self) -> bool {
        self.idle_after > Nanos::ZERO
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_rests_after_its_idle_time_and_work_wakes_it() {
        let awake = Awake::new(Nanos(10), Time(5));
        assert_eq!([5, 14, 15].map(|at| awake.is_resting(Time(at))), [false, false, true]);
        assert!(!awake.work(Time(9)), "it was awake");
        assert_eq!((awake.rests_at(), awake.idle(Time(12))), (Time(19), Nanos(3)));
        assert!(awake.work(Time(19)) && !awake.is_resting(Time(28)));
    }

    #[test]
    fn without_an_idle_time_a_device_always_rests() {
        let awake = Awake::new(Nanos::ZERO, Time(5));
        assert!(awake.is_resting(Time(5)) && awake.work(Time(6)) && awake.is_resting(Time(6)));
        assert!(!awake.can_wake());
    }
}
