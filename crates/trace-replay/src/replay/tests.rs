#![allow(clippy::disallowed_methods, reason = "looks at the real tree")]

use std::collections::BTreeMap;

use esker_base::{Stream, Time};
use esker_rt::real::{Reactor, RealConfig};
use esker_trace_calls::words::*;
use esker_trace_calls::{
    At, Call, Errno, Fd, Object, Outcome, PathBytes, Platform, Process, ProcessId, Thread, ThreadId, Word,
};
use esker_trace_order::compiled::Program;
use esker_trace_order::rules::{Order, Rules};

use super::*;
use crate::init::initialise;
use crate::kernel::{ExchangeBy, FsyncMeans};
use crate::outcome::{Heading, report};
use crate::report::{Report, TreeDifferences};
use crate::script::Speed;
use crate::testing::{Draft, FULL_INIT};

mod alone;
mod delays;
mod modes;
mod timing;
mod virtual_time;
mod waiting;

const RW: OpenFlags = OpenFlags::READ.union(OpenFlags::WRITE);
const CREATE: OpenFlags = RW.union(OpenFlags::O_CREAT);
const ROOT: fn() -> Order = || Order::Root(Rules::default());

fn options() -> ReplayOptions {
    let kernel = KernelOptions {
        fsync: FsyncMeans::Durable,
        exchange: ExchangeBy::Link,
        platform: Platform::Linux,
        keep_modes: false,
        seed: 1,
    };
    ReplayOptions { kernel, patience: Nanos(10_000_000_000) }
}

/// Makes the tree of a program in a new directory, lets `meddle` with it, and plays it.
fn play_after(
    program: &Program,
    order: Order,
    speed: Speed,
    options: ReplayOptions,
    meddle: impl FnOnce(&Root),
) -> (Finished, Report) {
    let dir = crate::testing::private_dir();
    let (root, _) = initialise(dir.path(), program.snapshot(), FULL_INIT, &mut |_| {}).unwrap();
    meddle(&root);
    let script = Arc::new(Script::new(program.clone(), order, speed));
    let reactor = Reactor::new(RealConfig::seeded(1)).unwrap();
    let finished =
        reactor.block_on(replay(reactor.rt(), "replay".to_string(), script, Arc::new(root), options)).unwrap();
    let heading = Heading {
        trace: "test".into(),
        dir: "run".into(),
        init: None,
        options: options.kernel,
        tree_differences: TreeDifferences::default(),
    };
    let report = report(&finished, &heading);
    (finished, report)
}

fn play_with(program: &Program, order: Order, speed: Speed, options: ReplayOptions) -> (Finished, Report) {
    play_after(program, order, speed, options, |_| {})
}

fn play_as(program: &Program, order: Order, speed: Speed) -> (Finished, Report) {
    play_with(program, order, speed, options())
}

/// Threads that make, fill, rename, look at and remove few files, one call at a time: most depend on what others did.
fn busy(threads: u32, actions: u32, seed: u64) -> Program {
    let mut random = Stream::seeded(seed);
    let mut draft = Draft::of(threads);
    draft.file("/start", 4096);
    let mut sizes: BTreeMap<u64, i64> = BTreeMap::new();
    let mut open: Vec<(i64, i64)> = Vec::new();
    let name = |number: u64| format!("/f{number}");
    for _ in 0..actions {
        let thread = random.below(u64::from(threads)) as u32;
        let number = random.below(12);
        match (random.below(8), sizes.get(&number).copied()) {
            (0 | 1, None) => {
                let fd = (3..).find(|fd| open.iter().all(|(taken, _)| taken != fd)).unwrap();
                draft.open(thread, &name(number), CREATE | OpenFlags::O_EXCL, fd);
                sizes.insert(number, 0);
                open.push((fd, 0));
            }
            (2, Some(size)) => {
                let other = random.below(12);
                let call = Call::Rename {
                    from: At::cwd(&name(number)),
                    to: At::cwd(&name(other)),
                    flags: RenameFlags::empty(),
                };
                draft.call(thread, call, Outcome::Done(0));
                sizes.remove(&number);
                sizes.insert(other, size);
            }
            (3, Some(_)) => {
                draft.call(thread, Call::Unlink { at: At::cwd(&name(number)) }, Outcome::Done(0));
                sizes.remove(&number);
            }
            (4, there) => {
                let file = Object::Path { at: At::cwd(&name(number)), follow: true };
                let outcome = if there.is_some() { Outcome::Done(0) } else { Outcome::Failed(Errno::ENOENT) };
                draft.call(thread, Call::Stat { file, seen: None }, outcome);
            }
            (5 | 6, _) if !open.is_empty() => {
                let at = random.below(open.len() as u64) as usize;
                let fd = Fd(open[at].0 as i32);
                draft.call(thread, Call::Write { fd, len: 512, parts: 0 }, Outcome::Done(512));
            }
            (7, _) if open.len() > 4 => {
                let (fd, _) = open.swap_remove(random.below(open.len() as u64) as usize);
                draft.call(thread, Call::Close { fd: Fd(fd as i32) }, Outcome::Done(0));
            }
            _ => draft.call(
                thread,
                Call::Access { file: Object::Path { at: At::cwd("/start"), follow: true }, mode: AccessMode::empty() },
                Outcome::Done(0),
            ),
        }
    }
    draft.program()
}

/// Two threads that compute between calls: 20 calls with 3 ms before each, so 60 ms in all.
fn thinking() -> Program {
    let mut draft = Draft::of(2);
    draft.file("/f", 10);
    let stat = || Call::Stat { file: Object::Path { at: At::cwd("/f"), follow: true }, seen: None };
    // The first call of each thread begins the trace.
    for thread in 0..2 {
        draft.call_from(thread, 0, 1000, stat(), Outcome::Done(0));
    }
    for call in 0..20u64 {
        let enter = 3_000_000 * (call + 1);
        draft.call_from((call % 2) as u32, enter, enter + 1000, stat(), Outcome::Done(0));
    }
    draft.program()
}
