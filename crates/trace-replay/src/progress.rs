//! How far each thread is, and how others wait for it: two words a thread, a short spin, then the kernel's futex.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use rustix::fs::Timespec;
use rustix::io::Errno;
use rustix::thread::futex;

use crate::clock;

/// Spins before a thread sleeps, in nanoseconds: about what a sleep and a wake cost.
const SPIN_NS: u64 = 2_000;
/// Longest sleep before a thread looks whether the replay was stopped.
const LOOK: Duration = Duration::from_millis(100);
const NOBODY: u32 = u32::MAX;

/// One counter that only grows, and its waiters.
///
/// A waiter first says up to where it waits, then looks again, then sleeps on the bell's old value. The counter stores
/// first, then looks for waiters, and rings if the lowest wish is met. All accesses are in one order, so either the
/// waiter sees the new count, or the other one sees the wish. A wish that is wiped out by a ring is stated anew by its
/// waiter, because the bell has changed.
#[repr(align(64))]
pub struct Counter {
    count: AtomicU32,
    wanted: AtomicU32,
    bell: AtomicU32,
}

/// The replay was stopped while a thread waited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stopped;

impl Default for Counter {
    /// At zero, without a waiter.
    fn default() -> Counter {
        Counter { count: AtomicU32::new(0), wanted: AtomicU32::new(NOBODY), bell: AtomicU32::new(0) }
    }
}

impl Counter {
    /// The count.
    pub fn count(&self) -> u32 {
        self.count.load(Ordering::SeqCst)
    }

    /// Counts up to `count`, and wakes its waiters.
    pub fn reach(&self, count: u32) {
        self.count.store(count, Ordering::SeqCst);
        if count >= self.wanted.load(Ordering::SeqCst) {
            self.ring();
        }
    }

    /// Wakes all waiters; they look again.
    pub fn ring(&self) {
        self.wanted.store(NOBODY, Ordering::SeqCst);
        self.bell.fetch_add(1, Ordering::SeqCst);
        // Waking cannot fail on memory of this process.
        let _woken = futex::wake(&self.bell, futex::Flags::PRIVATE, u32::MAX >> 1);
    }

    /// Waits until the count is at least `needed`.
    ///
    /// # Errors
    /// [`Stopped`] if `stop` is set meanwhile.
    pub fn wait(&self, needed: u32, stop: &AtomicBool) -> Result<(), Stopped> {
        if self.count() >= needed || self.spin(needed) {
            return Ok(());
        }
        loop {
            let bell = self.bell.load(Ordering::SeqCst);
            self.wanted.fetch_min(needed, Ordering::SeqCst);
            if self.count() >= needed {
                return Ok(());
            }
            if stop.load(Ordering::Relaxed) {
                return Err(Stopped);
            }
            let look = Timespec { tv_sec: 0, tv_nsec: i64::from(LOOK.subsec_nanos()) };
            match futex::wait(&self.bell, futex::Flags::PRIVATE, bell, Some(&look)) {
                Ok(()) | Err(Errno::AGAIN | Errno::INTR | Errno::TIMEDOUT) => {}
                Err(e) => unreachable!("a futex of this process cannot be waited for: {e}"),
            }
        }
    }

    fn spin(&self, needed: u32) -> bool {
        let start = clock::now_ns();
        loop {
            for _ in 0..16 {
                std::hint::spin_loop();
                if self.count() >= needed {
                    return true;
                }
            }
            if clock::now_ns() - start > SPIN_NS {
                return false;
            }
        }
    }
}

#[cfg(test)]
mod tests;
