use esker_rt::mem::Pool;
use esker_rt::sim::{Sim, SimConfig};
use esker_trace_calls::words::{CloneFlags, FdSource};
use esker_trace_calls::{Entry, EntryKind, Outcome, PathBytes, Process as Traced, ProcessId, Thread, ThreadId, Word};
use esker_trace_order::rules::{Order, Rules};
use esker_vfs::{Ram, RamConfig};

use super::*;
use crate::report::Report;
use crate::run::ReplayInput;
use crate::script::Speed;
use crate::testing::Draft;
use esker_trace_calls::words::OpenFlags as TracedFlags;

const RW: TracedFlags = TracedFlags::READ.union(TracedFlags::WRITE);

/// Every call takes 1 us, and nothing for its bytes.
fn microseconds() -> CallCosts {
    CallCosts::measured("a test", costs::CostClass::ALL.iter().map(|class| (class.name(), 1000.0, 0.0)))
}

fn played(draft: Draft, cpus: usize) -> Report {
    let sim = Sim::new(SimConfig { seed: 1, cpus });
    let files = Rc::new(Ram::new(RamConfig::sized(1 << 30), Pool::default()));
    let options = SimulateOptions {
        order: Order::Root(Rules::default()),
        speed: Speed::Afap,
        exchange: ExchangeBy::Link,
        max_bytes: None,
        costs: microseconds(),
        cpus,
    };
    let job = ReplayInput { name: "test".to_string(), program: draft.program() };
    simulate(&sim, files, vec![job], &options).unwrap().remove(0)
}

#[track_caller]
fn assert_same(report: &Report) {
    assert_eq!((report.mismatches.count, report.stopped.clone()), (0, None), "{:?}", report.mismatches.listed);
}

fn read(fd: i32, len: u64) -> Call {
    Call::Read { fd: Fd(fd), len, parts: 0 }
}

fn write(fd: i32, len: u64) -> Call {
    Call::Write { fd: Fd(fd), len, parts: 0 }
}

fn stat(path: &str) -> Call {
    Call::Stat { file: Object::Path { at: At::cwd(path), follow: true }, seen: None }
}

#[test]
fn calls_take_cpu_time_and_two_cpus_do_twice_as_much() {
    let of = |cpus| {
        let mut draft = Draft::of(2);
        // Of a file each: the rules keep the order of calls on one.
        let files = ["/f", "/g"];
        files.iter().for_each(|file| draft.file(file, 10));
        for call in 0..200 {
            draft.call(call % 2, stat(files[call as usize % 2]), Outcome::Done(0));
        }
        let report = played(draft, cpus);
        assert_same(&report);
        report.elapsed_ns
    };
    assert_eq!([of(1), of(2)], [200_000, 100_000]);
}

/// A process and its child, to which it writes through a pipe: descriptors 3 and 4.
fn with_child() -> Draft {
    let mut draft = Draft::of(2);
    let child = Traced { pid: 101, parent: Some(ThreadId(0)), cwd: PathBytes::from("/"), umask: 0 };
    draft.trace.processes.push(child);
    draft.trace.threads[1] =
        Thread { tid: 101, process: ProcessId(1), parent: Some(ThreadId(0)), name: Word::from("") };
    let pipe = Call::Pipe { seen_read: Fd(3), seen_write: Fd(4), flags: TracedFlags::empty() };
    draft.call(0, pipe, Outcome::Done(0));
    let clone = Call::Clone { flags: CloneFlags::empty(), child: Some(ThreadId(1)) };
    draft.call(0, clone, Outcome::Done(101));
    draft
}

#[test]
fn bytes_go_through_a_pipe_and_its_end_is_seen_when_all_writers_closed() {
    let mut draft = with_child();
    draft.call(1, Call::Close { fd: Fd(4) }, Outcome::Done(0));
    draft.call(0, Call::Close { fd: Fd(3) }, Outcome::Done(0));
    for _ in 0..3 {
        draft.call(0, write(4, 5000), Outcome::Done(5000));
    }
    for len in [4096, 4096, 4096, 2712] {
        draft.call(1, read(3, 4096), Outcome::Done(len));
    }
    draft.call(0, Call::Close { fd: Fd(4) }, Outcome::Done(0));
    draft.call(1, read(3, 4096), Outcome::Done(0));
    assert_same(&played(draft, 2));
}

#[test]
fn a_call_that_nothing_will_ever_answer_is_told() {
    let mut draft = Draft::of(1);
    draft.call(0, Call::Pipe { seen_read: Fd(3), seen_write: Fd(4), flags: TracedFlags::empty() }, Outcome::Done(0));
    draft.call(0, read(3, 10), Outcome::Done(10));
    let report = played(draft, 1);
    let stopped = report.stopped.expect("nothing writes");
    assert!(stopped.starts_with("nothing can happen any more: 100 is in action 1, read("), "{stopped}");
}

#[test]
fn devices_are_known_by_their_numbers_and_memory_files_lie_elsewhere() {
    let mut draft = Draft::of(1);
    for (path, minor) in [("/dev/null", 3), ("/dev/zero", 5), ("/dev/full", 7)] {
        draft.entry(path, Entry::plain(EntryKind::Device { block: false, major: 1, minor }));
    }
    draft.open(0, "/dev/null", RW, 3);
    draft.call(0, write(3, 100), Outcome::Done(100));
    draft.call(0, read(3, 100), Outcome::Done(0));
    draft.open(0, "/dev/zero", TracedFlags::READ, 4);
    draft.call(0, read(4, 70_000), Outcome::Done(70_000));
    draft.open(0, "/dev/full", RW, 5);
    draft.call(0, read(5, 9), Outcome::Done(9));
    let memory = Call::MakeFd { source: FdSource::Memory, from: Fd(-1), name: Word::from("m"), cloexec: true };
    draft.call(0, memory, Outcome::Done(6));
    draft.call(0, write(6, 300), Outcome::Done(300));
    draft.call(
        0,
        Call::Pread { fd: Fd(6), offset: 100, len: 4096, parts: 0, flags: Default::default() },
        Outcome::Done(200),
    );
    let report = played(draft, 1);
    assert_same(&report);
    assert_eq!(report.adapted, []);
}

#[test]
fn a_tree_has_the_sizes_links_modes_and_times_of_the_snapshot() {
    let mut draft = Draft::of(1);
    let names = |mode| Entry { mode, group: 7, modified: 5, ..Entry::plain(EntryKind::File { size: 9000 }) };
    draft.entry("/d/one", names(0o4750));
    draft.entry("/d/two", names(0o4750));
    draft.entry("/sparse", Entry { holes: 1 << 40, ..Entry::plain(EntryKind::File { size: (1 << 40) + 10 }) });
    draft.entry("/link", Entry::plain(EntryKind::Symlink { target: PathBytes::from("d/one") }));
    draft.call(0, stat("/link"), Outcome::Done(0));
    draft.call(0, Call::Unlink { at: At::cwd("/d/one") }, Outcome::Done(0));
    draft.call(0, stat("/link"), Outcome::Failed(Errno::ENOENT));
    draft.open(0, "/d/two", TracedFlags::READ, 3);
    draft.call(0, read(3, 10_000), Outcome::Done(9000));
    let report = played(draft, 1);
    assert_same(&report);
    let init = report.init.unwrap();
    assert_eq!((init.made, init.bytes, init.notes), (5, 9010, Vec::new()));
}
