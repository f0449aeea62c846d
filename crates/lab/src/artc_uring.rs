//! `artc-uring`: a program whose I/O are requests of an io_uring, recorded on one model and predicted on another. The
//! program is fio with four random reads under way at once, past the page cache; the models are a disk and
//! flash, each with ext4 on it. The error is of the whole process, from its start to its end, against the program
//! itself run there. Figures also say how many requests no action shows.

use std::path::{Path, PathBuf};
use std::time::Instant;

use esker_trace_calls::{Snapshot, WarningKind};
use esker_trace_order::compiled::{LeftOut, Program};
use esker_trace_record::Method;
use esker_trace_replay::init::TREE;
use esker_trace_replay::{InitMode, Report, Speed};

use crate::artc::mounted::{DISK, FLASH, FileSystem, Mounted};
use crate::artc::{How, compiled, laid_out, middle, prediction, recorded, replayed, warm, with_rw};
use esker_lab_kit::{Experiment, Figure, LabError, Options, Peer, peer, scratch};

/// The record.
pub const EXPERIMENT: Experiment = Experiment {
    name: "artc-uring",
    summary: "Requests of an io_uring that a recording does not show, and the error of predictions of fio with them",
    source: "ours",
    simulated: false,
    rivals: &["fio", "mkfs.ext4"],
    run,
};

/// Bytes of the file, and how much fio moves.
const FILE_BYTES: u64 = 64 << 20;
const MOVED: &str = "24m";
const QUICK_MOVED: &str = "12m";
/// Runs of the program, and its replays, whose middle one counts.
const RUNS: usize = 5;
const QUICK_RUNS: usize = 3;
const FOLDER: &str = "job";

/// A model with a file system, and what was recorded there.
struct Model {
    name: &'static str,
    on: Mounted,
    folder: PathBuf,
    program: Program,
}

struct Bench<'a> {
    scratch: PathBuf,
    options: &'a Options,
}

fn run(options: &Options, progress: &mut dyn FnMut(&str)) -> Result<Vec<Figure>, LabError> {
    let dir = scratch::folder(&options.scratch)?;
    // Recordings have no other names of it.
    let scratch = std::fs::canonicalize(dir.path()).map_err(LabError::scratch(&dir.path()))?;
    let bench = Bench { scratch, options };
    let mut unseen = 0;
    let mut models = Vec::new();
    for (name, text) in [("disk", DISK), ("flash", FLASH)] {
        let on = Mounted::new(name, FileSystem::Ext4, &format!("vol = {text}"), &bench.scratch, options.seed)?;
        let (folder, program, missed) = bench.recorded(&on)?;
        progress(&format!("{name}: {} actions recorded, {missed} requests not", program.len()));
        unseen += missed;
        models.push(Model { name, on, folder, program });
    }
    let mut figures = Vec::new();
    let (mut worst, mut failures) = (0.0_f64, 0);
    for (from, to) in [(0, 1), (1, 0)] {
        let (source, target) = (&models[from], &models[to]);
        let original = middle(bench.runs(), || bench.original(source, &target.on))?;
        let replay = middle(bench.runs(), || {
            let report = bench.replay(&source.program, &target.on)?;
            failures += report.mismatches.count;
            Ok(report.elapsed_ns as f64)
        })?;
        let error = (replay - original) / original;
        worst = worst.max(error.abs());
        let (names, percent) = ([source.name, target.name], error * 100.0);
        let [took, predicted] = [original, replay].map(|ns| (ns / 1e6) as u64);
        progress(&format!("{} on {}: {took} ms, predicted {predicted} ms, {percent:+.1} %", names[0], names[1]));
        let id = if from == 0 { "disk_to_flash_error" } else { "flash_to_disk_error" };
        let peer = Some(Peer { name: "the program itself, ms".to_string(), value: original / 1e6 });
        figures.push(Figure::alone(id, error, "share, too long if positive").beside(peer));
    }
    figures.push(Figure::alone("predict_error", worst, "share, the larger of both"));
    figures.push(Figure::alone("calls_unseen", unseen as f64, "requests that no action shows"));
    figures.push(Figure::alone("replay_failures", failures as f64, "calls that came out otherwise"));
    Ok(figures)
}

impl Bench<'_> {
    fn runs(&self) -> usize {
        if self.options.quick { QUICK_RUNS } else { RUNS }
    }

    fn words(&self, folder: &Path) -> Vec<String> {
        let job = ["fio", "--name=job", "--filename=data", "--ioengine=io_uring", "--iodepth=4", "--direct=1"];
        let more = ["--thread", "--bs=4k", "--rw=randread", "--norandommap", "--disk_util=0"];
        let moved = if self.options.quick { QUICK_MOVED } else { MOVED };
        let own = [
            format!("--directory={}", folder.display()),
            format!("--size={FILE_BYTES}"),
            format!("--io_size={moved}"),
            format!("--randseed={}", self.options.seed),
            format!("--output={}", folder.join("out").display()),
        ];
        job.iter().chain(&more).map(ToString::to_string).chain(own).collect()
    }

    /// The folder with the file, on a new file system that has forgotten what it holds.
    fn prepared(&self, on: &Mounted) -> Result<PathBuf, LabError> {
        on.renew()?;
        // Where a replay would find it, among the same directories: it matters to file systems that spread these.
        laid_out(&on.run_dir(), &Snapshot::default(), InitMode::Full, self.options.seed)?;
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
        let trace = recorded(self.words(&folder), Method::Kernel, vec![folder.clone()])?;
        let warned: u64 =
            [WarningKind::UringUnseen, WarningKind::UringPolled].map(|kind| trace.warnings.count(kind)).iter().sum();
        let program = compiled(trace)?;
        let left = LeftOut::of(&program);
        Ok((folder, program, warned.max(left.uring_submissions + left.polled_rings)))
    }

    /// Nanoseconds that the program itself takes there, on the tree that a replay begins with.
    fn original(&self, source: &Model, on: &Mounted) -> Result<f64, LabError> {
        self.laid_out(&source.program, on)?;
        let inside = source.folder.strip_prefix("/").unwrap_or(&source.folder);
        let words = self.words(&on.run_dir().join(TREE).join(inside));
        let begin = Instant::now();
        peer::output(&words[0], &words[1..])?;
        Ok(begin.elapsed().as_nanos() as f64)
    }

    /// The tree as it was before the recording, on a new file system that has forgotten what it holds.
    fn laid_out(&self, program: &Program, on: &Mounted) -> Result<(), LabError> {
        on.renew()?;
        laid_out(&on.run_dir(), program.snapshot(), InitMode::Full, self.options.seed)?;
        on.forget()
    }

    fn replay(&self, program: &Program, on: &Mounted) -> Result<Report, LabError> {
        self.laid_out(program, on)?;
        warm(program, &self.scratch, &on.run_dir().join(TREE))?;
        let order = with_rw(prediction());
        let how = How { init: InitMode::None, ..How::plain(order, Speed::Scaled(1.0), self.options.seed) };
        replayed(program, &on.run_dir(), how)
    }
}
