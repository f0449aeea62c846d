//! Made traces with calls whose I/O is elsewhere.

use esker_base::Errno;
use esker_base::Time;
use esker_trace_calls::action::{Action, Outcome, ProcessId, ThreadId};
use esker_trace_calls::call::At;
use esker_trace_calls::name::{PathBytes, Word};
use esker_trace_calls::snapshot::{Entry, EntryKind};
use esker_trace_calls::trace::{Platform, Process, Thread, Trace};
use esker_trace_calls::warning::WarningKind;
use esker_trace_calls::words::{CloneFlags, FdSource, OpenFlags, ResolveFlags};

use super::*;
use crate::model::compile;

const PAGE: u64 = 4096;
const SHARED: MapFlags = MapFlags::PROT_READ.union(MapFlags::PROT_WRITE).union(MapFlags::MAP_SHARED);
const READ: MapFlags = MapFlags::PROT_READ.union(MapFlags::MAP_PRIVATE);

/// A trace of two processes that grows call by call; the second one is there from the start.
struct Draft(Trace);

impl Draft {
    fn new() -> Draft {
        let mut trace = Trace::new(Platform::Linux, "test");
        for number in 0..2 {
            let pid = 100 + number;
            trace.processes.push(Process { pid, parent: None, cwd: PathBytes::from("/"), umask: 0o22 });
            trace.threads.push(Thread { tid: pid, process: ProcessId(number), parent: None, name: Word::default() });
        }
        for path in ["/f", "/dev/shm/m"] {
            trace.snapshot.entries.insert(PathBytes::from(path), Entry::plain(EntryKind::File { size: 1 << 20 }));
        }
        Draft(trace)
    }

    fn by(mut self, thread: u32, call: Call, outcome: Outcome) -> Draft {
        let enter = Time(10 * self.0.actions.len() as u64);
        self.0.actions.push(Action { thread: ThreadId(thread), enter, leave: enter, call, outcome });
        self
    }

    fn call(self, call: Call, result: i64) -> Draft {
        self.by(0, call, Outcome::Done(result))
    }

    fn opens(self, path: &str, fd: i64) -> Draft {
        let flags = OpenFlags::READ | OpenFlags::WRITE;
        self.call(Call::Open { at: At::cwd(path), flags, mode: 0, resolve: ResolveFlags::empty() }, fd)
    }

    fn makes(self, source: FdSource, fd: i64) -> Draft {
        self.call(Call::MakeFd { source, from: Fd(-1), name: Word::from("x"), cloexec: false }, fd)
    }

    fn maps(self, fd: i32, len: u64, flags: MapFlags) -> Draft {
        let address = 0x10_0000 * (1 + self.0.actions.len() as i64);
        self.call(Call::Map { fd: Fd(fd), address: 0, len, offset: 0, flags }, address)
    }

    fn enters(self, ring: i32, submit: u32, outcome: Outcome) -> Draft {
        self.by(0, Call::UringEnter { ring: Fd(ring), submit, wait: 1 }, outcome)
    }

    fn left_out(self) -> LeftOut {
        let program = compile(self.0, &mut |_| {}).expect("the draft is sound");
        let again = Program::decode(&program.encode()).expect("it was just written");
        let found = LeftOut::of(&again);
        assert_eq!(LeftOut::of(&program), found);
        found
    }
}

const NONE: LeftOut = LeftOut {
    uring_submissions: 0,
    polled_rings: 0,
    mapped_writes: 0,
    mapped_reads: 0,
    passed_descriptors: 0,
    lost_events: 0,
    damaged_parts: 0,
};

#[test]
fn requests_that_a_ring_took_are_counted_and_a_ring_without_any_is_nothing() {
    let unused = Draft::new().call(Call::ring(false), 3).maps(3, PAGE, SHARED).enters(3, 0, Outcome::Done(0));
    assert_eq!(unused.left_out(), NONE);
    let shown = Draft::new().call(Call::ring(false), 3).enters(3, 1, Outcome::Done(7));
    assert_eq!(shown.left_out(), LeftOut { uring_submissions: 1, ..NONE }, "six are actions of their own");
    let used = Draft::new().call(Call::ring(false), 3).enters(3, 8, Outcome::Done(5)).enters(3, 3, Outcome::Done(3));
    let found = used.enters(3, 4, Outcome::Failed(Errno::EAGAIN)).left_out();
    assert_eq!(found, LeftOut { uring_submissions: 8, ..NONE });
    assert_eq!(found.why_no_time().as_deref(), Some("8 io_uring submissions were not played"));
}

