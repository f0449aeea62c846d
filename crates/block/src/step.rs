//! Now or later: an answer that is there, whose instant is known, or that a table will have costs no allocation.

mod ticket;

use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use esker_rt::Sleep;

use crate::bio::Done;
use crate::ext::Flow;

pub use ticket::{Entries, Table, Ticket};

/// A future of one reactor; not `Send`.
pub type LocalFuture<T> = Pin<Box<dyn Future<Output = T>>>;

/// A result that is there already, or a future of it.
pub enum Step<T> {
    /// There already.
    Now(T),
    /// There already, but not to be seen before the sleep ends: what models of devices answer.
    After(Sleep, T),
    /// Later, from a table of requests in flight.
    Ticket(Ticket<T>),
    /// Later.
    Later(LocalFuture<T>),
}

// The loop moves a step at every hop.
#[cfg(target_pointer_width = "64")]
const _: () = assert!(size_of::<Step<Done>>() <= 112 && size_of::<Step<Flow>>() <= 160);

impl<T> Step<T> {
    /// A step that waits.
    pub fn later(future: impl Future<Output = T> + 'static) -> Step<T> {
        Step::Later(Box::pin(future))
    }

    /// Applies `f` to the result, at once if it is there.
    pub fn map<U>(self, f: impl FnOnce(T) -> U + 'static) -> Step<U>
    where
        T: 'static,
    {
        match self {
            Step::Now(value) => Step::Now(f(value)),
            // `f` may look at the clock, so it runs when the wait is over.
            Step::After(sleep, value) => Step::later(async move {
                sleep.await;
                f(value)
            }),
            Step::Ticket(ticket) => Step::later(async move { f(ticket.await) }),
            Step::Later(future) => Step::later(async move { f(future.await) }),
        }
    }
}

const AWAITED_ONCE: &str = "a step is awaited once";

/// The future of a [`Step`].
pub enum StepFuture<T> {
    /// Holds the value until it is polled.
    Now(Option<T>),
    /// Holds the value until the sleep ends.
    After(Sleep, Option<T>),
    /// Waits for a table.
    Ticket(Ticket<T>),
    /// Waits.
    Later(LocalFuture<T>),
}

impl<T: Unpin> Future for StepFuture<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        match &mut *self {
            StepFuture::Now(value) => Poll::Ready(value.take().expect(AWAITED_ONCE)),
            StepFuture::After(sleep, value) => {
                ready!(Pin::new(sleep).poll(cx));
                Poll::Ready(value.take().expect(AWAITED_ONCE))
            }
            StepFuture::Ticket(ticket) => Pin::new(ticket).poll(cx),
            StepFuture::Later(future) => future.as_mut().poll(cx),
        }
    }
}

impl<T: Unpin> IntoFuture for Step<T> {
    type Output = T;
    type IntoFuture = StepFuture<T>;

    fn into_future(self) -> StepFuture<T> {
        match self {
            Step::Now(value) => StepFuture::Now(Some(value)),
            Step::After(sleep, value) => StepFuture::After(sleep, Some(value)),
            Step::Ticket(ticket) => StepFuture::Ticket(ticket),
            Step::Later(future) => StepFuture::Later(future),
        }
    }
}
