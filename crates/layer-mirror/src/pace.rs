//! How many pieces are copied at once: many while clients rest, few while they have requests under way. A disk serves
//! pieces that follow each other before a client's request elsewhere: beside two of them a client waits four times as
//! long.

use std::cell::Cell;

use esker_base::{Nanos, Time};
use esker_rt::Rt;
use esker_rt::sync::Notify;

/// Clients rest when they have had no request under way for so long: one that sends a request after each answer does
/// not.
const REST: Nanos = Nanos::millis(10);

/// Counts both.
pub(crate) struct Pace {
    rt: Rt,
    window: usize,
    busy: usize,
    clients: Cell<usize>,
    /// When the last request of a client ended.
    quiet_since: Cell<Option<Time>>,
    pieces: Cell<usize>,
    changed: Notify,
}

/// A request of a client, until it is dropped.
pub(crate) struct Client<'a>(&'a Pace);

/// A piece, until it is dropped.
pub(crate) struct Turn<'a>(&'a Pace);

impl Pace {
    /// At most `window` (> 0) pieces at once, and `busy` (> 0) beside clients.
    pub(crate) fn new(rt: &Rt, window: usize, busy: usize) -> Pace {
        Pace {
            rt: rt.clone(),
            window,
            busy: busy.min(window),
            clients: Cell::new(0),
            quiet_since: Cell::new(None),
            pieces: Cell::new(0),
            changed: Notify::default(),
        }
    }

    /// A client's request is under way.
    pub(crate) fn client(&self) -> Client<'_> {
        self.clients.set(self.clients.get() + 1);
        Client(self)
    }

    /// Waits until another piece may be copied. After a rest has begun, that is when the next one ends.
    pub(crate) async fn piece(&self) -> Turn<'_> {
        self.changed.wait_until(|| self.has_room()).await;
        self.pieces.set(self.pieces.get() + 1);
        self.notify_next();
        Turn(self)
    }

    /// One piece is told at a time; it tells the next one, if there is still room.
    fn notify_next(&self) {
        if self.has_room() {
            self.changed.notify_one();
        }
    }

    fn has_room(&self) -> bool {
        let has_rest = |since: Time| self.rt.now().since(since) >= REST;
        let is_rest = self.clients.get() == 0 && self.quiet_since.get().is_none_or(has_rest);
        let most = if is_rest { self.window } else { self.busy };
        self.pieces.get() < most
    }
}

impl Drop for Client<'_> {
    fn drop(&mut self) {
        let pace = self.0;
        pace.clients.set(pace.clients.get() - 1);
        pace.quiet_since.set(Some(pace.rt.now()));
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.pieces.set(self.0.pieces.get() - 1);
        self.0.notify_next();
    }
}
