//! `artc-programs`: predictions of how long programs take elsewhere. The programs are `git clone` of a local repository
//! and LevelDB, which maps its tables and looks up random keys with four threads. They are recorded on this machine's
//! own file system, and replayed on ext4, XFS and Btrfs over an attached model of flash of the catalogue. The error is
//! that of the whole process, from its start to its end, against the program itself run there. A second arm has flash
//! whose reads take 800 us. Its ids begin with `slow_flash_`.
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

/// The devices, and what ids of the figures begin with.
const ARMS: [(&str, ModelDevice); 2] = [("", ModelDevice::Flash), ("slow_flash_", ModelDevice::SlowFlash)];

pub(crate) fn run(lab: &Lab<'_>) -> Result<Vec<Figure>, LabError> {
    let programs = [Recorded::new(Task::GitClone, lab)?, Recorded::new(Task::LevelDb, lab)?];
    let mut figures = Vec::new();
    for (prefix, device) in ARMS {
        let mut rows = Vec::new();
        for program in &programs {
            for system in SYSTEMS {
                let row = program.row(system, &Mounted::new(lab, system, &device.text())?, lab)?;
                lab.say(row.told(prefix));
                rows.push(row);
            }
        }
        let prefixed = |figure: Figure| Figure { id: format!("{prefix}{}", figure.id), ..figure };
        figures.extend(summary(&rows).into_iter().map(prefixed));
    }
    Ok(figures)
}

/// A program on one file system.
struct Row {
    task: Task,
    system: FileSystem,
    /// Middle times of its runs and of its replays, in ns.
    original: f64,
    replay: f64,
    /// Calls that came out otherwise, of all replays.
    failures: u64,
    /// What the report of the last replay states.
    stated: Option<f64>,
}

impl Row {
    /// Of the prediction, too long if positive.
    fn error(&self) -> f64 {
        (self.replay - self.original) / self.original
    }

    fn is_within_stated(&self) -> bool {
        self.stated.is_some_and(|stated| self.error().abs() <= stated)
    }

    fn told(&self, prefix: &str) -> String {
        let [took, predicted] = [self.original, self.replay].map(|ns| (ns / 1e6) as u64);
        let (name, system, error) = (self.task.names().0, self.system.name(), self.error() * 100.0);
        format!("{prefix}{name}, {system}: {took} ms, predicted {predicted} ms, {error:+.1} %")
    }

    fn figure(&self) -> Figure {
        let id = format!("{}_{}_error", self.task.names().1, self.system.name());
        Figure::alone(id, self.error(), "share, too long if positive")
            .peer("the program itself, ms", self.original / 1e6)
    }
}

fn summary(rows: &[Row]) -> Vec<Figure> {
    let errors: Vec<f64> = rows.iter().map(|row| row.error().abs()).collect();
    let within: Vec<f64> = rows.iter().map(|row| f64::from(u8::from(row.is_within_stated()))).collect();
    let failures: u64 = rows.iter().map(|row| row.failures).sum();
    let mut figures: Vec<Figure> = rows.iter().map(Row::figure).collect();
    figures.extend([
        Figure::alone("worst_error", worst(&errors), "share"),
        Figure::alone("mean_error", mean(&errors), "share"),
        Figure::alone("within_stated_error", mean(&within), "share of the predictions"),
        Figure::alone("replay_failures", failures as f64, "calls that came out otherwise"),
    ]);
    figures
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
        let program = compiled(trace)?;
        lab.say(format!("{}: {} actions recorded", task.names().0, program.len()));
        Ok(Recorded { task, folder, pristine, program, seed, _scratch: scratch })
    }

    fn row(&self, system: FileSystem, on: &Mounted, lab: &Lab<'_>) -> Result<Row, LabError> {
        let runs = lab.scale(QUICK_RUNS, RUNS);
        let (mut failures, mut stated) = (0, None);
        let original = timing::median_of(runs, |_| self.original(on))?;
        let replay = timing::median_of(runs, |_| {
            let report = self.replay(on)?;
            failures += report.mismatches.count;
            stated = report.prediction.and_then(|prediction| prediction.error);
            Ok(report.elapsed_ns as f64)
        })?;
        Ok(Row { task: self.task, system, original, replay, failures, stated })
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
