//! Programs whose threads read blocks, and that know exactly what they did and when: their traces need no recorder,
//! and no recorder slowed them.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Barrier;
use std::thread;
use std::time::Instant;

use esker_base::{Stream, Time};
use esker_rt::mem::Pool;
use esker_trace_calls::words::{OpenFlags, ReadWriteFlags, ResolveFlags};
use esker_trace_calls::{
    Action, At, Call, Entry, EntryKind, Fd, Outcome, PathBytes, Platform, Process, ProcessId, Snapshot, Thread,
    ThreadId, Trace, Word,
};
use esker_trace_order::compiled::Program;
use esker_trace_replay::{InitMode, Report};

use super::{compiled, laid_out};
use esker_lab_kit::{LabError, timing};

const BLOCK: u64 = 4096;
/// Bytes of each read of a whole file.
const SCAN: u64 = 64 << 10;
/// `O_DIRECT` of Linux on x86 and RISC-V.
const O_DIRECT: i32 = 0o40000;

/// A program.
#[derive(Clone, Copy)]
pub struct Readers {
    /// How many threads; each reads a file of its own. The first one opens them all.
    pub threads: u32,
    /// How many reads of a block each makes.
    pub reads: u32,
    /// Bytes of each file.
    pub bytes: u64,
    /// How they are read.
    pub way: Way,
    /// Decides what is read.
    pub seed: u64,
}

/// Runs of a program, and replays in one way, whose middle time counts.
const RUNS: usize = 3;

/// A program on one target: its last recording, and its middle time.
pub struct Source {
    /// The recording.
    pub program: Program,
    /// From first call to last return.
    pub elapsed_ns: f64,
}

impl Source {
    /// Of what each run gives.
    ///
    /// # Errors
    /// Those of the runs.
    pub fn of(mut run: impl FnMut() -> Result<Ran, LabError>) -> Result<Source, LabError> {
        let runs = (0..RUNS).map(|_| run()).collect::<Result<Vec<_>, _>>()?;
        let elapsed_ns = timing::median(runs.iter().map(|run| run.elapsed_ns as f64).collect());
        let trace = runs.into_iter().next_back().expect("it ran").trace;
        Ok(Source { program: compiled(trace)?, elapsed_ns })
    }

    /// The time in whole milliseconds.
    pub fn ms(&self) -> u64 {
        (self.elapsed_ns / 1e6) as u64
    }
}

/// The middle time of some replays, in ns.
///
/// # Errors
/// Those of the replays, and calls that came out otherwise: their times predict nothing.
pub fn replays(mut replay: impl FnMut() -> Result<Report, LabError>) -> Result<f64, LabError> {
    let mut times = Vec::new();
    for _ in 0..RUNS {
        let report = replay()?;
        if report.mismatches.count > 0 {
            return Err(LabError::Data(format!("{} calls came out otherwise", report.mismatches.count)));
        }
        times.push(report.elapsed_ns as f64);
    }
    Ok(timing::median(times))
}

/// How files are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Random blocks, past the page cache.
    Random,
    /// One block after the other, past the page cache.
    InOrder,
    /// Random blocks, through the page cache; the first thread has read its whole file before.
    Cached,
}

/// A run of a program.
pub struct Ran {
    /// What it did.
    pub trace: Trace,
    /// Nanoseconds from its first call to its last return.
    pub elapsed_ns: u64,
}

impl Readers {
    fn snapshot(&self) -> Snapshot {
        let file = |at| (PathBytes::from(&path(at)), Entry::plain(EntryKind::File { size: self.bytes }));
        Snapshot { entries: (0..self.threads).map(file).collect() }
    }

