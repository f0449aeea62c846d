//! From what happened in threads to the actions of a trace.

mod rings;
mod unseen;

use std::collections::BTreeMap;

use esker_base::Spans;
use esker_base::Time;
use esker_trace_calls::words::MapFlags;
use esker_trace_calls::{
    Action, Call, Errno, Fd, Inherited, Outcome, PathBytes, Process, ProcessId, Thread, ThreadId, WarningKind, Word,
};

use crate::calls::processes::wakes;
use crate::calls::{self, Extent, ITEMS_MAX, Raw, Spec};
use crate::event::{Event, Items, What};
use crate::faults::{Fault, Faults};
use crate::places::Places;

use rings::{Rings, Taken};

/// Where the pieces of a trace go, in the order in which they become known.
pub trait Sink {
    /// The next process.
    fn process(&mut self, id: ProcessId, process: &Process);
    /// The next thread.
    fn thread(&mut self, id: ThreadId, thread: &Thread);
    /// A call that ended, or whose end was not seen. Not in the order of beginnings.
    fn action(&mut self, action: &Action);
    /// A descriptor that is open when recording begins.
    fn inherited(&mut self, inherited: &Inherited);
    /// A call is about to use this absolute path, or has just used it.
    fn touched(&mut self, path: &[u8]);
    /// A directory of that absolute path was read.
    fn listed(&mut self, path: &[u8]);
    /// Where an absolute path leads: one without dots and links.
    fn resolved(&mut self, path: &[u8]) -> Vec<u8>;
    /// Something odd, at a time of the trace.
    fn warning(&mut self, kind: WarningKind, count: u64, at: Time, text: String);
}

/// Results that only the kernel sees: the call begins again, or fails with `EINTR`. `ERESTARTSYS` to
/// `ERESTART_RESTARTBLOCK`.
const RESTARTS: std::ops::RangeInclusive<i64> = -516..=-512;

/// Bytes of a page.
const PAGE: u64 = 4096;

/// Calls whose child appears to return from one that it never made.
const FORKS: [i64; 4] = [libc::SYS_clone, libc::SYS_clone3, libc::SYS_fork, libc::SYS_vfork];

/// Puts events together.
#[derive(Debug)]
pub struct Assembler {
    specs: Vec<Option<&'static Spec>>,
    /// When the trace began, on the monotonic clock.
    start: u64,
    /// By the system's numbers, which are used again.
    threads: BTreeMap<u32, Traced>,
    processes: BTreeMap<u32, Owner>,
    thread_count: u32,
    process_count: u32,
    /// Threads that live.
    pub alive: usize,
    /// Whether page faults are reported; else reads through maps are not seen.
    sees_faults: bool,
    sees_writes: bool,
    rings: Rings,
}

#[derive(Debug)]
struct Traced {
    id: ThreadId,
    process: u32,
    pending: Option<Pending>,
    /// What it made last, until the call returns that made it.
    child: Option<ThreadId>,
    /// Whether any call of it was seen to begin.
    seen: bool,
    faults: Faults,
    /// When its last call ended.
    last: Time,
    /// Requests that the call under way was seen to submit.
    requests: u32,
    /// The ring that the call under way makes or changes.
    ring: Option<u64>,
}

#[derive(Debug)]
struct Owner {
    id: ProcessId,
    /// Where files are mapped.
    maps: Spans<()>,
    places: Places,
}

/// A call that has not returned.
#[derive(Debug)]
struct Pending {
    spec: &'static Spec,
    args: [u64; 6],
    entry: OwnedItems,
    enter: Time,
    /// When it was interrupted: it begins again, or has failed.
    interrupted: Option<Time>,
}

impl Pending {
    fn names_files(&self) -> bool {
        self.spec.entry.iter().any(|item| item.what == Extent::Text)
    }

    fn raw<'a>(&'a self, exit: Items<'a>, result: Option<i64>) -> Raw<'a> {
        Raw { spec: self.spec, args: self.args, entry: self.entry.items(), exit, result }
    }

    fn touch(&self, places: &Places, sink: &mut impl Sink) {
        let Ok(call) = self.raw(Items::default(), None).decode() else { return };
        for at in call.ats() {
            if let Some(path) = places.absolute(at) {
                sink.touched(&path);
            }
        }
    }
}

/// Items, owned: their ends in one buffer.
#[derive(Debug, Default)]
struct OwnedItems {
    bytes: Vec<u8>,
    lengths: [Option<usize>; ITEMS_MAX],
}

impl OwnedItems {
    fn of(items: &Items<'_>) -> OwnedItems {
        let mut kept = OwnedItems::default();
        for (length, item) in kept.lengths.iter_mut().zip(items) {
            *length = item.map(<[u8]>::len);
        }
        items.iter().flatten().for_each(|item| kept.bytes.extend_from_slice(item));
        kept
    }

