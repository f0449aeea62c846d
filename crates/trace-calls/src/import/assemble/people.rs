//! Identities: numbers of the system become threads and processes of the trace. A number may come again after its
//! thread ended; the `Clone` that made the new one tells.

use std::collections::BTreeMap;

use super::unnamed;
use crate::action::{ProcessId, ThreadId};
use crate::name::PathBytes;
use crate::trace::{Process, Thread, Trace};
use crate::warning::WarningKind;
use crate::words::CloneFlags;

/// The mask that processes have unless told otherwise.
const UMASK: u16 = 0o022;

/// The threads that are alive, by their number.
#[derive(Default)]
pub(super) struct People {
    threads: BTreeMap<u32, ThreadId>,
    /// Processes whose number the source told.
    processes: BTreeMap<u32, ProcessId>,
}

impl People {
    /// The thread with this number; one that nothing made was there before.
    pub(super) fn thread_of(&mut self, tid: u32, pid: Option<u32>, line: u64, trace: &mut Trace) -> ThreadId {
        if let Some(thread) = self.threads.get(&tid) {
            return *thread;
        }
        let is_first = trace.threads.is_empty();
        if !is_first && pid.is_none() {
            trace.warnings.add(WarningKind::ThreadAppeared, line, format!("thread {tid}"));
        }
        let process = match pid {
            Some(pid) => *self.processes.entry(pid).or_insert_with(|| add_process(trace, pid, None)),
            // A recorder that attaches to a process sees its threads appear: they are of the first one.
            None if is_first => add_process(trace, tid, None),
            None => ProcessId(0),
        };
        self.add_thread(trace, tid, process, None)
    }

    /// The child of a `Clone`.
    pub(super) fn born(&mut self, parent: ThreadId, tid: i64, flags: CloneFlags, trace: &mut Trace) -> ThreadId {
        let tid = u32::try_from(tid).unwrap_or(0);
        let process = if flags.contains(CloneFlags::CLONE_THREAD) {
            trace.process_of(parent)
        } else {
            let process = add_process(trace, tid, Some(parent));
            self.processes.insert(tid, process);
            process
        };
        self.add_thread(trace, tid, process, Some(parent))
    }

    fn add_thread(&mut self, trace: &mut Trace, tid: u32, process: ProcessId, parent: Option<ThreadId>) -> ThreadId {
        let thread = ThreadId(trace.threads.len() as u32);
        trace.threads.push(Thread { tid, process, parent, name: unnamed() });
        self.threads.insert(tid, thread);
        thread
    }
}

fn add_process(trace: &mut Trace, pid: u32, parent: Option<ThreadId>) -> ProcessId {
    let process = ProcessId(trace.processes.len() as u32);
    trace.processes.push(Process { pid, parent, cwd: PathBytes::default(), umask: UMASK });
    process
}
