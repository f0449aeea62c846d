//! Recording by ptrace: each recorded call of each thread stops at its beginning and its end.
//!
//! Slower than programs in the kernel by far, but it needs no privilege, misses no text, and sees files before calls
//! change them. A program that is stopped by job control goes on at once: a tracer that would leave it stopped needs a
//! request that the library does not have.

use std::collections::{BTreeMap, BTreeSet};

use nix::errno::Errno;
use nix::sys::ptrace::{self, Event as Stop, Options};
use nix::sys::signal::Signal;
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

use crate::assemble::{Assembler, Sink};
use crate::calls::{self, Item, Spec};
use crate::event::{Event, Items, What};
use crate::memory::{Pieces, read_items};

/// What the kernel has in the register of results when a call begins.
const NOT_YET: i64 = -(libc::ENOSYS as i64);
/// `PTRACE_EVENT_STOP`: a thread's first stop, one that was asked for, or one of job control.
const EVENT_STOP: i32 = 128;

/// The traced threads.
#[derive(Debug)]
pub struct Tracer {
    specs: Vec<Option<&'static Spec>>,
    filtered: bool,
    threads: BTreeMap<i32, Traced>,
    /// Threads that stopped before their maker was known.
    early: BTreeSet<i32>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Traced {
    process: u32,
    /// Number and arguments of the call under way.
    call: Option<(u32, [u64; 6])>,
    /// `CLONE_` flags of that call.
    flags: u64,
}

/// What a turn of [`Tracer::turn`] ended with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// Something happened.
    Busy,
    /// Nothing is there to be handled now.
    Idle,
    /// A process ended so.
    Ended(i32, Status),
    /// No thread is left.
    Done,
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// With this status.
    Exited(i32),
    /// By this signal.
    Killed(i32),
}

impl Tracer {
    /// Takes threads of one process. `filtered`: it executes its program through a filter that lets only recorded calls
    /// stop, and is ended if this process ends.
    ///
    /// # Errors
    /// If the kernel forbids it.
    pub fn seize(process: u32, threads: &[u32], filtered: bool) -> Result<Tracer, Errno> {
        let common = Options::PTRACE_O_TRACESYSGOOD
            | Options::PTRACE_O_TRACEFORK
            | Options::PTRACE_O_TRACEVFORK
            | Options::PTRACE_O_TRACECLONE
            | Options::PTRACE_O_TRACEEXEC;
        let options = match filtered {
            true => common | Options::PTRACE_O_TRACESECCOMP | Options::PTRACE_O_EXITKILL,
            false => common,
        };
        let mut tracer =
            Tracer { specs: calls::by_number(), filtered, threads: BTreeMap::new(), early: BTreeSet::new() };
        for tid in threads {
            let pid = Pid::from_raw(*tid as i32);
            ptrace::seize(pid, options)?;
            ptrace::interrupt(pid)?;
            tracer.threads.insert(*tid as i32, Traced { process, ..Traced::default() });
        }
        Ok(tracer)
    }

    /// Handles one stop, waiting for it unless told not to.
    pub fn turn(
        &mut self,
        wait: bool,
        clock: impl Fn() -> u64,
        assembler: &mut Assembler,
        sink: &mut impl Sink,
    ) -> Turn {
        let all = WaitPidFlag::__WALL | WaitPidFlag::__WNOTHREAD;
        let flags = if wait { all } else { all | WaitPidFlag::WNOHANG };
        let status = match waitpid(Pid::from_raw(-1), Some(flags)) {
            Ok(status) => status,
            Err(Errno::EINTR) => return Turn::Idle,
            Err(_) => return Turn::Done,
        };
        let mut seen = Seen { time: clock(), assembler, sink };
        match status {
            WaitStatus::StillAlive => return Turn::Idle,
            WaitStatus::Exited(pid, code) => return self.ended(pid, Status::Exited(code), &mut seen),
            WaitStatus::Signaled(pid, signal, _) => return self.ended(pid, Status::Killed(signal as i32), &mut seen),
            WaitStatus::PtraceSyscall(pid) => self.stopped_at_call(pid, &mut seen),
            WaitStatus::PtraceEvent(pid, signal, event) => self.stopped_at_event(pid, signal, event, &mut seen),
            WaitStatus::Stopped(pid, signal) => self.go_on(pid, Some(signal)),
            WaitStatus::Continued(_) => {}
        }
        Turn::Busy
    }

