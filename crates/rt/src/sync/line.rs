//! The line in which waiters stand: first come, first served. To join, to be served and to leave cost a constant,
//! whatever the length of the line.

use std::cell::Cell;
use std::collections::VecDeque;
use std::ops::Deref;
use std::rc::Rc;

/// A waiter's place in a [`Line`].
pub(super) struct LineTicket<T> {
    is_left: Cell<bool>,
    waiter: T,
}

impl<T> Deref for LineTicket<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.waiter
    }
}

/// Waiters in the order in which they came.
///
/// A place that its waiter left stays until it comes to the front, or until more places are left than taken: then one
/// sweep removes them all, which costs each of them a constant. The first place is never a left one.
pub(super) struct Line<T> {
    places: VecDeque<Rc<LineTicket<T>>>,
    /// How many of them are left.
    left: usize,
    /// Places that were looked at so far: the cost, for tests.
    #[cfg(test)]
    pub(super) looked_at: usize,
}

impl<T> Default for Line<T> {
    fn default() -> Line<T> {
        Line {
            places: VecDeque::new(),
            left: 0,
            #[cfg(test)]
            looked_at: 0,
        }
    }
}

impl<T> Line<T> {
    /// A place behind all others.
    pub(super) fn join(&mut self, waiter: T) -> Rc<LineTicket<T>> {
        let place = Rc::new(LineTicket { is_left: Cell::new(false), waiter });
        self.places.push_back(place.clone());
        place
    }

    /// The next waiter.
    pub(super) fn first(&self) -> Option<&T> {
        self.places.front().map(|place| &place.waiter)
    }

    /// Takes the next waiter out.
    pub(super) fn serve(&mut self) -> Option<Rc<LineTicket<T>>> {
        let first = self.places.pop_front();
        self.note(1);
        self.drop_left_in_front();
        first
    }

    /// Takes all waiters out, in order.
    pub(super) fn serve_all(&mut self) -> impl Iterator<Item = Rc<LineTicket<T>>> + use<T> {
        std::mem::take(self).places.into_iter().filter(|place| !place.is_left.get())
    }

    /// Gives up a place that stands in this line.
    pub(super) fn leave(&mut self, place: &LineTicket<T>) {
        let was_left = place.is_left.replace(true);
        debug_assert!(!was_left, "a place is left once");
        self.left += 1;
        self.drop_left_in_front();
        if self.left > self.len() {
            self.note(self.places.len());
            self.places.retain(|place| !place.is_left.get());
            self.left = 0;
        }
    }

    /// Number of waiters.
    pub(super) fn len(&self) -> usize {
        self.places.len() - self.left
    }

    /// Whether there is no waiter.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Places, also those that are left.
    #[cfg(test)]
    pub(super) fn places(&self) -> usize {
        self.places.len()
    }

    fn drop_left_in_front(&mut self) {
        while self.left > 0 && self.places.front().is_some_and(|place| place.is_left.get()) {
            self.places.pop_front();
            self.left -= 1;
            self.note(1);
        }
    }

    /// Counts the work.
    fn note(&mut self, looked_at: usize) {
        #[cfg(test)]
        {
            self.looked_at += looked_at;
        }
        #[cfg(not(test))]
        let _only_for_tests = looked_at;
    }
}
