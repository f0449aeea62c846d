//! Replays of hostile traces: whatever a recording says, nothing outside of the run directory changes, what is left
//! grants no rights, and the replay ends.

use std::path::{Path, PathBuf};

use esker_base::Nanos;
use esker_rt::real::{Reactor, RealConfig};
use esker_trace_calls::Platform;
use esker_trace_calls::generate::hostile;
use esker_trace_order::compiled::Program;
use esker_trace_order::model::compile;
use esker_trace_order::rules::Order;
use esker_trace_replay::{
    ExchangeBy, FsyncMeans, InitMode, InitOptions, KernelOptions, ReplayInput, ReplayOptions, RunOptions, Speed, audit,
    run,
};
use tempfile::TempDir;

use crate::compiled::read;
use crate::etrace::unpacked;
use crate::trace::{strace_corpus, written};

/// What a trace may have made and written.
const BYTES_MAX: u64 = 4 << 20;
/// Calls that are played of one trace.
const CALLS_MAX: usize = 400;
/// How long a call may wait for another end.
const PATIENCE: Nanos = Nanos::millis(200);
/// In memory: no device is synchronised.
const FAST: &str = "/dev/shm";
/// Traces of an attacker to begin with.
const SEEDS: u64 = 12;

/// A run directory beside what must stay as it is.
struct Scene {
    dir: TempDir,
    before: Vec<String>,
    reactor: Reactor,
}

pub(crate) fn corpus() -> Vec<Vec<u8>> {
    // Where `outside` is differs from run to run: hostile paths climb to it from the run directory instead.
    let attacks = (0..SEEDS).map(|seed| unpacked(&written(&hostile(seed, "/outside"))));
    attacks.chain(strace_corpus()).collect()
}

pub(crate) fn try_input(input: &[u8]) -> Result<bool, String> {
    let Some(trace) = read(input).filter(|trace| trace.actions.len() <= CALLS_MAX) else { return Ok(false) };
    let Ok(program) = compile(trace, &mut |_| {}) else { return Ok(false) };
    Scene::new().play(program)
}

impl Scene {
    fn new() -> Scene {
        let parent = if Path::new(FAST).is_dir() { PathBuf::from(FAST) } else { std::env::temp_dir() };
        let dir = tempfile::tempdir_in(parent).expect("a directory can be made");
        std::fs::create_dir_all(dir.path().join("outside/sub")).expect("a directory can be made");
        std::fs::write(dir.path().join("outside/kept"), "kept").expect("a file can be written");
        let before = audit::picture(&dir.path().join("outside")).expect("the directory can be read");
        Scene { dir, before, reactor: Reactor::new(RealConfig::seeded(1)).expect("this machine has a kernel") }
    }

    /// Whether the trace was played to its end.
    fn play(&self, program: Program) -> Result<bool, String> {
        let run_dir = self.dir.path().join("run");
        let jobs = vec![ReplayInput { name: "hostile".to_string(), program }];
        let played = run(jobs, &run_dir, options(), &self.reactor, &mut |_| {});
        let now = audit::picture(&self.dir.path().join("outside")).map_err(|error| error.to_string())?;
        if now != self.before {
            return Err("something outside of the run directory changed".to_string());
        }
        if std::fs::read_dir(self.dir.path()).map_err(|error| error.to_string())?.count() > 2 {
            return Err("something was made beside the run directory".to_string());
        }
        match audit::privileges(&run_dir) {
            Ok(rights) if rights.is_empty() => Ok(played.is_ok()),
            Ok(rights) => Err(format!("rights are left: {}", rights.join(", "))),
            // It was refused before it was made.
            Err(_) if !run_dir.exists() => Ok(false),
            Err(error) => Err(error.to_string()),
        }
    }
}

fn options() -> RunOptions {
    let (keep_modes, seed) = (false, 1);
    let (fsync, exchange, platform) = (FsyncMeans::Durable, ExchangeBy::Link, Platform::Linux);
    RunOptions {
        order: Order::Single,
        speed: Speed::Afap,
        init: InitOptions {
            mode: InitMode::Full,
            force: false,
            keep_modes,
            max_bytes: Some(BYTES_MAX),
            drop_caches: false,
            seed,
        },
        replay: ReplayOptions {
            kernel: KernelOptions { fsync, exchange, platform, keep_modes, seed },
            patience: PATIENCE,
        },
        repeat: 1,
    }
}
