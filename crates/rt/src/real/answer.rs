//! The answer of a call to another thread: a future for any executor, and a wait for a thread.

use std::any::Any;
use std::future::Future;
use std::panic::resume_unwind;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use esker_base::Nanos;

/// What came of a call: its value or its panic.
pub(super) type Made<R> = Result<R, Box<dyn Any + Send>>;

enum State<R> {
    Waiting(Option<Waker>),
    Made(Made<R>),
    /// The call was dropped before it had an answer.
    Lost,
    Taken,
}

struct Slot<R> {
    state: Mutex<State<R>>,
    /// Whether the state is no longer `Waiting`: read without the lock by a thread that spins.
    is_over: AtomicBool,
}

impl<R> Slot<R> {
    fn lock(&self) -> MutexGuard<'_, State<R>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn end(&self, state: State<R>) {
        let before = std::mem::replace(&mut *self.lock(), state);
        self.is_over.store(true, Ordering::Release);
        if let State::Waiting(Some(waker)) = before {
            waker.wake();
        }
    }
}

/// The side that answers. If it is dropped without an answer, the other side panics.
pub(super) struct Answering<R>(Option<Arc<Slot<R>>>);

impl<R> Answering<R> {
    pub(super) fn send(mut self, made: Made<R>) {
        if let Some(slot) = self.0.take() {
            slot.end(State::Made(made));
        }
    }
}

impl<R> Drop for Answering<R> {
    fn drop(&mut self) {
        if let Some(slot) = self.0.take() {
            slot.end(State::Lost);
        }
    }
}

/// Looks between two readings of the clock, which take longer than they do.
const LOOKS: u32 = 16;

/// Whether another thread sets a flag within less than a microsecond.
pub(super) fn is_soon(flag: &AtomicBool) -> bool {
    (0..LOOKS).any(|_| {
        std::hint::spin_loop();
        flag.load(Ordering::Acquire)
    })
}

/// What a call of a [`StackCell`](super::StackCell) gives once it has run.
///
/// # Panics
/// Polling it panics as the call did, if a task of the stack panicked, and behind its end.
#[must_use = "a call is waited for by its answer"]
pub struct Answer<R>(Arc<Slot<R>>);

/// Both sides of a call.
pub(super) fn answer<R>() -> (Answering<R>, Answer<R>) {
    let slot = Arc::new(Slot { state: Mutex::new(State::Waiting(None)), is_over: AtomicBool::new(false) });
    (Answering(Some(slot.clone())), Answer(slot))
}

/// Wakes a thread.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

impl<R> Answer<R> {
    /// Waits on this thread. It stays awake as long as `spin` says, and then sleeps.
    pub fn wait(self, spin: Nanos) -> R {
        self.spin(spin);
        let waker = Waker::from(Arc::new(Unpark(thread::current())));
        let (mut answer, mut cx) = (pin!(self), Context::from_waker(&waker));
        loop {
            match answer.as_mut().poll(&mut cx) {
                Poll::Ready(value) => return value,
                Poll::Pending => thread::park(),
            }
        }
    }

    fn spin(&self, spin: Nanos) {
        if spin == Nanos::ZERO {
            return;
        }
        let (begun, span) = (Instant::now(), Duration::from_nanos(spin.0));
        while !is_soon(&self.0.is_over) && begun.elapsed() < span {}
    }
}

impl<R> Future for Answer<R> {
    type Output = R;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<R> {
        let mut state = self.0.lock();
        if let State::Waiting(waker) = &mut *state {
            *waker = Some(cx.waker().clone());
            return Poll::Pending;
        }
        let state = std::mem::replace(&mut *state, State::Taken);
        match state {
            State::Made(Ok(value)) => Poll::Ready(value),
            State::Made(Err(panic)) => resume_unwind(panic),
            State::Lost => panic!("a task of the stack panicked; its message is above"),
            State::Waiting(_) | State::Taken => panic!("the answer of a call is polled behind its end"),
        }
    }
}
