//! `paced-ext4`: a real program on a real file system on a modelled disk in real time, against the disk's virtual twin.
//!
//! fio reads and writes a file on ext4 on an attached `disk-model`, with direct I/O, so that no page cache answers. A
//! `tap` above the model records the requests as they arrive. Those that arrived during each of fio's jobs are then
//! played in virtual time on the same model, in the same order, with as many in flight as the job has. Recorded times
//! would be worse: fio waits for answers, and requests at fixed times pile up wherever the twin's disk is late where
//! the real one was not. One job reads one block at a time, and its throughput can be compared. The other has reads,
//! writes and syncs: only reads are compared there, since of the writes some are ext4's own.
//!
//! An error of a figure is |predicted / what fio reports - 1|. What program, file system, loop device and FUSE take
//! themselves is part of it. `stated_mean_error` and `stated_worst_error` are what `esker try` prints beside such
//! predictions.
//!
//! They were taken from these two jobs, whose errors so say nothing of them. The stated row is *frozen*, and is
//! judged by three jobs that were held out: other blocks, shares of reads, depths and seeds. `mean_over_stated` and
//! `worst_over_stated` are their mean and worst error over the stated ones: more than 1 means that more was promised
//! than holds.

use std::path::{Path, PathBuf};
use std::time::Duration;

use esker_base::Nanos;
use esker_base::units::{GIB, KIB, MIB};
use esker_predict::known_error::{Frozen, frozen};
use esker_predict::outcome::Latency;
use esker_predict::{CandidateRun, Load};
use esker_report::KnownError;
use esker_trace_block::sink::TAP_FORMAT;
use esker_trace_block::{Op, Record, Source, TraceError, TraceReader};

use crate::artc::mounted::{FileSystem, Mounted};
use crate::played::{self, silent};
use esker_lab_kit::timing::{mean, mean_and_worst, worst};
use esker_lab_kit::{Figure, Lab, LabError, peer, rig};

/// The name under which errors of these predictions are stated.
const NAME: &str = "paced-ext4";
const DISK: &str = "disk-model size=8GiB";
const DISK_SIZE: u64 = 8 * GIB;
/// Bytes of fio's file.
const FILE_SIZE: u64 = 256 * MIB;
const BLOCK: u64 = 4 * KIB;
/// What is added to the seed of held-out jobs.
const HELD_OUT_SEED: u64 = 1_000;

/// A job of fio.
struct Job {
    name: &'static str,
    options: &'static str,
    /// Bytes of a request.
    block: u64,
    /// Requests that it has in flight.
    depth: u32,
    /// What the names of its figures begin with.
    id: &'static str,
    /// Whether all requests are the program's, so that there is an error of requests per second.
    has_rate: bool,
}

/// The jobs from which the stated row was taken.
const JOBS: [Job; 2] = [
    Job::named("reads", "reads one at a time").asks("--rw=randread --ioengine=psync", BLOCK, 1).with_rate(),
    Job::named("mixed", "reads, writes and syncs, four in flight").asks(
        "--rw=randrw --rwmixread=70 --ioengine=io_uring --fsync=16",
        BLOCK,
        4,
    ),
];

/// Jobs that judge it. A row that is taken from these jobs needs other jobs to judge it.
const HELD_OUT: [Job; 3] = [
    Job::named("held_64k", "held out: reads of 64 KiB one at a time")
        .asks("--rw=randread --ioengine=psync", 64 * KIB, 1)
        .with_rate(),
    Job::named("held_16k", "held out: reads of 16 KiB, two in flight")
        .asks("--rw=randread --ioengine=io_uring", 16 * KIB, 2)
        .with_rate(),
    Job::named("held_mixed", "held out: as many reads as writes of 8 KiB, eight in flight, and syncs").asks(
        "--rw=randrw --rwmixread=50 --ioengine=io_uring --fsync=32",
        8 * KIB,
        8,
    ),
];

impl Job {
    const fn named(id: &'static str, name: &'static str) -> Job {
        Job { name, options: "", block: 0, depth: 0, id, has_rate: false }
    }

