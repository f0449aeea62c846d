//! The recording that is written, and what is looked at for it.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use esker_base::Time;
use esker_trace_calls::anonymise::Anonymiser;
use esker_trace_calls::etrace::Writer;
use esker_trace_calls::words::FileKind;
use esker_trace_calls::{
    Action, Entry, Inherited, PathBytes, Platform, Process, ProcessId, Thread, ThreadId, WarningKind, Warnings, Word,
};

use crate::assemble::Sink;
use crate::snapshot::{Snapshot, final_tree};

/// The name of this recorder in recordings.
const SOURCE: &str = "esker record";

/// A recording that grows.
pub(crate) struct Output<W: Write> {
    lines: Lines<W>,
    snapshot: Snapshot,
    warnings: Warnings,
    /// Threads and actions so far.
    pub counts: (u64, u64),
}

/// What is written, under other names if it is to be so; after the first error, nothing.
struct Lines<W: Write> {
    writer: Writer<W>,
    anonymiser: Option<Anonymiser>,
    error: Option<io::Error>,
}

impl<W: Write> Lines<W> {
    fn put(&mut self, put: impl FnOnce(&mut Writer<W>, Option<&mut Anonymiser>) -> io::Result<()>) {
        if self.error.is_none() {
            self.error = put(&mut self.writer, self.anonymiser.as_mut()).err();
        }
    }

    fn entry(&mut self, path: &PathBytes, entry: &Entry) {
        self.put(|writer, anonymiser| match anonymiser {
            None => writer.entry(path, entry),
            Some(names) => {
                let mut entry = entry.clone();
                names.entry(&mut entry);
                writer.entry(&names.path(path), &entry)
            }
        });
    }
}

impl<W: Write> Output<W> {
    /// Begins a recording; `started` is in ns since 1970.
    ///
    /// # Errors
    /// If it cannot be written.
    pub(crate) fn new(out: W, anonymise: Option<u64>, started: i64) -> io::Result<Output<W>> {
        let writer = Writer::new(out, Platform::Linux, &Word::from(SOURCE))?;
        let anonymiser = anonymise.map(Anonymiser::new);
        let lines = Lines { writer, anonymiser, error: None };
        Ok(Output { lines, snapshot: Snapshot::new(started), warnings: Warnings::default(), counts: (0, 0) })
    }

    /// Takes a whole tree before the program runs.
    ///
    /// # Errors
    /// If it is not there.
    pub(crate) fn walk(&mut self, root: &Path) -> io::Result<()> {
        let Output { lines, snapshot, .. } = self;
        snapshot.walk(root, &mut |path, entry| lines.entry(path, entry))
    }

    /// Makes what was recorded outlive this process.
    ///
    /// # Errors
    /// The first that there was.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        self.lines.put(|writer, _| writer.flush());
        self.lines.error.take().map_or(Ok(()), Err)
    }

    /// Takes what lies below trees that were taken before, now that the program has ended.
    pub(crate) fn look_after(&mut self, roots: &[PathBuf]) {
        let mut after = final_tree(roots);
        self.lines.put(|writer, anonymiser| {
            anonymiser.into_iter().for_each(|names| names.final_tree(&mut after));
            writer.after(&after)
        });
    }

    /// Ends the recording. Tells its warnings, and how many files had changed before they were looked at.
    ///
    /// # Errors
    /// If it cannot be written.
    pub(crate) fn finish(mut self) -> io::Result<(Warnings, u64)> {
        let Output { lines, snapshot, .. } = &mut self;
        snapshot.take_listed(&mut |path, entry| lines.entry(path, entry));
        let unreadable: Vec<(PathBuf, io::Error)> = std::mem::take(&mut self.snapshot.unreadable);
        for (path, error) in unreadable {
            self.warnings.add(WarningKind::SnapshotUnreadable, 0, format!("{}: {error}", path.display()));
        }
        let warnings = self.warnings;
        let mut written = warnings.clone();
        if self.lines.anonymiser.is_some() {
            written.forget_places();
        }
        self.lines.put(|writer, _| writer.warnings(&written));
        self.lines.error.map_or(Ok(()), Err)?;
        self.lines.writer.finish()?;
        Ok((warnings, self.snapshot.changed))
    }
}

impl<W: Write> Sink for Output<W> {
    fn process(&mut self, id: ProcessId, process: &Process) {
        self.lines.put(|writer, anonymiser| match anonymiser {
            None => writer.process(id, process),
            Some(names) => writer.process(id, &Process { cwd: names.path(&process.cwd), ..process.clone() }),
        });
    }

    fn thread(&mut self, id: ThreadId, thread: &Thread) {
        self.counts.0 += 1;
        self.lines.put(|writer, anonymiser| match anonymiser {
            None => writer.thread(id, thread),
            Some(_) => writer.thread(id, &Thread { name: Word::default(), ..thread.clone() }),
        });
    }

    fn action(&mut self, action: &Action) {
        self.counts.1 += 1;
        self.lines.put(|writer, anonymiser| match anonymiser {
            None => writer.action(action),
            Some(names) => {
                let mut action = action.clone();
                names.action(&mut action);
                writer.action(&action)
            }
        });
    }

    fn inherited(&mut self, inherited: &Inherited) {
        // As large as it is now, whatever is written to it later.
        if let (FileKind::Regular, Some(path)) = (inherited.kind, &inherited.path) {
            self.touched(path);
        }
        self.lines.put(|writer, anonymiser| match anonymiser {
            None => writer.inherited(inherited),
            Some(names) => {
                let path = inherited.path.as_ref().map(|path| names.path(path));
                writer.inherited(&Inherited { path, ..inherited.clone() })
            }
        });
    }

    fn touched(&mut self, path: &[u8]) {
        let Output { lines, snapshot, .. } = self;
        snapshot.touch(path, &mut |path, entry| lines.entry(path, entry));
    }

    fn listed(&mut self, path: &[u8]) {
        self.snapshot.list(path);
    }

    fn resolved(&mut self, path: &[u8]) -> Vec<u8> {
        let Output { lines, snapshot, .. } = self;
        snapshot.resolve(path, &mut |path, entry| lines.entry(path, entry))
    }

    fn warning(&mut self, kind: WarningKind, count: u64, at: Time, text: String) {
        self.warnings.add_many(kind, count, at.0, text);
    }
}
