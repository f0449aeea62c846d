//! The gate: which requests are under way on which bytes of an upper port.
//!
//! Clients enter before they are routed and leave when they are answered. They are never compared with each other.
//! Movers are few, and look at clients: they watch which units change, hold changes back, and wait until requests that
//! are under way have ended. Where no mover looks, a client pays for one branch.
//!
//! A request that *goes* may be anywhere below. One that *waits* is nowhere below: it asks the map of its layer when it
//! goes. Only requests that go are marked, waited for and counted as under way. A request begins to go when it enters,
//! or when the last wish that stops it ends. From then on no new hold stops it.
//!
//! Reading order: this file, `flights` (the requests), `wishes` (what movers want to know).

mod flights;
mod wishes;

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use esker_base::ByteRange;
use esker_rt::sync::Notify;

use flights::{Flights, Stage};
pub use wishes::Changed;
use wishes::{Awaited, Marks, What, Wishes};

/// Names a request in the gate until it leaves.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Ticket(u32);

impl Ticket {
    /// As a word that is never 0: half of the scratch word of a request's context.
    #[inline]
    pub fn word(self) -> u32 {
        self.0
    }

    /// The ticket with this word; none for 0.
    #[inline]
    pub fn of_word(word: u32) -> Option<Ticket> {
        (word != 0).then_some(Ticket(word))
    }
}

/// The requests of one upper port. A clone is the same gate.
#[derive(Clone, Default)]
pub struct Gate(Rc<State>);

#[derive(Default)]
struct State {
    /// Whether there are wishes: all that a client asks while no mover looks.
    is_watched: Cell<bool>,
    table: RefCell<Table>,
    /// Requests that waited may go.
    admitted: Notify,
    /// All requests that a mover waits for have ended.
    ended: Notify,
}

#[derive(Default)]
struct Table {
    flights: Flights,
    wishes: Wishes,
}

impl Gate {
    /// A request on these bytes begins; with `changes` it may change them, as a write or a discard does. Never waits:
    /// ask [`Gate::may_go`] before the request is routed. [`Gate::leave`] must follow, whatever becomes of it.
    #[inline]
    pub fn enter(&self, range: ByteRange, changes: bool) -> Ticket {
        let mut table = self.0.table.borrow_mut();
        let ticket = table.flights.add(range, changes);
        if self.0.is_watched.get() {
            table.entered(ticket);
        }
        ticket
    }

    /// The request has ended, or is given up.
    ///
    /// # Panics
    /// If it has left before: another request may have its ticket.
    #[inline]
    pub fn leave(&self, ticket: Ticket) {
        if self.0.is_watched.get() {
            self.leaves_watched(ticket);
        }
        self.0.table.borrow_mut().flights.remove(ticket);
    }

    #[cold]
    fn leaves_watched(&self, ticket: Ticket) {
        let has_ended = self.0.table.borrow_mut().leaves(ticket);
        if has_ended {
            self.0.ended.notify_all();
        }
    }

    /// Whether the request may be routed. False only for a change whose bytes are held.
    #[inline]
    pub fn may_go(&self, ticket: Ticket) -> bool {
        !self.0.is_watched.get() || self.0.table.borrow().flights.get(ticket).stage == Stage::Goes
    }

    /// The bytes of a request, as it entered with them.
    pub fn range(&self, ticket: Ticket) -> ByteRange {
        self.0.table.borrow().flights.get(ticket).range
    }

    /// Waits until the request may be routed.
    pub async fn admitted(&self, ticket: Ticket) {
        self.0.admitted.wait_until(|| self.may_go(ticket)).await;
    }

    /// Whether a change that the map sends home may go there now. False while a write-back of its bytes is under way,
    /// which could land over it. The layer then waits with [`Gate::admitted_home`], and asks its map again.
    #[inline]
    pub fn may_go_home(&self, ticket: Ticket) -> bool {
        !self.0.is_watched.get() || self.0.table.borrow().may_go_home(ticket)
    }

    /// Waits until no write-back of the request's bytes is under way. Meanwhile it is not under way itself, so nothing
    /// of it may be below.
    pub async fn admitted_home(&self, ticket: Ticket) {
        if self.may_go_home(ticket) {
            return;
        }
        let has_ended = self.0.table.borrow_mut().stop_for_home(ticket);
        if has_ended {
            self.0.ended.notify_all();
        }
        self.admitted(ticket).await;
    }

    /// Notes from now on which units of `range` change. A change is noted when it begins to go and again when it ends:
    /// it may take effect at any time between. Changes that are under way now count.
    ///
    /// # Panics
    /// If `unit` is 0.
    pub fn watch(&self, range: ByteRange, unit: u64) -> Watch {
        let mut table = self.0.table.borrow_mut();
        let mut marks = Marks::new(range, unit);
        table.flights.under_way(range).filter(|(_, flight)| flight.changes).for_each(|(_, f)| marks.mark(f.range));
        Watch(self.wish(&mut table, range, What::Watch(marks)))
    }

    /// Holds new changes of the watched range back, and waits until those that are under way have ended. Reads go on.
    /// Dropping the wait gives the hold up.
    pub async fn hold(&self, watch: &Watch) -> Hold {
        self.hold_range(watch.range()).await
    }

    /// The same for any range: for a mover that watches many units and switches one.
    pub async fn hold_range(&self, range: ByteRange) -> Hold {
        let hold = Hold(self.awaiting(range, false, What::Hold));
        self.0.ended.wait_until(|| hold.0.is_over()).await;
        hold
    }