    /// Requests of so many bytes, so many of them in flight.
    const fn asks(self, options: &'static str, block: u64, depth: u32) -> Job {
        Job { options, block, depth, ..self }
    }

    const fn with_rate(self) -> Job {
        Job { has_rate: true, ..self }
    }

    /// Names of its figures: errors of mean, median and 99th percentile of the reads' latency, then of their rate.
    fn ids(&self) -> impl Iterator<Item = String> {
        let all = ["mean", "p50", "p99", "throughput"].into_iter().take(3 + usize::from(self.has_rate));
        all.map(|what| format!("{}_{what}_error", self.id))
    }
}

/// All of them, each with its seed.
fn jobs(seed: u64) -> impl Iterator<Item = (&'static Job, u64)> {
    JOBS.iter().map(move |job| (job, seed)).chain(HELD_OUT.iter().map(move |job| (job, seed + HELD_OUT_SEED)))
}

pub(crate) fn run(lab: &Lab<'_>) -> Result<Vec<Figure>, LabError> {
    let dir = lab.folder()?;
    let span = Duration::from_secs(lab.scale(12, 90));
    let frozen = frozen(NAME).ok_or_else(|| LabError::Data(format!("no row is frozen for {NAME}")))?;
    lab.say(format!("what is stated stands since {}, of {}", frozen.on, frozen.jobs));
    lab.say("ext4 on the modelled disk");
    let disk = Disk::new(dir.path(), lab)?;
    let mut real = Vec::new();
    for (job, seed) in jobs(lab.seed) {
        lab.say(job.name);
        real.push(disk.reported(job, span, seed)?);
    }
    let parts = parts(&disk.recorded()?, real.len())?;
    let (mut figures, mut stated) = (Vec::new(), Vec::new());
    for (((job, seed), real), records) in jobs(lab.seed).zip(&real).zip(parts) {
        lab.say(format!("{}: {} requests in virtual time", job.name, records.len()));
        let predicted = predicted(job, records, seed)?;
        figures.push(compared(job, real, &predicted));
        stated = predicted.known_errors;
    }
    let held_out = figures.split_off(JOBS.len()).concat();
    let mut all = summary(figures.concat(), &stated);
    all.extend(judged(held_out, &frozen));
    Ok(all)
}

/// What fio says of its reads.
struct Reported {
    per_second: f64,
    /// Mean, median and 99th percentile in nanoseconds.
    latencies: [f64; 3],
}

/// The modelled disk with a mounted file system that holds fio's file.
struct Disk {
    mounted: Mounted,
    trace: PathBuf,
}

impl Disk {
    fn new(dir: &Path, lab: &Lab<'_>) -> Result<Disk, LabError> {
        let trace = dir.join("requests");
        let spec = rig::spec(&format!("disk = {DISK} content=memory"));
        let tap = format!("[device.vol]\nkind = \"tap\"\non = \"disk\"\npath = '{}'\n", trace.display());
        let text = format!("{}\n{tap}", spec.to_toml());
        let disk = Disk { mounted: Mounted::new(lab, FileSystem::Ext4, &text)?, trace };
        peer::fio(&disk.place(), "--rw=write --bs=1m --direct=1 --end_fsync=1")?;
        Ok(disk)
    }

    fn place(&self) -> [String; 2] {
        [format!("--filename={}/data", self.mounted.at().display()), format!("--size={FILE_SIZE}")]
    }

    /// Runs a job between two marks.
    fn reported(&self, job: &Job, span: Duration, seed: u64) -> Result<Reported, LabError> {
        peer::output("sync", &["-f".into(), self.mounted.at().display().to_string()])?;
        self.mark()?;
        let fixed = format!("--direct=1 --time_based --norandommap --randseed={seed} --runtime={}s", span.as_secs());
        let report =
            peer::fio(&self.place(), &format!("{} --bs={} --iodepth={} {fixed}", job.options, job.block, job.depth))?;
        self.mark()?;
        let reads = &report["jobs"][0]["read"];
        let number =
            |value: &serde_json::Value| value.as_f64().ok_or_else(|| peer::fault("fio", "no latency in its report"));
        let latency = &reads["clat_ns"];
        let (median, slow) = (&latency["percentile"]["50.000000"], &latency["percentile"]["99.000000"]);
        Ok(Reported {
            per_second: number(&reads["iops"])?,
            latencies: [number(&latency["mean"])?, number(median)?, number(slow)?],
        })
    }

