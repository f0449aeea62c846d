//! Waits of threads for one another: which call woke which wait.
//!
//! Locks, conditions and joins of a program end in waits at an address, and in wakes that tell how many they woke. The
//! kernel does not tell whom. So each wake is taken for the cause of the waits of its address that were under way and
//! returned soonest behind it, as many as it woke. This gives every wait a cause if there is such an assignment. The
//! end of a thread wakes those that wait for its number to go.
//!
//! Loops of events wait until a descriptor is ready, into which other threads of the process write a few bytes to wake
//! them (`eventfd`, a pipe). The loop then reads from it first. So the first such write during a wait is its cause.
//!
//! A cause began before its wait returned. Threads of one process that wait for one another by other means, and wakes
//! that were not recorded, leave waits without a cause: those take the time that they took in the trace.

use std::collections::BTreeMap;

use esker_trace_calls::action::{Action, Outcome, ProcessId, ThreadId};
use esker_trace_calls::call::{Call, Fd};
use esker_trace_calls::trace::{Thread, Trace};

use super::resource::{Ledger, Resource, ResourceId, ResourceKind, Role};

/// Bytes of a write that may be no more than a wake: those of a counter, as `eventfd` wants them.
const WAKE_BYTES: i64 = 8;

/// A thread and the time at which it entered a call.
type Moment = (ThreadId, u64);

/// Where threads meet: an address, in one process or in all that share it. Memory that processes share is taken to lie
/// at the same address in all, as it does if they inherited it.
type Place = (Option<ProcessId>, u64);

/// Which actions wake others, and which are woken.
#[derive(Debug, Default)]
pub(super) struct Wakes {
    causes: BTreeMap<Moment, ResourceId>,
    woken: BTreeMap<Moment, ResourceId>,
}

/// The calls at one place, in the order of their entries.
#[derive(Debug, Default)]
struct Calls<'a> {
    waits: Vec<&'a Action>,
    wakes: Vec<&'a Action>,
}

/// What a trace tells of wakes, in the order of its actions.
#[derive(Debug, Default)]
struct Told<'a> {
    places: BTreeMap<Place, Calls<'a>>,
    /// Ends of threads by their process and number.
    ends: BTreeMap<(ProcessId, u32), Vec<&'a Action>>,
    /// Writes to descriptors that may be no more than a wake.
    writes: BTreeMap<(ProcessId, Fd), Vec<&'a Action>>,
    /// Waits for readiness, and what the thread read from next.
    polls: Vec<(&'a Action, ProcessId, Fd)>,
}

impl Wakes {
    /// Finds out which call woke which wait.
    pub(super) fn of(trace: &Trace, ledger: &mut Ledger) -> Wakes {
        let told = Told::of(trace);
        let mut found = Wakes::default();
        for ((_, address), calls) in &told.places {
            for (wait, cause) in calls.matched() {
                let process = trace.threads[wait.thread.0 as usize].process;
                if let Some(cause) = cause.or_else(|| told.end_for(wait, process)) {
                    found.add(wait, cause, *address, ledger);
                }
            }
        }
        for (wait, process, fd) in &told.polls {
            if let Some(cause) = told.write_for(wait, *process, *fd) {
                found.add(wait, cause, fd.0 as u64, ledger);
            }
        }
        found
    }

    fn add(&mut self, wait: &Action, cause: &Action, key: u64, ledger: &mut Ledger) {
        let generation = self.causes.len() as u32 + 1;
        let resource = *self
            .causes
            .entry(moment(cause))
            .or_insert_with(|| ledger.add(Resource { kind: ResourceKind::Wake, key, generation, previous: None }));
        self.woken.insert(moment(wait), resource);
    }

    /// Whether it is known what ended this wait: then it takes effect when it returns.
    pub(super) fn is_woken(&self, action: &Action) -> bool {
        is_wait(&action.call) && self.woken.contains_key(&moment(action))
    }

    /// Whether an action woke another one: it did not wait itself.
    pub(super) fn is_cause(&self, action: &Action) -> bool {
        is_wake(&action.call) && self.causes.contains_key(&moment(action))
    }

    /// Notes what an action has to do with wakes.
    pub(super) fn touch(&self, action: &Action, ledger: &mut Ledger) {
        let (known, role) = match action.call {
            ref call if is_wake(call) => (&self.causes, Role::Create),
            ref call if is_wait(call) => (&self.woken, Role::Use),
            _ => return,
        };
        if let Some(resource) = known.get(&moment(action)) {
            ledger.touch(*resource, role);
        }
    }
}

