//! The kernel as a target: traced calls become system calls on the run directory.
//!
//! Processes of the trace are replayed by threads of one process. Each has its own descriptors, because a slot stands
//! for a generation of a descriptor of one process; a fork copies handles, not descriptors. Working directories and
//! masks of permission bits were worked in when the trace was compiled. Files are mapped as in the trace, in the one
//! memory of the replay, and nothing but recorded page faults touches them.
//!
//! What has no safe form is replaced by the nearest call that has: `MAP_POPULATE` is a read into the page cache,
//! `msync` writes the range back, asynchronous requests are made by threads of a pool, `execve` reads the head of the
//! program's file, record locks are asked for by the whole process. Calls on what lies outside the tree (sockets,
//! terminals, timers, other processes) are not made: their results are taken from the trace.
//!
//! Reading order: this file, [`slots`], then one file for each family of calls.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use esker_base::Stream;
use esker_trace_calls::call::Family;
use esker_trace_calls::words::FileKind;
use esker_trace_calls::{At, Call, Errno as Traced, Fd, Object, Platform};
use esker_trace_order::compiled::{SlotEffect, Step};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use crate::answer::{Unanswered, as_traced, is_circumstance, is_of_other_systems};
use crate::buffers::Buffers;
use crate::privilege;
use crate::root::{Base, Cache, ParentDir, Root, proc_path};
use crate::special::Specials;
use crate::tally::Tally;

mod acl;
mod aio;
mod copying;
mod cost;
mod data;
mod fds;
mod flags;
mod mac;
mod maps;
mod meta;
mod names;
mod others;
mod slots;
mod start;
#[cfg(test)]
mod tests;

pub use crate::answer::{Answer, Skip};
use cost::Stopwatch;
pub use cost::sharing_ns;
use slots::Handle;
pub use slots::{Nature, Slots};

/// What `fsync` means on the target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FsyncMeans {
    /// On stable storage.
    Durable,
    /// With the device, which may hold it in a volatile cache.
    Device,
}

/// How two files are exchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExchangeBy {
    /// A link and two renames, as the original did.
    Link,
    /// One atomic rename.
    Rename,
}

/// The choices of a target.
#[derive(Clone, Copy, Debug)]
pub struct KernelOptions {
    /// What `fsync` means.
    pub fsync: FsyncMeans,
    /// How files are exchanged.
    pub exchange: ExchangeBy,
    /// Where the trace is from.
    pub platform: Platform,
    /// Whether calls may set set-id bits and attributes outside of `user.`.
    pub keep_modes: bool,
    /// Seed of what is written.
    pub seed: u64,
}

/// What a script does with pipes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pipes {
    /// Whether a name of the trace may be a FIFO.
    pub named: bool,
    /// Bytes that are written before the pipe had room for them, at most at one time.
    pub early: usize,
}

/// One call to be made.
#[derive(Clone, Copy, Debug)]
pub struct Turn<'a> {
    /// The process that makes it.
    pub process: u32,
    /// The call, with slots for descriptors.
    pub step: &'a Step,
}

/// The kernel, for all threads of a replay.
pub struct Kernel {
    root: Arc<Root>,
    shm: OwnedFd,
    specials: Specials,
    slots: Slots,
    maps: maps::Maps,
    aio: aio::Pool,
    pipes: Pipes,
    options: KernelOptions,
    /// Numbers of temporary names.
    temporary: AtomicU64,
    /// What was done otherwise than traced.
    pub tally: Arc<Tally>,
}

/// What one thread of a replay has for itself.
pub struct CallExecutor<'a> {
    kernel: &'a Kernel,
    cache: Cache,
    buffers: Buffers,
    scratch: Vec<u8>,
    seen: Option<(FileKind, u64)>,
    watch: Stopwatch,
    /// Permissions of the file whose access list a process asked for last.
    lists_asked: BTreeMap<u32, u16>,
    /// What the next call will ask for first.
    ready: Cell<Option<(Fd, Arc<Handle>)>>,
}

/// What a call is about, opened.
enum Target {
    /// Through a traced descriptor.
    Open(Arc<Handle>),
    /// By name: a handle without access.
    Named(OwnedFd),
}

impl AsFd for Target {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        match self {
            Target::Open(handle) => handle.as_fd(),
            Target::Named(fd) => fd.as_fd(),
        }
    }
}