    /// Reads the last block of the device, which no file system uses, so that it is found in the trace.
    fn mark(&self) -> Result<(), LabError> {
        let words = ["of=/dev/null", "bs=4096", "count=1", "iflag=direct", "status=none"];
        let own = [format!("if={}", self.mounted.device().display()), format!("skip={}", DISK_SIZE / BLOCK - 1)];
        peer::output("dd", &words.map(str::to_string).into_iter().chain(own).collect::<Vec<_>>()).map(drop)
    }

    /// Ends it, and returns what was recorded.
    fn recorded(self) -> Result<Vec<Record>, LabError> {
        let Disk { mounted, trace } = self;
        drop(mounted);
        let bytes = std::fs::read(&trace).map_err(LabError::scratch(&trace))?;
        let damaged = |error: TraceError| LabError::Data(format!("the recorded requests: {error}"));
        let mut reader = TraceReader::from_bytes(bytes, TAP_FORMAT).map_err(damaged)?;
        std::iter::from_fn(|| reader.next_record().transpose()).map(|record| record.map_err(damaged)).collect()
    }
}

/// What arrived during each of `jobs` jobs: between its marks, which are the last ones, since others may read the
/// last block before.
fn parts(records: &[Record], jobs: usize) -> Result<Vec<Vec<Record>>, LabError> {
    let is_mark = |record: &Record| record.op == Op::Read && record.offset == DISK_SIZE - BLOCK && record.len == BLOCK;
    let marks: Vec<usize> = (0..records.len()).filter(|at| is_mark(&records[*at])).collect();
    let Some(first) = marks.len().checked_sub(2 * jobs) else {
        let what = format!("{} of {} marks are in the recorded requests", marks.len(), 2 * jobs);
        return Err(LabError::Data(what));
    };
    let part = |pair: &[usize]| {
        let between = &records[pair[0] + 1..pair[1]];
        let start = between.first().map_or(Nanos::ZERO, |record| record.at);
        between.iter().map(|record| Record { at: Nanos(record.at.0 - start.0), ..*record }).collect()
    };
    Ok(marks[first..].chunks(2).map(part).collect())
}

/// The same requests in virtual time, on the model alone.
fn predicted(job: &Job, records: Vec<Record>, seed: u64) -> Result<CandidateRun, LabError> {
    let load = Load::Closed { depth: job.depth, think: Nanos::ZERO };
    let plan = played::plan(&format!("vol = {DISK} @"), seed, load, records);
    Ok(plan.prepare(&silent())?.run(0, &silent())?)
}

fn compared(job: &Job, real: &Reported, predicted: &CandidateRun) -> Vec<Figure> {
    let Latency { mean_ns, p50_ns, p99_ns, .. } = predicted.reads;
    let latencies = [mean_ns, p50_ns, p99_ns].into_iter().zip(real.latencies);
    let latencies = latencies.map(|(predicted, real)| (predicted as f64, real, "ns of fio's reads"));
    let all = latencies.chain([(predicted.requests_per_s, real.per_second, "reads/s of fio")]);
    job.ids().zip(all).map(|(id, (predicted, real, unit))| error(id, predicted, real, unit)).collect()
}

fn error(id: impl Into<String>, predicted: f64, real: f64, unit: &str) -> Figure {
    let name = format!("{unit}, predicted {predicted:.0}");
    Figure::alone(id, (predicted / real - 1.0).abs(), "relative error").peer(name, real)
}

fn values(errors: &[Figure]) -> Vec<f64> {
    errors.iter().map(|figure| figure.value).collect()
}

