//! A stack that any thread may call, one at a time.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use super::reactor::{Reactor, RealConfig, StartError};
use crate::handle::Rt;

/// A value together with the reactor that it lives on. `Send` and `Sync`, although neither part is: both live on a
/// thread of their own and never leave it; calls are carried to them. So SQLite, a preloaded library or a C caller run
/// the stack from any of their threads. A call costs two hand-overs between threads.
pub struct StackCell<T> {
    /// Locked only to hand a call over: its answer is waited for without the lock.
    calls: Mutex<Option<Sender<Call<T>>>>,
    owner: Option<JoinHandle<()>>,
}

/// A call, which answers through a channel of its own.
type Call<T> = Box<dyn FnOnce(&Reactor, &T) + Send>;

impl<T: 'static> StackCell<T> {
    /// Makes a reactor and, on it, the value.
    ///
    /// # Errors
    /// Those of the reactor, and those of `build`.
    pub fn new<E>(
        config: RealConfig,
        build: impl FnOnce(&Rt) -> Result<T, E> + Send + 'static,
    ) -> Result<StackCell<T>, E>
    where
        E: From<StartError> + Send + 'static,
    {
        let (calls, waiting) = channel();
        let (begun, outcome) = channel();
        let own = move || match begin(config, build) {
            Err(error) => drop(begun.send(Err(error))),
            Ok((value, reactor)) => {
                drop(begun.send(Ok(())));
                serve(&waiting, &reactor, &value);
                // The value may still use its reactor.
                drop(value);
            }
        };
        let spawned = thread::Builder::new().name("esker-stack".to_string()).spawn(own);
        let owner = spawned.map_err(|error| E::from(StartError::Owner(error)))?;
        match outcome.recv() {
            Ok(Ok(())) => Ok(StackCell { calls: Mutex::new(Some(calls)), owner: Some(owner) }),
            Ok(Err(error)) => Err(error),
            Err(_) => match owner.join() {
                Err(panic) => resume_unwind(panic),
                Ok(()) => unreachable!("a thread that ends in peace tells how it began"),
            },
        }
    }

    /// Runs `call` and the future that it returns. Calls of other threads come before or after it.
    ///
    /// # Panics
    /// As the call does.
    pub fn block_on<R, F, Fut>(&self, call: F) -> R
    where
        R: Send + 'static,
        F: FnOnce(Rt, &T) -> Fut + Send + 'static,
        Fut: Future<Output = R> + 'static,
    {
        let (answer, outcome) = channel();
        let carried = move |reactor: &Reactor, value: &T| {
            let made = catch_unwind(AssertUnwindSafe(|| reactor.block_on(call(reactor.rt(), value))));
            // The caller waits for it.
            drop(answer.send(made));
        };
        self.hand_over(Box::new(carried));
        match outcome.recv().expect("the owner of a stack answers every call") {
            Ok(value) => value,
            Err(panic) => resume_unwind(panic),
        }
    }

    fn hand_over(&self, call: Call<T>) {
        let calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        let sender = calls.as_ref().expect("a stack is there until it is dropped");
        assert!(sender.send(call).is_ok(), "the owner of a stack is there until the stack is dropped");
    }
}

fn begin<T, E: From<StartError>>(
    config: RealConfig,
    build: impl FnOnce(&Rt) -> Result<T, E>,
) -> Result<(T, Reactor), E> {
    let reactor = Reactor::new(config)?;
    let value = build(&reactor.rt())?;
    Ok((value, reactor))
}

/// Makes calls until no more can come.
fn serve<T>(waiting: &Receiver<Call<T>>, reactor: &Reactor, value: &T) {
    while let Ok(call) = waiting.recv() {
        call(reactor, value);
    }
}

impl<T> Drop for StackCell<T> {
    fn drop(&mut self) {
        drop(self.calls.lock().unwrap_or_else(PoisonError::into_inner).take());
        if let Some(owner) = self.owner.take() {
            // A panic of a call went to its caller.
            let _ended = owner.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::rc::Rc;

    use super::*;

    fn counter() -> StackCell<Rc<Cell<u32>>> {
        StackCell::new(RealConfig::seeded(1), |_| Ok::<_, StartError>(Rc::new(Cell::new(0)))).unwrap()
    }

    #[test]
    fn any_thread_may_enter_a_stack_cell() {
        let cell = counter();
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..100 {
                        cell.block_on(|rt, count| {
                            let count = count.clone();
                            async move {
                                rt.yield_now().await;
                                count.set(count.get() + 1);
                            }
                        });
                    }
                });
            }
        });
        assert_eq!(cell.block_on(|_, count| std::future::ready(count.get())), 400);
    }

    #[test]
    fn what_lives_on_a_stack_is_seen_by_one_thread_only() {
        let cell = counter();
        let seen = || cell.block_on(|_, _| std::future::ready(thread::current().id()));
        let elsewhere = thread::scope(|scope| scope.spawn(seen).join().unwrap());
        assert_eq!(seen(), elsewhere, "calls of all threads come to the owner");
        assert_ne!(seen(), thread::current().id());
    }

    #[test]
    fn a_panic_goes_to_its_caller_and_the_stack_lives_on() {
        let cell = counter();
        let failed = catch_unwind(AssertUnwindSafe(|| {
            cell.block_on(|_, _| async { panic!("on purpose") });
        }));
        assert!(failed.is_err());
        assert_eq!(cell.block_on(|_, count| std::future::ready(count.get())), 0);
    }

    #[test]
    fn an_error_of_building_is_the_answer() {
        let refused = |_: &Rt| Err::<u32, _>(StartError::Bell(std::io::ErrorKind::Other.into()));
        assert!(matches!(StackCell::new(RealConfig::seeded(1), refused), Err(StartError::Bell(_))));
    }
}
