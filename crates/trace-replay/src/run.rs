//! Whole runs: the initial tree, one or several traces on it at once, as often as wanted, and their reports.

use std::path::Path;
use std::sync::Arc;

use esker_base::Progress;
use esker_rt::Rt;
use esker_rt::real::Reactor;
use esker_trace_calls::words::AsyncKind;
use esker_trace_calls::{Call, FinalTree, Snapshot};
use esker_trace_order::compiled::Program;
use esker_trace_order::rules::Order;

use crate::init::{InitError, InitMode, InitOptions, OverlayError, check_max, initialise, overlay};
use crate::kernel::KernelOptions;
use crate::outcome::{Heading, report};
use crate::replay::{Finished, ReplayError, ReplayOptions, replay};
use crate::report::{Initialised, Report, TreeDifferences};
use crate::root::Root;
use crate::script::{Script, Speed};
use crate::settled::differences;

/// A trace to be replayed.
#[derive(Clone)]
pub struct ReplayInput {
    /// What reports call it.
    pub name: String,
    /// The compiled trace.
    pub program: Program,
}

/// The choices of a run.
#[derive(Clone, Copy, Debug)]
pub struct RunOptions {
    /// Which orders are allowed.
    pub order: Order,
    /// How much of the traced computation is slept.
    pub speed: Speed,
    /// How the tree is made, first.
    pub init: InitOptions,
    /// Those of each replay; the platform is each trace's own.
    pub replay: ReplayOptions,
    /// How often all is replayed, at least once. Between replays the tree is put right again, unless it is not made at
    /// all.
    pub repeat: u32,
}

