//! How far each thread is, and how others wait for it: a count, a short spin, then the kernel's futex. A thread that
//! begins hundreds of others has hundreds of waiters, so a step wakes only those whose wish it meets.

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
const UNWANTED: u32 = u32::MAX;
/// Bells of a counter.
const BELLS: u32 = 32;

/// One counter that only grows, and its waiters. One thread counts.
///
/// Wishes for counts that differ by a multiple of [`BELLS`] share a bell. A waiter first says up to where it waits,
/// then looks again, then sleeps on its bell's old value. The counter stores first. Then it looks for waiters at the
/// bells of all counts that it went past, and rings those whose lowest wish is met. All accesses are in one order, so
/// either the waiter sees the new count, or the other one sees the wish. A wish that is wiped out by a ring is stated
/// anew by its waiter, because the bell has changed.
#[derive(Default)]
#[repr(align(64))]
pub struct Counter {
    count: AtomicU32,
    bells: [Bell; BELLS as usize],
}

struct Bell {
    /// The lowest wish.
    wanted: AtomicU32,
    /// How often it was rung.
    rung: AtomicU32,
}

/// The replay was stopped while a thread waited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stopped;

impl Default for Bell {
    /// Without a waiter.
    fn default() -> Bell {
        Bell { wanted: AtomicU32::new(UNWANTED), rung: AtomicU32::new(0) }
    }
}

impl Bell {
    /// Wakes all waiters; they look again.
    fn ring(&self) {
        self.wanted.store(UNWANTED, Ordering::SeqCst);
        self.rung.fetch_add(1, Ordering::SeqCst);
        // Waking cannot fail on memory of this process.
        let _woken = futex::wake(&self.rung, futex::Flags::PRIVATE, u32::MAX >> 1);
    }
}

impl Counter {
    /// The count.
    pub fn count(&self) -> u32 {
        self.count.load(Ordering::SeqCst)
    }

    /// Counts up to `count`, and wakes its waiters.
    pub fn reach(&self, count: u32) {
        let before = self.count.swap(count, Ordering::SeqCst);
        for passed in before + 1..=count.min(before + BELLS) {
            let bell = self.bell(passed);
            if count >= bell.wanted.load(Ordering::SeqCst) {
                bell.ring();
            }
        }
    }

    /// Wakes all waiters; they look again.
    pub fn ring(&self) {
        self.bells.iter().for_each(Bell::ring);
    }

    fn bell(&self, count: u32) -> &Bell {
        &self.bells[(count % BELLS) as usize]
    }

    /// Waits until the count is at least `needed`.
    ///
    /// # Errors
    /// [`Stopped`] if `stop` is set meanwhile.
    pub fn wait(&self, needed: u32, stop: &AtomicBool) -> Result<(), Stopped> {
        if self.count() >= needed || self.spin(needed) {
            return Ok(());
        }
        let bell = self.bell(needed);
        loop {
            let rung = bell.rung.load(Ordering::SeqCst);
            bell.wanted.fetch_min(needed, Ordering::SeqCst);
            if self.count() >= needed {
                return Ok(());
            }
            if stop.load(Ordering::Relaxed) {
                return Err(Stopped);
            }
            let look = Timespec { tv_sec: 0, tv_nsec: i64::from(LOOK.subsec_nanos()) };
            match futex::wait(&bell.rung, futex::Flags::PRIVATE, rung, Some(&look)) {
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
