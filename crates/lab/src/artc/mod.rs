//! What experiments on replays share: compiling, replaying, programs that know what they did, and model disks with a file
//! system on them.

use std::path::Path;

use esker_base::Nanos;
use esker_replay::{
    ExchangeBy, FsyncMeans, InitMode, InitOptions, Job, KernelOptions, ReplayOptions, Report, RunOptions, Speed, run,
};
use esker_rt::real::{Reactor, RealConfig};
use esker_trace::compiled::Program;
use esker_trace::model::compile;
use esker_trace::rules::{Order, Rules};
use esker_trace::{Platform, Trace};

use crate::experiment::LabError;

pub mod mounted;
pub mod readers;

/// The order that the rules give.
pub fn root() -> Order {
    Order::Root(Rules::default())
}

/// Compiles.
///
/// # Errors
/// A trace that contradicts itself.
pub fn compiled(trace: Trace) -> Result<Program, LabError> {
    compile(trace, &mut |_| {}).map_err(|error| LabError::Data(error.to_string()))
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
    /// Seed of what is written.
    pub seed: u64,
}

impl How {
    /// Once, durably, on the tree put right.
    pub fn plain(order: Order, speed: Speed, seed: u64) -> How {
        How { order, speed, init: InitMode::Delta, fsync: FsyncMeans::Durable, repeat: 1, seed }
    }
}

/// Replays in a run directory. Caches stay as they are.
///
/// # Errors
/// What kept it from being replayed.
pub fn replayed(program: &Program, dir: &Path, how: How) -> Result<Report, LabError> {
    let kernel =
        KernelOptions { fsync: how.fsync, exchange: ExchangeBy::Link, platform: Platform::Linux, seed: how.seed };
    let options = RunOptions {
        order: how.order,
        speed: how.speed,
        init: InitOptions { mode: how.init, force: false, drop_caches: false, seed: how.seed },
        replay: ReplayOptions { kernel, patience: Nanos::secs(30) },
        repeat: how.repeat,
    };
    let reactor = Reactor::new(RealConfig::seeded(how.seed))?;
    let job = Job { name: "experiment".to_string(), program: program.clone() };
    let reports = run(vec![job], dir, options, &reactor, &mut |_| {});
    let mut reports = reports.map_err(|error| LabError::Data(error.to_string()))?;
    Ok(reports.remove(0))
}
