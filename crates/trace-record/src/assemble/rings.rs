//! Requests of an io_uring, from the moment at which the kernel takes one to its end.
//!
//! A request becomes the action of a thread that the trace has for it, its *lane*. The requests of a lane do not
//! overlap, and a linked request is in the lane of the one before it. A new request takes the free lane whose last one
//! ended last, because a program mostly asks for more when something has ended. So a thread has as many lanes as it
//! ever had chains of requests under way at once, and a replay of the lanes has as many at once, too. A lane begins
//! with a `clone` of the thread that submits.
//!
//! A slot of a ring's table of files becomes a descriptor of its own, with a number that no process gives. A `dup`
//! makes it when the slot is filled, a `close` ends it when the slot is emptied.

use std::collections::BTreeMap;

use esker_base::Time;
use esker_trace_calls::words::CloneFlags;
use esker_trace_calls::{Action, Call, Errno, Fd, Outcome, ProcessId, Thread, ThreadId, WarningKind, Word};

use super::{Assembler, OwnedItems, Pending, Sink};
use crate::calls::requests::{self, ENTRY_BYTES, Entry, Meaning};

/// Slots become descriptors from this number down: above those of processes, and still one for those who read traces.
const SLOTS_FROM: i32 = (1 << 20) - 1;
/// `IORING_FILE_INDEX_ALLOC`, less one: the kernel chooses a slot, which is the result.
const ANY_SLOT: u32 = u32::MAX - 1;
/// Name of the threads that stand for requests.
const LANE: &str = "io_uring";
/// What requests are called that only wait.
const WAIT: &str = "io_uring_wait";

// `enum io_uring_register_op`; from the bit on up it has flags.
const REGISTER_FILES: u64 = 2;
const UNREGISTER_FILES: u64 = 3;
const UPDATE_FILES: u64 = 6;
const REGISTER_FILES2: u64 = 13;
const UPDATE_FILES2: u64 = 14;
const OPERATION: u64 = (1 << 31) - 1;
/// `IORING_RSRC_REGISTER_SPARSE`: all slots are empty.
const SPARSE: u32 = 1;
/// `IORING_REGISTER_FILES_SKIP`: the slot stays as it is.
const SKIP: i32 = -2;

/// All rings and requests of traced threads.
#[derive(Debug, Default)]
pub(super) struct Rings {
    /// Whether requests are told at all.
    pub(super) are_seen: bool,
    /// By their address in the kernel.
    rings: BTreeMap<u64, Ring>,
    /// Those under way.
    requests: BTreeMap<u64, Request>,
    /// By the thread that submits.
    lanes: BTreeMap<ThreadId, Vec<Lane>>,
    /// Descriptors that were made for slots.
    slots: i32,
}

#[derive(Debug, Default)]
struct Ring {
    /// The thread that made it, unless that was before the trace, and the descriptor.
    made: Option<(u32, Fd)>,
    /// Whether the kernel takes requests by itself.
    is_polled: bool,
    files: BTreeMap<u32, Fd>,
    /// The lane of the next request, if the last one was linked to it, by the thread that submits.
    chains: BTreeMap<u32, usize>,
    /// When a request ended last.
    ended: Time,
}

#[derive(Debug, Default)]
struct Lane {
    /// Once it has an action.
    thread: Option<ThreadId>,
    /// Requests that have not ended.
    waiting: u32,
    /// When one ended last.
    until: Time,
}

#[derive(Debug)]
struct Request {
    ring: u64,
    /// The thread that submitted it, and the process of that thread: the request may outlive both.
    thread: u32,
    process: ProcessId,
    lane: (ThreadId, usize),
    at: Time,
    /// When the last action of its thread before it ended.
    after: Time,
    entry: [u8; ENTRY_BYTES],
    items: OwnedItems,
    /// Its descriptors, as they were when it was taken.
    fds: (Fd, Option<Fd>),
    meaning: Meaning,
}

/// What was told of a request that was taken.
pub(super) struct Taken<'a> {
    pub(super) request: u64,
    pub(super) ring: u64,
    pub(super) opcode: u8,
    pub(super) entry: &'a [u8; ENTRY_BYTES],
    pub(super) items: [Option<&'a [u8]>; 2],
}

