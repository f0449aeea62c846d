//! Quiescence within a bound: a stop, a freeze and a sync all wait here, and none of them longer than its patience,
//! whatever a layer or device below makes them wait for.
//!
//! A request that is dropped on its way latches the stack. A flush therefore runs to its end in a task of its own, also
//! when its caller has given up. One flush of this kind runs at a time: callers that come meanwhile wait in line within
//! their own patience, so that no number of impatient callers piles flushes up.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::future::Future;
use std::rc::Rc;

use esker_base::{Nanos, Time};
use esker_rt::Rt;
use esker_rt::sync::{Credits, Either, race};

use crate::frozen::{FlushError, FrozenStack};
use crate::stack::Stack;

/// Why a stack is not at rest.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum QuiesceError {
    /// Another change, sync or freeze holds the stack.
    #[error("the stack is held by another change, a sync or a freeze; try again when that is over")]
    Busy,
    /// The patience ended first.
    #[error("{what} after {waited}")]
    TimedOut {
        /// What was still to come.
        what: String,
        /// How long was waited.
        waited: Nanos,
    },
    /// A device could not be flushed.
    #[error(transparent)]
    Flush(#[from] FlushError),
}

/// The flushes of one stack that its callers may give up.
pub(crate) struct Flushes {
    turn: Credits,
    /// What is being flushed.
    now: RefCell<BTreeSet<String>>,
}

impl Default for Flushes {
    fn default() -> Flushes {
        Flushes { turn: Credits::new(1), now: RefCell::default() }
    }
}

impl Flushes {
    /// Notes that `device` is being flushed until `flush` ends.
    pub(crate) async fn during<T>(&self, device: &str, flush: impl Future<Output = T>) -> T {
        self.now.borrow_mut().insert(device.to_string());
        let result = flush.await;
        self.now.borrow_mut().remove(device);
        result
    }

    fn describe(&self) -> String {
        let names: Vec<String> = self.now.borrow().iter().map(|name| format!("\"{name}\"")).collect();
        format!("a flush of {} was still under way", names.join(", "))
    }
}

/// When the patience of a caller ends.
#[derive(Clone, Copy)]
struct Deadline {
    until: Time,
    patience: Nanos,
}

impl Deadline {
    fn after(rt: &Rt, patience: Nanos) -> Deadline {
        Deadline { until: rt.now() + patience, patience }
    }

    /// Waits for what may be given up; `what` says what was still to come.
    async fn wait<T>(
        self,
        rt: &Rt,
        work: impl Future<Output = T>,
        what: impl FnOnce() -> String,
    ) -> Result<T, QuiesceError> {
        match race(work, rt.sleep_until(self.until)).await {
            Either::Left(value) => Ok(value),
            Either::Right(()) => Err(QuiesceError::TimedOut { what: what(), waited: self.patience }),
        }
    }
}

impl Stack {
    /// Holds new requests back, waits until none is in flight, and flushes everything, all within `patience`. The stack
    /// stays at rest until the result is dropped.
    ///
    /// # Errors
    /// [`QuiesceError`]; requests go on then.
    pub async fn quiesce(self: &Rc<Self>, patience: Nanos) -> Result<FrozenStack, QuiesceError> {
        let (rt, deadline) = (self.rt(), Deadline::after(self.rt(), patience));
        deadline.wait(rt, self.opened(), opening).await?;
        let held = self.hold_now().ok_or(QuiesceError::Busy)?;
        deadline.wait(rt, self.shared.admission.emptied(), || self.requests()).await?;
        self.flush_by(deadline).await?;
        Ok(held)
    }

    /// Flushes everything while requests go on, and waits for that no longer than `patience`.
    ///
    /// # Errors
    /// [`QuiesceError::TimedOut`] and [`QuiesceError::Flush`].
    pub async fn flush_within(self: &Rc<Self>, patience: Nanos) -> Result<(), QuiesceError> {
        self.flush_by(Deadline::after(self.rt(), patience)).await
    }

    /// Ends the stack within `patience`: flushes everything, waits until nothing is in flight and closes the layers.
    /// Drop the exports first.
    ///
    /// # Errors
    /// [`QuiesceError::TimedOut`]: the media are as after a power cut then. [`QuiesceError::Flush`] after everything was
    /// tried.
    pub async fn shut(self: &Rc<Self>, patience: Nanos) -> Result<(), QuiesceError> {
        let (rt, deadline) = (self.rt(), Deadline::after(self.rt(), patience));
        deadline.wait(rt, self.opened(), opening).await?;
        let flushed = self.flush_by(deadline).await;
        if let Err(QuiesceError::TimedOut { .. }) = flushed {
            return flushed;
        }
        let stack = self.clone();
        let close = rt.spawn("close", async move { stack.close().await });
        deadline.wait(rt, close, || self.requests()).await?;
        flushed
    }

    async fn flush_by(self: &Rc<Self>, deadline: Deadline) -> Result<(), QuiesceError> {
        let what = || self.flushes.describe();
        deadline.wait(self.rt(), self.flushes.turn.take(1), what).await?;
        let stack = self.clone();
        let flush = self.rt().spawn("flush", async move {
            let flushed = stack.flush_all().await;
            stack.flushes.turn.give(1);
            flushed
        });
        Ok(deadline.wait(self.rt(), flush, what).await??)
    }

    fn requests(&self) -> String {
        match self.inflight() {
            0 => "a layer had not yet stored what it holds back".to_string(),
            inflight => format!("{inflight} requests were still in flight"),
        }
    }
}

fn opening() -> String {
    "layers were still being opened".to_string()
}
