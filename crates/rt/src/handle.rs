//! `Rt`: the cheap, cloneable value that constructors take and that everything waits through.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use esker_base::progress::{Progress, Watch};
use esker_base::{Nanos, Stream, Time};

use crate::core::{Core, World};
use crate::join::{self, JoinHandle};
use crate::real::RealState;
use crate::secret::{Secret, SecretSource};
use crate::sim::SimState;
use crate::timer::TimerKey;

/// What [`Rt::worker_idle`] is charged at once.
const IDLE_SLICE: Nanos = Nanos::micros(100);
/// How long it lets others go first before it takes a slice all the same. Linux gives an idle thread about 1/340 of a
/// busy CPU.
const IDLE_WAIT: Nanos = Nanos(340 * IDLE_SLICE.0);

/// A handle on one world. Not `Send`: a stack lives where its reactor lives.
#[derive(Clone)]
pub struct Rt {
    pub(crate) core: Rc<Core>,
}

/// How much a log line matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Something failed; an operator should look.
    Error,
    /// Something is unusual and was dealt with.
    Warn,
    /// What an operator wants to know once.
    Info,
    /// For developers.
    Debug,
}

/// Something that happened, for logs.
pub struct Event<'a> {
    /// How much it matters.
    pub level: Level,
    /// What kind of thing it is, in `snake_case`, for programs and for bounds on how often one kind is written.
    pub kind: &'static str,
    /// What it is about, by name.
    pub fields: &'a [(&'static str, &'a dyn fmt::Display)],
    /// All of it in words.
    pub text: fmt::Arguments<'a>,
}

/// Receives the events of one world.
pub trait LogSink {
    /// Takes one event with the world's time.
    fn event(&mut self, at: Time, event: &Event<'_>);
}

impl Rt {
    /// This instant on the world's clock, including the time debt of the task that asks. Reading changes nothing.
    #[inline]
    pub fn now(&self) -> Time {
        match &self.core.world {
            World::Sim(sim) => sim.now(),
            World::Real(real) => real.now(),
        }
    }

    /// Wall-clock time in nanoseconds since 1970, for stamps that outlive the world. The real clock may be set back; in
    /// virtual time it is [`Rt::now`] after a fixed date, the beginning of 2026. Reading changes nothing.
    pub fn wall(&self) -> i64 {
        match &self.core.world {
            World::Sim(sim) => sim.wall(),
            World::Real(real) => real.wall(),
        }
    }

    /// Whether time is virtual.
    pub fn is_sim(&self) -> bool {
        matches!(self.core.world, World::Sim(_))
    }

    /// Whether this world was killed: nothing will run in it again.
    pub fn is_killed(&self) -> bool {
        self.core.killed.get()
    }

    /// The seed of this world.
    pub fn seed(&self) -> u64 {
        self.core.seed
    }

    /// Waits for `span`.
    #[inline]
    pub fn sleep(&self, span: Nanos) -> Sleep {
        self.sleep_until(self.now() + span)
    }

    /// Waits until `deadline`; ready at once if it has passed.
    #[inline]
    pub fn sleep_until(&self, deadline: Time) -> Sleep {
        Sleep { rt: self.clone(), deadline, key: None }
    }

    /// Lets every other ready task run once, and settles the caller's time debt.
    pub fn yield_now(&self) -> impl Future<Output = ()> + use<> {
        let mut yielded = false;
        std::future::poll_fn(move |cx| {
            if std::mem::replace(&mut yielded, true) {
                return Poll::Ready(());
            }
            cx.waker().wake_by_ref();
            Poll::Pending
        })
    }

    /// Starts a task. It runs to completion unless the world is killed; dropping the handle only loses its result.
    pub fn spawn<T: 'static>(&self, name: &'static str, future: impl Future<Output = T> + 'static) -> JoinHandle<T> {
        let (sender, handle) = join::pair();
        self.core.spawn(
            name,
            Box::pin(async move {
                let value = future.await;
                sender.finish(value);
            }),
        );
        handle
    }

    /// Starts a task without a result and without a waiter. It costs less than [`Rt::spawn`].
    pub fn spawn_detached(&self, name: &'static str, future: impl Future<Output = ()> + 'static) {
        self.core.spawn(name, Box::pin(future));
    }