    fn items(&self) -> Items<'_> {
        let mut rest = &self.bytes[..];
        self.lengths.map(|length| {
            let (item, behind) = rest.split_at(length?);
            rest = behind;
            Some(item)
        })
    }
}

impl Assembler {
    /// A trace that begins at `start` of the monotonic clock; whether page faults will be told.
    pub fn new(start: u64, sees_faults: bool) -> Assembler {
        Assembler {
            specs: calls::by_number(),
            start,
            threads: BTreeMap::new(),
            processes: BTreeMap::new(),
            thread_count: 0,
            process_count: 0,
            alive: 0,
            sees_faults,
            sees_writes: false,
            rings: Rings::default(),
        }
    }

    /// Pages that become dirty by writes through maps will be told.
    pub fn see_writes(&mut self) {
        self.sees_writes = true;
    }

    /// A process that is there when recording begins.
    pub fn add_process(&mut self, pid: u32, cwd: PathBytes, umask: u16, sink: &mut impl Sink) -> ProcessId {
        let places = Places::new(&cwd);
        self.new_process(Process { pid, parent: None, cwd, umask }, Spans::default(), places, sink)
    }

    /// A descriptor of it.
    pub fn add_descriptor(&mut self, pid: u32, inherited: &Inherited, sink: &mut impl Sink) {
        if let (Some(owner), Some(path)) = (self.processes.get_mut(&pid), &inherited.path) {
            owner.places.open(inherited.fd, path);
        }
        sink.inherited(inherited);
    }

    /// A thread of it.
    pub fn add_thread(&mut self, tid: u32, pid: u32, name: Word, sink: &mut impl Sink) -> ThreadId {
        self.new_thread(tid, pid, None, name, sink)
    }

    /// A number on the monotonic clock as a time of the trace.
    pub fn time(&self, clock: u64) -> Time {
        Time(clock.saturating_sub(self.start))
    }

    /// Takes what happened.
    pub fn take(&mut self, event: &Event<'_>, sink: &mut impl Sink) {
        let time = self.time(event.time);
        if !matches!(event.what, What::Exec { .. } | What::RequestEnd { .. }) {
            self.appear(event, time, sink);
        }
        match event.what {
            What::Enter { number, args, items } => self.enter(event.thread, number, args, &items, time, sink),
            What::Exit { number, result, late, items } => {
                let seen = Seen { number, result, late, items };
                self.exit(event.thread, &seen, time, sink);
            }
            What::Fork { child, flags } => self.fork(event, child, flags, sink),
            What::Exec { old, new } => {
                if old != new {
                    self.end(new, time, sink);
                }
                if let Some(traced) = self.threads.remove(&old) {
                    self.threads.insert(new, traced);
                }
            }
            What::Fault { done, address, pages, in_call, is_write } => {
                let fault = Fault { enter: time, leave: self.time(done), address, in_call, is_write };
                self.fault(event.thread, fault, pages, sink);
            }
            What::Ring { ring } => self.name_ring(event.thread, ring),
            What::Request { request, ring, opcode, entry, items } => {
                self.request(event.thread, &Taken { request, ring, opcode, entry, items }, time, sink);
            }
            What::RequestRefused => self.refused(event.thread),
            What::RequestEnd { request, result } => self.request_end(request, result, time, sink),
            What::End => self.end(event.thread, time, sink),
        }
    }

    /// Ends all calls and requests that are still under way.
    pub fn finish(&mut self, clock: u64, sink: &mut impl Sink) {
        let time = self.time(clock);
        self.end_requests(time, sink);
        let threads: Vec<u32> = self.threads.keys().copied().collect();
        threads.into_iter().for_each(|thread| self.end(thread, time, sink));
    }

    /// A thread of which no event has told.
    fn appear(&mut self, event: &Event<'_>, time: Time, sink: &mut impl Sink) {
        if self.threads.contains_key(&event.thread) {
            return;
        }
        sink.warning(WarningKind::ThreadAppeared, 1, time, format!("thread {}", event.thread));
        if !self.processes.contains_key(&event.process) {
            self.add_process(event.process, PathBytes::default(), 0o022, sink);
        }
        self.add_thread(event.thread, event.process, Word::default(), sink);
    }

    fn new_process(&mut self, process: Process, maps: Spans<()>, places: Places, sink: &mut impl Sink) -> ProcessId {
        let id = ProcessId(self.process_count);
        self.process_count += 1;
        sink.process(id, &process);
        self.processes.insert(process.pid, Owner { id, maps, places });
        id
    }