impl Assembler {
    /// From now on requests are told.
    pub fn see_requests(&mut self) {
        self.rings.are_seen = true;
    }

    /// The kernel took a request in thread `tid`.
    pub(super) fn request(&mut self, tid: u32, taken: &Taken<'_>, time: Time, sink: &mut impl Sink) {
        if let Some(ended) = self.rings.requests.remove(&taken.request) {
            // The kernel uses its place again.
            self.end_of(ended, None, time, sink);
        }
        let ring = self.rings.rings.entry(taken.ring).or_default();
        // A thread of the kernel's own takes them for the one that made the ring.
        let maker = ring.made.filter(|_| ring.is_polled).map(|(maker, _)| maker);
        let submitter = maker.filter(|maker| self.threads.contains_key(maker)).unwrap_or(tid);
        let Some(traced) = self.threads.get_mut(&submitter) else { return };
        let process = self.processes.get(&traced.process).map_or(ProcessId(0), |owner| owner.id);
        traced.requests += 1;
        let entry = Entry(taken.entry);
        let lanes = self.rings.lanes.entry(traced.id).or_default();
        let lane = ring.chains.remove(&tid).unwrap_or_else(|| free_lane(lanes));
        lanes[lane].waiting += 1;
        if entry.is_linked() {
            ring.chains.insert(tid, lane);
        }
        let slot = |slot: u32| ring.files.get(&slot).copied();
        let fd = if entry.is_fixed() { slot(entry.fd()) } else { Some(Fd(entry.fd() as i32)) };
        let from = entry.source_slot().map(slot);
        let mut meaning = if entry.opcode() == taken.opcode { entry.meaning() } else { Meaning::Unheld };
        if meaning == Meaning::Call && (fd.is_none() || from == Some(None)) {
            meaning = Meaning::Unheld;
        }
        let request = Request {
            ring: taken.ring,
            thread: submitter,
            process,
            lane: (traced.id, lane),
            at: time,
            after: traced.last,
            entry: *taken.entry,
            items: OwnedItems::of(&[taken.items[0], taken.items[1], None]),
            fds: (fd.unwrap_or(Fd(-1)), from.flatten()),
            meaning,
        };
        self.touch_request(&request, sink);
        self.rings.requests.insert(taken.request, request);
    }

    /// Recording ends. Requests whose ends were not told are told without a result, those that only wait are not told.
    pub(super) fn end_requests(&mut self, time: Time, sink: &mut impl Sink) {
        let mut left: Vec<Request> = std::mem::take(&mut self.rings.requests).into_values().collect();
        left.sort_by_key(|request| request.at);
        for request in left.into_iter().filter(|request| request.meaning != Meaning::Wait) {
            self.end_of(request, None, time, sink);
        }
    }

    /// Files that it names are looked at.
    fn touch_request(&self, request: &Request, sink: &mut impl Sink) {
        let Ok(call) = self.decode(request, None) else { return };
        let pid = self.threads.get(&request.thread).map(|traced| traced.process);
        let Some(owner) = pid.and_then(|pid| self.processes.get(&pid)) else { return };
        call.ats().iter().filter_map(|at| owner.places.absolute(at)).for_each(|path| sink.touched(&path));
    }

    fn decode(&self, request: &Request, result: Option<i64>) -> Result<Call, WarningKind> {
        let [first, second, _] = request.items.items();
        Entry(&request.entry).decode(&self.specs, request.fds, [first, second], result)
    }

    /// A request that the kernel took and refused: nothing comes of it.
    pub(super) fn refused(&mut self, tid: u32) {
        if let Some(traced) = self.threads.get_mut(&tid) {
            traced.requests += 1;
        }
    }

    /// A request ended.
    pub(super) fn request_end(&mut self, request: u64, result: i32, time: Time, sink: &mut impl Sink) {
        if let Some(request) = self.rings.requests.remove(&request) {
            self.end_of(request, Some(result), time, sink);
        }
    }

