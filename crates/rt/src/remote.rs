//! The one place where threads meet a world: the list of tasks woken from anywhere, and the parking protocol.
//!
//! A waker pushes the task, *then* looks whether the world is parked. The world announces that it parks, *then* looks
//! whether anything was pushed. One of the two sees the other, so no wake-up is lost (checked by loom).

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

pub(crate) struct Remote<T = TaskId> {
    woken: Mutex<Vec<T>>,
    /// True when `woken` may hold something; spares the owner the lock.
    pending: AtomicBool,
    parked: AtomicBool,
    unpark: Unpark,
}

impl<T> Remote<T> {
    pub fn new(unpark: Unpark) -> Remote<T> {
        Remote {
            woken: Mutex::new(Vec::new()),
            pending: AtomicBool::new(false),
            parked: AtomicBool::new(false),
            unpark,
        }
    }

    /// Adds a woken task. Any thread.
    pub fn push(&self, item: T) {
        self.woken.lock().unwrap_or_else(|e| panic!("a waker panicked: {e}")).push(item);
        self.pending.store(true, Ordering::SeqCst);
        if self.parked.swap(false, Ordering::SeqCst) {
            (self.unpark)();
        }
    }

    /// Whether tasks were woken since the last `drain`. Owner only.
    #[inline]
    pub fn has_pending(&self) -> bool {
        self.pending.load(Ordering::SeqCst)
    }

    /// Moves all woken tasks to `out`, in the order of their wake-ups. Owner only.
    pub fn drain(&self, out: &mut Vec<T>) {
        if !self.has_pending() {
            return;
        }
        self.pending.store(false, Ordering::SeqCst);
        out.append(&mut self.woken.lock().unwrap_or_else(|e| panic!("a waker panicked: {e}")));
    }

    /// Announces that the owner is about to wait. False: something is pending, do not wait.
    pub fn park(&self) -> bool {
        self.parked.store(true, Ordering::SeqCst);
        let idle = !self.pending.load(Ordering::SeqCst);
        if !idle {
            self.parked.store(false, Ordering::SeqCst);
        }
        idle
    }

    /// The owner runs again.
    pub fn unparked(&self) {
        self.parked.store(false, Ordering::SeqCst);
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

    #[test]
    fn no_wake_up_is_lost_between_push_and_park() {
        loom::model(|| {
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
