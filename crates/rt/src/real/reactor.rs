//! The reactor: runs tasks, fires timers, and waits in the kernel when nothing can run.

use std::cell::{Cell, OnceCell, RefCell};
use std::fmt;
use std::future::Future;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::task::Waker;
use std::time::{Instant, SystemTime};

use esker_base::{Nanos, Time};
use rustix::event::EventfdFlags;

use super::cross;
use super::op::{Op, Outcome};
use super::threads::Threads;
use super::uring::Uring;
use super::workers::Workers;
use crate::core::{Core, World};
use crate::handle::Rt;
use crate::remote::Remote;

/// Timers nearer than this are waited for by spinning: the kernel's wake-up is less accurate than that.
const SPIN: Nanos = Nanos::micros(50);
/// The same where timers stand for a device. A virtual CPU that its host has put to sleep now and then takes hundreds
/// of microseconds to come back.
const SPIN_CLOSE: Nanos = Nanos::millis(1);

/// Ready tasks run at most this many at a time before the kernel is looked at.
const BATCH: usize = 256;

/// How the reactor reaches the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Backend {
    /// io_uring where it is permitted, else threads.
    #[default]
    Auto,
    /// io_uring or an error.
    Uring,
    /// Blocking calls on threads.
    Threads,
}

/// What a reactor is made from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RealConfig {
    /// Seed of the named random streams.
    pub seed: u64,
    /// Entries of the submission ring.
    pub entries: u32,
    /// Which backend.
    pub backend: Backend,
    /// Whether the ring has entries wide enough for commands to files, where the kernel has such rings.
    pub commands: bool,
    /// How long a [`StackCell`](super::StackCell) stays awake for the next call, and a caller for its answer.
    pub spin: Nanos,
}

impl RealConfig {
    /// 256 entries, io_uring where permitted, no commands, no spinning.
    pub fn seeded(seed: u64) -> RealConfig {
        RealConfig { seed, entries: 256, backend: Backend::Auto, commands: false, spin: Nanos::ZERO }
    }
}

