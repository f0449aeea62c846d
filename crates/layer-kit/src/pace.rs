//! How fast a layer works in the background: what a mover asks before each piece of its work.

use std::cell::Cell;
use std::rc::Rc;

use esker_base::{Nanos, Time};
use esker_block::Step;
use esker_rt::Rt;
use esker_rt::sync::{Notify, race};

use crate::awake::Awake;

pub use esker_base::Bucket;

/// What a mover does next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Go {
    /// The piece that it asked for.
    On,
    /// No more: the move is cancelled.
    Stop,
}

/// Decides when a mover may do the next piece of its work.
pub trait Pace {
    /// Waits until so many bytes may be read or written on each of these lower devices.
    fn earn(&self, lowers: &[usize], bytes: u64) -> Step<Go>;

    /// What was earned last has been done, and took this time.
    fn took(&self, _lowers: &[usize], _time: Nanos) {}
}

/// A share of the time of each lower device. A piece of work that took a time is followed by a pause such that both
/// together are that time divided by the share. So the mover need not know how fast a device is, and the more clients
/// make it wait, the less it asks for. It has all of the time of a device that no client uses.
#[derive(Clone)]
pub struct Shares(Rc<State>);

struct State {
    rt: Rt,
    share: Cell<f64>,
    lowers: Vec<Lower>,
    is_stopped: Cell<bool>,
    changed: Notify,
}

struct Lower {
    bucket: Bucket,
    /// The work of clients.
    awake: Awake,
}

impl Shares {
    /// Shares of `lowers` devices. A device that no client used for `idle_after` is the mover's.
    pub fn new(rt: &Rt, lowers: usize, share: f64, idle_after: Nanos) -> Shares {
        let now = rt.now();
        let lower = |_| Lower { bucket: Bucket::new(Nanos::ZERO, now), awake: Awake::new(idle_after, now) };
        let lowers = (0..lowers).map(lower).collect();
        let (is_stopped, changed) = (Cell::new(false), Notify::default());
        let shares = Shares(Rc::new(State { rt: rt.clone(), share: Cell::new(0.0), lowers, is_stopped, changed }));
        shares.set_share(share);
        shares
    }

    /// Changes the share, from the next piece of work on.
    ///
    /// # Panics
    /// If it is not above 0 and at most 1.
    pub fn set_share(&self, share: f64) {
        assert!(share > 0.0 && share <= 1.0, "{share} is no share");
        self.0.share.set(share);
    }

    /// A client uses a lower device.
    pub fn client_worked(&self, lower: usize) {
        self.0.lowers[lower].awake.work(self.0.rt.now());
    }

    /// Cancels all moves, each after its present piece of work.
    pub fn stop(&self) {
        self.0.is_stopped.set(true);
        self.0.changed.notify_all();
    }

    /// New moves may begin.
    pub fn resume(&self) {
        self.0.is_stopped.set(false);
    }
}

impl State {
    /// When the mover may use all of these devices, as far as is known now.
    fn due(&self, lowers: &[usize]) -> Time {
        let due = |lower: &Lower| lower.bucket.paid().min(lower.awake.rests_at());
        lowers.iter().map(|lower| due(&self.lowers[*lower])).max().unwrap_or(Time::ZERO)
    }

    async fn earn(&self, lowers: &[usize]) -> Go {
        while !self.is_stopped.get() {
            let due = self.due(lowers);
            if due <= self.rt.now() {
                return Go::On;
            }
            // A client may come meanwhile: then the device is not the mover's, and the time is looked at again.
            race(self.changed.wait(), self.rt.sleep_until(due)).await;
        }
        Go::Stop
    }
}

impl Pace for Shares {
    fn earn(&self, lowers: &[usize], _: u64) -> Step<Go> {
        let state = self.0.clone();
        if state.is_stopped.get() {
            return Step::Now(Go::Stop);
        }
        if state.due(lowers) <= state.rt.now() {
            return Step::Now(Go::On);
        }
        let lowers = lowers.to_vec();
        Step::later(async move { state.earn(&lowers).await })
    }

    fn took(&self, lowers: &[usize], time: Nanos) {
        let now = self.0.rt.now();
        let begin = Time(now.0.saturating_sub(time.0));
        let cost = Nanos::from_secs_f64(time.as_secs_f64() / self.0.share.get());
        // Work in time that no client wanted is no debt.
        for lower in lowers.iter().map(|lower| &self.0.lowers[*lower]).filter(|lower| !lower.awake.is_resting(begin)) {
            lower.bucket.take(begin, cost);
        }
    }
}

#[cfg(test)]
mod tests;
