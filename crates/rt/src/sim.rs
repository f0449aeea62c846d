//! The virtual world: deterministic, in nanoseconds, with simulated CPUs.
//!
//! Rules. (a) One heap ordered by (deadline, counter). (b) Time moves only when nothing can run. (c) A task that
//! charges CPU time runs up *debt*: its clock runs ahead of the world's, what it wakes or starts happens after the
//! debt, and the debt occupies one of the simulated CPUs. (d) Random streams are named. (e) Every event feeds the
//! digest. (f) A world can be stopped at any event and killed; media outlive it.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::sync::Arc;

use esker_base::{Digest, Nanos, Time};

use crate::core::{Core, World};
use crate::handle::Rt;
use crate::remote::Remote;
use crate::timer::Wakes;

/// What a virtual world is made from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SimConfig {
    /// Seed of all random streams.
    pub seed: u64,
    /// Simulated CPUs (at least 1).
    pub cpus: usize,
}

impl SimConfig {
    /// One CPU.
    pub fn seeded(seed: u64) -> SimConfig {
        SimConfig { seed, cpus: 1 }
    }
}

/// Why a world stopped before the awaited future was ready.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Halt {
    /// Nothing can run and no event is pending.
    #[error("the virtual world is stuck: nothing can run and no event is pending; tasks that wait: {0:?}")]
    Stuck(Vec<&'static str>),
    /// The event to stop at was reached.
    #[error("the virtual world stopped at event {0}, as asked")]
    Stopped(u64),
}

/// Wall-clock time at which every virtual world begins, in nanoseconds since 1970: 2026-01-01 00:00:00 UTC.
const EPOCH: i64 = 1_767_225_600 * 1_000_000_000;

/// The state of virtual time.
pub(crate) struct SimState {
    now: Cell<Time>,
    debt: Cell<Nanos>,
    /// When each CPU but the first to be free is free again, in no order.
    other_cpus: RefCell<Vec<Time>>,
    /// When the first CPU is free.
    first_free: Cell<Time>,
    digest: Cell<Digest>,
    events: Cell<u64>,
    stop_at: Cell<u64>,
}

impl SimState {
    fn new(cpus: usize) -> SimState {
        SimState {
            now: Cell::default(),
            debt: Cell::default(),
            other_cpus: RefCell::new(vec![Time::ZERO; cpus.max(1) - 1]),
            first_free: Cell::default(),
            digest: Cell::default(),
            events: Cell::default(),
            stop_at: Cell::new(u64::MAX),
        }
    }

    #[inline]
    pub(crate) fn now(&self) -> Time {
        self.now.get() + self.debt.get()
    }

    pub(crate) fn wall(&self) -> i64 {
        EPOCH.saturating_add(i64::try_from(self.now().0).unwrap_or(i64::MAX))
    }

    #[inline]
    pub(crate) fn debt(&self) -> Nanos {
        self.debt.get()
    }

    #[inline]
    pub(crate) fn charge(&self, cost: Nanos) {
        self.debt.set(self.debt.get() + cost);
    }

    #[inline]
    pub(crate) fn note(&self, word: u64) {
        let mut digest = self.digest.get();
        digest.word(word);
        self.digest.set(digest);
    }

    /// Books the debt of the task that just ran on the CPU that it took: the one that was free first.
    #[inline]
    fn charge_debt(&self) {
        if self.debt.get() == Nanos::ZERO {
            return;
        }
        self.first_free.set(self.now());
        self.debt.set(Nanos::ZERO);
        let mut others = self.other_cpus.borrow_mut();
        if let Some(first) = others.iter_mut().min()
            && *first < self.first_free.get()
        {
            *first = self.first_free.replace(*first);
        }
    }
}

/// A virtual world. Dropping it drops its tasks, as a power cut would.
pub struct Sim {
    rt: Rt,
}

impl Sim {
    /// A world at time zero.
    pub fn new(config: SimConfig) -> Sim {
        let remote = Arc::new(Remote::new(Box::new(|| {})));
        let core = Core::new(World::Sim(SimState::new(config.cpus)), config.seed, remote);
        Sim { rt: Rt { core } }
    }

    /// A handle on this world.
    pub fn rt(&self) -> Rt {
        self.rt.clone()
    }

