//! Admission to a stack: lets requests of clients in by class, or holds them while the stack is drained for a change.

use std::cell::Cell;

use esker_block::Class;
use esker_rt::sync::{Credits, Notify};

/// Requests of one class that a stack lets in at once; more wait at their export.
const ADMITTED_MAX: u64 = 4096;

/// Admission to one stack.
pub(crate) struct Admission {
    closed: Cell<bool>,
    /// Closed until the layers are opened.
    opening: Cell<bool>,
    /// Closed for good.
    ended: Cell<bool>,
    inflight: Cell<u64>,
    changed: Notify,
    admitted: [Credits; Class::COUNT],
}

impl Default for Admission {
    fn default() -> Admission {
        Admission {
            closed: Cell::new(false),
            opening: Cell::new(false),
            ended: Cell::new(false),
            inflight: Cell::new(0),
            changed: Notify::default(),
            admitted: std::array::from_fn(|_| Credits::new(ADMITTED_MAX)),
        }
    }
}

impl Admission {
    /// Lets a request in now, if admission is open and the class has a credit.
    #[inline]
    pub(crate) fn try_enter(&self, class: Class) -> bool {
        let is_in = !self.closed.get() && self.admitted[class as usize].try_take(1);
        self.inflight.set(self.inflight.get() + u64::from(is_in));
        is_in
    }

    /// Waits until a request is let in.
    pub(crate) async fn enter(&self, class: Class) {
        loop {
            self.changed.wait_until(|| !self.closed.get()).await;
            let credits = &self.admitted[class as usize];
            credits.take(1).await;
            if !self.closed.get() {
                self.inflight.set(self.inflight.get() + 1);
                return;
            }
            credits.give(1);
        }
    }

    /// A request that was let in has its answer.
    #[inline]
    pub(crate) fn leave(&self, class: Class) {
        self.admitted[class as usize].give(1);
        self.inflight.set(self.inflight.get() - 1);
        if self.closed.get() {
            self.changed.notify_all();
        }
    }

    /// Waits until an extension's own work is let in; false if none will be any more.
    pub(crate) async fn enter_job(&self) -> bool {
        self.changed.wait_until(|| !self.closed.get() || self.ended.get()).await;
        let is_in = !self.ended.get();
        self.inflight.set(self.inflight.get() + u64::from(is_in));
        is_in
    }

    /// Work that was let in has ended.
    pub(crate) fn leave_job(&self) {
        self.inflight.set(self.inflight.get() - 1);
        if self.closed.get() {
            self.changed.notify_all();
        }
    }

    /// Requests and pieces of work that are in.
    pub(crate) fn inflight(&self) -> u64 {
        self.inflight.get()
    }

    /// Lets no request in any more; false if that was so already.
    pub(crate) fn close(&self) -> bool {
        !self.closed.replace(true)
    }

    /// Closes it for good and tells all work that waits.
    pub(crate) fn end(&self) {
        self.ended.set(true);
        self.closed.set(true);
        self.changed.notify_all();
    }

    /// Lets no request in until the layers are opened.
    pub(crate) fn begin_opening(&self) {
        self.opening.set(true);
        self.closed.set(true);
    }

    /// They are.
    pub(crate) fn end_opening(&self) {
        self.opening.set(false);
        self.open();
    }

    /// Waits until the layers are opened, or admission is closed for good.
    pub(crate) async fn opened(&self) {
        self.changed.wait_until(|| !self.opening.get() || self.ended.get()).await;
    }

    /// Lets requests in again.
    pub(crate) fn open(&self) {
        self.closed.set(false);
        self.changed.notify_all();
    }

    /// Waits until no request is in.
    pub(crate) async fn emptied(&self) {
        self.changed.wait_until(|| self.inflight.get() == 0).await;
    }
}
