//! The monotonic clock of the threads that replay, and sleeping until an instant of it.

use std::num::NonZeroU64;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::Timespec;
use rustix::thread::ClockId;

/// The last part of a wait is spun: a sleeping thread comes back late by about this much.
const SPIN_NS: u64 = 50_000;
/// Longest sleep before a thread looks whether the replay was stopped.
const LOOK_NS: u64 = 100_000_000;
const SEC_NS: u64 = 1_000_000_000;

/// Nanoseconds of the monotonic clock.
#[inline]
pub(crate) fn now_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * SEC_NS + now.tv_nsec as u64
}

/// This thread's sleeps end on time, not up to 50 µs later.
pub(crate) fn set_timer_slack() {
    // Where the kernel does not allow it, sleeps are less exact and the end of each is spun all the same.
    let _refused = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
}

/// Sleeps until `due_ns`, exactly; gives up early if `stop` is set.
pub(crate) fn sleep_until(due_ns: u64, stop: &AtomicBool) {
    loop {
        let now = now_ns();
        if now >= due_ns {
            return;
        }
        if due_ns - now <= SPIN_NS {
            std::hint::spin_loop();
            continue;
        }
        if stop.load(Ordering::Relaxed) {
            return;
        }
        let until = (due_ns - SPIN_NS).min(now + LOOK_NS);
        let at = Timespec { tv_sec: (until / SEC_NS) as i64, tv_nsec: (until % SEC_NS) as i64 };
        // An interrupted sleep is taken up again by the loop.
        let _interrupted = rustix::thread::clock_nanosleep_absolute(ClockId::Monotonic, &at);
    }
}
