//! What experiments on replays share: compiling, replaying, programs that know what they did, and model disks with a
//! file system on them.

use std::path::{Path, PathBuf};

use esker_base::{Nanos, Time};
use esker_rt::real::{Reactor, RealConfig};
use esker_trace_calls::etrace::{self, Limits};
use esker_trace_calls::{
    Action, Call, EntryKind, Outcome, PathBytes, Platform, Process, ProcessId, Snapshot, Thread, ThreadId, Trace, Word,
};
use esker_trace_order::compiled::Program;
use esker_trace_order::model::compile;
use esker_trace_order::rules::{Order, Rules};
use esker_trace_record::{Gate, Method, Settings, Target, record};
use esker_trace_replay::{
    ExchangeBy, FsyncMeans, InitMode, InitOptions, KernelOptions, ReplayInput, ReplayOptions, Report, RunOptions,
    Speed, initialise, run,
};

use esker_lab_kit::{LabError, peer};

use mounted::Mounted;

pub(crate) mod behaviour;
pub(crate) mod leveldb;
pub(crate) mod mounted;
pub(crate) mod readers;
pub(crate) mod suite;

/// Room for all records of an experiment.
const RING_BYTES: u32 = 256 << 20;

/// How an experiment records: `roots` are taken before the program runs.
pub(crate) fn recording(method: Method, roots: Vec<PathBuf>) -> Settings {
    let (stop, ready) = Default::default();
    Settings { method, roots, anonymise: None, ring_bytes: RING_BYTES, gate: Gate::Shell, stop, ready }
}

/// Records a program: its words, how it is seen, and what is taken before it runs.
///
/// # Errors
/// What the recorder says, or that it lost calls.
pub(crate) fn recorded(words: Vec<String>, method: Method, roots: Vec<PathBuf>) -> Result<Trace, LabError> {
    let target = Target::Program(words.into_iter().map(Into::into).collect());
    let mut bytes = Vec::new();
    let done = record(&target, &recording(method, roots), &mut bytes)
        .map_err(|error| peer::fault("the recorder", error.to_string()))?;
    if done.lost.records > 0 {
        return Err(peer::fault("the recorder", format!("{} calls were lost", done.lost.records)));
    }
    etrace::read(&bytes[..], Limits::GENEROUS).map_err(LabError::data)
}

/// The order that the rules give.
pub(crate) fn root() -> Order {
    Order::Root(Rules::default())
}

/// The same, and a thread begins after the call that made it: for predictions. Else its first call would come as late
/// as where it was recorded, whatever its maker had to wait for there.
pub(crate) fn prediction() -> Order {
    Order::Root(Rules::default() | Rules::THREAD_STAGE)
}

