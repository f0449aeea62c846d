//! Messages from one thread to a task of a world, and their answers.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::task::{Poll, Waker};

struct Shared<M> {
    waiting: VecDeque<M>,
    closed: bool,
    waker: Option<Waker>,
}

type Box<M> = Arc<Mutex<Shared<M>>>;

/// A question and where its answer goes.
pub(crate) struct Letter<Q, A> {
    pub question: Q,
    pub reply: mpsc::Sender<A>,
}

/// The asking side, on a thread that may wait.
pub(crate) struct Asker<Q, A>(Box<Letter<Q, A>>);

/// The answering side, in a world.
pub(crate) struct Answerer<Q, A>(Box<Letter<Q, A>>);

/// Both sides.
pub(crate) fn mailbox<Q, A>() -> (Asker<Q, A>, Answerer<Q, A>) {
    let shared = Arc::new(Mutex::new(Shared { waiting: VecDeque::new(), closed: false, waker: None }));
    (Asker(shared.clone()), Answerer(shared))
}

fn lock<M>(shared: &Box<M>) -> MutexGuard<'_, Shared<M>> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

fn wake<M>(mut shared: MutexGuard<'_, Shared<M>>) {
    let waker = shared.waker.take();
    drop(shared);
    waker.into_iter().for_each(Waker::wake);
}

impl<Q, A> Asker<Q, A> {
    /// Asks and waits. `None`: the answerer has gone.
    pub(crate) fn ask(&self, question: Q) -> Option<A> {
        let (reply, receiver) = mpsc::channel();
        let mut shared = lock(&self.0);
        if shared.closed {
            return None;
        }
        shared.waiting.push_back(Letter { question, reply });
        wake(shared);
        receiver.recv().ok()
    }
}

impl<Q, A> Drop for Asker<Q, A> {
    fn drop(&mut self) {
        let mut shared = lock(&self.0);
        shared.closed = true;
        wake(shared);
    }
}

impl<Q, A> Answerer<Q, A> {
    /// The next question. `None`: the asker has gone.
    pub(crate) async fn next(&self) -> Option<Letter<Q, A>> {
        std::future::poll_fn(|cx| {
            let mut shared = lock(&self.0);
            match shared.waiting.pop_front() {
                Some(letter) => Poll::Ready(Some(letter)),
                None if shared.closed => Poll::Ready(None),
                None => {
                    shared.waker = Some(cx.waker().clone());
                    Poll::Pending
                }
            }
        })
        .await
    }
}

impl<Q, A> Drop for Answerer<Q, A> {
    fn drop(&mut self) {
        let mut shared = lock(&self.0);
        shared.closed = true;
        // A caller that waits for an answer learns that none will come.
        shared.waiting.clear();
    }
}