    /// Lets all threads go on by themselves. The end of the tracer's thread would do so too, but later than a caller
    /// that waits for that end can know: until then the process' own parent sees stops that are none of its business.
    pub fn release(self) {
        let tids = self.threads.keys().chain(&self.early);
        for pid in tids.map(|tid| Pid::from_raw(*tid)) {
            // A thread that has ended needs nothing, here and below.
            if ptrace::interrupt(pid).is_err() {
                continue;
            }
            let signal = match waitpid(pid, Some(WaitPidFlag::__WALL | WaitPidFlag::__WNOTHREAD)) {
                Ok(WaitStatus::Stopped(_, signal)) => Some(signal),
                _ => None,
            };
            let _gone = ptrace::detach(pid, signal);
        }
    }

    fn ended(&mut self, pid: Pid, status: Status, seen: &mut Seen<'_, impl Sink>) -> Turn {
        self.early.remove(&pid.as_raw());
        let Some(traced) = self.threads.remove(&pid.as_raw()) else { return Turn::Busy };
        seen.record(pid, traced.process, What::End);
        if traced.process == pid.as_raw() as u32 { Turn::Ended(pid.as_raw(), status) } else { Turn::Busy }
    }

    /// Lets a thread run to the next stop that matters: the end of a call that is recorded, or the next call.
    fn go_on(&mut self, pid: Pid, signal: Option<Signal>) {
        let in_call = self.threads.get(&pid.as_raw()).is_some_and(|traced| traced.call.is_some());
        // A thread that is gone tells so with its next status.
        let _ = if self.filtered && !in_call { ptrace::cont(pid, signal) } else { ptrace::syscall(pid, signal) };
    }

    fn stopped_at_event(&mut self, pid: Pid, signal: Signal, event: i32, seen: &mut Seen<'_, impl Sink>) {
        match event {
            EVENT_STOP => {
                if !self.threads.contains_key(&pid.as_raw()) {
                    self.early.insert(pid.as_raw());
                    return;
                }
                return self.go_on(pid, None);
            }
            event if event == Stop::PTRACE_EVENT_SECCOMP as i32 => return self.stopped_at_call(pid, seen),
            event if event == Stop::PTRACE_EVENT_EXEC as i32 => self.executed(pid, seen),
            event if event == Stop::PTRACE_EVENT_FORK as i32 => self.forked(pid, 0, seen),
            event if event == Stop::PTRACE_EVENT_VFORK as i32 => {
                self.forked(pid, (libc::CLONE_VFORK | libc::CLONE_VM) as u64, seen);
            }
            event if event == Stop::PTRACE_EVENT_CLONE as i32 => {
                let flags = self.threads.get(&pid.as_raw()).map_or(0, |traced| traced.flags);
                self.forked(pid, flags, seen);
            }
            _ => {}
        }
        // Only a stop of an event itself has this signal; others are to be delivered.
        self.go_on(pid, Some(signal).filter(|signal| *signal != Signal::SIGTRAP));
    }

    fn executed(&mut self, pid: Pid, seen: &mut Seen<'_, impl Sink>) {
        let old = ptrace::getevent(pid).unwrap_or(pid.as_raw().into()) as i32;
        let Some(traced) = self.threads.remove(&old) else { return };
        self.threads.retain(|_, other| other.process != traced.process);
        self.threads.insert(pid.as_raw(), traced);
        seen.record(pid, traced.process, What::Exec { old: old as u32, new: pid.as_raw() as u32 });
    }