fn is_wake(call: &Call) -> bool {
    matches!(call, Call::FutexWake { .. } | Call::Exit { .. } | Call::Write { .. })
}

fn is_wait(call: &Call) -> bool {
    matches!(call, Call::FutexWait { .. } | Call::EpollWait { .. } | Call::Poll { .. })
}

impl<'a> Told<'a> {
    fn of(trace: &'a Trace) -> Told<'a> {
        let mut told = Told::default();
        let mut last: Vec<Option<&Action>> = vec![None; trace.threads.len()];
        for action in &trace.actions {
            let Some(thread) = trace.threads.get(action.thread.0 as usize) else { continue };
            told.take(action, thread, last[action.thread.0 as usize].replace(action));
        }
        told
    }

    /// One action of a thread, and the one before.
    fn take(&mut self, action: &'a Action, thread: &Thread, before: Option<&'a Action>) {
        let process = thread.process;
        let place = |shared: bool, address: u64| ((!shared).then_some(process), address);
        match (&action.call, action.outcome) {
            (Call::FutexWait { address, shared, .. }, Outcome::Done(0)) => {
                self.places.entry(place(*shared, *address)).or_default().waits.push(action);
            }
            (Call::FutexWake { address, shared }, Outcome::Done(1..)) => {
                self.places.entry(place(*shared, *address)).or_default().wakes.push(action);
            }
            (Call::Exit { group: false, .. }, _) => self.ends.entry((process, thread.tid)).or_default().push(action),
            (Call::Write { fd, .. }, Outcome::Done(1..=WAKE_BYTES)) => {
                self.writes.entry((process, *fd)).or_default().push(action);
            }
            (Call::Read { fd, .. }, Outcome::Done(1..)) => {
                let is_poll = |call: &Call| matches!(call, Call::EpollWait { .. } | Call::Poll { .. });
                let ready = |poll: &&Action| is_poll(&poll.call) && matches!(poll.outcome, Outcome::Done(1..));
                self.polls.extend(before.filter(ready).map(|poll| (poll, process, *fd)));
            }
            _ => (),
        }
    }

    /// The end of the thread that a wait at its number waited for.
    fn end_for(&self, wait: &Action, process: ProcessId) -> Option<&'a Action> {
        let Call::FutexWait { value, .. } = wait.call else { return None };
        let ends = self.ends.get(&(process, value))?;
        ends.iter().rev().copied().find(|end| is_cause(end, wait))
    }

    /// The first write that made a descriptor ready during a wait.
    fn write_for(&self, wait: &Action, process: ProcessId, fd: Fd) -> Option<&'a Action> {
        let writes = self.writes.get(&(process, fd))?;
        let begun = writes.partition_point(|write| write.enter < wait.leave);
        let during = writes[..begun].iter().rev().copied().take_while(|write| is_cause(write, wait));
        during.filter(|write| write.thread != wait.thread).last()
    }
}

/// Whether an action may have ended a wait: it began before the wait returned, and ended within it or behind it.
fn is_cause(action: &Action, wait: &Action) -> bool {
    action.enter < wait.leave && action.leave > wait.enter
}

impl<'a> Calls<'a> {
    /// Each wait, with the wake that ended it if there is one.
    fn matched(&self) -> Vec<(&'a Action, Option<&'a Action>)> {
        let mut matched: Vec<_> = self.waits.iter().map(|wait| (*wait, None)).collect();
        let (mut under_way, mut begun) = (Vec::new(), 0);
        for wake in &self.wakes {
            while self.waits.get(begun).is_some_and(|wait| wait.enter <= wake.leave) {
                under_way.push(begun);
                begun += 1;
            }
            under_way.retain(|at| self.waits[*at].leave > wake.enter);
            under_way.sort_by_key(|at| (self.waits[*at].leave, *at));
            let mut left = wake.outcome.value().unwrap_or(0);
            under_way.retain(|at| {
                let is_woken = left > 0 && self.waits[*at].thread != wake.thread;
                if is_woken {
                    left -= 1;
                    matched[*at].1 = Some(*wake);
                }
                !is_woken
            });
        }
        matched
    }
}

fn moment(action: &Action) -> Moment {
    (action.thread, action.enter.0)
}
