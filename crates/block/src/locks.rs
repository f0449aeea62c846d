//! Locks on ranges of bytes, granted in the order in which they were asked for, and never in a circle: a request waits
//! only for earlier ones.

//!
//! Reading order: [`front`] (what a claim meets), [`table`] (which claim waits for which). A claim costs O(log n) and
//! O(1) for each segment of the front and each claim in it that it meets; n claims on the same bytes cost O(n log n) in
//! all.

mod front;
mod table;
#[cfg(test)]
mod tests;

use std::cell::RefCell;
use std::rc::Rc;
use std::task::Waker;

use esker_base::ByteRange;

use table::Table;

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

/// The claims on one device.
#[derive(Default)]
pub struct RangeLocks(RefCell<Table>);

impl RangeLocks {
    /// Claims ranges under one ticket; they may overlap each other. Before [`RangeLocks::is_granted`] they are only
    /// queued.
    pub fn enter(&self, ranges: impl IntoIterator<Item = ByteRange>, mode: Mode) -> Ticket {
        self.0.borrow_mut().enter(ranges, mode)
    }

    /// Whether there is no claim at all. A change that asks this, and is made before anything else runs, needs no
    /// claim.
    pub fn is_idle(&self) -> bool {
        self.0.borrow().is_idle()
    }

    /// Whether no earlier claim is in the way.
    pub fn is_granted(&self, ticket: Ticket) -> bool {
        self.0.borrow().is_granted(ticket)
    }

    /// Waits until no earlier claim is in the way. One task at most waits for a ticket; it is woken when that is so,
    /// and not before.
    pub async fn granted(&self, ticket: Ticket) {
        std::future::poll_fn(|cx| self.0.borrow_mut().poll_granted(ticket, cx.waker())).await;
    }

    /// Gives the claims of a ticket up, granted or not. Wakes the tasks whose claims are granted by it, in the order of
    /// their tickets.
    pub fn leave(&self, ticket: Ticket) {
        let woken = self.0.borrow_mut().leave(ticket);
        woken.into_iter().for_each(Waker::wake);
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
