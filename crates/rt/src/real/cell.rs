//! A stack that any thread may call, several at a time.

use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::thread::{self, JoinHandle};

use esker_base::Nanos;

use super::answer::{Answer, Answering, Made, answer, is_soon};
use super::reactor::{Reactor, RealConfig, StartError};
use crate::handle::Rt;

/// A value together with the reactor that it lives on. `Send` and `Sync`, although neither part is: both live on a
/// thread of their own and never leave it; calls are carried to them. So SQLite, a preloaded library or a C caller run
/// the stack from any of their threads.
///
/// Each call is a task of the reactor: calls of several threads overlap and may share a commit. The owner sleeps in the
/// kernel while nothing can run, so timers fire and tasks go on while no call is inside.
///
/// Callers do not drive the reactor themselves. A call may leave an `Rc` of the stack in a thread-local of the thread
/// that runs it, and a value may hold what only its thread may drop, such as a lock's guard. If another thread led
/// later, both would touch one count, and no bound on `T` rules that out. The price is two hand-overs between threads
/// for a call, some microseconds where the owner sleeps. [`RealConfig::spin`] keeps both sides awake for a moment,
/// which costs CPU time and spares the sleep. A call from inside a call never ends.
///
/// Dropping it drops the value, then waits for every task that was started. So a task without an end must see that the
/// value is gone. A panic of a task that is no call ends the stack: every call under way or to come panics.
pub struct StackCell<T> {
    calls: Arc<Calls<T>>,
    owner: Option<JoinHandle<()>>,
    spin: Nanos,
}

/// A call, which answers through a channel of its own.
type Call<T> = Box<dyn FnOnce(&Rt, &T) + Send>;

/// Calls on their way to the owner.
struct Calls<T> {
    queue: Mutex<Queue<T>>,
    /// Whether the queue has a call or is closed: written under its lock, read without it by an owner that spins. A
    /// stale `false` costs one look more, because the owner looks under the lock before it sleeps.
    has_news: AtomicBool,
}

struct Queue<T> {
    waiting: Vec<Call<T>>,
    closed: bool,
    /// Of the owner, if it waits for calls.
    taker: Option<Waker>,
}

impl<T> Calls<T> {
    fn new() -> Calls<T> {
        let queue = Queue { waiting: Vec::new(), closed: false, taker: None };
        Calls { queue: Mutex::new(queue), has_news: AtomicBool::new(false) }
    }

    fn lock(&self) -> MutexGuard<'_, Queue<T>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hands a call over; a closed queue drops it.
    fn push(&self, call: Call<T>) {
        let mut queue = self.lock();
        if queue.closed {
            return;
        }
        queue.waiting.push(call);
        self.has_news.store(true, Ordering::Release);
        let taker = queue.taker.take();
        drop(queue);
        taker.into_iter().for_each(Waker::wake);
    }

    /// Lets no call in any more.
    fn close(&self) {
        let mut queue = self.lock();
        queue.closed = true;
        self.has_news.store(true, Ordering::Release);
        let taker = queue.taker.take();
        drop(queue);
        taker.into_iter().for_each(Waker::wake);
    }

    /// The calls that wait, once there are some. `None`: no call can come.
    fn poll_take(&self, cx: &Context<'_>) -> Poll<Option<Vec<Call<T>>>> {
        let mut queue = self.lock();
        if !queue.waiting.is_empty() {
            self.has_news.store(queue.closed, Ordering::Release);
            return Poll::Ready(Some(std::mem::take(&mut queue.waiting)));
        }
        if queue.closed {
            return Poll::Ready(None);
        }
        queue.taker = Some(cx.waker().clone());
        Poll::Pending
    }
}

/// Ends the queue with its owner, also by a panic: dropped calls tell their callers.
struct Closing<T>(Arc<Calls<T>>);

impl<T> Drop for Closing<T> {
    fn drop(&mut self) {
        self.0.close();
        let dropped = std::mem::take(&mut self.0.lock().waiting);
        drop(dropped);
    }
}

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
        let calls = Arc::new(Calls::new());
        let waiting = Closing(calls.clone());
        let (begun, outcome) = channel();
        let own = move || match begin(config, build) {
            Err(error) => drop(begun.send(Err(error))),
            Ok((value, reactor)) => {
                drop(begun.send(Ok(())));
                reactor.block_on(serve(waiting.0.clone(), reactor.rt(), value, config.spin));
                reactor.finish();
            }
        };
        let spawned = thread::Builder::new().name("esker-stack".to_string()).spawn(own);
        let owner = spawned.map_err(|error| E::from(StartError::Owner(error)))?;
        match outcome.recv() {
            Ok(Ok(())) => Ok(StackCell { calls, owner: Some(owner), spin: config.spin }),
            Ok(Err(error)) => Err(error),
            Err(_) => match owner.join() {
                Err(panic) => resume_unwind(panic),
                Ok(()) => unreachable!("a thread that ends in peace tells how it began"),
            },
        }
    }

    /// Runs `call` and the future that it returns, beside calls of other threads. Calls of one thread keep their order.
    ///
    /// # Panics
    /// As the call does, and if a task of the stack panicked.
    pub fn block_on<R, F, Fut>(&self, call: F) -> R
    where
        R: Send + 'static,
        F: FnOnce(Rt, &T) -> Fut + Send + 'static,
        Fut: Future<Output = R> + 'static,
    {
        self.start(call).wait(self.spin)
    }

    /// Starts the same, and gives its answer as a future, which any executor may poll. A call runs to its end even if
    /// the answer is dropped.
    pub fn start<R, F, Fut>(&self, call: F) -> Answer<R>
    where
        R: Send + 'static,
        F: FnOnce(Rt, &T) -> Fut + Send + 'static,
        Fut: Future<Output = R> + 'static,
    {
        let (answering, answer) = answer();
        self.calls.push(Box::new(move |rt, value| run(rt, value, call, answering)));
        answer
    }
}