    fn end_of(&mut self, request: Request, result: Option<i32>, time: Time, sink: &mut impl Sink) {
        let Rings { rings, lanes, .. } = &mut self.rings;
        let before = rings.get(&request.ring).map_or(Time(0), |ring| ring.ended);
        let lane = &mut lanes.get_mut(&request.lane.0).expect("a request has a lane")[request.lane.1];
        let mut enter = request.at.max(lane.until);
        if Entry(&request.entry).is_drain() {
            enter = enter.max(before);
        }
        lane.waiting -= 1;
        lane.until = lane.until.max(time);
        if let Some(ring) = rings.get_mut(&request.ring) {
            ring.ended = ring.ended.max(time);
        }
        let outcome = match result.map(|result| (result, u16::try_from(-result))) {
            // It did not begin.
            Some((_, Ok(errno))) if i32::from(errno) == libc::ECANCELED => return,
            Some((_, Ok(errno @ 1..=4095))) => Outcome::Failed(Errno(errno)),
            Some((result, _)) => Outcome::Done(i64::from(result)),
            None => {
                if !Entry(&request.entry).is_silent() && request.meaning != Meaning::Nothing {
                    sink.warning(WarningKind::LostEvents, 1, time, "end of a request of an io_uring".to_string());
                }
                Outcome::Unknown
            }
        };
        self.tell(&request, (enter.min(time), time), outcome, sink);
    }

    /// Tells what it did as an action of its lane.
    fn tell(&mut self, request: &Request, (enter, leave): (Time, Time), outcome: Outcome, sink: &mut impl Sink) {
        let result = match outcome {
            Outcome::Failed(errno) => Some(-i64::from(errno.0)),
            _ => outcome.value(),
        };
        let (call, outcome) = match request.meaning {
            Meaning::Nothing => return,
            // A time-out that came too early was one for other requests.
            Meaning::Wait if outcome.value().is_some() && request.entry[0] == requests::TIMEOUT => return,
            Meaning::Wait => (Call::Other { name: Word::from(WAIT) }, outcome),
            Meaning::Table(first) => {
                let [fds, ..] = request.items.items();
                let fds = fds.map(numbers).unwrap_or_default();
                let changed = outcome.value().map_or(0, |changed| changed.max(0) as usize).min(fds.len());
                let changes = (first..).zip(fds.into_iter().take(changed).map(Some)).collect();
                let lane = self.lane(request, sink);
                return self.fill(request.ring, request.thread, lane, changes, leave, sink);
            }
            Meaning::Installed => (Call::Dup { fd: request.fds.0, min: 0, cloexec: true }, outcome),
            Meaning::Slot(slot) => match self.decode(request, result) {
                Ok(call) => self.in_slot(request, slot, call, (outcome, leave), sink),
                Err(_) => self.unheld(request),
            },
            Meaning::Call => match self.decode(request, result) {
                Ok(call) => (call, outcome),
                Err(_) => self.unheld(request),
            },
            Meaning::Unheld => self.unheld(request),
        };
        if let Call::UringEnter { .. } = call {
            let name = requests::name(request.entry[0]);
            sink.warning(WarningKind::UringUnseen, 1, enter, name);
        }
        let thread = self.lane(request, sink);
        self.put(request.thread, Action { thread, enter, leave, call, outcome }, sink);
    }

    /// What no trace holds is told as a submission of which no more is known.
    fn unheld(&self, request: &Request) -> (Call, Outcome) {
        let ring = self.rings.rings.get(&request.ring).and_then(|ring| ring.made).map_or(Fd(-1), |(_, fd)| fd);
        (Call::UringEnter { ring, submit: 1, wait: 0 }, Outcome::Done(1))
    }

    /// Tells an action of the process of `tid`.
    fn put(&mut self, tid: u32, action: Action, sink: &mut impl Sink) {
        if let Some(pid) = self.threads.get(&tid).map(|traced| traced.process)
            && let Some(owner) = self.processes.get_mut(&pid)
        {
            owner.places.follow(&action.call, action.outcome, |path| sink.resolved(path));
        }
        sink.action(&action);
    }

    /// A call whose descriptor goes into a slot, or that empties one: with the number that stands for it.
    fn in_slot(
        &mut self,
        request: &Request,
        slot: u32,
        mut call: Call,
        (outcome, at): (Outcome, Time),
        sink: &mut impl Sink,
    ) -> (Call, Outcome) {
        let Some(value) = outcome.value() else { return (call, outcome) };
        let Some(ring) = self.rings.rings.get_mut(&request.ring) else { return (call, outcome) };
        if let Call::Close { fd } = &mut call {
            *fd = ring.files.remove(&slot).unwrap_or(Fd(-1));
            return (call, outcome);
        }
        let slot = if slot == ANY_SLOT { value as u32 } else { slot };
        let lane = self.lane(request, sink);
        self.fill(request.ring, request.thread, lane, vec![(slot, Some(-1))], at, sink);
        let fd = self.rings.number();
        if let Some(ring) = self.rings.rings.get_mut(&request.ring) {
            ring.files.insert(slot, fd);
        }
        (call, Outcome::Done(i64::from(fd.0)))
    }