/// Why a reactor could not be made.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// io_uring was demanded and refused.
    #[error(
        "io_uring is not available: {0}; allow it (sysctl kernel.io_uring_disabled=0, or the container's seccomp \
         profile), or choose the slower fallback with `--io threads`"
    )]
    Uring(#[source] io::Error),
    /// The wake-up descriptor.
    #[error("no event descriptor for wake-ups: {0}; raise the limit of open files (ulimit -n)")]
    Bell(#[source] io::Error),
    /// The thread that a stack lives on.
    #[error("no thread for the stack: {0}; raise the limit of processes (ulimit -u)")]
    Owner(#[source] io::Error),
}

/// A descriptor that any thread can ring.
pub(crate) struct Bell(OwnedFd);

impl Bell {
    fn new() -> io::Result<Bell> {
        Ok(Bell(rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?))
    }

    pub(crate) fn fd(&self) -> &OwnedFd {
        &self.0
    }

    pub(crate) fn ring(&self) {
        // Full (2^64 - 2 rings without a read) still means "rung".
        let _full = rustix::io::write(&self.0, &1u64.to_ne_bytes());
    }

    fn silence(&self) {
        let mut count = [0; 8];
        let _empty = rustix::io::read(&self.0, &mut count);
    }
}

#[expect(clippy::large_enum_variant, reason = "there is one for each reactor, and it does not move")]
enum Driver {
    Uring(Uring),
    Threads(Threads),
}

/// The state of a real world.
pub(crate) struct RealState {
    start: Instant,
    driver: RefCell<Driver>,
    bell: Arc<Bell>,
    fallback: Option<String>,
    workers: OnceCell<Workers>,
    idle_workers: OnceCell<Workers>,
    /// Timers nearer than this are waited for by spinning.
    spin: Cell<Nanos>,
}

impl RealState {
    pub(crate) fn use_precise_timers(&self) {
        self.spin.set(SPIN_CLOSE);
    }

    pub(crate) fn now(&self) -> Time {
        Time(u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    pub(crate) fn wall(&self) -> i64 {
        let nanos = |span: std::time::Duration| i64::try_from(span.as_nanos()).unwrap_or(i64::MAX);
        SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or_else(|before| -nanos(before.duration()), nanos)
    }

    pub(crate) fn start(&self, op: Op) -> io::Result<usize> {
        match &mut *self.driver.borrow_mut() {
            Driver::Uring(uring) => uring.start(op),
            Driver::Threads(threads) => Ok(threads.start(op)),
        }
    }

    pub(crate) fn take(&self, key: usize, waker: &Waker) -> Option<Outcome> {
        match &mut *self.driver.borrow_mut() {
            Driver::Uring(uring) => uring.take(key, waker),
            Driver::Threads(threads) => threads.take(key, waker),
        }
    }

    pub(crate) fn abandon(&self, key: usize) {
        match &mut *self.driver.borrow_mut() {
            Driver::Uring(uring) => uring.abandon(key),
            Driver::Threads(threads) => threads.abandon(key),
        }
    }

    pub(crate) fn cancel(&self, key: usize) {
        match &mut *self.driver.borrow_mut() {
            Driver::Uring(uring) => uring.cancel(key),
            // A call that has begun blocks its thread.
            Driver::Threads(_) => {}
        }
    }

    pub(crate) fn cancels(&self) -> bool {
        matches!(&*self.driver.borrow(), Driver::Uring(_))
    }

    pub(crate) fn takes_commands(&self) -> bool {
        match &*self.driver.borrow() {
            Driver::Uring(uring) => uring.takes_commands(),
            Driver::Threads(_) => false,
        }
    }

    /// Submits what was started; `wait` says whether to wait for the kernel, and for how long at most.
    fn enter(&self, wait: Option<Option<Nanos>>) -> io::Result<()> {
        match &mut *self.driver.borrow_mut() {
            Driver::Uring(uring) => uring.enter(wait),
            Driver::Threads(threads) => wait.map_or(Ok(()), |span| threads.wait(span)),
        }
    }

    /// Takes in what the kernel has finished, and wakes its waiters.
    fn reap(&self) -> io::Result<()> {
        match &mut *self.driver.borrow_mut() {
            Driver::Uring(uring) => {
                if uring.reap()? {
                    self.bell.silence();
                }
            }
            Driver::Threads(threads) => {
                self.bell.silence();
                threads.reap();
            }
        }
        Ok(())
    }

    pub(crate) async fn run_on_worker<R: Send + 'static>(&self, work: impl FnOnce() -> R + Send + 'static) -> R {
        run_on(self.workers.get_or_init(|| Workers::new("esker-worker", cpus())), work).await
    }

    pub(crate) async fn run_when_idle<R: Send + 'static>(&self, work: impl FnOnce() -> R + Send + 'static) -> R {
        run_on(self.idle_workers.get_or_init(|| Workers::idle("esker-idle", cpus())), work).await
    }
}

fn cpus() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

async fn run_on<R: Send + 'static>(workers: &Workers, work: impl FnOnce() -> R + Send + 'static) -> R {
    let (sender, receiver) = cross::oneshot();
    workers.run(Box::new(move || sender.send(work())));
    receiver.await.expect("a worker panicked; its message is above")
}

/// A real world as a value: [`Reactor::block_on`] runs it on the calling thread.
pub struct Reactor {
    rt: Rt,
}

impl Reactor {
    /// Makes a world with its own ring.
    ///
    /// # Errors
    /// [`StartError`] says what the kernel refused and what to do.
    pub fn new(config: RealConfig) -> Result<Reactor, StartError> {
        let bell = Arc::new(Bell::new().map_err(StartError::Bell)?);
        let (driver, fallback) = drive(config, &bell)?;
        let ringer = bell.clone();
        let remote = Arc::new(Remote::new(Box::new(move || ringer.ring())));
        let state = RealState {
            start: Instant::now(),
            driver: RefCell::new(driver),
            bell,
            fallback,
            workers: OnceCell::new(),
            idle_workers: OnceCell::new(),
            spin: Cell::new(SPIN),
        };
        Ok(Reactor { rt: Rt { core: Core::new(World::Real(state), config.seed, remote) } })
    }

    /// A handle on this world.
    pub fn rt(&self) -> Rt {
        self.rt.clone()
    }

    /// How it reaches the kernel: never [`Backend::Auto`].
    pub fn backend(&self) -> Backend {
        match &*self.state().driver.borrow() {
            Driver::Uring(_) => Backend::Uring,
            Driver::Threads(_) => Backend::Threads,
        }
    }

    /// Why this reactor uses threads although io_uring was preferred, if so.
    pub fn fallback(&self) -> Option<&str> {
        self.state().fallback.as_deref()
    }

    fn state(&self) -> &RealState {
        self.rt.real().expect("a Reactor holds a real world")
    }

    /// Runs the world on this thread until `future` is ready.
    ///
    /// # Panics
    /// If the ring itself fails, which leaves no way to reach the kernel.
    pub fn block_on<T: 'static>(&self, future: impl Future<Output = T> + 'static) -> T {
        let handle = self.rt.spawn("main", future);
        loop {
            self.run_ready();
            if let Some(value) = handle.take() {
                return value;
            }
            self.look_at_kernel().unwrap_or_else(|e| panic!("the reactor lost the kernel: {e}"));
        }
    }

    /// Runs the world until no task is left.
    pub(crate) fn finish(&self) {
        while self.rt.core.has_tasks() {
            self.run_ready();
            if self.rt.core.has_tasks() {
                self.look_at_kernel().unwrap_or_else(|e| panic!("the reactor lost the kernel: {e}"));
            }
        }
    }

    fn run_ready(&self) {
        let core = &self.rt.core;
        for _ in 0..BATCH {
            let Some(id) = core.pop_ready() else { break };
            core.poll(id);
        }
        self.fire_timers();
        core.collect_woken();
    }

    /// Submits and takes in completions, waiting if nothing is ready.
    fn look_at_kernel(&self) -> io::Result<()> {
        let (core, state) = (&self.rt.core, self.state());
        let patience = self.patience();
        let entered = state.enter(patience);
        if patience.is_some() {
            // Before reaping: a task that is woken on this thread must not ring the bell for it.
            core.remote.unparked();
        }
        entered?;
        state.reap()?;
        core.collect_woken();
        Ok(())
    }

    /// How long the kernel may keep this thread: `None` not at all, because something can run or is about to. Parks
    /// unless it is `None`.
    fn patience(&self) -> Option<Option<Nanos>> {
        let core = &self.rt.core;
        if core.has_ready() {
            return None;
        }
        let spin = self.state().spin.get();
        let left = core.timers.borrow().next_deadline().map(|at| at.since(self.state().now()));
        if left.is_some_and(|l| l <= spin) || !core.remote.park() {
            return None;
        }
        Some(left.map(|l| l.saturating_sub(spin)))
    }

    fn fire_timers(&self) {
        let (core, state) = (&self.rt.core, self.state());
        let now = state.now();
        loop {
            let due = core.timers.borrow_mut().pop_due(now);
            let Some(due) = due else { break };
            core.fire(due.wakes);
        }
    }
}

