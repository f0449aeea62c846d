//! How fast extents move, and what cancels their moves.

use std::cell::Cell;
use std::rc::Rc;

use esker_base::Nanos;
use esker_block::Step;
use esker_layer_kit::mover::{Go, Pace};
use esker_layer_kit::pace::Shares;
use esker_rt::sync::{Either, Notify, race};

/// Cancels all moves that were begun before.
#[derive(Clone, Default)]
pub(crate) struct Cancels(Rc<State>);

#[derive(Default)]
struct State {
    count: Cell<u64>,
    changed: Notify,
}

impl Cancels {
    /// Cancels them, each after its present piece of work.
    pub(crate) fn cancel(&self) {
        self.0.count.set(self.0.count.get() + 1);
        self.0.changed.notify_all();
    }

    /// The pace of a move that begins now; without `shares` it is as fast as its devices are.
    pub(crate) fn pace(&self, shares: Option<Shares>) -> Cancellable {
        Cancellable { cancels: self.clone(), before: self.0.count.get(), shares }
    }
}

/// The pace of one move.
pub(crate) struct Cancellable {
    cancels: Cancels,
    before: u64,
    shares: Option<Shares>,
}

impl Pace for Cancellable {
    fn earn(&self, lowers: &[usize], bytes: u64) -> Step<Go> {
        if self.cancels.0.count.get() != self.before {
            return Step::Now(Go::Stop);
        }
        let Some(shares) = &self.shares else { return Step::Now(Go::On) };
        match shares.earn(lowers, bytes) {
            Step::Now(go) => Step::Now(go),
            waits @ (Step::After(..) | Step::Ticket(_) | Step::Later(_)) => {
                let (cancels, before) = (self.cancels.clone(), self.before);
                Step::later(async move {
                    let cancelled = cancels.0.changed.wait_until(|| cancels.0.count.get() != before);
                    match race(waits.into_future(), cancelled).await {
                        Either::Left(go) => go,
                        Either::Right(()) => Go::Stop,
                    }
                })
            }
        }
    }

    fn took(&self, lowers: &[usize], time: Nanos) {
        if let Some(shares) = &self.shares {
            shares.took(lowers, time);
        }
    }
}
