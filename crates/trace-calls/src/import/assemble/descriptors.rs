//! Which descriptors are open where: what is used before anything opened it was open before the trace began.
//!
//! A descriptor is made when its call returns and ends when its call begins, so that a number that one thread closes
//! while another opens it anew is not taken for one that was lost.

use std::collections::{BTreeMap, BTreeSet};

use super::Item;
use crate::action::{Outcome, ProcessId};
use crate::call::{Call, Fd};
use crate::name::PathBytes;
use crate::trace::{Inherited, Trace};
use crate::warning::WarningKind;
use crate::words::{CloneFlags, CloseRangeFlags, FcntlCmd, FileKind, OpenFlags};
use esker_base::Errno;

/// Open descriptors, each with whether exec closes it.
type Table = BTreeMap<Fd, bool>;

/// A descriptor whose call has not returned yet.
struct Pending {
    table: usize,
    fd: Fd,
    cloexec: bool,
    line: u64,
    replaces: bool,
}

/// The tables of all processes.
#[derive(Default)]
pub(super) struct Descriptors {
    tables: Vec<Table>,
    of_process: BTreeMap<ProcessId, usize>,
    pending: BTreeMap<(u64, u64), Vec<Pending>>,
    /// What was inferred already.
    inherited: BTreeSet<(ProcessId, Fd)>,
    /// Processes whose working directory changed.
    moved: BTreeSet<ProcessId>,
}

impl Descriptors {
    /// Follows one call, in the order of beginnings.
    pub(super) fn follow(&mut self, item: &Item, process: ProcessId, trace: &mut Trace) {
        self.open_until(item.enter, trace);
        let table = self.table_of(process);
        self.note_cwd(item, process, trace);
        if item.outcome != Outcome::Failed(Errno::EBADF) {
            self.infer(item, process, table, trace);
        }
        self.end(item, process, table);
        let made = item.call.fds_made(item.outcome);
        let replaces = matches!(item.call, Call::DupTo { .. });
        let pending = made.into_iter().map(|(fd, cloexec)| Pending { table, fd, cloexec, line: item.line, replaces });
        self.pending.entry((item.leave.max(item.enter), item.line)).or_default().extend(pending);
    }

    /// A new process has a copy of its parent's descriptors, or shares them.
    pub(super) fn born(&mut self, parent: ProcessId, child: ProcessId, flags: CloneFlags) {
        if parent == child {
            return;
        }
        let table = self.table_of(parent);
        let its = if flags.contains(CloneFlags::CLONE_FILES) { table } else { self.copy(table) };
        self.of_process.insert(child, its);
    }

    fn copy(&mut self, table: usize) -> usize {
        self.tables.push(self.tables[table].clone());
        self.tables.len() - 1
    }

    fn table_of(&mut self, process: ProcessId) -> usize {
        let tables = &mut self.tables;
        *self.of_process.entry(process).or_insert_with(|| {
            tables.push(Table::new());
            tables.len() - 1
        })
    }

    /// Opens what returned up to `now`.
    fn open_until(&mut self, now: u64, trace: &mut Trace) {
        while let Some(first) = self.pending.first_entry() {
            if first.key().0 > now {
                return;
            }
            for made in first.remove() {
                let was = self.tables[made.table].insert(made.fd, made.cloexec);
                if was.is_some() && !made.replaces {
                    trace.warnings.add(WarningKind::FdReopened, made.line, format!("descriptor {}", made.fd.0));
                }
            }
        }
    }

    /// A note on the working directory tells it, as long as nothing changed it.
    fn note_cwd(&mut self, item: &Item, process: ProcessId, trace: &mut Trace) {
        let told = &mut trace.processes[process.0 as usize];
        if told.parent.is_none() && told.cwd.is_empty() && !self.moved.contains(&process) {
            let note = item.notes.iter().find(|(fd, _)| *fd == Fd::CWD);
            told.cwd = note.map(|(_, path)| path.clone()).unwrap_or_default();
        }
        if matches!(item.call, Call::Chdir { .. }) && matches!(item.outcome, Outcome::Done(_)) {
            self.moved.insert(process);
        }
    }

