//! Answers to calls, whose futures often do not wait.

use std::future::Future;
use std::task::{Context, Poll, Waker};

use esker_base::Errno;
use esker_block::Step;
use esker_vfs::Answer;

use crate::error::LfsError;

/// What a future answers: at once if it does not wait.
pub(crate) fn answer<T: 'static>(future: impl Future<Output = Result<T, Errno>> + 'static) -> Answer<T> {
    let mut future = Box::pin(future);
    match future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(answer) => Step::Now(answer),
        Poll::Pending => Step::Later(future),
    }
}

/// The error of a call.
pub(crate) fn told(error: LfsError) -> Errno {
    error.errno()
}
