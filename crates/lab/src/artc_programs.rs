//! `artc-programs`: predictions of how long programs take elsewhere. The programs are `git clone` of a local repository
//! and LevelDB, which maps its tables and looks up random keys with four threads. They are recorded on this machine's
//! own file system, and replayed on ext4, XFS and Btrfs over an attached model of flash. The error is that of the
//! whole process, from its start to its end, against the program itself run there.
//!
//! Each run begins on a new file system with an empty cache. Files outside of the program's folder, such as its
//! libraries and Python's, are in memory before the program and before each replay.

use std::path::{Path, PathBuf};

use esker_trace_calls::Snapshot;
use esker_trace_order::compiled::Program;
use esker_trace_record::Method;
use esker_trace_replay::init::TREE;
use esker_trace_replay::{InitMode, Report};
use tempfile::TempDir;

use crate::artc::leveldb::PYTHON;
use crate::artc::mounted::{FileSystem, ModelDevice, Mounted};
use crate::artc::{How, afresh, compiled, prediction, recorded, replayed, warm, with_rw};
use esker_lab_kit::timing::{self, mean, worst};
use esker_lab_kit::{Figure, Lab, LabError, peer};

const SCRIPT: &str = include_str!("artc/readrandom.py");
const THREADS: u32 = 4;
/// What each looks up.
const READS: u32 = 250;
/// Files of the repository, and lines of each.
const FILES: u32 = 400;
const LINES: u32 = 300;
/// Runs of a program, and its replays, whose middle one counts.
const RUNS: u32 = 5;
const QUICK_RUNS: u32 = 3;

const SYSTEMS: [FileSystem; 3] = [FileSystem::Ext4, FileSystem::Xfs, FileSystem::Btrfs];

#[derive(Clone, Copy)]
enum Task {
    GitClone,
    LevelDb,
}

impl Task {
    /// As it is called, and in names of figures.
    fn names(self) -> (&'static str, &'static str) {
        match self {
            Task::GitClone => ("git clone", "git_clone"),
            Task::LevelDb => ("LevelDB", "leveldb"),
        }
    }

    /// Makes what it works on.
    fn prepare(self, folder: &Path, seed: u64) -> Result<(), LabError> {
        let [files, lines, seed] = [FILES.into(), LINES.into(), seed].map(|number: u64| number.to_string());
        let made = match self {
            Task::GitClone => {
                let from = shown(&folder.join("from"));
                peer::output("sh", &["-c", REPOSITORY, "sh", &from, &files, &lines, &seed])
            }
            Task::LevelDb => peer::output(PYTHON, &["-I", "-c", SCRIPT, "prepare", &shown(folder), &seed]),
        };
        made.map(drop)
    }

    fn words(self, folder: &Path, seed: u64) -> Vec<String> {
        let path = |name| shown(&folder.join(name));
        let [threads, reads, seed] = [THREADS.into(), READS.into(), seed].map(|number: u64| number.to_string());
        match self {
            Task::GitClone => {
                ["git", "clone", "-q", "--no-local", &path("from"), &path("to")].map(str::to_string).into()
            }
            Task::LevelDb => {
                [PYTHON, "-I", "-c", SCRIPT, "read", &shown(folder), &threads, &reads, &seed].map(str::to_string).into()
            }
        }
    }
}

/// Makes a repository: FOLDER FILES LINES SEED.
const REPOSITORY: &str = include_str!("artc/repository.sh");

fn shown(path: &Path) -> String {
    path.display().to_string()
}