    /// Accounts `cost` of CPU time to the running task: in virtual time it occupies a simulated CPU; in the real world
    /// the work itself already took its time, so nothing happens.
    #[inline]
    pub fn charge(&self, cost: Nanos) {
        self.cpu().charge(cost);
    }

    /// The CPU on which the running task runs, for loops that charge it often.
    #[inline]
    pub fn cpu(&self) -> Cpu<'_> {
        Cpu(self.sim())
    }

    /// From now on timers fire as exactly as this machine can: in the real world the last millisecond before each is
    /// spent looking at the clock, which keeps a CPU busy. For models of devices that are paced in the real world; in
    /// virtual time every timer is exact.
    pub fn use_precise_timers(&self) {
        if let Some(real) = self.real() {
            real.use_precise_timers();
        }
    }

    /// The random stream of `name` in this world. Two calls with one name give equal streams: keep the stream.
    pub fn rng(&self, name: &str) -> Stream {
        Stream::named(self.core.seed, name)
    }

    /// Adds a word to the digest of a virtual world; free in the real one.
    #[inline]
    pub fn event(&self, word: u64) {
        if let World::Sim(sim) = &self.core.world {
            sim.note(word);
        }
    }

    /// Runs CPU-heavy `work` away from the reactor: on an OS thread in the real world, charged as `cost` to a simulated
    /// CPU in virtual time.
    pub async fn worker<R: Send + 'static>(&self, cost: Nanos, work: impl FnOnce() -> R + Send + 'static) -> R {
        match &self.core.world {
            World::Sim(_) => {
                let rt = self.clone();
                let task = self.spawn("worker", async move {
                    let result = work();
                    rt.charge(cost);
                    rt.yield_now().await;
                    result
                });
                task.await
            }
            World::Real(real) => real.run_on_worker(work).await,
        }
    }

    /// As [`Rt::worker`], for work that must not take a CPU from anything else: only its result is late then. In the
    /// real world the thread runs under `SCHED_IDLE`, which needs no privilege. In virtual time the cost is charged in
    /// slices, and before each all that is ready goes first.
    pub async fn worker_idle<R: Send + 'static>(&self, cost: Nanos, work: impl FnOnce() -> R + Send + 'static) -> R {
        match &self.core.world {
            World::Sim(_) => {
                let rt = self.clone();
                let task = self.spawn("worker-idle", async move {
                    let result = work();
                    rt.charge_idle(cost).await;
                    result
                });
                task.await
            }
            World::Real(real) => real.run_when_idle(work).await,
        }
    }

    async fn charge_idle(&self, cost: Nanos) {
        let (mut left, mut waits_since) = (cost, self.now());
        while left > Nanos::ZERO {
            if self.core.has_work(self.now()) && self.now().since(waits_since) < IDLE_WAIT {
                // Behind all that is due now.
                self.sleep(Nanos(1)).await;
                continue;
            }
            let slice = left.min(IDLE_SLICE);
            self.charge(slice);
            (left, waits_since) = (Nanos(left.0 - slice.0), self.now());
            self.yield_now().await;
        }
    }

    /// Runs something that is a thread of its own in the real world (with its own reactor) and a task in virtual time.
    ///
    /// # Errors
    /// In the real world, when the thread or its reactor cannot be made.
    pub async fn agent<R, F, Fut>(&self, name: &'static str, body: F) -> std::io::Result<R>
    where
        R: Send + 'static,
        F: FnOnce(Rt) -> Fut + Send + 'static,
        Fut: Future<Output = R> + 'static,
    {
        match &self.core.world {
            World::Sim(_) => Ok(self.spawn(name, body(self.clone())).await),
            World::Real(_) => crate::real::run_agent(name, self.core.seed, body).await,
        }
    }

    /// Sends an event without fields, of the kind `note`, to this world's log sink, if it has one.
    pub fn log(&self, level: Level, text: fmt::Arguments<'_>) {
        self.log_event(level, "note", &[], text);
    }

    /// Sends an event to this world's log sink, if it has one. `text` says all of it in words, `fields` what it is
    /// about.
    pub fn log_event(
        &self,
        level: Level,
        kind: &'static str,
        fields: &[(&'static str, &dyn fmt::Display)],
        text: fmt::Arguments<'_>,
    ) {
        if let Some(sink) = self.core.log.borrow_mut().as_mut() {
            sink.event(self.now(), &Event { level, kind, fields, text });
        }
    }

    /// Sets where this world's log lines go.
    pub fn set_log(&self, sink: Box<dyn LogSink>) {
        *self.core.log.borrow_mut() = Some(sink);
    }

    /// A unique number, for what is made now and must never be taken for another: from the kernel, whatever
    /// this world's seed; in virtual time from the seed and the clock.
    pub fn unique(&self) -> u128 {
        match &self.core.world {
            World::Real(_) => crate::real::unique(),
            World::Sim(_) => {
                let mut stream = self.rng(&format!("unique {}", self.now().0));
                u128::from(stream.next_u64()) << 64 | u128::from(stream.next_u64())
            }
        }
    }

    /// Sets where this world's secrets come from.
    pub fn set_secrets(&self, source: SecretSource) {
        *self.core.secrets.borrow_mut() = Some(source);
    }

    /// Sets what is told how far long work of this world is; with `None` nothing is.
    pub fn set_watch(&self, watch: Option<Rc<Watch>>) {
        *self.core.watch.borrow_mut() = watch;
    }

    /// Tells how far long work is. It changes nothing in this world, and no one may listen.
    pub fn progress(&self, progress: Progress<'_>) {
        let watch = self.core.watch.borrow().clone();
        if let Some(watch) = watch {
            watch(progress);
        }
    }

    /// The secret that `reference` names. Texts hold references only, so that no dump, status or log can show a key.
    ///
    /// In virtual time without a source, it is made from the world's seed and the reference: what is simulated protects
    /// nothing.
    ///
    /// # Errors
    /// What the source says, or that there is none. The text never holds a secret.
    pub fn secret(&self, reference: &str) -> std::io::Result<Secret> {
        match self.core.secrets.borrow().as_ref() {
            Some(source) => source(reference),
            None if self.is_sim() => Ok(Secret::simulated(&mut self.rng(&format!("secret {reference}")))),
            None => Err(std::io::Error::other("this program gives its stacks no secrets")),
        }
    }

    /// The reactor's file and socket operations.
    ///
    /// # Errors
    /// `Unsupported` in virtual time, where there is no kernel.
    pub fn kernel(&self) -> std::io::Result<crate::real::Kernel> {
        match &self.core.world {
            World::Real(_) => Ok(crate::real::Kernel::new(self.clone())),
            World::Sim(_) => Err(std::io::Error::new(
                std::io::ErrorKind::Unsupported,
                "files and sockets exist only in the real world; use a memory or model device in virtual time",
            )),
        }
    }

    pub(crate) fn real(&self) -> Option<&RealState> {
        match &self.core.world {
            World::Real(real) => Some(real),
            World::Sim(_) => None,
        }
    }

    #[inline]
    pub(crate) fn sim(&self) -> Option<&SimState> {
        match &self.core.world {
            World::Sim(sim) => Some(sim),
            World::Real(_) => None,
        }
    }
}

/// A simulated CPU, or nothing in the real world.
#[derive(Clone, Copy)]
pub struct Cpu<'a>(Option<&'a SimState>);

impl Cpu<'_> {
    /// As [`Rt::charge`].
    #[inline]
    pub fn charge(self, cost: Nanos) {
        if let Some(sim) = self.0 {
            sim.charge(cost);
        }
    }
}

impl fmt::Debug for Rt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_sim() { "Rt(virtual)" } else { "Rt(real)" })
    }
}

/// The future of [`Rt::sleep`]. Dropping it cancels the event.
#[derive(Debug)]
pub struct Sleep {
    rt: Rt,
    deadline: Time,
    key: Option<TimerKey>,
}

impl Future for Sleep {
    type Output = ();

    #[inline]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if self.rt.now() >= self.deadline {
            return Poll::Ready(());
        }
        if let Some(key) = self.key.take() {
            self.rt.core.timers.borrow_mut().cancel(key);
        }
        let key = self.rt.core.wake_at(self.deadline, cx.waker());
        self.key = Some(key);
        Poll::Pending
    }
}

impl Drop for Sleep {
    #[inline]
    fn drop(&mut self) {
        if let Some(key) = self.key {
            self.rt.core.timers.borrow_mut().cancel(key);
        }
    }
}