    fn infer(&mut self, item: &Item, process: ProcessId, table: usize, trace: &mut Trace) {
        for fd in item.call.fds_used() {
            if self.tables[table].contains_key(&fd) || self.is_pending(table, fd) {
                continue;
            }
            self.tables[table].insert(fd, false);
            let process = ancestor(process, trace);
            if !self.inherited.insert((process, fd)) {
                continue;
            }
            let note = item.notes.iter().find(|(its, _)| *its == fd).map(|(_, note)| note);
            let (kind, path) = note.map_or((None, None), |note| read_note(note));
            let kind = kind.unwrap_or_else(|| kind_in_use(&item.call, fd));
            let flags = OpenFlags::READ | OpenFlags::WRITE;
            let text = format!("descriptor {}", fd.0);
            trace.warnings.add(WarningKind::FdInherited, item.line, text);
            trace.inherited.push(Inherited { process, fd, kind, path, flags, offset: 0, group: 0 });
        }
    }

    /// Whether a call that has not returned is about to make it: clocks are not that exact.
    fn is_pending(&self, table: usize, fd: Fd) -> bool {
        self.pending.values().flatten().any(|made| made.table == table && made.fd == fd)
    }

    fn end(&mut self, item: &Item, process: ProcessId, table: usize) {
        let failed = matches!(item.outcome, Outcome::Failed(_));
        match &item.call {
            // Linux closes a descriptor even where it reports an error.
            Call::Close { fd } => {
                self.tables[table].remove(fd);
            }
            Call::CloseRange { first, last, flags } if !failed => {
                let in_range = |fd: &Fd| u32::try_from(fd.0).is_ok_and(|fd| (*first..=*last).contains(&fd));
                let table = &mut self.tables[table];
                if flags.contains(CloseRangeFlags::CLOSE_RANGE_CLOEXEC) {
                    table.iter_mut().filter(|(fd, _)| in_range(fd)).for_each(|(_, cloexec)| *cloexec = true);
                } else {
                    table.retain(|fd, _| !in_range(fd));
                }
            }
            Call::Fcntl { fd, cmd: FcntlCmd::SetFd, arg } if !failed => {
                if let Some(cloexec) = self.tables[table].get_mut(fd) {
                    *cloexec = arg & 1 != 0;
                }
            }
            Call::Exec { .. } if !failed => {
                let own = self.copy(table);
                self.tables[own].retain(|_, cloexec| !*cloexec);
                self.of_process.insert(process, own);
            }
            Call::Unshare { flags } if !failed && flags.contains(CloneFlags::CLONE_FILES) => {
                let own = self.copy(table);
                self.of_process.insert(process, own);
            }
            _ => {}
        }
    }
}

/// The process that was there when recording began and from which this one has what nothing in the trace opened.
fn ancestor(mut process: ProcessId, trace: &Trace) -> ProcessId {
    while let Some(parent) = trace.processes[process.0 as usize].parent {
        process = trace.process_of(parent);
    }
    process
}

/// What a note says of a descriptor: kind, where the note tells it, and path.
fn read_note(note: &[u8]) -> (Option<FileKind>, Option<PathBytes>) {
    let starts = |word: &str| note.starts_with(word.as_bytes());
    if starts("pipe:") {
        return (Some(FileKind::Fifo), None);
    }
    if ["socket:", "TCP", "UDP", "UNIX", "NETLINK", "RAW", "PACKET"].into_iter().any(starts) {
        return (Some(FileKind::Socket), None);
    }
    if !starts("/") || note.ends_with(b" (deleted)") {
        return (Some(FileKind::Other), None);
    }
    // A device's numbers stand in brackets behind its path.
    let path = |word: &[u8]| memchr::memmem::find(note, word).map(|end| PathBytes::from(&note[..end]));
    if let Some(path) = path(b"<char ") {
        return (Some(FileKind::CharDevice), Some(path));
    }
    match path(b"<block ") {
        Some(path) => (Some(FileKind::BlockDevice), Some(path)),
        None => (None, Some(PathBytes::from(note))),
    }
}

/// What kind of file this use of a descriptor needs.
fn kind_in_use(call: &Call, fd: Fd) -> FileKind {
    let as_directory = matches!(call, Call::ReadDir { .. } | Call::Chdir { .. } | Call::GetDirEntriesAttr { .. })
        || call.ats().iter().any(|at| at.dir == fd);
    let as_socket = matches!(call, Call::Socket { .. } | Call::ReceiveFds { .. });
    match () {
        () if as_directory => FileKind::Directory,
        () if as_socket => FileKind::Socket,
        () => FileKind::Regular,
    }
}
