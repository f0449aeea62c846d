//! Processes that were killed: a trace shows a wait for their end, but holds no call that ended them.
//!
//! Their descriptors close behind their last call. Otherwise a reader of a pipe that they wrote to would never find its
//! end.

use std::collections::{BTreeMap, BTreeSet};

use esker_trace_calls::action::ProcessId;
use esker_trace_calls::call::Call;
use esker_trace_calls::trace::Trace;

/// How many calls each of them is still to make.
#[derive(Debug, Default)]
pub(super) struct Killed(BTreeMap<ProcessId, u64>);

impl Killed {
    pub(super) fn of(trace: &Trace) -> Killed {
        let waited = trace.actions.iter().filter(|action| matches!(action.call, Call::Wait { .. }));
        let ended: BTreeSet<i64> = waited.filter_map(|action| action.outcome.value()).collect();
        let numbers = trace.processes.iter().zip(0..).filter(|(process, _)| ended.contains(&i64::from(process.pid)));
        let mut killed: BTreeMap<ProcessId, u64> = numbers.map(|(_, number)| (ProcessId(number), 0)).collect();
        for action in &trace.actions {
            let Some(thread) = trace.threads.get(action.thread.0 as usize) else { continue };
            if matches!(action.call, Call::Exit { .. }) {
                killed.remove(&thread.process);
            } else if let Some(left) = killed.get_mut(&thread.process) {
                *left += 1;
            }
        }
        Killed(killed)
    }

    /// A process has made a call. Whether it was its last one, and it was killed then.
    pub(super) fn is_last(&mut self, process: ProcessId) -> bool {
        self.0.get_mut(&process).is_some_and(|left| {
            *left -= 1;
            *left == 0
        })
    }
}