    /// Slots of a ring change, at a time, by a thread of the process of `tid`. Each has this descriptor, or none, or
    /// one that is not known.
    fn fill(
        &mut self,
        ring: u64,
        tid: u32,
        thread: ThreadId,
        changes: Vec<(u32, Option<i32>)>,
        at: Time,
        sink: &mut impl Sink,
    ) {
        for (slot, fd) in changes.into_iter().filter(|(_, fd)| *fd != Some(SKIP)) {
            let act = |call, value| Action { thread, enter: at, leave: at, call, outcome: Outcome::Done(value) };
            let Some(found) = self.rings.rings.get_mut(&ring) else { return };
            if let Some(old) = found.files.remove(&slot) {
                self.put(tid, act(Call::Close { fd: old }, 0), sink);
            }
            if let Some(fd) = fd.filter(|fd| *fd >= 0) {
                let number = self.rings.number();
                let dup = Call::Dup { fd: Fd(fd), min: 0, cloexec: true };
                self.put(tid, act(dup, i64::from(number.0)), sink);
                if let Some(ring) = self.rings.rings.get_mut(&ring) {
                    ring.files.insert(slot, number);
                }
            }
        }
    }

    /// The thread of a request's lane.
    fn lane(&mut self, request: &Request, sink: &mut impl Sink) -> ThreadId {
        let (submitter, lane) = request.lane;
        let known = self.rings.lanes.get(&submitter).and_then(|lanes| lanes[lane].thread);
        if let Some(thread) = known {
            return thread;
        }
        let (process, thread) = (request.process, ThreadId(self.thread_count));
        self.thread_count += 1;
        sink.thread(thread, &Thread { tid: request.thread, process, parent: Some(submitter), name: Word::from(LANE) });
        let flags = CloneFlags::CLONE_THREAD | CloneFlags::CLONE_FILES | CloneFlags::CLONE_FS | CloneFlags::CLONE_VM;
        let call = Call::Clone { flags, child: Some(thread) };
        let (at, outcome) = (request.after, Outcome::Done(i64::from(request.thread)));
        sink.action(&Action { thread: submitter, enter: at, leave: at, call, outcome });
        self.rings.lanes.get_mut(&submitter).expect("a request has a lane")[lane].thread = Some(thread);
        thread
    }

    /// The kernel's address of the ring that the call under way of a thread makes or changes.
    pub(super) fn name_ring(&mut self, tid: u32, ring: u64) {
        if let Some(traced) = self.threads.get_mut(&tid) {
            traced.ring = Some(ring);
        }
    }

    /// The call as it is told: without what other actions show.
    pub(super) fn without_requests(&mut self, tid: u32, call: Call, outcome: Outcome) -> Call {
        let Some(traced) = self.threads.get_mut(&tid).filter(|_| self.rings.are_seen) else { return call };
        match call {
            Call::UringEnter { ring, wait, .. } => {
                let seen = std::mem::take(&mut traced.requests);
                let is_polled = self.ring_of(tid, ring).is_some_and(|ring| self.rings.rings[&ring].is_polled);
                let taken = outcome.value().map_or(0, |taken| taken.max(0) as u32);
                Call::UringEnter { ring, submit: if is_polled { 0 } else { taken.saturating_sub(seen) }, wait }
            }
            call if call.is_polled_ring() => Call::ring(false),
            call => call,
        }
    }

