//! A file system of ours as a target, in virtual time: traced calls become calls of [`esker_fs_posix`].
//!
//! Threads of the trace are tasks of one simulated world, its clock is theirs, and each call is charged the CPU time
//! that such a call takes ([`costs`]). What a device below the file system takes comes on top by itself. So a replay
//! tells how long a program takes on this file system, in the process itself: no kernel and no mount lies between.
//!
//! All traced processes are one process here. The rules of the kernel as target ([`crate::kernel`]) hold: slots stand
//! for descriptors, paths begin at the root of the file system, and what lies outside it is not called. Three things
//! differ. Pipes carry numbers of bytes, no bytes. Devices are told by their numbers. Memory files and shared memory
//! lie on a file system in memory of their own.
//!
//! Reading order: this file, [`costs`], `slots`, `pipes`, `words` (the trace's words as those of our calls). Then one
//! file for each family of calls, `tree` (the initial tree and the last one), [`simulate`] (whole runs).

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use esker_base::{Errno, Spans, Stream};
use esker_fs_posix::{Follow, OpenFlags, Process, Where};
use esker_rt::Rt;
use esker_trace_calls::call::Family;
use esker_trace_calls::words::FileKind;
use esker_trace_calls::{At, Call, Fd, Object, Platform};
use esker_trace_order::compiled::{Opened, Program, SlotEffect};

use crate::answer::{Answer, Skip, Unanswered, as_traced, is_circumstance, is_of_other_systems};
use crate::buffers::Buffers;
use crate::kernel::{ExchangeBy, Pipes, Turn};
use crate::tally::Tally;

pub mod costs;
mod data;
mod descriptors;
mod mac;
mod maps;
mod meta;
mod names;
mod pipes;
mod requests;
pub mod simulate;
mod slots;
#[cfg(test)]
mod tests;
mod tree;
mod words;

pub use costs::{CallCost, CallCosts};
pub use simulate::{SimulateError, SimulateOptions, simulate};

use pipes::Fifos;
use slots::{OpenSlot, SlotTable, What};

/// Why a call gave no result.
type Fail = Unanswered<Errno>;
/// What a family of calls gives.
type Reply = Result<i64, Fail>;

/// What all traces of a run share: the file system, and what stands in for the rest of a machine.
pub(crate) struct Shared {
    rt: Rt,
    /// The one process of all traces. It is the superuser, in the root directory, without an umask.
    process: Process,
    /// Memory files, and shared memory by name.
    memory: Process,
    fifos: Fifos,
    costs: Rc<CallCosts>,
    exchange: ExchangeBy,
    seed: u64,
}

/// One trace on the file system, for all of its threads.
pub(crate) struct Files {
    shared: Rc<Shared>,
    slots: SlotTable,
    /// What is mapped, by process and address.
    maps: RefCell<BTreeMap<u32, Spans<Rc<OpenSlot>>>>,
    requests: requests::Requests,
    pipes: Pipes,
    platform: Platform,
    tally: Arc<Tally>,
}

/// What one thread of a replay has for itself.
pub(crate) struct FilesExecutor {
    files: Rc<Files>,
    buffers: Buffers,
    seen: Option<(FileKind, u64)>,
    /// Bytes that the call moved, which are charged.
    moved: u64,
    /// Permissions of the file whose access list a process asked for last.
    lists_asked: BTreeMap<u32, u16>,
}

/// What a call is about, and what keeps it open meanwhile.
struct Place<'a> {
    at: Where<'a>,
    process: Process,
    _slot: Option<Rc<OpenSlot>>,
}

const LOST: &str = "descriptors that were open before the trace could not be opened: their calls were not made";

impl Files {
    /// A trace that begins on the tree of `shared`, with what was open before.
    pub(crate) async fn new(shared: Rc<Shared>, program: &Program, pipes: Pipes, tally: Arc<Tally>) -> Rc<Files> {
        let files = Rc::new(Files {
            slots: SlotTable::new(program.slots().len()),
            maps: RefCell::default(),
            requests: requests::Requests::default(),
            pipes,
            platform: program.about().platform,
            tally,
            shared,
        });
        let mut groups: BTreeMap<u32, Rc<OpenSlot>> = BTreeMap::new();
        for one in program.opened() {
            let slot = match groups.get(&one.group).filter(|_| one.group > 0).cloned() {
                Some(slot) => slot,
                None => Rc::new(files.open_before(one).await),
            };
            groups.insert(one.group, slot.clone());
            files.slots.put(one.slot, slot);
        }
        files
    }

    /// Opens what was open before the first action: files by their path; all else is outside.
    async fn open_before(&self, one: &Opened) -> OpenSlot {
        let Some(path) = &one.path else { return OpenSlot::outside() };
        if !matches!(one.kind, FileKind::Regular | FileKind::Directory | FileKind::CharDevice) {
            return OpenSlot::outside();
        }
        let made = OpenFlags::CREAT | OpenFlags::EXCL | OpenFlags::TRUNC;
        let flags = words::open(one.flags).difference(made);
        let opened = self.open_what(&self.shared.process, Where::Path(path), flags, 0).await;
        let opened = match opened {
            Ok(What::File(file)) if one.offset > 0 && !flags.contains(OpenFlags::PATH) => {
                let to = file.process().seek(file.fd(), one.offset as i64, esker_fs_posix::Whence::Set).await;
                to.map(|_| What::File(file))
            }
            other => other,
        };
        opened.map(OpenSlot::of).unwrap_or_else(|_| {
            self.tally.add(LOST);
            OpenSlot::outside()
        })
    }
}