impl<'a> CallExecutor<'a> {
    /// For thread number `thread`.
    pub fn new(kernel: &'a Kernel, thread: u32) -> CallExecutor<'a> {
        let random = Stream::named(kernel.options.seed, &format!("replay thread {thread}"));
        CallExecutor {
            kernel,
            cache: Cache::empty(),
            buffers: Buffers::new(random),
            scratch: Vec::new(),
            seen: None,
            watch: Stopwatch::default(),
            lists_asked: BTreeMap::new(),
            ready: Cell::new(None),
        }
    }

    /// Times the system calls of frequent calls themselves: what is paced needs it.
    pub fn timed(mut self) -> CallExecutor<'a> {
        self.watch = Stopwatch::on();
        self
    }

    /// Makes room for transfers of so many bytes, so that no call waits for it.
    pub fn make_room(&mut self, read: u64, write: u64) {
        self.buffers.room_to_read(read);
        if write > 0 {
            self.buffers.bytes_to_write(write);
        }
    }

    /// Gets ready for a call: copies what a new process has of its parent, and looks up the descriptor of frequent
    /// calls.
    pub fn prepare(&self, turn: &Turn<'_>) {
        let slots = &self.kernel.slots;
        for effect in &turn.step.slots {
            if let SlotEffect::Copied { from, to } = effect
                && let Ok(handle) = slots.get(*from)
            {
                slots.put(*to, handle);
            }
        }
        let ready = frequent(&turn.step.call).and_then(|fd| Some((fd, slots.get(fd).ok()?)));
        self.ready.set(ready);
    }

    /// Makes the call, for which [`CallExecutor::prepare`] got ready.
    pub fn perform(&mut self, turn: &Turn<'_>) -> Answer {
        self.seen = None;
        let reply = match turn.step {
            step if is_circumstance(step) => Err(Fail::Skip(Skip::Circumstance)),
            step if is_of_other_systems(step) => Err(Fail::Skip(Skip::OtherSystems)),
            _ => self.dispatch(turn),
        };
        let (result, skipped) = match reply {
            Ok(value) => (Ok(value), None),
            Err(Fail::Errno(errno)) => (Err(traced(errno)), None),
            Err(Fail::Skip(skip)) => {
                self.kernel.tally.add(skip.text());
                (as_traced(turn.step), Some(skip))
            }
        };
        self.ready.set(None);
        self.apply_slot_effects(turn, result.is_ok(), skipped.is_some());
        Answer { result, seen: self.seen, skipped, call_ns: self.watch.taken() }
    }

    fn dispatch(&mut self, turn: &Turn<'_>) -> Reply {
        match turn.step.call.family() {
            Family::Data => self.data(turn),
            Family::Metadata => self.meta(turn),
            Family::Names => self.names(turn),
            Family::Descriptors => self.fds(turn),
            Family::Maps => self.maps(turn),
            Family::Asynchronous => self.asynchronous(turn),
            Family::Mac => self.mac(turn),
            Family::Processes => self.others(turn),
        }
    }

    /// What a call does to slots beside what it did itself: descriptors that it closed, and, if it was not made, things
    /// outside for those that it made, so that they can be closed and doubled.
    fn apply_slot_effects(&self, turn: &Turn<'_>, succeeded: bool, skipped: bool) {
        let slots = &self.kernel.slots;
        for effect in &turn.step.slots {
            match effect {
                // What this call closed itself is closed already.
                SlotEffect::Closed(slot) => drop(slots.close(*slot)),
                SlotEffect::Made(slot) if succeeded && skipped => {
                    if let Ok(handle) = self.outside() {
                        slots.put(*slot, handle);
                    }
                }
                SlotEffect::Made(_) | SlotEffect::Copied { .. } => {}
            }
        }
    }

    /// The slots of the descriptors that the call made in the trace, in the order in which it tells them.
    fn made(turn: &Turn<'_>) -> impl Iterator<Item = Fd> {
        turn.step.slots.iter().filter_map(|effect| match effect {
            SlotEffect::Made(slot) => Some(*slot),
            _ => None,
        })
    }

    /// Keeps a new descriptor in the slot for it; without one the trace had none, and it is closed.
    fn keep(&self, turn: &Turn<'_>, handle: Arc<Handle>) -> i64 {
        if let Some(slot) = Self::made(turn).next() {
            self.kernel.slots.put(slot, handle);
        }
        0
    }

