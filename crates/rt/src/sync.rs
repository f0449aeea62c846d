//! Waiting for each other inside one world. Nothing here is thread-safe, and nothing here is unfair: waiters are served
//! in the order in which they came.

mod line;

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use line::{Line, LineTicket};

/// The sender of a oneshot went away without a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the other side has gone")]
pub struct Closed;

struct Slot<T> {
    value: Option<T>,
    closed: bool,
    waker: Option<Waker>,
}

/// Gives one value to a [`Receiver`].
pub struct Sender<T>(Rc<RefCell<Slot<T>>>);

/// Waits for one value.
pub struct Receiver<T>(Rc<RefCell<Slot<T>>>);

/// A channel for one value inside one world.
pub fn oneshot<T>() -> (Sender<T>, Receiver<T>) {
    let slot = Rc::new(RefCell::new(Slot { value: None, closed: false, waker: None }));
    (Sender(slot.clone()), Receiver(slot))
}

impl<T> Sender<T> {
    /// Delivers the value; a receiver that went away loses it.
    pub fn send(self, value: T) {
        self.0.borrow_mut().value = Some(value);
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        let mut slot = self.0.borrow_mut();
        slot.closed = true;
        let waker = slot.waker.take();
        drop(slot);
        waker.into_iter().for_each(Waker::wake);
    }
}

impl<T> Future for Receiver<T> {
    type Output = Result<T, Closed>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut slot = self.0.borrow_mut();
        if let Some(value) = slot.value.take() {
            return Poll::Ready(Ok(value));
        }
        if slot.closed {
            return Poll::Ready(Err(Closed));
        }
        slot.waker = Some(cx.waker().clone());
        Poll::Pending
    }
}

/// Wakes waiters. A wake-up belongs to a waiter: no other poll of its task ends its wait, and one that goes away before
/// it saw its wake-up hands it on.
#[derive(Default)]
pub struct Notify {
    kept: Cell<bool>,
    waiters: RefCell<Line<Waiter>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Call {
    /// Still in the queue.
    None,
    /// By `notify_one`: a waiter must take it.
    Single,
    /// By `notify_all`.
    Shared,
}

struct Waiter {
    call: Cell<Call>,
    waker: RefCell<Waker>,
}

impl Waiter {
    fn call(&self, call: Call) {
        self.call.set(call);
        self.waker.borrow().wake_by_ref();
    }
}

impl Notify {
    /// Wakes the first waiter; without one, the next waiter does not wait (kept once).
    pub fn notify_one(&self) {
        let first = self.waiters.borrow_mut().serve();
        match first {
            Some(waiter) => waiter.call(Call::Single),
            None => self.kept.set(true),
        }
    }

    /// Wakes all present waiters.
    pub fn notify_all(&self) {
        let all = self.waiters.borrow_mut().serve_all();
        all.for_each(|waiter| waiter.call(Call::Shared));
    }

    /// Waits for a notification.
    pub async fn wait(&self) {
        if self.kept.take() {
            return;
        }
        let mut notified = Notified { notify: self, waiter: None };
        std::future::poll_fn(|cx| notified.poll(cx)).await;
    }

    /// Waits until `condition` holds; it is checked again after every notification.
    pub async fn wait_until(&self, mut condition: impl FnMut() -> bool) {
        while !condition() {
            self.wait().await;
        }
    }
}

/// A wait for a [`Notify`], which stands in its line from its first poll on.
struct Notified<'a> {
    notify: &'a Notify,
    waiter: Option<Rc<LineTicket<Waiter>>>,
}

impl Notified<'_> {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(waiter) = &self.waiter else {
            let waiter = Waiter { call: Cell::new(Call::None), waker: RefCell::new(cx.waker().clone()) };
            self.waiter = Some(self.notify.waiters.borrow_mut().join(waiter));
            return Poll::Pending;
        };
        if waiter.call.get() != Call::None {
            self.waiter = None;
            return Poll::Ready(());
        }
        waiter.waker.borrow_mut().clone_from(cx.waker());
        Poll::Pending
    }
}

impl Drop for Notified<'_> {
    fn drop(&mut self) {
        let Some(waiter) = self.waiter.take() else { return };
        match waiter.call.get() {
            Call::None => self.notify.waiters.borrow_mut().leave(&waiter),
            Call::Single => self.notify.notify_one(),
            Call::Shared => {}
        }
    }
}