/// Mean and worst of all, what is stated of such predictions, and every error.
fn summary(errors: Vec<Figure>, stated: &[KnownError]) -> Vec<Figure> {
    let mut all: Vec<Figure> = mean_and_worst("", &values(&errors)).into();
    for known in stated.iter().filter(|known| known.source.contains(NAME)) {
        let figure = |id, value| Figure::alone(id, value, "relative error");
        all.extend(known.mean.map(|mean| figure("stated_mean_error", mean)));
        all.extend(known.worst.map(|worst| figure("stated_worst_error", worst)));
    }
    all.extend(errors);
    all
}

/// The errors of held-out jobs, and their mean and worst over what was stated before.
fn judged(errors: Vec<Figure>, stated: &Frozen) -> Vec<Figure> {
    let over = |id, value: f64, stated| {
        let name = format!("stated, held-out jobs {value:.4}");
        Figure::alone(id, value / stated, "times the stated error").peer(name, stated)
    };
    let held = values(&errors);
    let ratios =
        [over("mean_over_stated", mean(&held), stated.mean), over("worst_over_stated", worst(&held), stated.worst)];
    ratios.into_iter().chain(errors).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(at: u64, offset: u64) -> Record {
        Record { at: Nanos(at), volume: 0, op: Op::Read, offset, len: BLOCK, who: 0 }
    }

    #[test]
    fn each_job_gets_what_arrived_between_its_marks() {
        let mark = |at| record(at, DISK_SIZE - BLOCK);
        let others = [mark(1), record(2, 0)];
        let jobs =
            [mark(10), record(12, 4096), record(15, 0), mark(20), record(21, 0), mark(30), record(33, 8192), mark(40)];
        let all: Vec<Record> = others.into_iter().chain(jobs).collect();
        assert_eq!(parts(&all, 2).unwrap(), [vec![record(0, 4096), record(3, 0)], vec![record(0, 8192)]]);
        assert!(parts(&all[..6], 2).unwrap_err().to_string().contains("3 of 4 marks"));
    }

    #[test]
    fn no_job_that_judges_the_stated_error_is_one_from_which_it_was_taken() {
        for held in &HELD_OUT {
            assert_eq!(JOBS.iter().find(|job| job.block == held.block).map(|job| job.name), None, "{}", held.name);
            assert!(held.ids().all(|id| id.starts_with("held_")), "{}", held.name);
        }
        let seeds: Vec<u64> = jobs(7).map(|(_, seed)| seed).collect();
        assert_eq!(seeds, [7, 7, 1_007, 1_007, 1_007]);
        let mut ids: Vec<String> = jobs(1).flat_map(|(job, _)| job.ids()).collect();
        let count = ids.len();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), count, "each figure has a name of its own");
    }

    #[test]
    fn held_out_jobs_are_judged_by_what_was_stated_before_them() {
        let stated = Frozen { on: "a day".to_string(), jobs: "others".to_string(), mean: 0.1, worst: 0.2 };
        let errors = vec![error("a", 90.0, 100.0, "x"), error("b", 130.0, 100.0, "x")];
        let figures = judged(errors, &stated);
        let value = |id| figures.iter().find(|figure| figure.id == id).unwrap().value;
        assert!((value("mean_over_stated") - 2.0).abs() < 1e-9, "a mean of 0.2 where 0.1 is stated");
        assert!((value("worst_over_stated") - 1.5).abs() < 1e-9, "0.3 where 0.2 is stated");
        assert_eq!(figures.len(), 4);
        let row = frozen(NAME).expect("its row is frozen");
        assert!(row.mean > 0.0 && row.mean <= row.worst);
    }

    #[test]
    fn predictions_of_the_disk_state_their_error() {
        let run = predicted(&JOBS[0], (0..50).map(|at| record(at, at * 4096)).collect(), 1).unwrap();
        assert_eq!(run.reads.requests, 50);
        let figures = summary(vec![error("a", 90.0, 100.0, "x"), error("b", 102.0, 100.0, "x")], &run.known_errors);
        let value = |id| figures.iter().find(|figure| figure.id == id).unwrap().value;
        assert!((value("mean_error") - 0.06).abs() < 1e-9 && (value("worst_error") - 0.1).abs() < 1e-9);
        assert!(value("stated_mean_error") > 0.0 && value("stated_worst_error") < 1.0);
    }
}