    /// A descriptor for something outside.
    fn outside(&self) -> Result<Arc<Handle>, Errno> {
        let flags = rustix::event::EventfdFlags::CLOEXEC;
        Ok(self.kernel.slots.handle(rustix::event::eventfd(0, flags)?, Nature::Outside))
    }

    /// The permissions for a file that has those `traced`.
    fn mode(&self, traced: u16) -> Mode {
        let (mode, masked) = privilege::permitted(traced, self.kernel.options.keep_modes);
        if masked {
            self.kernel.tally.add(privilege::MODES);
        }
        mode
    }

    /// What is open in a slot.
    fn fd(&self, fd: Fd) -> Result<Arc<Handle>, Fail> {
        if let Some((ready, handle)) = self.ready.take()
            && ready == fd
        {
            return Ok(handle);
        }
        Ok(self.kernel.slots.get(fd)?)
    }

    /// What is open in a slot, if it belongs to the tree.
    fn inside(&self, fd: Fd) -> Result<Arc<Handle>, Fail> {
        let handle = self.fd(fd)?;
        if handle.nature == Nature::Outside { Err(Fail::Skip(Skip::Outside)) } else { Ok(handle) }
    }

    /// Where the relative path of `at` starts.
    fn start(&self, at: &At) -> Result<Option<Arc<Handle>>, Fail> {
        match at.dir {
            _ if at.path.starts_with(b"/") => Ok(None),
            // Working directories were worked in; an unknown one is the root.
            Fd::CWD => Ok(None),
            fd => self.fd(fd).map(Some),
        }
    }

    /// The directory of the last component of `at`, and that component.
    fn place(&mut self, at: &At) -> Result<ParentDir, Fail> {
        let start = self.start(at)?;
        Ok(self.kernel.root.place(&mut self.cache, base(start.as_deref()), &at.path)?)
    }

    /// A handle without access on what `at` names.
    fn named(&self, at: &At, follow: bool) -> Result<OwnedFd, Fail> {
        let flags = if follow { OFlags::PATH } else { OFlags::PATH | OFlags::NOFOLLOW };
        self.open_at(at, flags, Mode::empty())
    }

    /// Opens what `at` names: by its path in the tree, or anew what a descriptor is open on.
    fn open_at(&self, at: &At, flags: OFlags, mode: Mode) -> Result<OwnedFd, Fail> {
        if let Some(fd) = at.descriptor() {
            let handle = self.inside(fd)?;
            // The link that leads there lies outside the tree: a trace has no say in whether it is followed.
            let flags = (flags - OFlags::NOFOLLOW) | OFlags::CLOEXEC;
            return Ok(rustix::fs::open(proc_path(&*handle), flags, mode)?);
        }
        let start = self.start(at)?;
        Ok(self.kernel.root.open_at(base(start.as_deref()), &at.path, flags, mode)?)
    }

    fn target(&self, object: &Object) -> Result<Target, Fail> {
        match object {
            Object::Fd(fd) => self.inside(*fd).map(Target::Open),
            // `AT_EMPTY_PATH` names the directory itself.
            Object::Path { at, .. } if at.path.is_empty() && at.dir != Fd::CWD => self.inside(at.dir).map(Target::Open),
            Object::Path { at, follow } => self.named(at, *follow).map(Target::Named),
        }
    }
}

/// Why a call gave no result.
type Fail = Unanswered<Errno>;
/// What a family of calls gives.
type Reply = Result<i64, Fail>;

/// The same error under the trace's name.
fn traced(errno: Errno) -> Traced {
    Traced(u16::try_from(errno.raw_os_error()).unwrap_or(u16::MAX))
}

/// A count of bytes as a result.
fn bytes(count: usize) -> Reply {
    Ok(count as i64)
}

/// No more than success.
fn done(_: ()) -> i64 {
    0
}

/// The descriptor of calls of which programs make many and which never close it.
fn frequent(call: &Call) -> Option<Fd> {
    match call {
        Call::Read { fd, .. }
        | Call::Write { fd, .. }
        | Call::Pread { fd, .. }
        | Call::Pwrite { fd, .. }
        | Call::Seek { fd, .. }
        | Call::Sync { fd, .. }
        | Call::MapTouch { fd, .. }
        | Call::Stat { file: Object::Fd(fd), .. } => Some(*fd),
        _ => None,
    }
}

/// Where a path starts, for the root.
fn base(start: Option<&Handle>) -> Base<'_> {
    start.map_or(Base::Root, |handle| Base::Dir(handle.as_fd(), handle.number))
}
