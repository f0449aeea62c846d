//! Values and signals from other threads into a world.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

#[cfg(loom)]
use loom::sync::{Arc, Mutex};
#[cfg(not(loom))]
use std::sync::{Arc, Mutex};

struct Slot<T> {
    value: Option<T>,
    closed: bool,
    waker: Option<Waker>,
}

/// Sends one value from any thread.
pub struct Sender<T>(Arc<Mutex<Slot<T>>>);

/// Receives one value in a world. `None`: the sender went away (its thread panicked or its world was killed).
pub struct Receiver<T>(Arc<Mutex<Slot<T>>>);

/// A channel for one value between threads.
pub fn oneshot<T>() -> (Sender<T>, Receiver<T>) {
    let slot = Arc::new(Mutex::new(Slot { value: None, closed: false, waker: None }));
    (Sender(slot.clone()), Receiver(slot))
}

impl<T> Sender<T> {
    /// Delivers the value.
    pub fn send(self, value: T) {
        self.0.lock().unwrap_or_else(|e| panic!("{e}")).value = Some(value);
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        let waker = self.0.lock().ok().and_then(|mut slot| {
            slot.closed = true;
            slot.waker.take()
        });
        waker.into_iter().for_each(Waker::wake);
    }
}

impl<T> Future for Receiver<T> {
    type Output = Option<T>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<T>> {
        let mut slot = self.0.lock().unwrap_or_else(|e| panic!("{e}"));
        if slot.value.is_some() || slot.closed {
            return Poll::Ready(slot.value.take());
        }
        slot.waker = Some(cx.waker().clone());
        Poll::Pending
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;

    #[test]
    fn a_value_sent_while_the_receiver_registers_is_not_lost() {
        loom::model(|| {
            let (sender, receiver) = oneshot();
            let thread = loom::thread::spawn(move || sender.send(7));
            assert_eq!(loom::future::block_on(receiver), Some(7));
            thread.join().unwrap();
        });
    }

    #[test]
    fn a_sender_that_goes_away_wakes_the_receiver() {
        loom::model(|| {
            let (sender, receiver) = oneshot::<u32>();
            let thread = loom::thread::spawn(move || drop(sender));
            assert_eq!(loom::future::block_on(receiver), None);
            thread.join().unwrap();
        });
    }
}
