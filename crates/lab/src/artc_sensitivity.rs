//! `artc-sensitivity`: what each rule is for. Each is left out in turn: how many calls of recorded and generated traces come out
//! otherwise then, as fast as possible, and how far off the time is that replays predict for LevelDB on another device.
//! `--quick` has a few traces of few calls and less of LevelDB.

use esker_trace_calls::generate::{Shape, apple_desktop};
use esker_trace_order::compiled::Program;
use esker_trace_order::rules::{Order, Rules};
use esker_trace_replay::Speed;

use crate::artc::leveldb::{LevelDb, Load, Original, PYTHON, Task};
use crate::artc::mounted::{DISK, FLASH, FileSystem, Mounted};
use crate::artc::{How, compiled, prediction, replayed, replayed_cold, suite};
use crate::experiment::{Experiment, Figure, LabError, Options};
use crate::scratch;

/// The record.
pub const EXPERIMENT: Experiment = Experiment {
    name: "artc-sensitivity",
    summary: "What replays lose without each of the rules: calls that come out otherwise, and errors of time",
    source: "specification of program traces, item 56",
    simulated: false,
    rivals: &[PYTHON, "mkfs.ext4"],
    run,
};

/// The rules of predictions that can be switched off, and the names of their figures.
const RULES: [(&str, &str, &str); 7] = [
    ("thread_stage", "failures_without_thread_stage", "error_without_thread_stage"),
    ("file_seq", "failures_without_file_seq", "error_without_file_seq"),
    ("path_stage+", "failures_without_path_stage", "error_without_path_stage"),
    ("fd_stage", "failures_without_fd_stage", "error_without_fd_stage"),
    ("fd_seq", "failures_without_fd_seq", "error_without_fd_seq"),
    ("aio_stage", "failures_without_aio_stage", "error_without_aio_stage"),
    ("path_negative", "failures_without_path_negative", "error_without_path_negative"),
];

/// Recordings of the short form.
const QUICK: [&str; 4] = ["git-checkout", "leveldb-fillsync", "node-files", "sqlite-wal"];

fn run(options: &Options, progress: &mut dyn FnMut(&str)) -> Result<Vec<Figure>, LabError> {
    let dir = scratch::folder(&options.scratch)?;
    let load =
        Load { threads: 4, reads: if options.quick { 250 } else { 1000 }, writes: 0, runs: 3, seed: options.seed };
    let leveldb = LevelDb::new(dir.path(), load)?;
    let mount = |name, text| Mounted::new(name, FileSystem::Ext4, &format!("vol = {text}"), dir.path(), options.seed);
    let (disk, flash) = (mount("disk", DISK)?, mount("flash", FLASH)?);
    let source = leveldb.original(Task::ReadRandom, &disk)?;
    let target = leveldb.original(Task::ReadRandom, &flash)?;
    let programs = programs(options)?;
    let mut measure = |what: &str, order: Order| -> Result<(f64, f64), LabError> {
        let error = error(&source, &target, &flash, order, options)?;
        let failures = failures(&programs, order, options)? as f64;
        progress(&format!("{what}: {failures} failures, error of time {:.1} %", error * 100.0));
        Ok((failures, error))
    };
    let (failures, error) = measure("all rules", prediction())?;
    let mut figures = vec![
        Figure::alone("traces", programs.len() as f64, "traces"),
        Figure::alone("replay_failures", failures, "calls, with all rules"),
        Figure::alone("relative_error", error, "share, with all rules"),
    ];
    for (rule, failures_id, error_id) in RULES {
        let rules = (Rules::default() | Rules::THREAD_STAGE).without(rule).expect("each of them may be off");
        let (failures, error) = measure(rule, Order::Root(rules))?;
        figures.push(Figure::alone(failures_id, failures, "calls"));
        figures.push(Figure::alone(error_id, error, "share"));
    }
    Ok(figures)
}

/// How far off the time is that a replay takes on the target.
fn error(source: &Original, target: &Original, on: &Mounted, order: Order, options: &Options) -> Result<f64, LabError> {
    let how = How::plain(order, Speed::Scaled(1.0), options.seed);
    let report = replayed_cold(&source.program, on, how)?;
    Ok((report.elapsed_ns as f64 - target.elapsed_ns).abs() / target.elapsed_ns)
}

fn failures(programs: &[Program], order: Order, options: &Options) -> Result<u64, LabError> {
    let mut all = 0;
    for program in programs {
        let dir = scratch::folder(&options.scratch)?;
        let report = replayed(program, dir.path(), How::plain(order, Speed::Afap, options.seed))?;
        all += report.mismatches.count;
    }
    Ok(all)
}

/// A generated trace, and recorded ones.
fn programs(options: &Options) -> Result<Vec<Program>, LabError> {
    let shape = Shape { seed: options.seed, threads: 8, scripts: if options.quick { 120 } else { 400 } };
    let mut programs = vec![compiled(apple_desktop(shape))?];
    for path in suite::recordings() {
        let (name, program) = suite::read(&path)?;
        if !options.quick || QUICK.contains(&name.as_str()) {
            programs.push(program);
        }
    }
    Ok(programs)
}