    /// What a call that ended does to rings.
    pub(super) fn follow_rings(&mut self, tid: u32, pending: &Pending, done: &Action, sink: &mut impl Sink) {
        let Some(value) = done.outcome.value().filter(|_| self.rings.are_seen) else { return };
        let number = i64::from(pending.spec.number);
        let ring = match number {
            libc::SYS_io_uring_setup | libc::SYS_io_uring_register => {
                self.threads.get_mut(&tid).and_then(|traced| traced.ring.take())
            }
            _ => None,
        };
        match (number, ring) {
            (libc::SYS_io_uring_setup, Some(ring)) => {
                let is_polled = pending.raw(Default::default(), Some(value)).decode().is_ok_and(|c| c.is_polled_ring());
                let made = Some((tid, Fd(value as i32)));
                self.rings.rings.insert(ring, Ring { made, is_polled, ..Ring::default() });
            }
            (libc::SYS_io_uring_register, Some(ring)) => {
                let known = self.rings.rings.entry(ring).or_default();
                let changes = registered(known, pending);
                self.fill(ring, tid, done.thread, changes, done.leave, sink);
            }
            (libc::SYS_io_uring_enter, _) => {
                // No chain goes on in another call.
                self.rings.rings.values_mut().for_each(|ring| ring.chains.retain(|thread, _| *thread != tid));
            }
            (libc::SYS_close, _) => self.forget_ring(tid, Fd(pending.args[0] as i32), done, sink),
            _ => {}
        }
    }

    /// The ring that is open in the process of `tid` under this number.
    fn ring_of(&self, tid: u32, fd: Fd) -> Option<u64> {
        let process = |tid: &u32| self.threads.get(tid).map(|traced| traced.process);
        let own = process(&tid);
        let is_it = |ring: &Ring| ring.made.is_some_and(|(maker, made)| made == fd && process(&maker) == own);
        self.rings.rings.iter().find(|(_, ring)| is_it(ring)).map(|(ring, _)| *ring)
    }

    /// A ring that is closed holds no files.
    fn forget_ring(&mut self, tid: u32, fd: Fd, done: &Action, sink: &mut impl Sink) {
        let Some(ring) = self.ring_of(tid, fd) else { return };
        let changes = self.rings.rings[&ring].files.keys().map(|slot| (*slot, Some(-1))).collect();
        self.fill(ring, tid, done.thread, changes, done.leave, sink);
        // Requests that are under way end later.
        if let Some(known) = self.rings.rings.get_mut(&ring) {
            known.made = None;
        }
    }
}

impl Rings {
    /// A number for the descriptor of a slot.
    fn number(&mut self) -> Fd {
        self.slots += 1;
        Fd(SLOTS_FROM - self.slots)
    }
}

/// The free lane that was left last.
fn free_lane(lanes: &mut Vec<Lane>) -> usize {
    let free = lanes.iter().enumerate().filter(|(_, lane)| lane.waiting == 0);
    if let Some((at, _)) = free.max_by_key(|(_, lane)| lane.until) {
        return at;
    }
    lanes.push(Lane::default());
    lanes.len() - 1
}

/// What `io_uring_register` changes in a ring's table.
fn registered(ring: &Ring, pending: &Pending) -> Vec<(u32, Option<i32>)> {
    let items = pending.entry.items();
    let given = items[0].map(numbers);
    let count = pending.args[3] as u32;
    let word = |at: usize| given.as_ref().and_then(|given| given.get(at)).map(|word| *word as u32);
    let all = |fd: Option<i32>| ring.files.keys().map(move |slot| (*slot, fd));
    match pending.args[1] & OPERATION {
        REGISTER_FILES => (0..).zip(given.unwrap_or_default().into_iter().map(Some)).collect(),
        UNREGISTER_FILES => all(Some(-1)).collect(),
        REGISTER_FILES2 if word(1).is_some_and(|flags| flags & SPARSE != 0) => Vec::new(),
        // The descriptors lie elsewhere and were not read.
        REGISTER_FILES2 => all(None).collect(),
        UPDATE_FILES | UPDATE_FILES2 => {
            let count = if pending.args[1] & OPERATION == UPDATE_FILES { Some(count) } else { word(6) };
            match (word(0), count) {
                (Some(first), Some(count)) => (first..first.saturating_add(count)).map(|slot| (slot, None)).collect(),
                _ => all(None).collect(),
            }
        }
        _ => Vec::new(),
    }
}

/// An array of numbers of 32 bits.
fn numbers(bytes: &[u8]) -> Vec<i32> {
    bytes.chunks_exact(4).map(|number| i32::from_le_bytes(number.try_into().expect("four bytes"))).collect()
}