    fn forked(&mut self, pid: Pid, flags: u64, seen: &mut Seen<'_, impl Sink>) {
        let Ok(child) = ptrace::getevent(pid) else { return };
        let Some(parent) = self.threads.get(&pid.as_raw()).copied() else { return };
        let child = child as i32;
        let process = if flags & libc::CLONE_THREAD as u64 != 0 { parent.process } else { child as u32 };
        self.threads.insert(child, Traced { process, ..Traced::default() });
        seen.record(pid, parent.process, What::Fork { child: child as u32, flags });
        if self.early.remove(&child) {
            self.go_on(Pid::from_raw(child), None);
        }
    }

    /// The beginning or end of a call; which of them, the registers say.
    fn stopped_at_call(&mut self, pid: Pid, seen: &mut Seen<'_, impl Sink>) {
        if let (Ok(registers), Some(traced)) = (ptrace::getregs(pid), self.threads.get(&pid.as_raw()).copied()) {
            let number = registers.orig_rax as u32;
            let result = registers.rax as i64;
            match traced.call {
                Some((begun, args)) => self.call_ends(pid, traced, begun, args, result, seen),
                None if result == NOT_YET => {
                    let args = [registers.rdi, registers.rsi, registers.rdx, registers.r10, registers.r8, registers.r9];
                    self.call_begins(pid, traced, number, args, seen);
                }
                // The first stop of a new thread: the end of a call that it never made.
                None => {}
            }
        }
        self.go_on(pid, None);
    }

    fn call_begins(&mut self, pid: Pid, traced: Traced, number: u32, args: [u64; 6], seen: &mut Seen<'_, impl Sink>) {
        let spec = self.specs.get(number as usize).copied().flatten();
        let pieces = spec.map_or_else(Pieces::default, |spec| read_items(pid, spec.entry, &args, 0));
        let flags = match i64::from(number) {
            libc::SYS_clone => args[0],
            libc::SYS_clone3 => flags_of(&pieces),
            _ => 0,
        };
        self.threads.insert(pid.as_raw(), Traced { call: Some((number, args)), flags, ..traced });
        if spec.is_some() {
            seen.record(pid, traced.process, What::Enter { number, args, items: borrowed(&pieces) });
        }
    }

    fn call_ends(
        &mut self,
        pid: Pid,
        traced: Traced,
        number: u32,
        args: [u64; 6],
        result: i64,
        seen: &mut Seen<'_, impl Sink>,
    ) {
        self.threads.insert(pid.as_raw(), Traced { call: None, ..traced });
        let Some(spec) = self.specs.get(number as usize).copied().flatten() else { return };
        let exit: &[Item] = if result >= 0 { spec.exit } else { &[] };
        let pieces = read_items(pid, exit, &args, result);
        seen.record(pid, traced.process, What::Exit { number, result, late: false, items: borrowed(&pieces) });
    }
}

/// Where what is seen goes.
struct Seen<'a, S> {
    time: u64,
    assembler: &'a mut Assembler,
    sink: &'a mut S,
}

impl<S: Sink> Seen<'_, S> {
    fn record(&mut self, thread: Pid, process: u32, what: What<'_>) {
        let event = Event { time: self.time, thread: thread.as_raw() as u32, process, what };
        self.assembler.take(&event, self.sink);
    }
}

fn borrowed(pieces: &Pieces) -> Items<'_> {
    let mut items = Items::default();
    for (item, piece) in items.iter_mut().zip(pieces) {
        *item = piece.as_deref();
    }
    items
}

/// The first word of `struct clone_args`.
fn flags_of(pieces: &Pieces) -> u64 {
    let bytes = pieces[0].as_deref().and_then(|bytes| bytes.get(..8));
    bytes.map_or(0, |bytes| u64::from_le_bytes(bytes.try_into().expect("eight bytes")))
}
