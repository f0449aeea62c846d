//! `artc-overhead`: what replaying costs beside the calls themselves, and how far paced calls drift.

use std::path::Path;
use std::time::Instant;

use esker_base::Time;
use esker_trace_calls::words::OpenFlags;
use esker_trace_calls::{
    Action, Call, Entry, EntryKind, Fd, Object, Outcome, PathBytes, Platform, Process, ProcessId, Thread, ThreadId,
    Trace, Word,
};
use esker_trace_replay::Speed;
use rustix::fs::{Mode, OFlags};

use crate::artc::{How, compiled, replayed, root};
use crate::artc_record;
use esker_lab_kit::{Experiment, Figure, LabError, Options, Peer, peer, scratch, timing};

/// The record.
pub const EXPERIMENT: Experiment = Experiment {
    name: "artc-overhead",
    summary: "What a replay costs beside its calls, and how far paced calls drift",
    source: "the issue of replay: at most 2 times a plain loop, at most 0.1 % drift at 50,000 calls a second",
    simulated: false,
    rivals: &["strace"],
    run,
};

const PAIRS: usize = 5;
/// Between two paced calls.
const PERIOD_NS: u64 = 20_000;
/// How far fio's own replay drifts at that rate, by the thesis.
const FIO_DRIFT: f64 = 0.077;

fn run(options: &Options, progress: &mut dyn FnMut(&str)) -> Result<Vec<Figure>, LabError> {
    let calls = if options.quick { 200_000 } else { 1_000_000 };
    let paced = if options.quick { 50_000 } else { 250_000 };
    let mut figures = vec![replay_over_loop(options, calls, progress)?, pacing_drift(options, paced, progress)?];
    figures.extend(artc_record::figures(options, progress)?);
    Ok(figures)
}

/// A replay of `fstat`s on one thread against a loop of them.
fn replay_over_loop(options: &Options, calls: u32, progress: &mut dyn FnMut(&str)) -> Result<Figure, LabError> {
    let dir = scratch::folder(&options.scratch)?;
    let program = compiled(trace((0..calls).map(|at| (u64::from(at) * 10, u64::from(at) * 10 + 5))))?;
    let how = How::plain(root(), Speed::Afap, options.seed);
    let (mut ratios, mut loops) = (Vec::new(), Vec::new());
    for pair in 1..=PAIRS {
        let report = replayed(&program, dir.path(), how)?;
        let plain = plain_loop(dir.path(), calls)?;
        let per_call = report.elapsed_ns as f64 / f64::from(calls);
        progress(&format!("pair {pair} of {PAIRS}: {per_call:.0} ns a call replayed, {plain:.0} ns in a loop"));
        ratios.push(per_call / plain);
        loops.push(plain);
    }
    let peer =
        Some(Peer { name: "plain loop of the same calls, ns per call".to_string(), value: timing::median(loops) });
    Ok(Figure::alone("replay_over_loop", timing::median(ratios), "ratio").beside(peer))
}

fn plain_loop(dir: &Path, calls: u32) -> Result<f64, LabError> {
    let file = open(dir)?;
    let start = Instant::now();
    for _ in 0..calls {
        stat(&file)?;
    }
    Ok(start.elapsed().as_nanos() as f64 / f64::from(calls))
}

/// Opens the very file that replays ask about, so that the calls are the same.
fn open(dir: &Path) -> Result<std::os::fd::OwnedFd, LabError> {
    let path = dir.join(esker_trace_replay::init::TREE).join("f");
    let file = rustix::fs::open(&path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty());
    file.map_err(|error| peer::fault("the loop", error.to_string()))
}

fn stat(file: &std::os::fd::OwnedFd) -> Result<(), LabError> {
    rustix::fs::fstat(file).map(drop).map_err(|error| peer::fault("the loop", error.to_string()))
}

/// A program that calls at fixed instants, and its replay at natural speed: how much the elapsed times differ.
fn pacing_drift(options: &Options, calls: u32, progress: &mut dyn FnMut(&str)) -> Result<Figure, LabError> {
    let dir = scratch::folder(&options.scratch)?;
    let how = How::plain(root(), Speed::Scaled(1.0), options.seed);
    // The first replay makes the file that the program asks about.
    replayed(&compiled(trace([(0, 1)].into_iter()))?, dir.path(), how)?;
    let mut drifts = Vec::new();
    for round in 1..=PAIRS {
        let spans = paced_program(dir.path(), calls)?;
        let elapsed = spans.last().expect("it made calls").1 - spans[0].0;
        let report = replayed(&compiled(trace(spans.into_iter()))?, dir.path(), how)?;
        let drift = report.elapsed_ns.abs_diff(elapsed) as f64 / elapsed as f64;
        progress(&format!("round {round} of {PAIRS}: {} ns replayed, {elapsed} ns traced", report.elapsed_ns));
        drifts.push(drift);
    }
    Ok(Figure::alone("pacing_drift_50k", timing::median(drifts), "share of the elapsed time").paper(FIO_DRIFT))
}

/// Entries and returns of calls that come at a fixed rate.
fn paced_program(dir: &Path, calls: u32) -> Result<Vec<(u64, u64)>, LabError> {
    let file = open(dir)?;
    let origin = Instant::now();
    let now = || origin.elapsed().as_nanos() as u64;
    let mut spans = Vec::with_capacity(calls as usize);
    for at in 0..u64::from(calls) {
        while now() < at * PERIOD_NS {
            std::hint::spin_loop();
        }
        let enter = now();
        stat(&file)?;
        spans.push((enter, now()));
    }
    Ok(spans)
}

/// One thread that opens a file and asks for its metadata at those times.
fn trace(spans: impl Iterator<Item = (u64, u64)>) -> Trace {
    let mut trace = Trace::new(Platform::Linux, "experiment");
    trace.processes.push(Process { pid: 1, parent: None, cwd: PathBytes::from("/"), umask: 0o22 });
    trace.threads.push(Thread { tid: 1, process: ProcessId(0), parent: None, name: Word::from("") });
    trace.snapshot.entries.insert(PathBytes::from("/f"), Entry::plain(EntryKind::File { size: 4096 }));
    // The file is open before the first call, so that the trace holds nothing but them.
    trace.inherited.push(esker_trace_calls::Inherited {
        process: ProcessId(0),
        fd: Fd(3),
        kind: esker_trace_calls::words::FileKind::Regular,
        path: Some(PathBytes::from("/f")),
        flags: OpenFlags::READ,
        offset: 0,
        group: 0,
    });
    let stat = || Call::Stat { file: Object::Fd(Fd(3)), seen: None };
    trace.actions = spans
        .map(|(enter, leave)| Action {
            thread: ThreadId(0),
            enter: Time(enter),
            leave: Time(leave),
            call: stat(),
            outcome: Outcome::Done(0),
        })
        .collect();
    trace
}
