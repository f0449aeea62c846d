//! `artc-programs`: predictions of how long programs take elsewhere. `git clone` of a local repository and
//! LevelDB with four threads that look up random keys, whose tables it maps, are recorded where they are, on this
//! machine's own file system, and replayed on ext4, XFS and Btrfs over an attached model of flash. The error is of the
//! whole process, from its start to its end, against the program itself run there. Each run begins with a new file
//! system that has forgotten what its files hold; what the program has outside of its folder, its libraries and
//! Python's, was in memory before, and is for a replay.

use std::path::{Path, PathBuf};
use std::time::Instant;

use esker_trace_calls::Snapshot;
use esker_trace_order::compiled::Program;
use esker_trace_record::Method;
use esker_trace_replay::init::TREE;
use esker_trace_replay::{InitMode, Report, Speed};

use crate::artc::leveldb::PYTHON;
use crate::artc::mounted::{FLASH, FileSystem, Mounted};
use crate::artc::{How, compiled, laid_out, middle, prediction, recorded, replayed, warm, with_rw};
use esker_lab_kit::{Experiment, Figure, LabError, Options, Peer, peer, scratch};

/// The record.
pub const EXPERIMENT: Experiment = Experiment {
    name: "artc-programs",
    summary: "Errors of predictions of git clone and of LevelDB with mapped tables, on three file systems over a model",
    source: "ours; after the thesis on hardware-driven evolution, section 2.5.3",
    simulated: false,
    rivals: &[PYTHON, "git", "mkfs.ext4", "mkfs.xfs", "mkfs.btrfs"],
    run,
};

const SCRIPT: &str = include_str!("artc/readrandom.py");
const THREADS: u32 = 4;
/// What each looks up.
const READS: u32 = 250;
/// Files of the repository, and lines of each.
const FILES: u32 = 400;
const LINES: u32 = 300;
/// Runs of a program, and its replays, whose middle one counts.
const RUNS: usize = 5;
const QUICK_RUNS: usize = 3;

const SYSTEMS: [FileSystem; 3] = [FileSystem::Ext4, FileSystem::Xfs, FileSystem::Btrfs];
/// Of each program, by file system.
const ERRORS: [[&str; 3]; 2] = [
    ["git_clone_ext4_error", "git_clone_xfs_error", "git_clone_btrfs_error"],
    ["leveldb_ext4_error", "leveldb_xfs_error", "leveldb_btrfs_error"],
];

#[derive(Clone, Copy)]
enum Task {
    GitClone,
    LevelDb,
}

impl Task {
    fn name(self) -> &'static str {
        match self {
            Task::GitClone => "git clone",
            Task::LevelDb => "LevelDB",
        }
    }

    /// Makes what it works on.
    fn prepare(self, folder: &Path, seed: u64) -> Result<(), LabError> {
        match self {
            Task::GitClone => {
                let words = [shown(&folder.join("from")), FILES.to_string(), LINES.to_string(), seed.to_string()];
                let script = ["-c", REPOSITORY, "sh"].map(str::to_string);
                peer::output("sh", &script.into_iter().chain(words).collect::<Vec<_>>()).map(drop)
            }
            Task::LevelDb => {
                let words = ["-I", "-c", SCRIPT, "prepare"].map(str::to_string);
                let words = words.into_iter().chain([shown(folder), seed.to_string()]);
                peer::output(PYTHON, &words.collect::<Vec<_>>()).map(drop)
            }
        }
    }

    fn words(self, folder: &Path, seed: u64) -> Vec<String> {
        match self {
            Task::GitClone => {
                let words = ["git", "clone", "-q", "--no-local"].map(str::to_string);
                words.into_iter().chain(["from", "to"].map(|name| shown(&folder.join(name)))).collect()
            }
            Task::LevelDb => {
                let words = [PYTHON, "-I", "-c", SCRIPT, "read", &shown(folder)].map(str::to_string);
                words.into_iter().chain([u64::from(THREADS), u64::from(READS), seed].map(|n| n.to_string())).collect()
            }
        }
    }
}

/// Makes a repository: FOLDER FILES LINES SEED.
const REPOSITORY: &str = r#"
set -e
git init -q "$1"
cd "$1"
seq "$2" | while read -r file; do
    mkdir -p "folder$((file % 20))"
    awk -v seed="$4$file" -v lines="$3" 'BEGIN { srand(seed); for (i = 0; i < lines; i++) print rand(), rand(), rand() }' \
        > "folder$((file % 20))/file$file"
done
git add .
git -c user.name=lab -c user.email=lab@example.com commit -q -m files
"#;

fn shown(path: &Path) -> String {
    path.display().to_string()
}