    fn new_thread(
        &mut self,
        tid: u32,
        pid: u32,
        parent: Option<ThreadId>,
        name: Word,
        sink: &mut impl Sink,
    ) -> ThreadId {
        let id = ThreadId(self.thread_count);
        self.thread_count += 1;
        self.alive += 1;
        let process = self.processes[&pid].id;
        sink.thread(id, &Thread { tid, process, parent, name });
        let (faults, last) = (Faults::default(), Time(0));
        let traced =
            Traced { id, process: pid, pending: None, child: None, seen: false, faults, last, requests: 0, ring: None };
        self.threads.insert(tid, traced);
        id
    }

    fn fork(&mut self, event: &Event<'_>, child: u32, flags: u64, sink: &mut impl Sink) {
        let parent = self.threads[&event.thread].id;
        let pid = if flags & libc::CLONE_THREAD as u64 != 0 { event.process } else { child };
        if pid == child {
            let owner = &self.processes[&self.threads[&event.thread].process];
            let (maps, places) = (owner.maps.clone(), owner.places.clone());
            let process = Process { pid, parent: Some(parent), cwd: PathBytes::default(), umask: 0 };
            self.new_process(process, maps, places, sink);
        }
        let id = self.new_thread(child, pid, Some(parent), Word::default(), sink);
        if let Some(traced) = self.threads.get_mut(&event.thread) {
            traced.child = Some(id);
        }
    }

    fn enter(&mut self, tid: u32, number: u32, args: [u64; 6], items: &Items<'_>, time: Time, sink: &mut impl Sink) {
        let Some(spec) = self.specs.get(number as usize).copied().flatten() else { return };
        let Some(traced) = self.threads.get_mut(&tid) else { return };
        traced.seen = true;
        traced.settle_faults(Some(time), sink);
        let again = |pending: &Pending| {
            let same = pending.spec.number == number && pending.args == args;
            pending.interrupted.is_some() && (same || i64::from(number) == libc::SYS_restart_syscall)
        };
        if let Some(pending) = traced.pending.as_mut().filter(|pending| again(pending)) {
            pending.interrupted = None;
            sink.warning(WarningKind::Restarted, 1, time, pending.spec.name().to_string());
            return;
        }
        let pending = Pending { spec, args, entry: OwnedItems::of(items), enter: time, interrupted: None };
        let owner = self.processes.get(&traced.process);
        if let Some(owner) = owner.filter(|_| pending.names_files()) {
            pending.touch(&owner.places, sink);
        }
        if let Some(before) = traced.pending.replace(pending) {
            self.abandon(tid, before, time, sink);
        }
    }

    /// A call whose end was not seen, or that was interrupted and not begun again.
    fn abandon(&mut self, tid: u32, pending: Pending, time: Time, sink: &mut impl Sink) {
        let (leave, outcome) = match pending.interrupted {
            Some(interrupted) => (interrupted, Outcome::Failed(Errno::EINTR)),
            None => {
                sink.warning(WarningKind::LostEvents, 1, time, format!("end of {}", pending.spec.name()));
                (time, Outcome::Unknown)
            }
        };
        self.act(tid, &pending, leave, outcome, Items::default(), sink);
    }

    fn exit(&mut self, tid: u32, seen: &Seen<'_>, time: Time, sink: &mut impl Sink) {
        let Some(traced) = self.threads.get_mut(&tid) else { return };
        traced.settle_faults(None, sink);
        let Some(mut pending) = traced.pending.take() else {
            let is_child = FORKS.contains(&i64::from(seen.number)) && seen.result == 0;
            if traced.seen && !is_child {
                sink.warning(WarningKind::ResumedWithoutStart, 1, time, format!("call {}", seen.number));
            }
            return;
        };
        if RESTARTS.contains(&seen.result) {
            pending.interrupted = Some(time);
            traced.pending = Some(pending);
            return;
        }
        let exit = if seen.late {
            pending.entry = OwnedItems::of(&seen.items);
            Items::default()
        } else {
            seen.items
        };
        let outcome = match u16::try_from(-seen.result) {
            Ok(errno @ 1..=4095) => Outcome::Failed(Errno(errno)),
            _ => Outcome::Done(seen.result),
        };
        self.act(tid, &pending, time, outcome, exit, sink);
    }

    /// The thread is no more.
    fn end(&mut self, tid: u32, time: Time, sink: &mut impl Sink) {
        let pending = self.threads.get_mut(&tid).and_then(|traced| {
            traced.settle_faults(None, sink);
            traced.pending.take()
        });
        if let Some(pending) = pending {
            let (leave, outcome) = match pending.interrupted {
                Some(interrupted) => (interrupted, Outcome::Failed(Errno::EINTR)),
                None => (time, Outcome::Unknown),
            };
            self.act(tid, &pending, leave, outcome, Items::default(), sink);
        }
        if let Some(traced) = self.threads.remove(&tid) {
            self.alive -= 1;
            let last = self.threads.values().all(|other| other.process != traced.process);
            if last {
                self.processes.remove(&traced.process);
            }
        }
    }

