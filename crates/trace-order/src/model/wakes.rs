//! Waits of threads for one another: which call woke which wait.
//!
//! Locks, conditions and joins of a program end in waits at an address, and in wakes that tell how many they woke. The
//! kernel does not tell whom. So each wake is taken for the cause of the waits of its address that were under way and
//! returned soonest behind it, as many as it woke. This gives every wait a cause if there is such an assignment. The
//! end of a thread wakes those that wait for its number to go.
//!
//! A cause began before its wait returned. Threads of one process that wait for one another by other means, and wakes
//! that were not recorded, leave waits without a cause: those take the time that they took in the trace.

use std::collections::BTreeMap;

use esker_trace_calls::action::{Action, Outcome, ProcessId, ThreadId};
use esker_trace_calls::call::Call;
use esker_trace_calls::trace::Trace;

use super::resource::{Ledger, Resource, ResourceId, ResourceKind, Role};

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

impl Wakes {
    /// Finds out who woke whom.
    pub(super) fn of(trace: &Trace, ledger: &mut Ledger) -> Wakes {
        let mut places: BTreeMap<Place, Calls<'_>> = BTreeMap::new();
        let mut ends: BTreeMap<(ProcessId, u32), Vec<&Action>> = BTreeMap::new();
        for action in &trace.actions {
            let Some(thread) = trace.threads.get(action.thread.0 as usize) else { continue };
            let place = |shared: bool, address: u64| ((!shared).then_some(thread.process), address);
            match (&action.call, action.outcome) {
                (Call::FutexWait { address, shared, .. }, Outcome::Done(0)) => {
                    places.entry(place(*shared, *address)).or_default().waits.push(action);
                }
                (Call::FutexWake { address, shared }, Outcome::Done(1..)) => {
                    places.entry(place(*shared, *address)).or_default().wakes.push(action);
                }
                (Call::Exit { group: false, .. }, _) => {
                    ends.entry((thread.process, thread.tid)).or_default().push(action);
                }
                _ => (),
            }
        }
        let mut found = Wakes::default();
        for calls in places.values() {
            for (wait, cause) in calls.matched() {
                let process = trace.threads[wait.thread.0 as usize].process;
                if let Some(cause) = cause.or_else(|| end_for(wait, process, &ends)) {
                    found.add(wait, cause, ledger);
                }
            }
        }
        found
    }

    fn add(&mut self, wait: &Action, cause: &Action, ledger: &mut Ledger) {
        let Call::FutexWait { address, .. } = wait.call else { return };
        let generation = self.causes.len() as u32 + 1;
        let resource = *self.causes.entry(moment(cause)).or_insert_with(|| {
            ledger.add(Resource { kind: ResourceKind::Wake, key: address, generation, previous: None })
        });
        self.woken.insert(moment(wait), resource);
    }

    /// Whether it is known what ended this wait: then it takes effect when it returns.
    pub(super) fn is_woken(&self, action: &Action) -> bool {
        matches!(action.call, Call::FutexWait { .. }) && self.woken.contains_key(&moment(action))
    }

    /// Notes what an action has to do with wakes.
    pub(super) fn touch(&self, action: &Action, ledger: &mut Ledger) {
        let (known, role) = match action.call {
            Call::FutexWait { .. } => (&self.woken, Role::Use),
            Call::FutexWake { .. } | Call::Exit { .. } => (&self.causes, Role::Create),
            _ => return,
        };
        if let Some(resource) = known.get(&moment(action)) {
            ledger.touch(*resource, role);
        }
    }
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

/// The end of the thread that a wait at its number waited for.
fn end_for<'a>(
    wait: &Action,
    process: ProcessId,
    ends: &BTreeMap<(ProcessId, u32), Vec<&'a Action>>,
) -> Option<&'a Action> {
    let Call::FutexWait { value, .. } = wait.call else { return None };
    let ends = ends.get(&(process, value))?;
    ends.iter().rev().copied().find(|end| end.enter < wait.leave && end.leave >= wait.enter)
}

fn moment(action: &Action) -> Moment {
    (action.thread, action.enter.0)
}
