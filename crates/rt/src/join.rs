//! Results of tasks.

use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

enum State<T> {
    Running(Option<Waker>),
    Done(T),
    Taken,
}

/// Waits for the result of a task of the same world.
#[must_use = "await it, or call detach() if the result is not needed"]
pub struct JoinHandle<T> {
    state: Rc<RefCell<State<T>>>,
}

pub(crate) struct Sender<T> {
    state: Rc<RefCell<State<T>>>,
}

pub(crate) fn pair<T>() -> (Sender<T>, JoinHandle<T>) {
    let state = Rc::new(RefCell::new(State::Running(None)));
    (Sender { state: state.clone() }, JoinHandle { state })
}

impl<T> Sender<T> {
    pub(crate) fn finish(self, value: T) {
        let before = self.state.replace(State::Done(value));
        if let State::Running(Some(waker)) = before {
            waker.wake();
        }
    }
}

impl<T> JoinHandle<T> {
    /// Gives the result up; the task still runs to completion.
    pub fn detach(self) {}

    /// Whether the task has ended.
    #[inline]
    pub fn is_done(&self) -> bool {
        !matches!(*self.state.borrow(), State::Running(_))
    }

    pub(crate) fn take(&self) -> Option<T> {
        let mut state = self.state.borrow_mut();
        match std::mem::replace(&mut *state, State::Taken) {
            State::Done(value) => Some(value),
            other @ (State::Running(_) | State::Taken) => {
                *state = other;
                None
            }
        }
    }
}

impl<T> Future for JoinHandle<T> {
    type Output = T;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        if let Some(value) = self.take() {
            return Poll::Ready(value);
        }
        if let State::Running(waker) = &mut *self.state.borrow_mut() {
            *waker = Some(cx.waker().clone());
        }
        Poll::Pending
    }
}