    fn state(&self) -> &SimState {
        self.rt.sim().expect("a Sim holds a virtual world")
    }

    /// Runs until `future` is ready.
    ///
    /// # Panics
    /// If the world gets stuck first: that is a bug in the code under simulation.
    pub fn block_on<T: 'static>(&self, future: impl Future<Output = T> + 'static) -> T {
        self.try_block_on(future).unwrap_or_else(|halt| panic!("{halt}"))
    }

    /// Runs until `future` is ready, the world is stuck, or the event named by [`Sim::stop_at_event`] is reached.
    ///
    /// # Errors
    /// [`Halt`] says which.
    pub fn try_block_on<T: 'static>(&self, future: impl Future<Output = T> + 'static) -> Result<T, Halt> {
        let handle = self.rt.spawn("main", future);
        while !handle.is_done() {
            self.step()?;
        }
        Ok(handle.take().expect("nothing else takes it"))
    }

    /// Runs until nothing can run and no event is pending.
    pub fn run_until_idle(&self) {
        while self.step().is_ok() {}
    }

    /// Runs one task, or moves time to where something can run.
    #[inline]
    fn step(&self) -> Result<(), Halt> {
        let (core, state) = (&self.rt.core, self.state());
        if !core.has_ready() {
            return self.next_event();
        }
        let free = state.first_free.get();
        if free <= state.now.get() {
            let id = core.pop_ready().expect("looked at above");
            core.poll(id);
            self.polled();
            return Ok(());
        }
        // Every CPU is busy: tasks stay ready, and time moves to the first free CPU unless something is due before.
        match core.timers.borrow().next_deadline() {
            Some(at) if at <= free => {}
            _ => {
                state.now.set(free);
                state.note(free.0);
                return Ok(());
            }
        }
        self.next_event()
    }

    fn next_event(&self) -> Result<(), Halt> {
        let (core, state) = (&self.rt.core, self.state());
        if state.events.get() >= state.stop_at.get() {
            return Err(Halt::Stopped(state.events.get()));
        }
        let due = core.timers.borrow_mut().pop_due(Time(u64::MAX));
        let Some(due) = due else {
            return Err(Halt::Stuck(core.task_names()));
        };
        state.now.set(state.now.get().max(due.at));
        state.events.set(state.events.get() + 1);
        state.note(due.at.0);
        state.note(due.counter);
        match due.wakes {
            Wakes::Task(id) if state.first_free.get() <= state.now.get() && !core.has_ready() => {
                core.poll_idle(id);
                self.polled();
            }
            wakes @ (Wakes::Task(_) | Wakes::Queued(_) | Wakes::Waker(_)) => {
                core.fire(wakes);
                core.collect_woken();
            }
        }
        Ok(())
    }

    /// A task was polled: those that it woke are ready, and its debt is booked.
    #[inline]
    fn polled(&self) {
        self.rt.core.collect_woken();
        self.state().charge_debt();
    }

    /// Makes the world halt when `events` events have happened.
    pub fn stop_at_event(&self, events: u64) {
        self.state().stop_at.set(events);
    }

    /// Events so far.
    pub fn events(&self) -> u64 {
        self.state().events.get()
    }

    /// Fingerprint of all events so far.
    pub fn digest(&self) -> u64 {
        self.state().digest.get().value()
    }

    /// Ends the world: every task is dropped where it stands, and handles that survive do nothing.
    pub fn kill(&self) {
        self.rt.core.kill();
    }
}

impl Drop for Sim {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Runs `scenario` twice in worlds of one seed and returns its result, after checking that both digests agree.
///
/// # Panics
/// If the two runs differ: something that is not seeded influenced virtual time.
pub fn twice<T, F, Fut>(config: SimConfig, scenario: F) -> T
where
    T: 'static,
    F: Fn(Rt) -> Fut,
    Fut: Future<Output = T> + 'static,
{
    let run = || {
        let sim = Sim::new(config);
        let value = sim.block_on(scenario(sim.rt()));
        (value, sim.digest(), sim.events())
    };
    let (value, digest, events) = run();
    let (_, digest_again, events_again) = run();
    assert_eq!(
        (digest, events),
        (digest_again, events_again),
        "seed {} gave two different runs: something unseeded influences virtual time",
        config.seed
    );
    value
}

#[cfg(test)]
mod tests;
