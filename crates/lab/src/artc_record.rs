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
use esker_lab_kit::{Figure, LabError, Options, Peer, peer, scratch, timing};

const PAIRS: usize = 9;
/// How often is looked whether the recorder is ready.
const LOOK: Duration = Duration::from_millis(1);

/// `ns_per_call` and `record_over_strace`.
pub fn figures(options: &Options, progress: &mut dyn FnMut(&str)) -> Result<Vec<Figure>, LabError> {
    Ok(vec![ns_per_call(options, progress)?, record_over_strace(options, progress)?])
}

fn settings() -> Settings {
    recording(Method::Kernel, Vec::new())
}

fn failed(error: RecordError) -> LabError {
    peer::fault("the recorder", error)
}

/// A loop of calls with one path each, while this process is recorded and while it is not, in turns.
fn ns_per_call(options: &Options, progress: &mut dyn FnMut(&str)) -> Result<Figure, LabError> {
    let calls = if options.quick { 50_000 } else { 300_000 };
    let dir = scratch::folder(&options.scratch)?;
    let path = dir.path().join("a/file/at/some/depth");
    let (mut costs, mut bare_costs) = (Vec::new(), Vec::new());
    for pair in 1..=PAIRS {
        let bare = loop_of_calls(&path, calls);
        let recorded = while_recorded(calls, || loop_of_calls(&path, calls))?;
        progress(&format!("pair {pair} of {PAIRS}: {recorded:.0} ns a call recorded, {bare:.0} ns without"));
        costs.push(recorded - bare);
        bare_costs.push(bare);
    }
    let peer = Some(Peer { name: "the call itself, ns".to_string(), value: timing::median(bare_costs) });
    Ok(Figure::alone("ns_per_call", timing::median(costs), "ns added to a call with a path").beside(peer))
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
        return Err(peer::fault(
            "the recorder",
            format!("{seen} of {calls} calls were seen, {lost} records were lost"),
        ));
    }
    Ok(())
}

/// A walk through a tree: bare, recorded, and under strace, which stops at the same calls.
fn record_over_strace(options: &Options, progress: &mut dyn FnMut(&str)) -> Result<Figure, LabError> {
    peer::demand("strace")?;
    let (rounds, tree) = if options.quick { (3, "/usr/share/doc") } else { (5, "/usr") };
    let walk = ["find", tree, "-newermt", "2100-01-01"];
    let (mut ratios, mut slowdowns) = (Vec::new(), Vec::new());
    bare(&walk)?;
    for round in 1..=rounds {
        let (alone, ours, theirs) = (bare(&walk)?, recorded(&walk)?, under_strace(&walk, options)?);
        progress(&format!("round {round} of {rounds}: {alone:.2} s, {ours:.2} s recorded, {theirs:.2} s under strace"));
        ratios.push((ours - alone) / (theirs - alone));
        slowdowns.push(theirs / alone);
    }
    let peer = Some(Peer { name: "strace, times the program alone".to_string(), value: timing::median(slowdowns) });
    Ok(Figure::alone("record_over_strace", timing::median(ratios), "slowdown over strace's").beside(peer))
}

fn timed(command: &mut Command) -> Result<f64, LabError> {
    let start = Instant::now();
    let status = command.stdout(Stdio::null()).status().map_err(|error| peer::fault("find", error))?;
    let took = start.elapsed().as_secs_f64();
    if status.success() { Ok(took) } else { Err(peer::fault("find", status)) }
}

fn bare(walk: &[&str]) -> Result<f64, LabError> {
    timed(Command::new(walk[0]).args(&walk[1..]))
}

fn under_strace(walk: &[&str], options: &Options) -> Result<f64, LabError> {
    let dir = scratch::folder(&options.scratch)?;
    let names = "%file,%desc,%process,sync,umask";
    let mut command = Command::new("strace");
    command.args(["-f", "--seccomp-bpf", "-ttt", "-T", "-s", "4096", "-e", &format!("trace={names}"), "-o"]);
    timed(command.arg(dir.path().join("trace")).args(walk))
}

/// From the start of the recorder, its programs in the kernel included, to its end.
fn recorded(walk: &[&str]) -> Result<f64, LabError> {
    let words = walk.iter().map(Into::into).collect();
    let start = Instant::now();
    let recorded = record(&Target::Program(words), &settings(), io::sink()).map_err(failed)?;
    let took = start.elapsed().as_secs_f64();
    all_seen(&recorded, 1)?;
    Ok(took)
}