#[test]
fn a_ring_that_the_kernel_polls_counts_also_if_no_call_uses_it() {
    let found = Draft::new().call(Call::ring(true), 3).left_out();
    assert_eq!(found, LeftOut { polled_rings: 1, ..NONE });
    let why = "requests of 1 io_uring that the kernel polls (IORING_SETUP_SQPOLL) were not seen";
    assert_eq!(found.why_no_time().as_deref(), Some(why));
    let woken = Draft::new().call(Call::ring(true), 3).call(Call::Dup { fd: Fd(3), min: 0, cloexec: false }, 4);
    assert_eq!(woken.enters(4, 9, Outcome::Done(9)).left_out(), found, "calls only wake its thread");
    let refused = Draft::new().by(0, Call::ring(true), Outcome::Failed(Errno::EPERM));
    assert_eq!(refused.left_out(), NONE);
}

#[test]
fn shared_writable_maps_of_files_count_and_others_do_not() {
    let mapped = Draft::new().opens("/f", 3).maps(3, PAGE, SHARED).maps(3, 9 * PAGE, SHARED);
    let found = mapped.left_out();
    assert_eq!(found, LeftOut { mapped_writes: 2, ..NONE });
    let why = "writes through 2 shared maps of files were not played";
    assert_eq!(found.why_no_time().as_deref(), Some(why));
    let told = Draft::new().opens("/f", 3).maps(3, PAGE, SHARED).maps(3, 9 * PAGE, SHARED);
    let told = told.call(Call::PageWrite { address: 0x10_0000, len: PAGE }, 0);
    assert_eq!(told.left_out(), NONE, "the recorder saw writes");
    let private = MapFlags::PROT_READ | MapFlags::PROT_WRITE | MapFlags::MAP_PRIVATE;
    let others = Draft::new()
        .opens("/f", 3)
        .maps(3, PAGE, private)
        .maps(-1, 9 * PAGE, SHARED | MapFlags::MAP_ANONYMOUS)
        .makes(FdSource::Memory, 4)
        .maps(4, 9 * PAGE, SHARED)
        .opens("/dev/shm/m", 5)
        .call(Call::Dup { fd: Fd(5), min: 0, cloexec: false }, 6)
        .maps(6, 9 * PAGE, SHARED);
    assert_eq!(others.left_out(), NONE);
}

#[test]
fn memory_that_a_new_process_inherits_is_still_no_file() {
    let forked = Draft::new()
        .makes(FdSource::Memory, 4)
        .call(Call::Clone { flags: CloneFlags::empty(), child: Some(ThreadId(1)) }, 101)
        .by(1, Call::Map { fd: Fd(4), address: 0, len: PAGE, offset: 0, flags: SHARED }, Outcome::Done(0x10000));
    assert_eq!(forked.left_out(), NONE);
}

#[test]
fn reads_through_large_maps_are_warned_of_where_no_fault_was_recorded() {
    let mapped = || Draft::new().opens("/f", 3).maps(3, 4 * PAGE, READ).maps(3, 64 * PAGE, READ);
    let found = mapped().left_out();
    assert_eq!(found, LeftOut { mapped_reads: 1, ..NONE });
    assert_eq!(found.why_no_time(), None, "they do not take the meaning of a time");
    assert!(found.warning().unwrap().starts_with("reads through 1 map of files were not recorded"));
    let seen = mapped().call(Call::PageFault { address: 0x10_0000, len: PAGE }, 0).left_out();
    assert_eq!((seen, seen.warning()), (NONE, None));
}

#[test]
fn all_reasons_are_told_at_once() {
    let all = LeftOut { uring_submissions: 1, polled_rings: 2, mapped_writes: 1, mapped_reads: 3, ..NONE };
    let why = "1 io_uring submission was not played; requests of 2 io_urings that the kernel polls (IORING_SETUP_SQPOLL) \
               were not seen; writes through 1 shared map of files were not played";
    assert_eq!(all.why_no_time().as_deref(), Some(why));
}

#[test]
fn descriptors_that_came_through_sockets_count() {
    let received = |seen_fds| Call::ReceiveFds { fd: Fd(3), len: 1, seen_fds };
    let draft = Draft::new().makes(FdSource::Socket, 3).call(received(vec![Fd(7), Fd(8)]), 1);
    let found = draft.call(received(Vec::new()), 1).left_out();
    assert_eq!(found, LeftOut { passed_descriptors: 2, ..NONE });
    let why = "calls on 2 descriptors that came through sockets were not played";
    assert_eq!(found.why_no_time().as_deref(), Some(why));
}

#[test]
fn what_a_recording_lost_takes_the_meaning_of_a_time() {
    let mut draft = Draft::new().opens("/f", 3);
    draft.0.warnings.add_many(WarningKind::LostEvents, 9, 0, "");
    draft.0.warnings.add_many(WarningKind::Damaged, 4, 0, "");
    draft.0.warnings.add(WarningKind::CutTail, 0, "");
    draft.0.warnings.add(WarningKind::UnknownCall, 0, "");
    let found = draft.left_out();
    assert_eq!(found, LeftOut { lost_events: 9, damaged_parts: 5, ..NONE });
    let why = "9 events were lost by the recorder; 5 parts of the recording were damaged or missing";
    assert_eq!(found.why_no_time().as_deref(), Some(why));
}