pub(crate) fn run(lab: &Lab<'_>) -> Result<Vec<Figure>, LabError> {
    let runs = lab.scale(QUICK_RUNS, RUNS);
    let (mut figures, mut failures, mut within) = (Vec::new(), 0, Vec::new());
    for task in [Task::GitClone, Task::LevelDb] {
        let (name, word) = task.names();
        let program = Recorded::new(task, lab)?;
        lab.say(format!("{name}: {} actions recorded", program.program.len()));
        for system in SYSTEMS {
            let on = Mounted::new(lab, system, &ModelDevice::Flash.text())?;
            let mut stated = None;
            let original = timing::median_of(runs, |_| program.original(&on))?;
            let replay = timing::median_of(runs, |_| {
                let report = program.replay(&on)?;
                failures += report.mismatches.count;
                stated = report.prediction.and_then(|prediction| prediction.error);
                Ok(report.elapsed_ns as f64)
            })?;
            let (error, system) = ((replay - original) / original, system.name());
            within.push(f64::from(u8::from(stated.is_some_and(|stated| error.abs() <= stated))));
            let [took, predicted] = [original, replay].map(|ns| (ns / 1e6) as u64);
            lab.say(format!("{name}, {system}: {took} ms, predicted {predicted} ms, {:+.1} %", error * 100.0));
            let figure = Figure::alone(format!("{word}_{system}_error"), error, "share, too long if positive");
            figures.push(figure.peer("the program itself, ms", original / 1e6));
        }
    }
    let errors: Vec<f64> = figures.iter().map(|figure| figure.value.abs()).collect();
    figures.extend([
        Figure::alone("worst_error", worst(&errors), "share"),
        Figure::alone("mean_error", mean(&errors), "share"),
        Figure::alone("within_stated_error", mean(&within), "share of the predictions"),
        Figure::alone("replay_failures", failures as f64, "calls that came out otherwise"),
    ]);
    Ok(figures)
}

/// A program as it was recorded.
struct Recorded {
    task: Task,
    folder: PathBuf,
    /// What it works on, to take copies of.
    pristine: PathBuf,
    program: Program,
    seed: u64,
    _scratch: TempDir,
}

impl Recorded {
    fn new(task: Task, lab: &Lab<'_>) -> Result<Recorded, LabError> {
        let (scratch, seed) = (lab.folder()?, lab.seed);
        let fault = LabError::scratch(scratch.path());
        // Recordings have no other names of it.
        let own = std::fs::canonicalize(scratch.path()).map_err(fault)?;
        let [folder, pristine] = ["work", "before"].map(|name| own.join(name));
        for dir in [&folder, &pristine] {
            std::fs::create_dir(dir).map_err(fault)?;
        }
        task.prepare(&pristine, seed)?;
        copy(&pristine, &folder)?;
        let trace = recorded(task.words(&folder, seed), Method::Kernel, vec![folder.clone()])?;
        Ok(Recorded { task, folder, pristine, program: compiled(trace)?, seed, _scratch: scratch })
    }

    /// Nanoseconds that the program itself takes there.
    fn original(&self, on: &Mounted) -> Result<f64, LabError> {
        // Where a replay would find it, among the same directories: it matters to file systems that spread these.
        afresh(on, &Snapshot::default(), self.seed)?;
        let inside = self.folder.strip_prefix("/").unwrap_or(&self.folder);
        let folder = on.run_dir().join(TREE).join(inside);
        std::fs::create_dir_all(&folder).map_err(LabError::scratch(&folder))?;
        copy(&self.pristine, &folder)?;
        on.forget()?;
        let words = self.task.words(&folder, self.seed);
        Ok(timing::seconds(|| peer::output(&words[0], &words[1..]))? * 1e9)
    }

    fn replay(&self, on: &Mounted) -> Result<Report, LabError> {
        afresh(on, self.program.snapshot(), self.seed)?;
        on.forget()?;
        warm(&self.program, &self.folder, &on.run_dir().join(TREE))?;
        let how = How { init: InitMode::None, ..How::paced(with_rw(prediction()), self.seed) };
        replayed(&self.program, &on.run_dir(), how)
    }
}

fn copy(from: &Path, to: &Path) -> Result<(), LabError> {
    peer::output("cp", &["-a", &shown(&from.join(".")), &shown(to)]).map(drop)
}