/// The modes that experiments with readers compare.
pub(crate) fn modes() -> [(&'static str, Order); 3] {
    [("root", root()), ("temporal", Order::Temporal), ("single", Order::Single)]
}

/// The same order, but where calls that only look at a file or descriptor have none among each other.
pub(crate) fn with_rw(order: Order) -> Order {
    match order {
        Order::Root(rules) => Order::Root((rules | Rules::FILE_RW | Rules::FD_RW) - Rules::FILE_SEQ - Rules::FD_SEQ),
        others => others,
    }
}

/// Compiles.
///
/// # Errors
/// A trace that contradicts itself.
pub(crate) fn compiled(trace: Trace) -> Result<Program, LabError> {
    compile(trace, &mut |_| {}).map_err(LabError::data)
}

/// A trace of one process and its threads, without an action.
pub(crate) fn begun(threads: u32, name: &str) -> Trace {
    let mut trace = Trace::new(Platform::Linux, "experiment");
    trace.processes.push(Process { pid: 1, parent: None, cwd: PathBytes::from("/"), umask: 0o22 });
    let thread = |tid| Thread { tid: tid + 1, process: ProcessId(0), parent: None, name: Word::from(name) };
    trace.threads = (0..threads).map(thread).collect();
    trace
}

/// A call that a thread makes within a time.
pub(crate) fn action(thread: u32, [enter, leave]: [u64; 2], call: Call, result: i64) -> Action {
    let (thread, outcome) = (ThreadId(thread), Outcome::Done(result));
    Action { thread, enter: Time(enter), leave: Time(leave), call, outcome }
}

/// A program on one target: a recording, and the middle time of its runs.
pub(crate) struct Source {
    /// The recording.
    pub program: Program,
    /// Nanoseconds.
    pub elapsed_ns: f64,
}

impl Source {
    /// The time in whole milliseconds.
    pub(crate) fn ms(&self) -> u64 {
        (self.elapsed_ns / 1e6) as u64
    }

    /// The relative error of a replay that took so long here, where the program itself was measured; too long if
    /// positive.
    pub(crate) fn error(&self, elapsed_ns: f64) -> f64 {
        (elapsed_ns - self.elapsed_ns) / self.elapsed_ns
    }
}

/// How a program is replayed.
#[derive(Clone, Copy)]
pub(crate) struct How {
    /// The order.
    pub order: Order,
    /// The speed.
    pub speed: Speed,
    /// How the tree is made first.
    pub init: InitMode,
    /// What `fsync` means.
    pub fsync: FsyncMeans,
    /// How often.
    pub repeat: u32,
    /// How long nothing may happen.
    pub patience: Nanos,
    /// Seed of what is written.
    pub seed: u64,
}

impl How {
    /// At the speed at which it was recorded.
    pub(crate) fn paced(order: Order, seed: u64) -> How {
        How::plain(order, Speed::Scaled(1.0), seed)
    }

    /// Once, durably, on the tree put right.
    pub(crate) fn plain(order: Order, speed: Speed, seed: u64) -> How {
        let patience = Nanos::secs(30);
        How { order, speed, init: InitMode::Delta, fsync: FsyncMeans::Durable, repeat: 1, patience, seed }
    }
}

/// Replays in a run directory. Caches stay as they are.
///
/// # Errors
/// What kept it from being replayed.
pub(crate) fn replayed(program: &Program, dir: &Path, how: How) -> Result<Report, LabError> {
    let How { order, speed, fsync, repeat, patience, seed, .. } = how;
    let (exchange, platform) = (ExchangeBy::Link, Platform::Linux);
    let kernel = KernelOptions { fsync, exchange, platform, keep_modes: false, seed };
    let replay = ReplayOptions { kernel, patience };
    let options = RunOptions { order, speed, init: init_options(how.init, seed), replay, repeat };
    let reactor = Reactor::new(RealConfig::seeded(how.seed))?;
    let job = ReplayInput { name: "experiment".to_string(), program: program.clone() };
    let reports = run(vec![job], dir, options, &reactor, &mut |_| {});
    let mut reports = reports.map_err(LabError::data)?;
    Ok(reports.remove(0))
}

/// Makes the tree of a snapshot in a run directory.
///
/// # Errors
/// What the kernel says.
pub(crate) fn laid_out(dir: &Path, snapshot: &Snapshot, mode: InitMode, seed: u64) -> Result<(), LabError> {
    initialise(dir, snapshot, init_options(mode, seed), &mut |_| {}).map(drop).map_err(LabError::data)
}

/// The usual choices of an initialisation.
pub(crate) fn init_options(mode: InitMode, seed: u64) -> InitOptions {
    InitOptions { mode, force: false, keep_modes: false, max_bytes: None, drop_caches: false, seed }
}

/// Makes the tree of a snapshot on a new file system, where a replay finds it.
///
/// # Errors
/// What the kernel refuses.
pub(crate) fn afresh(on: &Mounted, snapshot: &Snapshot, seed: u64) -> Result<(), LabError> {
    on.renew()?;
    laid_out(&on.run_dir(), snapshot, InitMode::Full, seed)
}

/// Replays on a new file system that has forgotten what its files hold, as a program found it that was run there first.
/// `how.init` has no say.
///
/// # Errors
/// As [`replayed`], and what the kernel refuses.
pub(crate) fn replayed_cold(program: &Program, on: &Mounted, how: How) -> Result<Report, LabError> {
    afresh(on, program.snapshot(), how.seed)?;
    on.forget()?;
    replayed(program, &on.run_dir(), How { init: InitMode::None, ..how })
}

/// Reads all files of a program's tree outside of one folder: they were in memory when the program ran.
///
/// # Errors
/// What the kernel says.
pub(crate) fn warm(program: &Program, folder: &Path, tree: &Path) -> Result<(), LabError> {
    let own = folder.as_os_str().as_encoded_bytes();
    for (path, entry) in &program.snapshot().entries {
        let inside = String::from_utf8_lossy(path.strip_prefix(b"/").unwrap_or(path)).into_owned();
        if matches!(entry.kind, EntryKind::File { .. }) && !path.starts_with(own) {
            let file = tree.join(inside);
            std::fs::read(&file).map_err(LabError::scratch(&file))?;
        }
    }
    Ok(())
}
