//! What both worlds share: tasks, the ready list and the event heap of one world.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use esker_base::Time;
use esker_base::progress::Watch;

use crate::handle::LogSink;
use crate::real::RealState;
use crate::remote::Remote;
use crate::secret::SecretSource;
use crate::sim::SimState;
use crate::task::{LocalFuture, Running, TaskId, Tasks};
use crate::timer::{TimerKey, Timers, Wakes};

#[expect(clippy::large_enum_variant, reason = "there is one for each world, behind a pointer")]
pub(crate) enum World {
    Sim(SimState),
    Real(RealState),
}

/// One world. Every `Rt` of that world points here.
pub(crate) struct Core {
    pub world: World,
    pub seed: u64,
    pub remote: Arc<Remote>,
    pub timers: RefCell<Timers>,
    pub killed: Cell<bool>,
    pub log: RefCell<Option<Box<dyn LogSink>>>,
    pub secrets: RefCell<Option<SecretSource>>,
    pub watch: RefCell<Option<Rc<Watch>>>,
    tasks: RefCell<Tasks>,
    ready: RefCell<VecDeque<TaskId>>,
    woken: RefCell<Vec<TaskId>>,
    current: Cell<Option<(TaskId, *const ())>>,
}

impl Core {
    pub(crate) fn new(world: World, seed: u64, remote: Arc<Remote>) -> Rc<Core> {
        Rc::new(Core {
            world,
            seed,
            remote,
            timers: RefCell::default(),
            killed: Cell::new(false),
            log: RefCell::new(None),
            secrets: RefCell::new(None),
            watch: RefCell::new(None),
            tasks: RefCell::default(),
            ready: RefCell::default(),
            woken: RefCell::default(),
            current: Cell::new(None),
        })
    }

    pub(crate) fn spawn(&self, name: &'static str, future: LocalFuture) {
        if self.killed.get() {
            return;
        }
        let id = self.tasks.borrow_mut().insert(name, &self.remote, future);
        self.make_ready(id);
    }

    /// Puts a queued task on the ready list, or, if the task that runs now has run up time debt, after that debt.
    fn make_ready(&self, id: TaskId) {
        match &self.world {
            World::Sim(sim) if sim.debt() > esker_base::Nanos::ZERO => {
                self.timers.borrow_mut().insert(sim.now(), Wakes::Queued(id));
            }
            World::Sim(_) | World::Real(_) => self.ready.borrow_mut().push_back(id),
        }
    }

    /// Readies the tasks that wakers named since the last call.
    #[inline]
    pub(crate) fn collect_woken(&self) {
        if self.remote.has_pending() {
            self.collect_pending();
        }
    }

    fn collect_pending(&self) {
        let mut woken = self.woken.borrow_mut();
        self.remote.drain(&mut woken);
        woken.drain(..).for_each(|id| self.make_ready(id));
    }

    pub(crate) fn pop_ready(&self) -> Option<TaskId> {
        self.ready.borrow_mut().pop_front()
    }

    #[inline]
    /// Whether a task can run now, or will when what is due has happened.
    pub(crate) fn has_work(&self, now: Time) -> bool {
        self.has_ready() || self.timers.borrow().next_deadline().is_some_and(|due| due <= now)
    }

    pub(crate) fn has_ready(&self) -> bool {
        !self.ready.borrow().is_empty()
    }

    /// Polls one task and returns whether it was alive.
    pub(crate) fn poll(&self, id: TaskId) -> bool {
        let running = self.tasks.borrow_mut().take(id);
        self.poll_taken(id, running)
    }

    /// Polls a task that an event woke, at once, unless it is on its way to a poll already.
    #[inline]
    pub(crate) fn poll_idle(&self, id: TaskId) {
        let running = self.tasks.borrow_mut().take_idle(id);
        self.poll_taken(id, running);
    }

    #[inline]
    fn poll_taken(&self, id: TaskId, running: Option<Running>) -> bool {
        let Some(mut running) = running else { return false };
        self.current.set(Some((id, running.waker.data())));
        let polled = running.future.as_mut().poll(&mut Context::from_waker(&running.waker));
        self.current.set(None);
        match polled {
            Poll::Pending => self.tasks.borrow_mut().put_back(id, running),
            Poll::Ready(()) => self.tasks.borrow_mut().remove(id),
        }
        true
    }

    /// Wakes `waker` at `at`.
    #[inline]
    pub(crate) fn wake_at(&self, at: Time, waker: &Waker) -> TimerKey {
        let wakes = match self.current.get() {
            Some((id, data)) if data == waker.data() => Wakes::Task(id),
            _ => Wakes::Waker(waker.clone()),
        };
        self.timers.borrow_mut().insert(at, wakes)
    }

    pub(crate) fn fire(&self, wakes: Wakes) {
        match wakes {
            Wakes::Task(id) => {
                if self.tasks.borrow_mut().mark_queued(id) {
                    self.ready.borrow_mut().push_back(id);
                }
            }
            Wakes::Queued(id) => self.ready.borrow_mut().push_back(id),
            Wakes::Waker(waker) => waker.wake(),
        }
    }

    /// Whether a task has not ended.
    pub(crate) fn has_tasks(&self) -> bool {
        !self.tasks.borrow().is_empty()
    }

    /// Names of tasks that have not ended.
    pub(crate) fn task_names(&self) -> Vec<&'static str> {
        self.tasks.borrow().names()
    }

    /// Drops every task and event. Afterwards the world accepts nothing.
    pub(crate) fn kill(&self) {
        self.killed.set(true);
        self.ready.borrow_mut().clear();
        drop(self.timers.borrow_mut().clear());
        let futures = self.tasks.borrow_mut().clear();
        drop(futures);
        drop(self.timers.borrow_mut().clear());
    }
}