/// Why a run came to no end.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The tree.
    #[error(transparent)]
    Init(#[from] InitError),
    /// Traces that do not fit on one tree.
    #[error(transparent)]
    Overlay(#[from] OverlayError),
    /// The replay.
    #[error(transparent)]
    Replay(#[from] ReplayError),
}

/// The one tree for all of `jobs`, and what had to be decided for it.
///
/// # Errors
/// If two traces have different things at one path.
pub fn tree(jobs: &[ReplayInput]) -> Result<(Snapshot, Vec<String>), OverlayError> {
    let snapshots: Vec<&Snapshot> = jobs.iter().map(|job| job.program.snapshot()).collect();
    let (tree, conflicts) = overlay(&snapshots)?;
    let note = |conflict: crate::init::Conflict| {
        let (smaller, larger) = conflict.sizes;
        format!("{}: is {smaller} bytes in one trace and {larger} in another: it was made larger", conflict.path)
    };
    Ok((tree, conflicts.into_iter().map(note).collect()))
}

/// Replays all of `jobs` at once in the run directory `dir`, as often as wanted. Gives a report of each: of the
/// repetition whose elapsed time is in the middle, with the mismatches of the one that had most.
///
/// # Errors
/// [`RunError`]; calls that come out otherwise are no error.
pub fn run(
    jobs: Vec<ReplayInput>,
    dir: &Path,
    options: RunOptions,
    reactor: &Reactor,
    progress: &mut dyn FnMut(Progress<'_>),
) -> Result<Vec<Report>, RunError> {
    let (snapshot, notes) = tree(&jobs)?;
    let parts: Vec<ScriptedTrace> = jobs.into_iter().map(|job| ScriptedTrace::new(job, options)).collect();
    let written = parts.iter().map(|part| part.written).fold(0, u64::saturating_add);
    check_max(dir, &snapshot, written, options.init.max_bytes)?;
    let mut reports: Vec<Vec<Report>> = parts.iter().map(|_| Vec::new()).collect();
    let rounds = options.repeat.max(1);
    for round in 0..rounds {
        let mode = if round > 0 && options.init.mode == InitMode::Full { InitMode::Delta } else { options.init.mode };
        let (root, mut done) = initialise(dir, &snapshot, InitOptions { mode, ..options.init }, progress)?;
        done.notes.extend(notes.iter().cloned());
        let root = Arc::new(root);
        let what = if rounds > 1 { format!("replay {} of {rounds} of", round + 1) } else { "replay of".to_string() };
        let finished = reactor.block_on(play_all(reactor.rt(), what, parts.clone(), root.clone(), options.replay));
        for ((part, finished), reports) in parts.iter().zip(finished?).zip(&mut reports) {
            let tree = part.tree_differences(&finished, &root, parts.len(), options.replay.kernel);
            reports.push(part.report(&finished, dir, &done, options.replay.kernel, tree));
        }
    }
    Ok(reports.into_iter().map(choose).collect())
}

/// Bytes that the calls of a script write or allocate at most.
pub(crate) fn written(script: &Script) -> u64 {
    script.program().steps().iter().map(|step| bytes_written(&step.call)).fold(0, u64::saturating_add)
}

fn bytes_written(call: &Call) -> u64 {
    match call {
        Call::Write { len, .. }
        | Call::Pwrite { len, .. }
        | Call::SendFile { len, .. }
        | Call::CopyRange { len, .. }
        | Call::Splice { len, .. }
        | Call::CloneRange { len, .. } => *len,
        Call::Allocate { len, .. } | Call::Preallocate { len, .. } => u64::try_from(*len).unwrap_or(0),
        Call::AsyncSubmit { ops, .. } => {
            let writes = ops.iter().filter(|op| op.kind == AsyncKind::Write);
            writes.map(|op| op.len).fold(0, u64::saturating_add)
        }
        _ => 0,
    }
}

/// The tree that the program left, if that behind a replay of so many traces can be compared with it.
///
/// # Errors
/// Why not.
pub(crate) fn comparable<'a>(
    script: &'a Script,
    finished: &Finished,
    traces: usize,
) -> Result<&'a FinalTree, &'static str> {
    match script.program().after() {
        None => Err("the recording does not tell the files after the program (--root)"),
        Some(_) if traces > 1 => Err("several traces were replayed on one tree"),
        Some(_) if finished.stuck.is_some() => Err("the replay was stopped"),
        Some(after) => Ok(after),
    }
}

/// A trace, cast.
#[derive(Clone)]
struct ScriptedTrace {
    name: String,
    script: Arc<Script>,
    /// Bytes that its calls write at most.
    written: u64,
}

impl ScriptedTrace {
    fn new(job: ReplayInput, options: RunOptions) -> ScriptedTrace {
        let script = Script::new(job.program, options.order, options.speed);
        let written = written(&script);
        ScriptedTrace { name: job.name, script: Arc::new(script), written }
    }

    fn options(&self, kernel: KernelOptions) -> KernelOptions {
        KernelOptions { platform: self.script.program().about().platform, ..kernel }
    }

    /// How the tree differs from that after the program; `traces` were replayed on it.
    fn tree_differences(
        &self,
        finished: &Finished,
        root: &Root,
        traces: usize,
        kernel: KernelOptions,
    ) -> TreeDifferences {
        match comparable(&self.script, finished, traces) {
            Err(why) => TreeDifferences::none(why),
            Ok(after) => differences(root, after, kernel.keep_modes)
                .unwrap_or_else(|error| TreeDifferences::none(&format!("the tree cannot be looked at: {error}"))),
        }
    }

    fn report(
        &self,
        finished: &Finished,
        dir: &Path,
        done: &Initialised,
        kernel: KernelOptions,
        tree_differences: TreeDifferences,
    ) -> Report {
        let heading = Heading {
            trace: self.name.clone(),
            dir: dir.display().to_string(),
            init: Some(done.clone()),
            options: self.options(kernel),
            tree_differences,
        };
        report(finished, &heading)
    }
}

async fn play_all(
    rt: Rt,
    what: String,
    parts: Vec<ScriptedTrace>,
    root: Arc<Root>,
    options: ReplayOptions,
) -> Result<Vec<Finished>, ReplayError> {
    let replays = parts.into_iter().map(|part| {
        let options = ReplayOptions { kernel: part.options(options.kernel), ..options };
        let what = format!("{what} {}", part.name);
        rt.spawn("replay", replay(rt.clone(), what, part.script, root.clone(), options))
    });
    let mut finished = Vec::new();
    for one in replays.collect::<Vec<_>>() {
        finished.push(one.await?);
    }
    Ok(finished)
}

/// Calls `work` while this process masks no permission bits of new files: a trace's masks were worked in when it was
/// compiled, and ours would be applied on top. It is one mask for all threads, so the owner of the process decides.
pub fn without_mask<T>(work: impl FnOnce() -> T) -> T {
    let mask = rustix::process::umask(rustix::fs::Mode::empty());
    let done = work();
    rustix::process::umask(mask);
    done
}

/// The report in the middle, with all elapsed times, the most mismatches and the most differences of the tree.
pub(crate) fn choose(mut reports: Vec<Report>) -> Report {
    let repeats_ns: Vec<u64> = reports.iter().map(|report| report.elapsed_ns).collect();
    let worst = reports.iter().max_by_key(|report| report.mismatches.count).map(|report| report.mismatches.clone());
    let tree = reports.iter().map(|report| &report.tree_differences).max_by_key(|tree| tree.count).cloned();
    let stopped = reports.iter().find_map(|report| report.stopped.clone());
    reports.sort_by_key(|report| report.elapsed_ns);
    let mut report = reports.swap_remove(reports.len() / 2);
    report.repeats_ns = repeats_ns;
    report.mismatches = worst.expect("there is at least one repetition");
    report.tree_differences = tree.expect("there is at least one repetition");
    report.stopped = stopped;
    report.with_prediction()
}

#[cfg(test)]
mod tests;