/// Starts `call`; its caller waits for the answer.
fn run<T, R, F, Fut>(rt: &Rt, value: &T, call: F, answering: Answering<R>)
where
    R: 'static,
    F: FnOnce(Rt, &T) -> Fut,
    Fut: Future<Output = R> + 'static,
{
    match catch_unwind(AssertUnwindSafe(|| call(rt.clone(), value))) {
        Err(panic) => answering.send(Err(panic)),
        Ok(future) => rt.spawn_detached("call", async move { answering.send(caught(future).await) }),
    }
}

async fn caught<R>(future: impl Future<Output = R>) -> Made<R> {
    let mut future = pin!(future);
    poll_fn(|cx| match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(cx))) {
        Ok(polled) => polled.map(Ok),
        Err(panic) => Poll::Ready(Err(panic)),
    })
    .await
}

fn begin<T, E: From<StartError>>(
    config: RealConfig,
    build: impl FnOnce(&Rt) -> Result<T, E>,
) -> Result<(T, Reactor), E> {
    let reactor = Reactor::new(config)?;
    let value = build(&reactor.rt())?;
    Ok((value, reactor))
}

/// Starts calls until no more can come. Behind the last ones it stays awake as long as `spin` says.
async fn serve<T>(waiting: Arc<Calls<T>>, rt: Rt, value: T, spin: Nanos) {
    while let Some(calls) = poll_fn(|cx| waiting.poll_take(cx)).await {
        calls.into_iter().for_each(|call| call(&rt, &value));
        let end = rt.now() + spin;
        while spin > Nanos::ZERO && !is_soon(&waiting.has_news) && rt.now() < end {
            rt.yield_now().await;
        }
    }
}

impl<T> Drop for StackCell<T> {
    fn drop(&mut self) {
        self.calls.close();
        if let Some(owner) = self.owner.take() {
            // Its panic was that of a task, whose message is written.
            let _ended = owner.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::rc::Rc;
    use std::time::Duration;

    use esker_base::Nanos;

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
    fn calls_of_several_threads_overlap() {
        let cell = counter();
        let meet = || {
            cell.block_on(|rt, inside| {
                let inside = inside.clone();
                inside.set(inside.get() + 1);
                async move {
                    // Neither call ends unless both are inside.
                    while inside.get() < 2 {
                        rt.sleep(Nanos::millis(1)).await;
                    }
                    inside.get()
                }
            })
        };
        let met = thread::scope(|threads| [threads.spawn(meet), threads.spawn(meet)].map(|call| call.join().unwrap()));
        assert_eq!(met, [2, 2]);
    }

    #[test]
    fn timers_fire_while_no_call_is_inside() {
        let cell = counter();
        let (fired, waits) = channel();
        cell.block_on(|rt, _| {
            let later = rt.clone();
            rt.spawn_detached("later", async move {
                later.sleep(Nanos::millis(2)).await;
                fired.send(()).unwrap();
            });
            std::future::ready(())
        });
        assert_eq!(waits.recv_timeout(Duration::from_secs(30)), Ok(()), "the timer fires without a call");
    }

    #[test]
    fn dropping_waits_for_tasks() {
        let cell = counter();
        let (ended, seen) = channel();
        cell.block_on(|rt, _| {
            let later = rt.clone();
            rt.spawn_detached("later", async move {
                later.sleep(Nanos::millis(2)).await;
                ended.send(()).unwrap();
            });
            std::future::ready(())
        });
        drop(cell);
        assert_eq!(seen.try_recv(), Ok(()));
    }

    #[test]
    fn a_panic_of_a_task_ends_the_stack_and_hangs_no_caller() {
        let cell = counter();
        let call = || {
            catch_unwind(AssertUnwindSafe(|| {
                cell.block_on(|rt, _| {
                    rt.spawn_detached("broken", async { panic!("on purpose") });
                    std::future::pending::<()>()
                });
            }))
        };
        assert!(call().is_err());
        assert!(call().is_err());
    }

    #[test]
    fn an_error_of_building_is_the_answer() {
        let refused = |_: &Rt| Err::<u32, _>(StartError::Bell(std::io::ErrorKind::Other.into()));
        assert!(matches!(StackCell::new(RealConfig::seeded(1), refused), Err(StartError::Bell(_))));
    }
}