impl FilesExecutor {
    /// For thread number `thread`.
    pub(crate) fn new(files: Rc<Files>, thread: u32) -> FilesExecutor {
        let random = Stream::named(files.shared.seed, &format!("replay thread {thread}"));
        FilesExecutor::with_bytes_of(files, random)
    }

    /// For an actor that writes the bytes of a stream.
    fn with_bytes_of(files: Rc<Files>, random: Stream) -> FilesExecutor {
        let buffers = Buffers::new(random);
        FilesExecutor { files, buffers, seen: None, moved: 0, lists_asked: BTreeMap::new() }
    }

    /// Copies what a new process has of its parent.
    pub(crate) fn prepare(&self, turn: &Turn<'_>) {
        for effect in &turn.step.slots {
            if let SlotEffect::Copied { from, to } = effect
                && let Ok(slot) = self.files.slots.get(*from)
            {
                self.files.slots.put(*to, slot);
            }
        }
    }

    /// Makes the call and charges it.
    pub(crate) async fn perform(&mut self, turn: &Turn<'_>) -> Answer {
        (self.seen, self.moved) = (None, 0);
        let reply = match turn.step {
            step if is_circumstance(step) => Err(Fail::Skip(Skip::Circumstance)),
            step if is_of_other_systems(step) => Err(Fail::Skip(Skip::OtherSystems)),
            _ => self.dispatch(turn).await,
        };
        let (result, skipped) = match reply {
            Ok(value) => (Ok(value), None),
            Err(Fail::Errno(errno)) => (Err(errno), None),
            Err(Fail::Skip(skip)) => {
                self.files.tally.add(skip.text());
                (as_traced(turn.step), Some(skip))
            }
        };
        if skipped.is_none() {
            self.charge(&turn.step.call).await;
        }
        self.apply_slot_effects(turn, result.is_ok(), skipped.is_some()).await;
        Answer { result, seen: self.seen, skipped, call_ns: None }
    }

    /// Takes the time of the call on a simulated CPU. Others go on meanwhile.
    async fn charge(&self, call: &Call) {
        let shared = &self.files.shared;
        shared.rt.charge(shared.costs.of(call, self.moved));
        shared.rt.yield_now().await;
    }

    async fn dispatch(&mut self, turn: &Turn<'_>) -> Reply {
        match turn.step.call.family() {
            Family::Data => self.data(turn).await,
            Family::Metadata => self.meta(turn).await,
            Family::Names => self.names(turn).await,
            Family::Descriptors => self.descriptors(turn).await,
            Family::Maps => self.maps(turn).await,
            Family::Asynchronous => self.asynchronous(turn).await,
            Family::Mac => self.mac(turn).await,
            Family::Processes => self.processes(turn).await,
        }
    }

    /// What a call does to slots beside what it did itself.
    async fn apply_slot_effects(&self, turn: &Turn<'_>, succeeded: bool, skipped: bool) {
        for effect in &turn.step.slots {
            match effect {
                // What this call closed itself is closed already.
                SlotEffect::Closed(slot) => drop(self.files.slots.close(*slot).await),
                SlotEffect::Made(slot) if succeeded && skipped => {
                    self.files.slots.put(*slot, Rc::new(OpenSlot::outside()));
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

    /// Keeps what was opened in the slot for it; without one the trace had none, and it is closed.
    fn keep(&self, turn: &Turn<'_>, slot: OpenSlot) -> i64 {
        if let Some(made) = Self::made(turn).next() {
            self.files.slots.put(made, Rc::new(slot));
        }
        0
    }

    /// What is open in a slot, if it belongs to the tree.
    fn inside(&self, fd: Fd) -> Result<Rc<OpenSlot>, Fail> {
        let slot = self.files.slots.get(fd)?;
        if matches!(slot.what, What::Outside) { Err(Fail::Skip(Skip::Outside)) } else { Ok(slot) }
    }

    /// Where a path of a call leads. Working directories were worked in; an unknown one is the root.
    fn at<'a>(&self, at: &'a At) -> Result<Place<'a>, Fail> {
        if let Some(fd) = at.descriptor() {
            return self.itself(fd);
        }
        if at.path.starts_with(b"/") || at.dir == Fd::CWD {
            let process = self.files.shared.process.clone();
            return Ok(Place { at: Where::Path(&at.path), process, _slot: None });
        }
        let slot = self.files.slots.get(at.dir)?;
        let What::File(file) = &slot.what else { return Err(Errno::ENOTDIR.into()) };
        // `AT_EMPTY_PATH` names the directory itself.
        let place = if at.path.is_empty() { Where::Itself(file.fd()) } else { Where::At(file.fd(), &at.path) };
        let process = file.process().clone();
        Ok(Place { at: place, process, _slot: Some(slot) })
    }

    /// A descriptor itself, which may be a mere place.
    fn itself(&self, fd: Fd) -> Result<Place<'static>, Fail> {
        let slot = self.inside(fd)?;
        let file = slot.file()?;
        let (at, process) = (Where::Itself(file.fd()), file.process().clone());
        Ok(Place { at, process, _slot: Some(slot) })
    }

    /// What a call is about, for calls that take a descriptor as it was opened.
    fn object<'a>(&self, object: &'a Object) -> Result<(Place<'a>, Follow), Fail> {
        match object {
            Object::Fd(fd) => {
                let slot = self.inside(*fd)?;
                let file = slot.file()?;
                let (at, process) = (Where::Fd(file.fd()), file.process().clone());
                Ok((Place { at, process, _slot: Some(slot) }, Follow::Links))
            }
            Object::Path { at, follow } => Ok((self.at(at)?, if *follow { Follow::Links } else { Follow::Nothing })),
        }
    }
}
