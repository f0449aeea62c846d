//! Now or later: an answer that is there costs no allocation; only real waiting does.

use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::task::{Context, Poll};

/// A future of one reactor; not `Send`.
pub type LocalFuture<T> = Pin<Box<dyn Future<Output = T>>>;

/// A result that is there already, or a future of it.
pub enum Step<T> {
    /// There already.
    Now(T),
    /// Later.
    Later(LocalFuture<T>),
}

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
            Step::Later(future) => Step::later(async move { f(future.await) }),
        }
    }
}

/// The future of a [`Step`].
pub enum StepFuture<T> {
    /// Holds the value until it is polled.
    Now(Option<T>),
    /// Waits.
    Later(LocalFuture<T>),
}

impl<T: Unpin> Future for StepFuture<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        match &mut *self {
            StepFuture::Now(value) => Poll::Ready(value.take().expect("a step is awaited once")),
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
            Step::Later(future) => StepFuture::Later(future),
        }
    }
}
