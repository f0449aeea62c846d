//! A whole trace.

use crate::action::{Action, ProcessId, ThreadId};
use crate::call::Fd;
use crate::final_tree::FinalTree;
use crate::name::{PathBytes, Word};
use crate::snapshot::Snapshot;
use crate::warning::Warnings;
use crate::wire::{structs, word_fields};
use crate::words::{FileKind, OpenFlags, choices};

choices! {
    /// The system a trace was recorded on.
    Platform {
        /// Linux.
        Linux = 1 "linux",
        /// Mac OS X.
        Mac = 2 "mac",
    }
}

word_fields! { choices: Platform; flags: }
structs! {
    Process { pid, parent, cwd, umask }
    Thread { tid, process, parent, name }
    Inherited { process, fd, kind, path, flags, offset, group }
}

/// A process.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Process {
    /// Its number on the system.
    pub pid: u32,
    /// The thread whose `Clone` made it; `None` if it was there when recording began.
    pub parent: Option<ThreadId>,
    /// Its working directory when recording began; empty where `parent` tells it, or where it is unknown.
    pub cwd: PathBytes,
    /// Its mask of permission bits when recording began.
    pub umask: u16,
}

/// A thread.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Thread {
    /// Its number on the system.
    pub tid: u32,
    /// Its process.
    pub process: ProcessId,
    /// The thread whose `Clone` made it; `None` if it was there when recording began.
    pub parent: Option<ThreadId>,
    /// What the system calls it; empty if unknown.
    pub name: Word,
}

/// A descriptor that was open when recording began.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Inherited {
    /// Whose.
    pub process: ProcessId,
    /// Its number.
    pub fd: Fd,
    /// What it is open on.
    pub kind: FileKind,
    /// The path, if it has one.
    pub path: Option<PathBytes>,
    /// How it was opened.
    pub flags: OpenFlags,
    /// Its offset.
    pub offset: u64,
    /// Descriptors with the same number above 0 share one open file description.
    pub group: u32,
}

/// A recording: the calls of threads on files.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Trace {
    /// Where it is from.
    pub platform: Platform,
    /// What recorded it: `strace`, `ibench`, `esker record`, `generated`.
    pub source: Word,
    /// By [`ProcessId`].
    pub processes: Vec<Process>,
    /// By [`ThreadId`].
    pub threads: Vec<Thread>,
    /// Descriptors that were open at the start.
    pub inherited: Vec<Inherited>,
    /// Files at the start.
    pub snapshot: Snapshot,
    /// Files at the end, if the recorder looked at them.
    pub after: Option<FinalTree>,
    /// In the order of their beginning.
    pub actions: Vec<Action>,
    /// What was not understood, lost or left out.
    pub warnings: Warnings,
}

impl Trace {
    /// A trace without threads, files and actions.
    pub fn new(platform: Platform, source: &str) -> Trace {
        Trace {
            platform,
            source: Word::from(source),
            processes: Vec::new(),
            threads: Vec::new(),
            inherited: Vec::new(),
            snapshot: Snapshot::default(),
            after: None,
            actions: Vec::new(),
            warnings: Warnings::default(),
        }
    }

    /// The process of a thread.
    ///
    /// # Panics
    /// If the trace has no such thread: readers refuse such traces.
    pub fn process_of(&self, thread: ThreadId) -> ProcessId {
        self.threads[thread.0 as usize].process
    }
}
