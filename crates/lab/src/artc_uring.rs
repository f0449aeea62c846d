//! `artc-uring`: a program whose I/O are requests of an io_uring, recorded on one model and predicted on another. The
//! program is fio with four random reads under way at once, past the page cache; the models are a disk and flash, each
//! with ext4 on it. The program itself runs there in turns with its replay. The device's count of reads shows that all
//! of them come to the model. Figures also say how many requests no action shows.
//!
//! `predict_error` is that of the job: the time that fio reports, against that from the first request of the replay to
//! the end of the last. `process_error` is that of the whole process, from its start to its end. fio's first thread
//! looks every 10 ms whether the job is done, and a replay looks as often as the trace did. So a replay of it takes no
//! less time than the recorded process.

use std::path::{Path, PathBuf};

use esker_trace_calls::{Snapshot, WarningKind};
use esker_trace_order::compiled::{LeftOut, Program};
use esker_trace_record::Method;
use esker_trace_replay::init::TREE;
use esker_trace_replay::{InitMode, Report};
use serde_json::Value;
use tempfile::TempDir;

use crate::artc::mounted::{FileSystem, ModelDevice, Mounted};
use crate::artc::{How, afresh, compiled, prediction, recorded, replayed, warm, with_rw};
use esker_lab_kit::timing::{self, worst};
use esker_lab_kit::{Figure, Lab, LabError, peer};

/// Bytes of the file, of a read, and of all reads.
const FILE_BYTES: u64 = 64 << 20;
const BLOCK_BYTES: u64 = 4096;
const MOVED: u64 = 24 << 20;
const QUICK_MOVED: u64 = 12 << 20;
/// Pairs of a run of the program and of its replay, whose middle ratio counts.
const RUNS: u32 = 5;
const QUICK_RUNS: u32 = 3;
const FOLDER: &str = "job";
/// The file in it with fio's report.
const REPORT: &str = "out";

/// A model with a file system, and what was recorded there.
struct Source {
    name: &'static str,
    on: Mounted,
    folder: PathBuf,
    program: Program,
}

struct Bench<'a, 'l> {
    lab: &'a Lab<'l>,
    /// Where the file systems and what was recorded there have it.
    scratch: PathBuf,
    _scratch: TempDir,
}

pub(crate) fn run(lab: &Lab<'_>) -> Result<Vec<Figure>, LabError> {
    let bench = Bench::new(lab)?;
    let (mut unseen, mut failures, mut errors) = (0, 0, Vec::new());
    let mut models = Vec::new();
    for (name, model) in [("disk", ModelDevice::FastDisk), ("flash", ModelDevice::SlowFlash)] {
        let on = Mounted::new(lab, FileSystem::Ext4, &model.text())?;
        let (folder, program, missed) = bench.recorded(&on)?;
        lab.say(format!("{name}: {} actions recorded, {missed} requests not", program.len()));
        unseen += missed;
        models.push(Source { name, on, folder, program });
    }
    let mut figures = Vec::new();
    for (from, to) in [(0, 1), (1, 0)] {
        let (source, target) = (&models[from], &models[to]);
        let pairs = bench.pairs(source, &target.on)?;
        failures += pairs.failures;
        for (part, of) in [("error", Took::job as fn(&Took) -> f64), ("process_error", Took::process)] {
            let (error, took, predicted) = pairs.error(of);
            let (names, percent) = ([source.name, target.name], error * 100.0);
            lab.say(format!(
                "{} on {}, {part}: {took:.0} ms, predicted {predicted:.0}, {percent:+.1} %",
                names[0], names[1]
            ));
            let id = format!("{}_to_{}_{part}", names[0], names[1]);
            let figure = Figure::alone(id, error, "share, too long if positive");
            figures.push(figure.peer("the program itself, ms", took));
            errors.push((part, error.abs()));
        }
    }
    let worst_of =
        |part| worst(&errors.iter().filter(|(of, _)| *of == part).map(|(_, error)| *error).collect::<Vec<_>>());
    figures.extend([
        Figure::alone("predict_error", worst_of("error"), "share, the larger of both"),
        Figure::alone("process_error", worst_of("process_error"), "share, the larger of both"),
        Figure::alone("calls_unseen", unseen as f64, "requests that no action shows"),
        Figure::alone("replay_failures", failures as f64, "calls that came out otherwise"),
    ]);
    Ok(figures)
}

/// How long a run took, in milliseconds.
struct Took {
    job_ms: f64,
    process_ms: f64,
}

impl Took {
    fn job(&self) -> f64 {
        self.job_ms
    }

    fn process(&self) -> f64 {
        self.process_ms
    }
}

/// Runs of the replay and of the program, in turns.
#[derive(Default)]
struct Pairs {
    runs: Vec<(Took, Took)>,
    /// Calls of all replays that came out otherwise.
    failures: u64,
}

impl Pairs {
    /// How much longer a replay takes than the program, as a share; what the program takes and the replay: the middle
    /// of all pairs.
    fn error(&self, of: fn(&Took) -> f64) -> (f64, f64, f64) {
        let middle = |value: &dyn Fn(&(Took, Took)) -> f64| timing::median(self.runs.iter().map(value).collect());
        let error = middle(&|(replay, original)| of(replay) / of(original) - 1.0);
        (error, middle(&|(_, original)| of(original)), middle(&|(replay, _)| of(replay)))
    }
}

impl<'a, 'l> Bench<'a, 'l> {
    fn new(lab: &'a Lab<'l>) -> Result<Bench<'a, 'l>, LabError> {
        let folder = lab.folder()?;
        // Recordings have no other names of it.
        let scratch = std::fs::canonicalize(folder.path()).map_err(LabError::scratch(folder.path()))?;
        Ok(Bench { lab, scratch, _scratch: folder })
    }