impl Drop for Reactor {
    fn drop(&mut self) {
        self.rt.core.kill();
    }
}

impl fmt::Debug for Reactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Reactor({:?})", self.backend())
    }
}

fn drive(config: RealConfig, bell: &Arc<Bell>) -> Result<(Driver, Option<String>), StartError> {
    let threads = || Driver::Threads(Threads::new(bell.clone()));
    if config.backend == Backend::Threads {
        return Ok((threads(), None));
    }
    match Uring::new(config.entries, bell.fd().as_raw_fd(), config.commands) {
        Ok(uring) => Ok((Driver::Uring(uring), None)),
        Err(e) if config.backend == Backend::Uring => Err(StartError::Uring(e)),
        Err(e) => Ok((threads(), Some(format!("io_uring is not available ({e}); blocking calls on threads instead")))),
    }
}

/// Runs `body` on a new thread with a reactor of its own.
pub(crate) async fn run_agent<R, F, Fut>(name: &'static str, seed: u64, body: F) -> io::Result<R>
where
    R: Send + 'static,
    F: FnOnce(Rt) -> Fut + Send + 'static,
    Fut: Future<Output = R> + 'static,
{
    let (sender, receiver) = cross::oneshot();
    std::thread::Builder::new().name(name.to_string()).spawn(move || {
        let reactor = Reactor::new(RealConfig { entries: 32, ..RealConfig::seeded(seed) });
        sender.send(reactor.map(|r| r.block_on(body(r.rt()))));
    })?;
    match receiver.await {
        Some(result) => result.map_err(io::Error::other),
        None => Err(io::Error::other(format!("agent {name} panicked"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wall_clock_time_is_that_of_the_system() {
        let system = || i64::try_from(SystemTime::UNIX_EPOCH.elapsed().unwrap().as_nanos()).unwrap();
        let reactor = Reactor::new(RealConfig::seeded(1)).unwrap();
        let (before, wall, after) = (system(), reactor.rt().wall(), system());
        assert!(before <= wall && wall <= after, "{before} {wall} {after}");
    }
}
