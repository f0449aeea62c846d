//! Threads that run when no other thread wants their CPU.

use std::io;

/// Puts the calling thread under `SCHED_IDLE`, which needs no privilege. It cannot be undone without one.
///
/// # Errors
/// The kernel's, where a jail forbids the call.
pub fn run_when_idle() -> io::Result<()> {
    let parameter = libc::sched_param { sched_priority: 0 };
    // SAFETY: the call reads the parameter, which outlives it, and 0 names the calling thread.
    match unsafe { libc::sched_setscheduler(0, libc::SCHED_IDLE, &raw const parameter) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_becomes_idle_and_no_other_one_does() {
        // SAFETY: the call has no arguments but a number that names the calling thread.
        let policy = || unsafe { libc::sched_getscheduler(0) };
        let before = policy();
        let inside = std::thread::spawn(move || {
            run_when_idle().unwrap();
            policy()
        });
        assert_eq!((inside.join().unwrap(), policy()), (libc::SCHED_IDLE, before));
    }
}
