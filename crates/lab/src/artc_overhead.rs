//! `artc-overhead`: what replaying costs beside the calls themselves, and how far paced calls drift.

use std::path::Path;
use std::time::Instant;

use esker_trace_calls::words::OpenFlags;
use esker_trace_calls::{Call, Entry, EntryKind, Fd, Object, PathBytes, ProcessId, Trace};
use esker_trace_replay::Speed;
use rustix::fs::{Mode, OFlags};

use crate::artc::{How, action, begun, compiled, replayed, root};
use crate::artc_record;
use esker_lab_kit::{Figure, Lab, LabError, peer, timing};

const PAIRS: u32 = 5;
/// Between two paced calls.
const PERIOD_NS: u64 = 20_000;
/// How far fio's own replay drifts at that rate, by the thesis.
const FIO_DRIFT: f64 = 0.077;

pub(crate) fn run(lab: &Lab<'_>) -> Result<Vec<Figure>, LabError> {
    let replay = replay_over_loop(lab.scale(200_000, 1_000_000), lab)?;
    let drift = pacing_drift(lab.scale(50_000, 250_000), lab)?;
    Ok([replay, drift].into_iter().chain(artc_record::figures(lab)?).collect())
}

/// A replay of `fstat`s on one thread against a loop of them.
fn replay_over_loop(calls: u32, lab: &Lab<'_>) -> Result<Figure, LabError> {
    let dir = lab.folder()?;
    let program = compiled(trace((0..calls).map(|at| (u64::from(at) * 10, u64::from(at) * 10 + 5))))?;
    let how = How::plain(root(), Speed::Afap, lab.seed);
    let (mut replays, mut loops) = (Vec::new(), Vec::new());
    for pair in 1..=PAIRS {
        let report = replayed(&program, dir.path(), how)?;
        let plain = plain_loop(dir.path(), calls)?;
        let per_call = report.elapsed_ns as f64 / f64::from(calls);
        lab.say(format!("pair {pair} of {PAIRS}: {per_call:.0} ns a call replayed, {plain:.0} ns in a loop"));
        replays.push(per_call);
        loops.push(plain);
    }
    Ok(timing::over("replay_over_loop", &replays, loops, "plain loop of the same calls, ns per call"))
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
fn pacing_drift(calls: u32, lab: &Lab<'_>) -> Result<Figure, LabError> {
    let dir = lab.folder()?;
    let how = How::paced(root(), lab.seed);
    // The first replay makes the file that the program asks about.
    replayed(&compiled(trace([(0, 1)].into_iter()))?, dir.path(), how)?;
    let [drift] = timing::medians_of(PAIRS, |round| {
        let spans = paced_program(dir.path(), calls)?;
        let elapsed = spans.last().expect("it made calls").1 - spans[0].0;
        let report = replayed(&compiled(trace(spans.into_iter()))?, dir.path(), how)?;
        let drift = report.elapsed_ns.abs_diff(elapsed) as f64 / elapsed as f64;
        lab.say(format!("round {round} of {PAIRS}: {} ns replayed, {elapsed} ns traced", report.elapsed_ns));
        Ok([drift])
    })?;
    Ok(Figure::alone("pacing_drift_50k", drift, "share of the elapsed time").paper(FIO_DRIFT))
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
    let mut trace = begun(1, "");
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
    trace.actions = spans.map(|(enter, leave)| action(0, [enter, leave], stat(), 0)).collect();
    trace
}