    fn act(
        &mut self,
        tid: u32,
        pending: &Pending,
        leave: Time,
        outcome: Outcome,
        exit: Items<'_>,
        sink: &mut impl Sink,
    ) {
        let Some(traced) = self.threads.get_mut(&tid) else { return };
        let result = match outcome {
            Outcome::Done(value) => Some(value),
            Outcome::Failed(errno) => Some(-i64::from(errno.0)),
            Outcome::Unknown => None,
        };
        let mut call = pending.raw(exit, result).decode().unwrap_or_else(|kind| {
            sink.warning(kind, 1, pending.enter, pending.spec.name().to_string());
            Call::Other { name: Word::from(pending.spec.name()) }
        });
        if let Call::Clone { child, .. } = &mut call {
            *child = traced.child.take();
        }
        let (thread, pid) = (traced.id, traced.process);
        traced.last = leave;
        call = self.without_requests(tid, call, outcome);
        if i64::from(pending.spec.number) == libc::SYS_futex && !wakes(&call, outcome) {
            return;
        }
        if let Some(owner) = self.processes.get_mut(&pid) {
            if !is_of_files(&mut owner.maps, &call, outcome) {
                return;
            }
            owner.places.follow(&call, outcome, |path| sink.resolved(path));
            if let (Call::ReadDir { fd, .. }, Some(1..)) = (&call, outcome.value())
                && let Some(path) = owner.places.path(*fd)
            {
                sink.listed(path);
            }
        }
        self.warn_of_unseen(pid, &call, outcome, pending.enter, sink);
        let action = Action { thread, enter: pending.enter, leave, call, outcome };
        sink.action(&action);
        self.follow_rings(tid, pending, &action, sink);
    }

    /// A page fault of which the file is known. Others are of a program's own file, which `execve` maps, or older than
    /// the trace.
    fn fault(&mut self, tid: u32, fault: Fault, [first, last]: [u64; 2], sink: &mut impl Sink) {
        let Some(traced) = self.threads.get_mut(&tid) else { return };
        let found = self.processes.get(&traced.process).and_then(|owner| owner.maps.find(fault.address));
        if found.is_some_and(|((), offset)| (first..=last).contains(&(offset / PAGE)))
            && let Some(before) = traced.faults.take(fault)
        {
            traced.tell_fault(before, sink);
        }
    }
}

impl Traced {
    /// Tells faults that are still kept, before the call that began at `entered` or else the one under way.
    fn settle_faults(&mut self, entered: Option<Time>, sink: &mut impl Sink) {
        let call = entered.or(self.pending.as_ref().map(|pending| pending.enter));
        for fault in self.faults.take_all(call) {
            self.tell_fault(fault, sink);
        }
    }

    fn tell_fault(&self, fault: Fault, sink: &mut impl Sink) {
        let Fault { enter, leave, is_write, .. } = fault;
        let (address, len) = (fault.address & !(PAGE - 1), PAGE);
        let call = if is_write { Call::PageWrite { address, len } } else { Call::PageFault { address, len } };
        sink.action(&Action { thread: self.id, enter, leave, call, outcome: Outcome::Done(0) });
    }
}

/// What was told of the end of a call.
struct Seen<'a> {
    number: u32,
    result: i64,
    late: bool,
    items: Items<'a>,
}

/// Whether a call about memory is about a mapped file. Others are none of a trace's business.
fn is_of_files(maps: &mut Spans<()>, call: &Call, outcome: Outcome) -> bool {
    match *call {
        Call::Map { fd, len, offset, flags, .. } => {
            let is_file = fd != Fd(-1) && !flags.contains(MapFlags::MAP_ANONYMOUS);
            match outcome.value() {
                Some(address) if is_file => drop(maps.add(address as u64, len, offset, ())),
                // What has no file may lie over a part that had.
                Some(address) => drop(maps.remove(address as u64, len)),
                None => {}
            }
            is_file
        }
        Call::Unmap { address, len } => !maps.remove(address, len).is_empty(),
        Call::Remap { address, len, new_len } => {
            let known = maps.find(address).map(|((), offset)| offset);
            if let (Some(new), Some(offset)) = (outcome.value(), known) {
                maps.remove(address, len);
                maps.add(new as u64, new_len, offset, ());
            }
            known.is_some()
        }
        Call::Exec { .. } => {
            if outcome.value().is_some() {
                *maps = Spans::default();
            }
            true
        }
        Call::MapSync { address, len, .. } | Call::MapAdvise { address, len, .. } => maps.has(address, len),
        _ => true,
    }
}

#[cfg(test)]
mod tests;
