//! `artc-sensitivity`: what each rule is for. Each is left out in turn. Figures say how many calls of recorded and
//! generated traces come out otherwise then, as fast as possible, and how far off the time is that replays predict for
//! LevelDB on another device. `--quick` has a few traces of few calls and less of LevelDB.

use esker_trace_calls::generate::{Shape, apple_desktop};
use esker_trace_order::compiled::Program;
use esker_trace_order::rules::{Order, Rules};
use esker_trace_replay::Speed;

use crate::artc::leveldb::{LevelDb, Load, Task};
use crate::artc::mounted::{ModelDevice, Mounted};
use crate::artc::{How, compiled, prediction, replayed, replayed_cold, suite};
use esker_lab_kit::{Figure, Lab, LabError};

/// The rules of predictions that can be switched off.
const RULES: [&str; 7] =
    ["thread_stage", "file_seq", "path_stage+", "fd_stage", "fd_seq", "aio_stage", "path_negative"];

/// Recordings of the short form.
const QUICK: [&str; 4] = ["git-checkout", "leveldb-fillsync", "node-files", "sqlite-wal"];

pub(crate) fn run(lab: &Lab<'_>) -> Result<Vec<Figure>, LabError> {
    let load = Load { threads: 4, reads: lab.scale(250, 1000), writes: 0, runs: 3 };
    let leveldb = LevelDb::new(lab, load)?;
    let (disk, flash) = (Mounted::ext4(lab, ModelDevice::FastDisk)?, Mounted::ext4(lab, ModelDevice::SlowFlash)?);
    let source = leveldb.original(Task::ReadRandom, &disk)?;
    let target = leveldb.original(Task::ReadRandom, &flash)?;
    let programs = programs(lab)?;
    let measure = |what: &str, order: Order| -> Result<(f64, f64), LabError> {
        let report = replayed_cold(&source.program, &flash, How::paced(order, lab.seed))?;
        let error = target.error(report.elapsed_ns as f64).abs();
        let failures = failures(&programs, order, lab)? as f64;
        lab.say(format!("{what}: {failures} failures, error of time {:.1} %", error * 100.0));
        Ok((failures, error))
    };
    let (failures, error) = measure("all rules", prediction())?;
    let mut figures = vec![
        Figure::alone("traces", programs.len() as f64, "traces"),
        Figure::alone("replay_failures", failures, "calls, with all rules"),
        Figure::alone("relative_error", error, "share, with all rules"),
    ];
    for rule in RULES {
        let rules = (Rules::default() | Rules::THREAD_STAGE).without(rule).expect("each of them may be off");
        let (failures, error) = measure(rule, Order::Root(rules))?;
        let word = rule.trim_end_matches('+');
        figures.push(Figure::alone(format!("failures_without_{word}"), failures, "calls"));
        figures.push(Figure::alone(format!("error_without_{word}"), error, "share"));
    }
    Ok(figures)
}

fn failures(programs: &[Program], order: Order, lab: &Lab<'_>) -> Result<u64, LabError> {
    let mut all = 0;
    for program in programs {
        let report = replayed(program, lab.folder()?.path(), How::plain(order, Speed::Afap, lab.seed))?;
        all += report.mismatches.count;
    }
    Ok(all)
}

/// A generated trace, and recorded ones.
fn programs(lab: &Lab<'_>) -> Result<Vec<Program>, LabError> {
    let shape = Shape { seed: lab.seed, threads: 8, scripts: lab.scale(120, 400) };
    let recorded = suite::programs(lab.quick.then_some(&QUICK)).map(|program| Ok(program?.1));
    [compiled(apple_desktop(shape))].into_iter().chain(recorded).collect()
}
