//! The one place where threads meet a world: the list of tasks woken from anywhere, and the parking protocol.
//!
//! Both live under one lock: a waker that finds the world parked rings its bell; a world that finds the list not empty
//! does not park. So no wake-up is lost (checked by loom).

#[cfg(loom)]
pub(crate) use loom::sync::{
    Mutex,
    atomic::{AtomicBool, Ordering},
};
#[cfg(not(loom))]
pub(crate) use std::sync::{
    Mutex,
    atomic::{AtomicBool, Ordering},
};

use crate::task::TaskId;

/// Ends the kernel wait of a parked world.
pub(crate) type Unpark = Box<dyn Fn() + Send + Sync>;

struct State<T> {
    woken: Vec<T>,
    parked: bool,
}

pub(crate) struct Remote<T = TaskId> {
    state: Mutex<State<T>>,
    /// Whether `woken` holds something: written under the lock, read without it to spare the owner the lock. A stale
    /// `false` costs one look more, because `park` looks under the lock.
    pending: AtomicBool,
    unpark: Unpark,
}

impl<T> Remote<T> {
    pub(crate) fn new(unpark: Unpark) -> Remote<T> {
        let state = Mutex::new(State { woken: Vec::new(), parked: false });
        Remote { state, pending: AtomicBool::new(false), unpark }
    }

    /// Adds a woken task. Any thread.
    pub(crate) fn push(&self, item: T) {
        let parked = self.with(|state| {
            state.woken.push(item);
            self.pending.store(true, Ordering::Release);
            std::mem::take(&mut state.parked)
        });
        if parked {
            (self.unpark)();
        }
    }

    /// Whether tasks were woken since the last `drain`. Owner only.
    #[inline]
    pub(crate) fn has_pending(&self) -> bool {
        self.pending.load(Ordering::Acquire)
    }

    /// Moves all woken tasks to `out`, in the order of their wake-ups. Owner only.
    pub(crate) fn drain(&self, out: &mut Vec<T>) {
        if self.has_pending() {
            self.with(|state| {
                self.pending.store(false, Ordering::Release);
                out.append(&mut state.woken);
            });
        }
    }

    /// Announces that the owner is about to wait. False: something is pending, do not wait.
    pub(crate) fn park(&self) -> bool {
        self.with(|state| {
            state.parked = state.woken.is_empty();
            state.parked
        })
    }

    /// The owner runs again.
    pub(crate) fn unparked(&self) {
        self.with(|state| state.parked = false);
    }

    fn with<R>(&self, act: impl FnOnce(&mut State<T>) -> R) -> R {
        act(&mut self.state.lock().unwrap_or_else(|e| panic!("a waker panicked: {e}")))
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use loom::sync::{Arc, Condvar};
    use loom::thread;

    /// Stands for the eventfd: a counter that a wait consumes.
    struct Bell {
        rung: Mutex<bool>,
        cond: Condvar,
    }

    impl Bell {
        fn ring(&self) {
            *self.rung.lock().unwrap() = true;
            self.cond.notify_one();
        }

        fn wait(&self) {
            let mut rung = self.rung.lock().unwrap();
            while !*rung {
                rung = self.cond.wait(rung).unwrap();
            }
            *rung = false;
        }
    }

    /// A thread that parks and would sleep on has been rung for: stated instead of waited for, so that it fails by its
    /// own words.
    #[test]
    fn whoever_parks_beside_a_wake_up_hears_the_bell() {
        loom::model(|| {
            let rung = Arc::new(Mutex::new(false));
            let bell = rung.clone();
            let remote = Arc::new(Remote::<u32>::new(Box::new(move || *bell.lock().unwrap() = true)));
            let pusher = remote.clone();
            let waker = thread::spawn(move || pusher.push(7));
            let mut seen = Vec::new();
            remote.drain(&mut seen);
            let parked = remote.park();
            waker.join().unwrap();
            let woken_early = !seen.is_empty();
            remote.drain(&mut seen);
            assert_eq!(seen, [7], "what was pushed is there once");
            assert!(woken_early || !parked || *rung.lock().unwrap(), "the world sleeps beside a task that was woken");
        });
    }

    #[test]
    fn no_wake_up_is_lost_between_push_and_park() {
        // Three preemptions: each way to interleave two wakers with a look of the owner needs fewer.
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(3);
        model.check(|| {
            let bell = Arc::new(Bell { rung: Mutex::new(false), cond: Condvar::new() });
            let ringer = bell.clone();
            let remote = Arc::new(Remote::<u32>::new(Box::new(move || ringer.ring())));
            let wakers: Vec<_> = (0..2)
                .map(|n| {
                    let remote = remote.clone();
                    thread::spawn(move || remote.push(n))
                })
                .collect();
            let mut seen = Vec::new();
            while seen.len() < 2 {
                remote.drain(&mut seen);
                if seen.len() < 2 && remote.park() {
                    // A lost wake-up leaves this wait without a partner: loom reports the deadlock.
                    bell.wait();
                    remote.unparked();
                }
            }
            seen.sort();
            assert_eq!(seen, [0, 1]);
            wakers.into_iter().for_each(|w| w.join().unwrap());
        });
    }
}