    /// Runs the program and its replay in turns: a machine with other work is busy for both alike.
    fn pairs(&self, source: &Source, on: &Mounted) -> Result<Pairs, LabError> {
        let mut pairs = Pairs::default();
        for pair in 1..=self.lab.scale(QUICK_RUNS, RUNS) {
            let replay = || {
                let report = self.replay(&source.program, on)?;
                pairs.failures += report.mismatches.count;
                let requests = || report.threads.iter().filter(|thread| thread.thread.ends_with(" io_uring"));
                let first = requests().map(|thread| thread.first_ns).min().unwrap_or_default();
                let last = requests().map(|thread| thread.last_ns).max().unwrap_or_default();
                Ok(Took { job_ms: (last - first) as f64 / 1e6, process_ms: report.elapsed_ns as f64 / 1e6 })
            };
            pairs.runs.push(timing::in_turns(pair, replay, || self.original(source, on))?);
        }
        Ok(pairs)
    }

    /// Bytes that fio reads.
    fn moved(&self) -> u64 {
        self.lab.scale(QUICK_MOVED, MOVED)
    }

    fn words(&self, folder: &Path) -> Vec<String> {
        let job = ["fio", "--name=job", "--ioengine=io_uring", "--iodepth=4", "--direct=1", "--rw=randread"];
        let more = ["--thread", "--norandommap", "--disk_util=0", "--output-format=json"];
        let own = [
            // A relative name would be one in this process' working directory, unless fio was told another before.
            format!("--filename={}", folder.join("data").display()),
            format!("--size={FILE_BYTES}"),
            format!("--bs={BLOCK_BYTES}"),
            format!("--io_size={}", self.moved()),
            format!("--randseed={}", self.lab.seed),
            format!("--output={}", folder.join(REPORT).display()),
        ];
        job.iter().chain(&more).map(ToString::to_string).chain(own).collect()
    }

    /// The folder with the file, on a new file system with cold caches.
    fn prepared(&self, on: &Mounted) -> Result<PathBuf, LabError> {
        // Where a replay would find it, among the same directories: it matters to file systems that spread these.
        afresh(on, &Snapshot::default(), self.lab.seed)?;
        let folder = on.run_dir().join(TREE).join(self.scratch.strip_prefix("/").unwrap_or(&self.scratch)).join(FOLDER);
        std::fs::create_dir_all(&folder).map_err(LabError::scratch(&folder))?;
        let path = folder.join("data");
        let bytes: Vec<u8> = (0..FILE_BYTES).map(|at| (at % 251) as u8).collect();
        std::fs::write(&path, bytes).map_err(LabError::scratch(&path))?;
        on.forget()?;
        Ok(folder)
    }

    /// What fio does there, and how many of its requests no action shows.
    fn recorded(&self, on: &Mounted) -> Result<(PathBuf, Program, u64), LabError> {
        let folder = self.prepared(on)?;
        let words = self.words(&folder);
        let trace = self.reading_device(on, || recorded(words, Method::Kernel, vec![folder.clone()]))?;
        let warned: u64 =
            [WarningKind::UringUnseen, WarningKind::UringPolled].map(|kind| trace.warnings.count(kind)).iter().sum();
        let program = compiled(trace)?;
        let left = LeftOut::of(&program);
        Ok((folder, program, warned.max(left.uring_submissions + left.polled_rings)))
    }

    /// What the program itself takes there, on the tree that a replay begins with.
    fn original(&self, source: &Source, on: &Mounted) -> Result<Took, LabError> {
        self.laid_out(&source.program, on)?;
        let inside = source.folder.strip_prefix("/").unwrap_or(&source.folder);
        let folder = on.run_dir().join(TREE).join(inside);
        let words = self.words(&folder);
        let run = || timing::seconds(|| peer::output(&words[0], &words[1..]));
        let process_ms = self.reading_device(on, run)? * 1e3;
        let path = folder.join(REPORT);
        let report = std::fs::read(&path).map_err(LabError::scratch(&path))?;
        let report: Value = serde_json::from_slice(&report).map_err(|error| peer::fault("fio", error))?;
        let job_ms = report.pointer("/jobs/0/read/runtime").and_then(Value::as_f64);
        let job_ms = job_ms.ok_or_else(|| peer::fault("fio", "its report has no time of its reads"))?;
        Ok(Took { job_ms, process_ms })
    }

    /// Runs what should read from the device, and checks that all of its reads came there.
    fn reading_device<T>(&self, on: &Mounted, run: impl FnOnce() -> Result<T, LabError>) -> Result<T, LabError> {
        let before = on.reads()?;
        let done = run()?;
        let (read, asked) = (on.reads()? - before, self.moved() / BLOCK_BYTES);
        if read < asked {
            return Err(peer::fault("the device", format!("{read} of {asked} reads came to it")));
        }
        Ok(done)
    }

    /// The tree as it was before the recording, on a new file system with cold caches.
    fn laid_out(&self, program: &Program, on: &Mounted) -> Result<(), LabError> {
        afresh(on, program.snapshot(), self.lab.seed)?;
        on.forget()
    }

    fn replay(&self, program: &Program, on: &Mounted) -> Result<Report, LabError> {
        self.laid_out(program, on)?;
        warm(program, &self.scratch, &on.run_dir().join(TREE))?;
        let how = How { init: InitMode::None, ..How::paced(with_rw(prediction()), self.lab.seed) };
        self.reading_device(on, || replayed(program, &on.run_dir(), how))
    }
}