fn run(options: &Options, progress: &mut dyn FnMut(&str)) -> Result<Vec<Figure>, LabError> {
    let dir = scratch::folder(&options.scratch)?;
    let runs = if options.quick { QUICK_RUNS } else { RUNS };
    let (mut figures, mut failures, mut within) = (Vec::new(), 0, 0);
    for (task, ids) in [Task::GitClone, Task::LevelDb].into_iter().zip(ERRORS) {
        let source = Source::new(task, dir.path(), options.seed)?;
        progress(&format!("{}: {} actions recorded", task.name(), source.program.len()));
        for (system, id) in SYSTEMS.into_iter().zip(ids) {
            let name = format!("{}-{}", system.name(), ids[0]);
            let on = Mounted::new(&name, system, &format!("vol = {FLASH}"), dir.path(), options.seed)?;
            let mut stated = None;
            let original = middle(runs, || source.original(&on))?;
            let replay = middle(runs, || {
                let report = source.replay(&on)?;
                failures += report.mismatches.count;
                stated = report.prediction.and_then(|prediction| prediction.error);
                Ok(report.elapsed_ns as f64)
            })?;
            let error = (replay - original) / original;
            within += u32::from(stated.is_some_and(|stated| error.abs() <= stated));
            let [took, predicted] = [original, replay].map(|ns| (ns / 1e6) as u64);
            let percent = error * 100.0;
            progress(&format!(
                "{}, {}: {took} ms, predicted {predicted} ms, {percent:+.1} %",
                task.name(),
                system.name()
            ));
            let peer = Some(Peer { name: "the program itself, ms".to_string(), value: original / 1e6 });
            figures.push(Figure::alone(id, error, "share, too long if positive").beside(peer));
        }
    }
    let errors: Vec<f64> = figures.iter().map(|figure| figure.value.abs()).collect();
    let worst = errors.iter().copied().fold(0.0, f64::max);
    figures.push(Figure::alone("worst_error", worst, "share"));
    figures.push(Figure::alone("mean_error", errors.iter().sum::<f64>() / errors.len() as f64, "share"));
    let within = f64::from(within) / errors.len() as f64;
    figures.push(Figure::alone("within_stated_error", within, "share of the predictions"));
    figures.push(Figure::alone("replay_failures", failures as f64, "calls that came out otherwise"));
    Ok(figures)
}

/// A program as it was recorded.
struct Source {
    task: Task,
    folder: PathBuf,
    /// What it works on, to take copies of.
    pristine: PathBuf,
    program: Program,
    seed: u64,
}

impl Source {
    fn new(task: Task, scratch: &Path, seed: u64) -> Result<Source, LabError> {
        let fault = LabError::scratch(&scratch);
        // Recordings have no other names of it.
        let scratch = &std::fs::canonicalize(scratch).map_err(fault)?;
        let (folder, pristine) = (scratch.join(task.name()), scratch.join(format!("{} before", task.name())));
        for dir in [&folder, &pristine] {
            std::fs::create_dir(dir).map_err(fault)?;
        }
        task.prepare(&pristine, seed)?;
        copy(&pristine, &folder)?;
        let trace = recorded(task.words(&folder, seed), Method::Kernel, vec![folder.clone()])?;
        Ok(Source { task, folder, pristine, program: compiled(trace)?, seed })
    }

    /// Nanoseconds that the program itself takes there.
    fn original(&self, on: &Mounted) -> Result<f64, LabError> {
        on.renew()?;
        // Where a replay would find it, among the same directories: it matters to file systems that spread these.
        laid_out(&on.run_dir(), &Snapshot::default(), InitMode::Full, self.seed)?;
        let inside = self.folder.strip_prefix("/").unwrap_or(&self.folder);
        let folder = on.run_dir().join(TREE).join(inside);
        std::fs::create_dir_all(&folder).map_err(LabError::scratch(&folder))?;
        copy(&self.pristine, &folder)?;
        on.forget()?;
        let words = self.task.words(&folder, self.seed);
        let begin = Instant::now();
        peer::output(&words[0], &words[1..])?;
        Ok(begin.elapsed().as_nanos() as f64)
    }

    fn replay(&self, on: &Mounted) -> Result<Report, LabError> {
        on.renew()?;
        laid_out(&on.run_dir(), self.program.snapshot(), InitMode::Full, self.seed)?;
        on.forget()?;
        warm(&self.program, &self.folder, &on.run_dir().join(TREE))?;
        let how = How { init: InitMode::None, ..How::plain(with_rw(prediction()), Speed::Scaled(1.0), self.seed) };
        replayed(&self.program, &on.run_dir(), how)
    }
}

fn copy(from: &Path, to: &Path) -> Result<(), LabError> {
    peer::output("cp", &["-a".to_string(), shown(&from.join(".")), shown(to)]).map(drop)
}
