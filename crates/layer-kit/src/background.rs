//! Work in the background: one loop for all tasks of layers.
//!
//! The loop waits until something is due, enters the stack, works and backs off. It ends when the layer closes, leaves
//! its stack or latches.

use std::cell::Cell;

use esker_base::Nanos;
use esker_block::{Latch, LayerHandle, WorkPermit};
use esker_rt::Rt;
use esker_rt::sync::Notify;

/// What a task does after a piece of work.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Then {
    /// It looks for more work at once.
    Again,
    /// It looks for more work after this time.
    After(Nanos),
    /// It looks for more work when something has changed.
    Woken,
}

/// Wakes tasks of a layer and ends them.
#[derive(Default)]
pub struct Background {
    wake: Notify,
    closed: Cell<bool>,
}

impl Background {
    /// Something has changed: there may be work.
    pub fn wake(&self) {
        self.wake.notify_all();
    }

    /// Ends the tasks, each after its present piece of work.
    pub fn close(&self) {
        self.closed.set(true);
        self.wake();
    }

    /// Whether the tasks end.
    pub fn is_closed(&self) -> bool {
        self.closed.get()
    }

    /// Runs a task. `due` gives the next piece of work and the time to wait before it; the loop asks again after each
    /// [`Background::wake`] as long as there is none. `work` has a permit of the stack, which it keeps as long as it needs what is
    /// below: a change of the stack waits for it.
    ///
    /// Without `latch`, the task goes on after a failure.
    pub async fn run<W>(
        &self,
        (rt, latch): (&Rt, Option<&Latch>),
        handle: &LayerHandle,
        mut due: impl FnMut() -> Option<(Nanos, W)>,
        mut work: impl AsyncFnMut(WorkPermit, W) -> Then,
    ) {
        let is_over = || self.closed.get() || latch.is_some_and(Latch::is_set);
        loop {
            let mut next = None;
            let mut is_due = || {
                next = due();
                next.is_some()
            };
            self.wake.wait_until(|| is_over() || is_due()).await;
            let Some((pause, piece)) = next else { return };
            if pause > Nanos::ZERO {
                rt.sleep(pause).await;
                if is_over() {
                    return;
                }
            }
            let Some(job) = handle.enter().await else { return };
            match work(job, piece).await {
                Then::Again => {}
                Then::After(pause) => rt.sleep(pause).await,
                Then::Woken => self.wake.wait().await,
            }
        }
    }
}

#[cfg(test)]
mod tests;
