//! Tickets: results that a table of requests in flight will have. A request that waits in a table needs no memory of
//! its own.

use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

/// A table of requests in flight, each at a key.
pub trait Table<T> {
    /// The result of the request at `key`, once; then the key is free. Until then the waker of `cx` is woken for it.
    fn poll(&self, key: u32, cx: &mut Context<'_>) -> Poll<T>;

    /// The request at `key` is dropped before its result is there.
    fn abandon(&self, key: u32);
}

/// The future of one result of a table. Dropping it earlier abandons the request.
pub struct Ticket<T> {
    /// None once the result was taken.
    table: Option<Rc<dyn Table<T>>>,
    key: u32,
}

impl<T> Ticket<T> {
    /// The only ticket of the request at `key`.
    pub fn new(table: Rc<dyn Table<T>>, key: u32) -> Ticket<T> {
        Ticket { table: Some(table), key }
    }
}

impl<T> Future for Ticket<T> {
    type Output = T;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        let table = self.table.as_ref().expect(super::AWAITED_ONCE);
        let value = ready!(table.poll(self.key, cx));
        self.table = None;
        Poll::Ready(value)
    }
}

impl<T> Drop for Ticket<T> {
    fn drop(&mut self) {
        if let Some(table) = self.table.take() {
            table.abandon(self.key);
        }
    }
}

/// Entries of a [`Table`] by key. Keys are used again, the last free one first.
pub struct Entries<E>(RefCell<Inner<E>>);

struct Inner<E> {
    entries: Vec<Option<E>>,
    free: Vec<u32>,
}

impl<E> Default for Entries<E> {
    fn default() -> Entries<E> {
        Entries(RefCell::new(Inner { entries: Vec::new(), free: Vec::new() }))
    }
}

const ONE_POLL: &str = "an entry is polled by one ticket, and ends once";

impl<E> Entries<E> {
    /// Adds an entry and gives its key.
    pub fn insert(&self, entry: E) -> u32 {
        let inner = &mut *self.0.borrow_mut();
        match inner.free.pop() {
            Some(key) => {
                inner.entries[key as usize] = Some(entry);
                key
            }
            None => {
                inner.entries.push(Some(entry));
                (inner.entries.len() - 1) as u32
            }
        }
    }

    /// Polls an entry, which is outside of the table meanwhile, so that the poll may change the table. It ends with its
    /// result.
    ///
    /// # Panics
    /// If there is no such entry.
    pub fn poll<T>(&self, key: u32, poll: impl FnOnce(&mut E) -> Poll<T>) -> Poll<(E, T)> {
        let mut entry = self.0.borrow_mut().entries[key as usize].take().expect(ONE_POLL);
        match poll(&mut entry) {
            Poll::Pending => {
                self.0.borrow_mut().entries[key as usize] = Some(entry);
                Poll::Pending
            }
            Poll::Ready(value) => {
                self.0.borrow_mut().free.push(key);
                Poll::Ready((entry, value))
            }
        }
    }

    /// Takes an entry out for good. There is none if its poll has panicked.
    pub fn remove(&self, key: u32) -> Option<E> {
        let inner = &mut *self.0.borrow_mut();
        inner.free.push(key);
        inner.entries[key as usize].take()
    }

    /// How many entries there are.
    pub fn len(&self) -> usize {
        let inner = self.0.borrow();
        inner.entries.len() - inner.free.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;

    /// Counts down at each poll; notes what was abandoned.
    #[derive(Default)]
    struct Countdown {
        entries: Entries<u32>,
        abandoned: RefCell<Vec<u32>>,
    }

    impl Table<u32> for Countdown {
        fn poll(&self, key: u32, _: &mut Context<'_>) -> Poll<u32> {
            let polled = self.entries.poll(key, |left| match left {
                0 => Poll::Ready(()),
                _ => {
                    *left -= 1;
                    // The table may be changed meanwhile.
                    let other = self.entries.insert(9);
                    assert_eq!((other != key, self.entries.remove(other)), (true, Some(9)));
                    Poll::Pending
                }
            });
            polled.map(|_| key)
        }

        fn abandon(&self, key: u32) {
            self.abandoned.borrow_mut().extend(self.entries.remove(key));
        }
    }

    #[test]
    fn a_ticket_gives_its_result_once_and_one_that_is_dropped_earlier_abandons_its_entry() {
        let table = Rc::new(Countdown::default());
        let ticket = |polls| Ticket::new(table.clone() as Rc<dyn Table<u32>>, table.entries.insert(polls));
        let (mut first, second, third) = (ticket(1), ticket(5), ticket(7));
        let mut cx = Context::from_waker(Waker::noop());
        assert!(Pin::new(&mut first).poll(&mut cx).is_pending());
        assert_eq!(Pin::new(&mut first).poll(&mut cx), Poll::Ready(0));
        drop(first);
        assert!(table.abandoned.borrow().is_empty());
        drop(second);
        assert_eq!((table.abandoned.take(), table.entries.len()), (vec![5], 1));
        assert_eq!([ticket(3).key, third.key], [1, 2], "keys are used again");
        drop(third);
        assert!(table.entries.is_empty());
    }
}
