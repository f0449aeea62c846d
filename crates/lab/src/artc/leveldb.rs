//! LevelDB, the library itself, doing what its own benchmark does. No Debian package has that benchmark's binary, so
//! a script in Python drives the library, whose threads wait for files outside the interpreter's lock.

use std::path::{Path, PathBuf};

use esker_trace_calls::{Action, Call, Object, PathBytes, Snapshot, Trace};
use esker_trace_record::Method;
use esker_trace_replay::init::TREE;

use super::mounted::Mounted;
use super::{Source, afresh, compiled, recorded};
use esker_lab_kit::{Lab, LabError, peer, timing};
use tempfile::TempDir;

/// Debian's interpreter: its packages' modules are for no other.
pub(crate) const PYTHON: &str = "/usr/bin/python3";
/// What of Debian's Python brings LevelDB.
const PLYVEL: &str = "/usr/lib/python3/dist-packages/plyvel/__init__.py";
const SCRIPT: &str = include_str!("leveldb.py");
/// Names that the script looks for when its work begins and ends.
const BEGINS: &[u8] = b"work begins";
const ENDS: &[u8] = b"work ends";

/// What it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Task {
    /// Looks up random keys of a filled database.
    ReadRandom,
    /// Fills a new database; each record is made durable.
    FillSync,
}

impl Task {
    /// As LevelDB's benchmark calls it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Task::ReadRandom => "readrandom",
            Task::FillSync => "fillsync",
        }
    }
}

/// How much it does.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    /// Threads.
    pub threads: u32,
    /// Records that each reads.
    pub reads: u32,
    /// Records that each writes.
    pub writes: u32,
    /// Runs whose middle one counts.
    pub runs: u32,
}

/// LevelDB with a filled database to take copies of.
pub(crate) struct LevelDb {
    folder: TempDir,
    load: Load,
    /// Of keys and values.
    seed: u64,
}

impl LevelDb {
    /// Fills the database.
    ///
    /// # Errors
    /// LevelDB is not installed, or fails.
    pub(crate) fn new(lab: &Lab<'_>, load: Load) -> Result<LevelDb, LabError> {
        if !Path::new(PLYVEL).exists() {
            return Err(LabError::NoRival { program: "LevelDB for Python (python3-plyvel)".to_string() });
        }
        let leveldb = LevelDb { folder: lab.folder()?, load, seed: lab.seed };
        leveldb.start("prepare", 0, leveldb.folder.path())?;
        Ok(leveldb)
    }

    /// Does it on a file system that holds nothing else of it, and forgot everything: recorded once, and then not
    /// recorded, for the time.
    ///
    /// # Errors
    /// What LevelDB, the recorder or the kernel says.
    pub(crate) fn original(&self, task: Task, on: &Mounted) -> Result<Source, LabError> {
        let program = compiled(self.record(task, on)?)?;
        Ok(Source { program, elapsed_ns: timing::median_of(self.load.runs, |_| self.time(task, on))? })
    }

    /// Nanoseconds of one run.
    fn time(&self, task: Task, on: &Mounted) -> Result<f64, LabError> {
        let folder = self.place(task, on)?;
        self.start(task.name(), self.operations(task), &folder)?;
        let took = std::fs::read_to_string(folder.join("took")).map_err(LabError::scratch(&folder))?;
        took.parse().map_err(|_| LabError::Data(format!("LevelDB took \"{took}\", which is no number")))
    }

    fn record(&self, task: Task, on: &Mounted) -> Result<Trace, LabError> {
        let folder = self.place(task, on)?;
        let words = std::iter::once(PYTHON.to_string()).chain(self.words(task.name(), self.operations(task), &folder));
        let trace = recorded(words.collect(), Method::Any, vec![folder.clone()])?;
        work_of(trace, &folder).ok_or_else(|| LabError::Data("the recording does not show LevelDB's work".to_string()))
    }

    fn operations(&self, task: Task) -> u32 {
        match task {
            Task::ReadRandom => self.load.reads,
            Task::FillSync => self.load.writes,
        }
    }

    /// The folder in which it works, with what it finds there.
    fn place(&self, task: Task, on: &Mounted) -> Result<PathBuf, LabError> {
        // Where a replay would find it, among the same directories: it matters to file systems that spread these.
        afresh(on, &Snapshot::default(), self.seed)?;
        let folder = on.run_dir().join(TREE);
        if task == Task::ReadRandom {
            copy_files(&self.folder.path().join("db"), &folder.join("db"))?;
        }
        on.forget()?;
        // Recordings have no other names of it.
        std::fs::canonicalize(&folder).map_err(LabError::scratch(&folder))
    }

    fn start(&self, task: &str, operations: u32, folder: &Path) -> Result<(), LabError> {
        peer::output(PYTHON, &self.words(task, operations, folder)).map(drop)
    }

    fn words(&self, task: &str, operations: u32, folder: &Path) -> Vec<String> {
        let path = |path: &Path| path.display().to_string();
        let numbers = [self.load.threads.to_string(), operations.to_string(), self.seed.to_string()];
        let words = ["-I", "-c", SCRIPT, task].map(str::to_string);
        words.into_iter().chain([path(folder), path(&self.folder.path().join("ballast"))]).chain(numbers).collect()
    }
}

/// Only what was done between the marks, as if it had begun in a root directory that is `folder`. `None` without marks.
fn work_of(mut trace: Trace, folder: &Path) -> Option<Trace> {
    let looks_for = |action: &&Action, name: &[u8]| matches!(&action.call, Call::Access { file: Object::Path { at, .. }, .. } if at.path.as_bytes() == name);
    let begin = trace.actions.iter().find(|action| looks_for(action, BEGINS))?.leave;
    let end = trace.actions.iter().find(|action| looks_for(action, ENDS))?.enter;
    trace.actions.retain(|action| action.enter >= begin && action.enter < end);
    for action in &mut trace.actions {
        action.enter.0 -= begin.0;
        action.leave.0 -= begin.0;
    }
    for process in trace.processes.iter_mut() {
        process.cwd = PathBytes::from("/");
    }
    let folder = folder.as_os_str().as_encoded_bytes();
    let below = |path: &PathBytes| path.strip_prefix(folder).filter(|rest| rest.starts_with(b"/")).map(PathBytes::from);
    let entries = trace.snapshot.entries.iter().filter_map(|(path, entry)| Some((below(path)?, entry.clone())));
    trace.snapshot = Snapshot { entries: entries.collect() };
    Some(trace)
}

fn copy_files(from: &Path, to: &Path) -> Result<(), LabError> {
    std::fs::create_dir(to).map_err(LabError::scratch(to))?;
    let entries = std::fs::read_dir(from).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let entries = entries.map_err(LabError::scratch(from))?;
    let mut names: Vec<_> = entries.iter().map(std::fs::DirEntry::file_name).collect();
    // As a replay makes them.
    names.sort();
    let mut copies = names.iter().map(|name| std::fs::copy(from.join(name), to.join(name)).map(drop));
    copies.try_for_each(|copied| copied).map_err(LabError::scratch(to))
}
