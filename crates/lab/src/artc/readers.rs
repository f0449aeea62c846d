//! Programs whose threads read blocks, and that know exactly what they did and when: their traces need no recorder,
//! and no recorder slowed them.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Barrier;
use std::thread;
use std::time::Instant;

use esker_base::Stream;
use esker_rt::mem::Pool;
use esker_trace_calls::words::{OpenFlags, ReadWriteFlags, ResolveFlags};
use esker_trace_calls::{Action, At, Call, Entry, EntryKind, Fd, PathBytes, Snapshot, Trace};
use esker_trace_order::compiled::Program;
use esker_trace_replay::{InitMode, Report};

use super::{How, Source, action, begun, compiled, laid_out, modes};
use esker_lab_kit::{Figure, Lab, LabError, timing};

const BLOCK: u64 = 4096;
/// Bytes of each read of a whole file.
const SCAN: u64 = 64 << 10;
/// `O_DIRECT` of Linux on x86 and RISC-V.
const O_DIRECT: i32 = 0o40000;

/// A program.
#[derive(Clone, Copy)]
pub(crate) struct Readers {
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
const RUNS: u32 = 3;

/// A program on one target: its last recording, and its middle time.
///
/// # Errors
/// Those of the runs.
pub(crate) fn source(mut run: impl FnMut() -> Result<Ran, LabError>) -> Result<Source, LabError> {
    let mut last = None;
    let elapsed_ns = timing::median_of(RUNS, |_| {
        let ran = run()?;
        last = Some(ran.trace);
        Ok(ran.elapsed_ns as f64)
    })?;
    Ok(Source { program: compiled(last.expect("it ran"))?, elapsed_ns })
}

/// The middle time of some replays, in ns.
///
/// # Errors
/// Those of the replays, and calls that came out otherwise: their times predict nothing.
fn replays(mut replay: impl FnMut() -> Result<Report, LabError>) -> Result<f64, LabError> {
    timing::median_of(RUNS, |_| {
        let report = replay()?;
        match report.mismatches.count {
            0 => Ok(report.elapsed_ns as f64),
            failures => Err(LabError::Data(format!("{failures} calls came out otherwise"))),
        }
    })
}

/// Two settings of one machine: the program is traced in each, and replayed in the other one.
pub(crate) struct Crossed<R, P> {
    /// In names of figures.
    pub names: [&'static str; 2],
    /// Runs the program in a setting.
    pub run: R,
    /// Replays a program in a setting.
    pub replay: P,
    /// The figure of a replay without the rules, from its time and those of the program.
    pub told: fn(f64, &Source, &Source) -> f64,
    /// Its unit.
    pub unit: &'static str,
}

impl<R, P> Crossed<R, P>
where
    R: Fn(usize) -> Result<Ran, LabError>,
    P: Fn(usize, &Program, How) -> Result<Report, LabError>,
{
    /// How much longer the program takes in the second setting, and the errors of all modes; `set` makes a setting
    /// hold.
    ///
    /// # Errors
    /// Those of the runs and replays.
    pub(crate) fn measure(
        &self,
        lab: &Lab<'_>,
        set: impl Fn(usize) -> Result<(), LabError>,
    ) -> Result<(f64, Vec<Figure>), LabError> {
        let mut sources = Vec::new();
        for (at, name) in self.names.iter().enumerate() {
            set(at)?;
            sources.push(source(|| (self.run)(at))?);
            lab.say(format!("original, {name}: {} ms", sources[at].ms()));
        }
        let mut figures = Vec::new();
        for (from, to) in [(0, 1), (1, 0)] {
            set(to)?;
            let pair = format!("{}_to_{}", self.names[from], self.names[to]);
            for (mode, order) in modes() {
                let how = How { init: InitMode::None, ..How::paced(order, lab.seed) };
                let elapsed_ns = replays(|| (self.replay)(to, &sources[from].program, how))?;
                let error = sources[to].error(elapsed_ns);
                lab.say(format!("{pair}: {mode} {:+.1} %", error * 100.0));
                let told = (self.told)(elapsed_ns, &sources[from], &sources[to]);
                figures.push(match mode {
                    "root" => Figure::alone(format!("{pair}_root_error"), error.abs(), "share"),
                    _ => Figure::alone(format!("{pair}_{mode}"), told, self.unit),
                });
            }
        }
        Ok((sources[1].elapsed_ns / sources[0].elapsed_ns, figures))
    }
}

/// How files are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// Random blocks, past the page cache.
    Random,
    /// One block after the other, past the page cache.
    InOrder,
    /// Random blocks, through the page cache; the first thread has read its whole file before.
    Cached,
}

/// A run of a program.
pub(crate) struct Ran {
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
    pub(crate) fn prepare(&self, dir: &Path) -> Result<(), LabError> {
        laid_out(dir, &self.snapshot(), InitMode::Delta, self.seed)
    }

    /// Runs it on the files in a run directory.
    ///
    /// # Errors
    /// What the kernel says.
    pub(crate) fn run(&self, dir: &Path) -> Result<Ran, LabError> {
        let fault = LabError::scratch(&dir);
        let origin = Instant::now();
        let mut actions = Vec::new();
        let files = (0..self.threads).map(|at| {
            let enter = now(origin);
            let path = dir.join(esker_trace_replay::init::TREE).join(path(at).trim_start_matches('/'));
            let file =
                OpenOptions::new().read(true).custom_flags(if self.is_direct() { O_DIRECT } else { 0 }).open(path);
            actions.push(self.opened(at, [enter, now(origin)]));
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
            actions.push(action(thread, [enter, leave], call, read as i64));
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

    fn opened(&self, file: u32, span: [u64; 2]) -> Action {
        let mut flags = OpenFlags::READ | OpenFlags::O_CLOEXEC;
        flags.set(OpenFlags::O_DIRECT, self.is_direct());
        let call = Call::Open { at: At::cwd(&path(file)), flags, mode: 0, resolve: ResolveFlags::empty() };
        action(0, span, call, i64::from(file) + 3)
    }

    fn ran(&self, mut actions: Vec<Action>) -> Ran {
        actions.sort_by_key(|action| action.enter);
        let first = actions.first().map_or(0, |action| action.enter.0);
        let last = actions.iter().map(|action| action.leave.0).max().unwrap_or(first);
        let mut trace = begun(self.threads, "reader");
        trace.snapshot = self.snapshot();
        trace.actions = actions;
        Ran { trace, elapsed_ns: last - first }
    }
}

fn path(file: u32) -> String {
    format!("/f{file}")
}

fn now(origin: Instant) -> u64 {
    origin.elapsed().as_nanos() as u64
}