    /// Makes the files in a run directory.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn prepare(&self, dir: &Path) -> Result<(), LabError> {
        laid_out(dir, &self.snapshot(), InitMode::Delta, self.seed)
    }

    /// Runs it on the files in a run directory.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn run(&self, dir: &Path) -> Result<Ran, LabError> {
        let fault = LabError::scratch(&dir);
        let origin = Instant::now();
        let mut actions = Vec::new();
        let files = (0..self.threads).map(|at| {
            let enter = now(origin);
            let path = dir.join(esker_trace_replay::init::TREE).join(path(at).trim_start_matches('/'));
            let file =
                OpenOptions::new().read(true).custom_flags(if self.is_direct() { O_DIRECT } else { 0 }).open(path);
            actions.push(self.opened(at, enter, now(origin)));
            file
        });
        let files = files.collect::<Result<Vec<File>, _>>().map_err(fault)?;
        let barrier = Barrier::new(self.threads as usize);
        let parts: Vec<Vec<Action>> = thread::scope(|scope| {
            let threads: Vec<_> = (0..self.threads)
                .map(|thread| {
                    let (files, barrier) = (&files, &barrier);
                    scope.spawn(move || self.read(thread, files, barrier, origin))
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().expect("a reader does not panic")).collect::<Result<_, _>>()
        })
        .map_err(fault)?;
        actions.extend(parts.into_iter().flatten());
        Ok(self.ran(actions))
    }

    fn read(&self, thread: u32, files: &[File], barrier: &Barrier, origin: Instant) -> std::io::Result<Vec<Action>> {
        let mut random = Stream::named(self.seed, &format!("reader {thread}"));
        let mut actions = Vec::with_capacity(self.reads as usize);
        let pool = Pool::default();
        let mut slab = pool.slab(SCAN as usize);
        let mut read = |file: u32, offset: u64, len: u64| {
            let enter = now(origin);
            let read = files[file as usize].read_at(&mut slab[..len as usize], offset)?;
            let leave = now(origin);
            let (fd, flags) = (Fd(file as i32 + 3), ReadWriteFlags::empty());
            let call = Call::Pread { fd, offset: offset as i64, len, parts: 0, flags };
            actions.push(Action { thread: ThreadId(thread), enter, leave, call, outcome: Outcome::Done(read as i64) });
            std::io::Result::Ok(())
        };
        barrier.wait();
        if self.way == Way::Cached && thread == 0 {
            (0..self.bytes).step_by(SCAN as usize).try_for_each(|offset| read(0, offset, SCAN))?;
        }
        for number in 0..u64::from(self.reads) {
            let blocks = self.bytes / BLOCK;
            let block = if self.way == Way::InOrder { number % blocks } else { random.below(blocks) };
            read(thread, block * BLOCK, BLOCK)?;
        }
        Ok(actions)
    }

    fn is_direct(&self) -> bool {
        self.way != Way::Cached
    }

    fn opened(&self, file: u32, enter: Time, leave: Time) -> Action {
        let mut flags = OpenFlags::READ | OpenFlags::O_CLOEXEC;
        flags.set(OpenFlags::O_DIRECT, self.is_direct());
        let call = Call::Open { at: At::cwd(&path(file)), flags, mode: 0, resolve: ResolveFlags::empty() };
        Action { thread: ThreadId(0), enter, leave, call, outcome: Outcome::Done(i64::from(file) + 3) }
    }

    fn ran(&self, mut actions: Vec<Action>) -> Ran {
        actions.sort_by_key(|action| action.enter);
        let first = actions.first().map_or(0, |action| action.enter.0);
        let last = actions.iter().map(|action| action.leave.0).max().unwrap_or(first);
        let mut trace = Trace::new(Platform::Linux, "experiment");
        trace.processes.push(Process { pid: 1, parent: None, cwd: PathBytes::from("/"), umask: 0o22 });
        let thread = |tid| Thread { tid: tid + 1, process: ProcessId(0), parent: None, name: Word::from("reader") };
        trace.threads = (0..self.threads).map(thread).collect();
        trace.snapshot = self.snapshot();
        trace.actions = actions;
        Ran { trace, elapsed_ns: last - first }
    }
}

fn path(file: u32) -> String {
    format!("/f{file}")
}

fn now(origin: Instant) -> Time {
    Time(origin.elapsed().as_nanos() as u64)
}
