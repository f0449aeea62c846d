//! Waiting for a word of memory to change. It blocks its thread, so it has no place in virtual time.

use std::io;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

use rustix::io::Errno;
use rustix::thread::futex::{self, Flags};
use rustix::time::Timespec;

/// Who may wait for a word.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scope {
    /// Threads of this process, which the kernel finds faster.
    Private,
    /// Whatever has mapped the memory that holds the word.
    Shared,
}

impl Scope {
    fn flags(self) -> Flags {
        match self {
            Scope::Private => Flags::PRIVATE,
            Scope::Shared => Flags::empty(),
        }
    }
}

/// How a wait ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Waited {
    /// By a wake-up or for no reason: look at the word.
    Woken,
    /// The word held another value already, or a signal came: look at the word.
    Changed,
    /// The time has passed.
    TimedOut,
}

/// Sleeps while `word` holds `value`, at most for `timeout`; without one, until a wake-up. The kernel compares and
/// sleeps in one step, so a wake-up after a change of the word is never lost.
///
/// # Errors
/// The kernel's, as for a time that it cannot hold.
pub fn wait(word: &AtomicU32, value: u32, timeout: Option<Duration>, scope: Scope) -> io::Result<Waited> {
    let timeout = timeout.map(Timespec::try_from).transpose().map_err(|_| io::ErrorKind::InvalidInput)?;
    match futex::wait(word, scope.flags(), value, timeout.as_ref()) {
        Ok(()) => Ok(Waited::Woken),
        Err(Errno::AGAIN | Errno::INTR) => Ok(Waited::Changed),
        Err(Errno::TIMEDOUT) => Ok(Waited::TimedOut),
        Err(error) => Err(error.into()),
    }
}

/// Wakes at most `count` threads that wait for `word` in the same scope, and tells how many.
///
/// # Errors
/// The kernel's.
pub fn wake(word: &AtomicU32, count: u32, scope: Scope) -> io::Result<usize> {
    // The kernel takes the count for a signed number.
    Ok(futex::wake(word, scope.flags(), count.min(i32::MAX as u32))?)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;
    use std::thread;

    use super::*;

    /// Sleeps until `word` is not 0.
    fn until_set(word: &AtomicU32, scope: Scope) {
        while word.load(Ordering::Acquire) == 0 {
            assert_ne!(wait(word, 0, Some(Duration::from_secs(30)), scope).unwrap(), Waited::TimedOut);
        }
    }

    #[test]
    fn a_wait_ends_by_its_value_or_its_time() {
        let word = AtomicU32::new(1);
        for scope in [Scope::Private, Scope::Shared] {
            assert_eq!(wait(&word, 0, None, scope).unwrap(), Waited::Changed);
            assert_eq!(wait(&word, 1, Some(Duration::from_millis(1)), scope).unwrap(), Waited::TimedOut);
            assert_eq!(wake(&word, u32::MAX, scope).unwrap(), 0);
        }
    }

    #[test]
    fn all_that_wait_see_the_change() {
        for scope in [Scope::Private, Scope::Shared] {
            let word = AtomicU32::new(0);
            thread::scope(|threads| {
                (0..3).for_each(|_| drop(threads.spawn(|| until_set(&word, scope))));
                word.store(1, Ordering::Release);
                wake(&word, u32::MAX, scope).unwrap();
            });
        }
    }

    #[test]
    fn as_many_wake_as_are_asked_for() {
        let word = AtomicU32::new(0);
        thread::scope(|threads| {
            let waiters: Vec<_> =
                (0..3).map(|_| threads.spawn(|| wait(&word, 0, None, Scope::Private).unwrap())).collect();
            let mut woken = 0;
            while woken < waiters.len() {
                let now = wake(&word, 1, Scope::Private).unwrap();
                assert!(now <= 1);
                woken += now;
                thread::yield_now();
            }
            waiters.into_iter().for_each(|waiter| assert_eq!(waiter.join().unwrap(), Waited::Woken));
        });
    }
}
