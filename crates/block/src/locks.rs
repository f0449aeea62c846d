//! Locks on ranges of bytes, granted in the order in which they were asked for, and never in a circle: a request waits
//! only for earlier ones.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use esker_base::ByteRange;
use esker_rt::sync::Notify;

use crate::{Bio, Ctx, Flow, Step};

/// What a holder excludes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// Exclusive holders of a common byte.
    Shared,
    /// All other holders of a common byte.
    Exclusive,
}

/// Names a place in the order. Never 0.
pub type Ticket = u64;

#[derive(Clone, Copy)]
struct Claim {
    ticket: Ticket,
    range: ByteRange,
    mode: Mode,
}

impl Claim {
    fn waits_for(&self, other: &Claim) -> bool {
        let one_excludes = self.mode == Mode::Exclusive || other.mode == Mode::Exclusive;
        other.ticket < self.ticket && one_excludes && self.range.overlaps(other.range)
    }
}

/// The claims on one device: as many as requests are in flight, hence a list and no tree.
#[derive(Default)]
pub struct RangeLocks {
    claims: RefCell<Vec<Claim>>,
    last: Cell<Ticket>,
    left: Notify,
}

impl RangeLocks {
    /// Claims ranges under one ticket; they may overlap each other. Before [`RangeLocks::is_granted`] they are only queued.
    pub fn enter(&self, ranges: impl IntoIterator<Item = ByteRange>, mode: Mode) -> Ticket {
        let ticket = self.last.get() + 1;
        self.last.set(ticket);
        self.claims.borrow_mut().extend(ranges.into_iter().map(|range| Claim { ticket, range, mode }));
        ticket
    }

    /// Whether no earlier claim is in the way.
    pub fn is_granted(&self, ticket: Ticket) -> bool {
        let claims = self.claims.borrow();
        let mut mine = claims.iter().filter(|claim| claim.ticket == ticket);
        mine.all(|claim| !claims.iter().any(|other| claim.waits_for(other)))
    }

    /// Waits until no earlier claim is in the way.
    pub async fn granted(&self, ticket: Ticket) {
        self.left.wait_until(|| self.is_granted(ticket)).await;
    }

    /// Gives the claims of a ticket up.
    pub fn leave(&self, ticket: Ticket) {
        self.claims.borrow_mut().retain(|claim| claim.ticket != ticket);
        self.left.notify_all();
    }

    /// Passes a request down under a shared claim on its range, at once if it can be. [`RangeLocks::complete`] must
    /// follow in the extension's `complete`.
    pub fn pass(self: &Rc<RangeLocks>, ctx: &mut Ctx<'_>, bio: &mut Bio) -> Step<Flow> {
        let ticket = self.enter([bio.range], Mode::Shared);
        ctx.scratch = ticket;
        if self.is_granted(ticket) {
            return Step::Now(Flow::Down);
        }
        let (locks, bio) = (self.clone(), bio.take());
        Step::later(async move {
            locks.granted(ticket).await;
            Flow::Resume(bio)
        })
    }

    /// Gives up what [`RangeLocks::pass`] claimed, if the request came that way.
    pub fn complete(&self, ctx: &Ctx<'_>) {
        if ctx.scratch != 0 {
            self.leave(ctx.scratch);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(start: u64, len: u64) -> ByteRange {
        ByteRange::new(start, len).unwrap()
    }

    #[test]
    fn shared_claims_exclude_only_exclusive_ones() {
        let locks = RangeLocks::default();
        let [a, b] = [0, 4].map(|at| locks.enter([span(at, 8)], Mode::Shared));
        let c = locks.enter([span(11, 1), span(30, 1)], Mode::Exclusive);
        let d = locks.enter([span(30, 5)], Mode::Shared);
        assert_eq!([a, b, c, d].map(|t| locks.is_granted(t)), [true, true, false, false]);
        locks.leave(b);
        assert_eq!([a, c, d].map(|t| locks.is_granted(t)), [true, true, false]);
        locks.leave(c);
        assert!(locks.is_granted(d));
    }

    #[test]
    fn an_early_claim_is_not_overtaken_by_a_late_one() {
        let locks = RangeLocks::default();
        let first = locks.enter([span(0, 4)], Mode::Shared);
        let waiting = locks.enter([span(0, 8)], Mode::Exclusive);
        let late = locks.enter([span(4, 4)], Mode::Shared);
        assert!(!locks.is_granted(late), "it would starve the one that waits");
        locks.leave(first);
        assert_eq!([waiting, late].map(|t| locks.is_granted(t)), [true, false]);
    }
}
