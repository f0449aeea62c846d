//! What tests share.

#![allow(clippy::disallowed_methods, reason = "makes real directories")]

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;

use esker_base::Time;
use esker_trace_calls::words::{OpenFlags, ResolveFlags};
use esker_trace_calls::{
    Action, At, Call, Entry, EntryKind, Outcome, PathBytes, Platform, Process, ProcessId, Thread, ThreadId, Trace, Word,
};
use esker_trace_order::compiled::Program;
use esker_trace_order::model::compile;

use crate::init::{InitMode, InitOptions};

/// A whole tree, made as a foreign trace's.
pub(crate) const FULL_INIT: InitOptions =
    InitOptions { mode: InitMode::Full, force: false, keep_modes: false, max_bytes: None, drop_caches: false, seed: 1 };

/// A directory that only this user may enter, also while another test has taken the mask of permissions away.
pub(crate) fn private_dir() -> tempfile::TempDir {
    tempfile::Builder::new().permissions(Permissions::from_mode(0o700)).tempdir().expect("a directory can be made")
}

/// A trace of one process that grows call by call.
pub(crate) struct Draft {
    pub(crate) trace: Trace,
    pub(crate) now: u64,
}

impl Draft {
    pub(crate) fn of(threads: u32) -> Draft {
        let mut trace = Trace::new(Platform::Linux, "test");
        trace.processes.push(Process { pid: 100, parent: None, cwd: PathBytes::from("/"), umask: 0o22 });
        for thread in 0..threads {
            let name = Word::from("");
            trace.threads.push(Thread { tid: 100 + thread, process: ProcessId(0), parent: None, name });
        }
        Draft { trace, now: 0 }
    }

    pub(crate) fn entry(&mut self, path: &str, entry: Entry) {
        self.trace.snapshot.entries.insert(PathBytes::from(path), entry);
    }

    pub(crate) fn file(&mut self, path: &str, size: u64) {
        self.entry(path, Entry::plain(EntryKind::File { size }));
    }

    /// A call of 1 us, right after the one before.
    pub(crate) fn call(&mut self, thread: u32, call: Call, outcome: Outcome) {
        self.call_from(thread, self.now, self.now + 1000, call, outcome);
    }

    pub(crate) fn call_from(&mut self, thread: u32, enter: u64, leave: u64, call: Call, outcome: Outcome) {
        self.now = self.now.max(leave);
        let (enter, leave) = (Time(enter), Time(leave));
        self.trace.actions.push(Action { thread: ThreadId(thread), enter, leave, call, outcome });
    }

    pub(crate) fn open(&mut self, thread: u32, path: &str, flags: OpenFlags, fd: i64) {
        let call = Call::Open { at: At::cwd(path), flags, mode: 0o644, resolve: ResolveFlags::empty() };
        self.call(thread, call, Outcome::Done(fd));
    }

    pub(crate) fn program(mut self) -> Program {
        self.trace.actions.sort_by_key(|action| action.enter);
        compile(self.trace, &mut |_| {}).unwrap()
    }
}
