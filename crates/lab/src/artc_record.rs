//! The part of `artc-overhead` that is about recording: what it costs a call, and beside strace.

use std::io;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use esker_trace_record::{Method, RecordError, Recorded, Settings, Target, record};
use rustix::fs::{Access, access};

use crate::artc::recording;
use esker_lab_kit::{Figure, Lab, LabError, peer, timing};

const PAIRS: u32 = 9;
/// How often is looked whether the recorder is ready.
const LOOK: Duration = Duration::from_millis(1);

/// `ns_per_call` and `record_over_strace`.
pub(crate) fn figures(lab: &Lab<'_>) -> Result<Vec<Figure>, LabError> {
    Ok(vec![ns_per_call(lab)?, record_over_strace(lab)?])
}

fn settings() -> Settings {
    recording(Method::Kernel, Vec::new())
}

fn failed(error: RecordError) -> LabError {
    peer::fault("the recorder", error)
}

/// A loop of calls with one path each, while this process is recorded and while it is not, in turns.
fn ns_per_call(lab: &Lab<'_>) -> Result<Figure, LabError> {
    let calls = lab.scale(50_000, 300_000);
    let dir = lab.folder()?;
    let path = dir.path().join("a/file/at/some/depth");
    let [cost, bare] = timing::medians_of(PAIRS, |pair| {
        let bare = loop_of_calls(&path, calls);
        let recorded = while_recorded(calls, || loop_of_calls(&path, calls))?;
        lab.say(format!("pair {pair} of {PAIRS}: {recorded:.0} ns a call recorded, {bare:.0} ns without"));
        Ok([recorded - bare, bare])
    })?;
    Ok(Figure::alone("ns_per_call", cost, "ns added to a call with a path").peer("the call itself, ns", bare))
}

fn loop_of_calls(path: &Path, calls: u32) -> f64 {
    let start = Instant::now();
    for _ in 0..calls {
        // Whether it is there does not matter.
        let _ = access(path, Access::EXISTS);
    }
    start.elapsed().as_nanos() as f64 / f64::from(calls)
}

/// Does `work` while this process is recorded, and makes sure that its calls were.
fn while_recorded(calls: u32, work: impl FnOnce() -> f64) -> Result<f64, LabError> {
    let settings = settings();
    let (stop, ready) = (settings.stop.clone(), settings.ready.clone());
    let target = Target::Process(std::process::id());
    let recorder = thread::spawn(move || record(&target, &settings, io::sink()));
    while !ready.load(Ordering::Acquire) && !recorder.is_finished() {
        thread::sleep(LOOK);
    }
    let result = work();
    stop.store(true, Ordering::Relaxed);
    let recorded = recorder.join().map_err(|_| peer::fault("the recorder", "it panicked"))?.map_err(failed)?;
    all_seen(&recorded, calls)?;
    Ok(result)
}

fn all_seen(recorded: &Recorded, calls: u32) -> Result<(), LabError> {
    if recorded.lost.records > 0 || recorded.actions < u64::from(calls) {
        let (seen, lost) = (recorded.actions, recorded.lost.records);
        let what = format!("{seen} of {calls} calls were seen, {lost} records were lost");
        return Err(peer::fault("the recorder", what));
    }
    Ok(())
}

/// A walk through a tree: bare, recorded, and under strace, which stops at the same calls.
fn record_over_strace(lab: &Lab<'_>) -> Result<Figure, LabError> {
    peer::demand("strace")?;
    let (rounds, tree) = if lab.quick { (3, "/usr/share/doc") } else { (5, "/usr") };
    let walk = ["find", tree, "-newermt", "2100-01-01"];
    bare(&walk)?;
    let [ratio, slowdown] = timing::medians_of(rounds, |round| {
        let (alone, ours, theirs) = (bare(&walk)?, recorded(&walk)?, under_strace(&walk, lab)?);
        lab.say(format!("round {round} of {rounds}: {alone:.2} s, {ours:.2} s recorded, {theirs:.2} s under strace"));
        Ok([(ours - alone) / (theirs - alone), theirs / alone])
    })?;
    let over = Figure::alone("record_over_strace", ratio, "slowdown over strace's");
    Ok(over.peer("strace, times the program alone", slowdown))
}

fn timed(command: &mut Command) -> Result<f64, LabError> {
    let (took, status) = timing::timed(|| command.stdout(Stdio::null()).status());
    let status = status.map_err(|error| peer::fault("find", error))?;
    if status.success() { Ok(took) } else { Err(peer::fault("find", status)) }
}

fn bare(walk: &[&str]) -> Result<f64, LabError> {
    timed(Command::new(walk[0]).args(&walk[1..]))
}

fn under_strace(walk: &[&str], lab: &Lab<'_>) -> Result<f64, LabError> {
    let dir = lab.folder()?;
    let names = "%file,%desc,%process,sync,umask";
    let mut command = Command::new("strace");
    command.args(["-f", "--seccomp-bpf", "-ttt", "-T", "-s", "4096", "-e", &format!("trace={names}"), "-o"]);
    timed(command.arg(dir.path().join("trace")).args(walk))
}

/// From the start of the recorder, its programs in the kernel included, to its end.
fn recorded(walk: &[&str]) -> Result<f64, LabError> {
    let words = walk.iter().map(Into::into).collect();
    let (took, recorded) = timing::timed(|| record(&Target::Program(words), &settings(), io::sink()));
    all_seen(&recorded.map_err(failed)?, 1)?;
    Ok(took)
}
