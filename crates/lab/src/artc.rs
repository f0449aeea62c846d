//! What experiments on replays share: compiling, replaying, programs that know what they did, and model disks with a
//! file system on them.

use std::path::{Path, PathBuf};

use esker_base::Nanos;
use esker_rt::real::{Reactor, RealConfig};
use esker_trace_calls::etrace::{self, Limits};
use esker_trace_calls::{EntryKind, Platform, Snapshot, Trace};
use esker_trace_order::compiled::Program;
use esker_trace_order::model::compile;
use esker_trace_order::rules::{Order, Rules};
use esker_trace_record::{Gate, Method, Settings, Target, record};
use esker_trace_replay::{
    ExchangeBy, FsyncMeans, InitMode, InitOptions, KernelOptions, ReplayInput, ReplayOptions, Report, RunOptions,
    Speed, initialise, run,
};

use esker_lab_kit::{LabError, peer, timing};

use mounted::Mounted;

pub mod leveldb;
pub mod mounted;
pub mod readers;
pub mod suite;

/// Room for all records of an experiment.
const RING_BYTES: u32 = 256 << 20;

/// How an experiment records: `roots` are taken before the program runs.
pub fn recording(method: Method, roots: Vec<PathBuf>) -> Settings {
    let (stop, ready) = Default::default();
    Settings { method, roots, anonymise: None, ring_bytes: RING_BYTES, gate: Gate::Shell, stop, ready }
}

/// Records a program: its words, how it is seen, and what is taken before it runs.
///
/// # Errors
/// What the recorder says, or that it lost calls.
pub fn recorded(words: Vec<String>, method: Method, roots: Vec<PathBuf>) -> Result<Trace, LabError> {
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
pub fn root() -> Order {
    Order::Root(Rules::default())
}

/// The same, and a thread begins after the call that made it: for predictions. Else its first call would come as late
/// as where it was recorded, whatever its maker had to wait for there.
pub fn prediction() -> Order {
    Order::Root(Rules::default() | Rules::THREAD_STAGE)
}

/// The same order, but where calls that only look at a file or descriptor have none among each other.
pub fn with_rw(order: Order) -> Order {
    match order {
        Order::Root(rules) => Order::Root((rules | Rules::FILE_RW | Rules::FD_RW) - Rules::FILE_SEQ - Rules::FD_SEQ),
        others => others,
    }
}

/// Compiles.
///
/// # Errors
/// A trace that contradicts itself.
pub fn compiled(trace: Trace) -> Result<Program, LabError> {
    compile(trace, &mut |_| {}).map_err(LabError::data)
}

/// How a program is replayed.
#[derive(Clone, Copy)]
pub struct How {
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
    /// Once, durably, on the tree put right.
    pub fn plain(order: Order, speed: Speed, seed: u64) -> How {
        let patience = Nanos::secs(30);
        How { order, speed, init: InitMode::Delta, fsync: FsyncMeans::Durable, repeat: 1, patience, seed }
    }
}

/// Replays in a run directory. Caches stay as they are.
///
/// # Errors
/// What kept it from being replayed.
pub fn replayed(program: &Program, dir: &Path, how: How) -> Result<Report, LabError> {
    let kernel = KernelOptions {
        fsync: how.fsync,
        exchange: ExchangeBy::Link,
        platform: Platform::Linux,
        keep_modes: false,
        seed: how.seed,
    };
    let options = RunOptions {
        order: how.order,
        speed: how.speed,
        init: InitOptions {
            mode: how.init,
            force: false,
            keep_modes: false,
            max_bytes: None,
            drop_caches: false,
            seed: how.seed,
        },
        replay: ReplayOptions { kernel, patience: how.patience },
        repeat: how.repeat,
    };
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
pub fn laid_out(dir: &Path, snapshot: &Snapshot, mode: InitMode, seed: u64) -> Result<(), LabError> {
    let options = InitOptions { mode, force: false, keep_modes: false, max_bytes: None, drop_caches: false, seed };
    let made = initialise(dir, snapshot, options, &mut |_| {});
    made.map(drop).map_err(LabError::data)
}

/// Replays on a new file system that has forgotten what its files hold, as a program found it that was run there first.
/// `how.init` has no say.
///
/// # Errors
/// As [`replayed`], and what the kernel refuses.
pub fn replayed_cold(program: &Program, on: &Mounted, how: How) -> Result<Report, LabError> {
    on.renew()?;
    laid_out(&on.run_dir(), program.snapshot(), InitMode::Full, how.seed)?;
    on.forget()?;
    replayed(program, &on.run_dir(), How { init: InitMode::None, ..how })
}

/// Reads all files of a program's tree outside of one folder: they were in memory when the program ran.
///
/// # Errors
/// What the kernel says.
pub fn warm(program: &Program, folder: &Path, tree: &Path) -> Result<(), LabError> {
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

/// The middle one of several runs.
///
/// # Errors
/// The first of a run.
pub fn middle(runs: usize, mut run: impl FnMut() -> Result<f64, LabError>) -> Result<f64, LabError> {
    Ok(timing::median((0..runs).map(|_| run()).collect::<Result<Vec<_>, _>>()?))
}