    /// Waits until all requests that are under way on `range` now have ended. After a switch, the old place of these
    /// bytes may then be used anew.
    pub async fn drained(&self, range: ByteRange) {
        let drain = self.awaiting(range, true, What::Drain);
        self.0.ended.wait_until(|| drain.is_over()).await;
    }

    /// A write-back of `range` is under way: changes of these bytes that go home wait, others do not.
    pub fn home_bound(&self, range: ByteRange) -> HomeBound {
        let mut table = self.0.table.borrow_mut();
        HomeBound(self.wish(&mut table, range, What::HomeBound))
    }

    /// Whether no request is in the gate.
    pub fn is_empty(&self) -> bool {
        self.0.table.borrow().flights.is_empty()
    }

    /// Requests that wait for a mover.
    pub fn waiting(&self) -> usize {
        self.0.table.borrow().flights.waiting().count()
    }

    fn awaiting(&self, range: ByteRange, reads: bool, what: fn(Awaited) -> What) -> Wish {
        let mut table = self.0.table.borrow_mut();
        let flights = table.flights.under_way(range).filter(|(_, flight)| reads || flight.changes);
        let awaited = Awaited::of(flights.map(|(ticket, _)| ticket));
        self.wish(&mut table, range, what(awaited))
    }

    fn wish(&self, table: &mut Table, range: ByteRange, what: What) -> Wish {
        self.0.is_watched.set(true);
        Wish { gate: self.clone(), range, number: table.wishes.add(range, what) }
    }
}

impl Table {
    /// A mover looks, and a request has come.
    #[cold]
    fn entered(&mut self, ticket: Ticket) {
        let flight = *self.flights.get(ticket);
        if self.wishes.do_stop(flight, Stage::Held) {
            self.flights.set_stage(ticket, Stage::Held);
        } else if flight.changes {
            self.wishes.mark(flight.range);
        }
    }

    /// A mover looks, and a request leaves. Whether all that a mover waits for have ended by that.
    fn leaves(&mut self, ticket: Ticket) -> bool {
        let flight = *self.flights.get(ticket);
        if flight.changes && flight.stage == Stage::Goes {
            self.wishes.mark(flight.range);
        }
        self.wishes.stopped(ticket)
    }

    fn may_go_home(&self, ticket: Ticket) -> bool {
        !self.wishes.are_home_bound(self.flights.get(ticket).range)
    }

    /// A change comes back to the gate on its way home. Whether all that a mover waits for have ended by that.
    fn stop_for_home(&mut self, ticket: Ticket) -> bool {
        self.flights.set_stage(ticket, Stage::HeldHome);
        self.wishes.stopped(ticket)
    }

    /// A wish has ended: what waits for no other one goes. Whether any request does.
    fn let_go(&mut self, range: ByteRange) -> bool {
        let waiting = self.flights.waiting().filter(|(_, flight)| flight.range.overlaps(range));
        let going = waiting.filter(|(_, flight)| !self.wishes.do_stop(**flight, flight.stage));
        let going: Vec<(Ticket, ByteRange)> = going.map(|(ticket, flight)| (ticket, flight.range)).collect();
        for (ticket, range) in &going {
            self.flights.set_stage(*ticket, Stage::Goes);
            self.wishes.mark(*range);
        }
        !going.is_empty()
    }
}

/// What a mover wants, until it is dropped.
struct Wish {
    gate: Gate,
    range: ByteRange,
    number: u64,
}

impl Wish {
    fn with<T>(&self, look: impl FnOnce(&mut What) -> T) -> T {
        look(self.gate.0.table.borrow_mut().wishes.get(self.number))
    }

    fn is_over(&self) -> bool {
        self.with(|what| what.is_over())
    }
}

impl Drop for Wish {
    fn drop(&mut self) {
        let mut table = self.gate.0.table.borrow_mut();
        table.wishes.remove(self.number);
        let do_go = table.let_go(self.range);
        self.gate.0.is_watched.set(!table.wishes.is_empty());
        drop(table);
        if do_go {
            self.gate.0.admitted.notify_all();
        }
    }
}

/// Notes which units change, until it is dropped.
#[must_use = "the watch ends when this is dropped"]
pub struct Watch(Wish);

impl Watch {
    /// What is watched.
    pub fn range(&self) -> ByteRange {
        self.0.range
    }

    /// Whether a unit has changed since the watch began or was asked with [`Watch::take`].
    pub fn is_changed(&self) -> bool {
        self.0.with(|what| !what.marks().is_empty())
    }

    /// The units that have changed, counted from the begin of the range; they are then forgotten. One whose change is
    /// still under way is noted again when that ends.
    pub fn take(&self) -> Changed {
        self.0.with(|what| what.marks().take())
    }
}

/// Holds changes back until it is dropped.
#[must_use = "changes go when this is dropped"]
pub struct Hold(Wish);

impl Hold {
    /// The bytes that no change is under way on.
    pub fn range(&self) -> ByteRange {
        self.0.range
    }
}

/// Keeps changes from home until it is dropped.
#[must_use = "changes go home when this is dropped"]
pub struct HomeBound(Wish);

impl HomeBound {
    /// The bytes that are written back.
    pub fn range(&self) -> ByteRange {
        self.0.range
    }
}

#[cfg(test)]
mod tests;
