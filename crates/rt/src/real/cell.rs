//! A stack that any thread may enter, one at a time: the lock *is* the reactor.

use std::future::Future;
use std::sync::{Mutex, PoisonError};

use super::reactor::{Reactor, RealConfig, StartError};
use crate::handle::Rt;

/// A value together with the reactor that it lives on. `Send` and `Sync`, although neither part is: both are reached
/// only through the lock, by whichever thread holds it. So SQLite, a preloaded library or a C caller run the stack on
/// their own thread, without a hop.
pub struct StackCell<T> {
    island: Mutex<Island<T>>,
}

/// Fields drop in order: the value may still use its reactor.
struct Island<T> {
    value: T,
    reactor: Reactor,
}

// SAFETY: an island's `Rc`s and `Cell`s never leave it. They are made by a `Send` closure (so it brings none in from
// outside), used only by `Send` closures under the lock whose results are `Send` (so none gets out), and this workspace
// has no thread-locals to smuggle them through (`cargo xtask tidy` refuses them). Wakers, the one thing that other
// threads do get, hold atomics and locks only. Hence all of an island moves between threads as one piece.
unsafe impl<T> Send for Island<T> {}

impl<T: 'static> StackCell<T> {
    /// Makes a reactor and, on it, the value.
    ///
    /// # Errors
    /// Those of the reactor, and those of `build`.
    pub fn new<E>(config: RealConfig, build: impl FnOnce(&Rt) -> Result<T, E> + Send) -> Result<StackCell<T>, E>
    where
        E: From<StartError> + Send,
    {
        let reactor = Reactor::new(config)?;
        let value = build(&reactor.rt())?;
        Ok(StackCell { island: Mutex::new(Island { value, reactor }) })
    }

    /// Runs `call` and the future that it returns on this thread. Other threads wait meanwhile.
    pub fn block_on<R, F, Fut>(&self, call: F) -> R
    where
        R: Send + 'static,
        F: FnOnce(Rt, &T) -> Fut + Send,
        Fut: Future<Output = R> + 'static,
    {
        let island = self.island.lock().unwrap_or_else(PoisonError::into_inner);
        let future = call(island.reactor.rt(), &island.value);
        island.reactor.block_on(future)
    }
}