/// Counted credits, granted in the order in which they were asked for.
pub struct Credits {
    free: Cell<u64>,
    line: RefCell<Line<Claim>>,
}

struct Claim {
    amount: u64,
    stage: Cell<Stage>,
    waker: RefCell<Option<Waker>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// In the line.
    Waits,
    /// Its credits are taken for it, but it does not know yet.
    Granted,
    /// It has them.
    Taken,
}

impl Credits {
    /// `amount` free credits.
    pub fn new(amount: u64) -> Credits {
        Credits { free: Cell::new(amount), line: RefCell::default() }
    }

    /// Takes `amount` credits now, if no task waits and they are free.
    #[inline]
    pub fn try_take(&self, amount: u64) -> bool {
        let fits = self.free.get() >= amount && self.line.borrow().is_empty();
        if fits {
            self.free.set(self.free.get() - amount);
        }
        fits
    }

    /// Waits for `amount` credits, behind earlier waiters.
    pub async fn take(&self, amount: u64) {
        if self.try_take(amount) {
            return;
        }
        let claim = Claim { amount, stage: Cell::new(Stage::Waits), waker: RefCell::default() };
        let mut waiting = Waiting { credits: self, claim: self.line.borrow_mut().join(claim) };
        std::future::poll_fn(|cx| waiting.poll(cx)).await;
    }

    /// Gives `amount` credits back.
    #[inline]
    pub fn give(&self, amount: u64) {
        self.free.set(self.free.get() + amount);
        if !self.line.borrow().is_empty() {
            self.grant();
        }
    }

    /// Free credits.
    pub fn free(&self) -> u64 {
        self.free.get()
    }

    /// Claims that wait.
    pub fn waiting(&self) -> usize {
        self.line.borrow().len()
    }

    fn grant(&self) {
        let mut line = self.line.borrow_mut();
        while line.first().is_some_and(|claim| claim.amount <= self.free.get()) {
            let claim = line.serve().expect("looked at above");
            self.free.set(self.free.get() - claim.amount);
            claim.stage.set(Stage::Granted);
            claim.waker.borrow_mut().take().into_iter().for_each(Waker::wake);
        }
    }
}

struct Waiting<'a> {
    credits: &'a Credits,
    claim: Rc<LineTicket<Claim>>,
}

impl Waiting<'_> {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.claim.stage.get() == Stage::Granted {
            self.claim.stage.set(Stage::Taken);
            return Poll::Ready(());
        }
        *self.claim.waker.borrow_mut() = Some(cx.waker().clone());
        Poll::Pending
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        match self.claim.stage.get() {
            Stage::Waits => {
                self.credits.line.borrow_mut().leave(&self.claim);
                // The claims behind one that was too large may be small enough.
                self.credits.grant();
            }
            Stage::Granted => self.credits.give(self.claim.amount),
            Stage::Taken => {}
        }
    }
}

/// Which of two futures was first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Either<A, B> {
    /// The first future's value.
    Left(A),
    /// The second future's value.
    Right(B),
}

/// Waits for the first of two futures (the left one if both are ready) and drops the other.
pub async fn race<A: Future, B: Future>(left: A, right: B) -> Either<A::Output, B::Output> {
    let (mut left, mut right) = (pin!(left), pin!(right));
    std::future::poll_fn(|cx| {
        if let Poll::Ready(value) = left.as_mut().poll(cx) {
            return Poll::Ready(Either::Left(value));
        }
        right.as_mut().poll(cx).map(Either::Right)
    })
    .await
}

/// Waits for all futures; results in the order of the futures. Polls those that are pending at every wake-up, so it is
/// meant for few futures.
pub async fn join_all<F: Future>(futures: impl IntoIterator<Item = F>) -> Vec<F::Output> {
    let mut slots: Vec<_> = futures.into_iter().map(|future| (Box::pin(future), None)).collect();
    std::future::poll_fn(|cx| {
        let mut pending = false;
        for (future, out) in slots.iter_mut().filter(|(_, out)| out.is_none()) {
            match future.as_mut().poll(cx) {
                Poll::Ready(value) => *out = Some(value),
                Poll::Pending => pending = true,
            }
        }
        if pending { Poll::Pending } else { Poll::Ready(()) }
    })
    .await;
    slots.into_iter().map(|(_, out)| out.expect("polled until all were ready")).collect()
}

#[cfg(test)]
mod tests;
