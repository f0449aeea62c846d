//! `paced-ext4`: a real program on a real file system on a modelled disk in real time, against the disk's virtual twin.
//!
//! fio reads and writes a file on ext4 on an attached `disk-model`, with direct I/O, so that no page cache answers. A `tap`
//! above the model records the requests as they arrive; what arrived during each of fio's jobs is then played in virtual
//! time on the same model, in the same order, with as many in flight as the job has. Recorded times would be worse: fio waits
//! for answers, and requests at fixed times pile up wherever the twin's disk is late where the real one was not. One job reads one
//! block at a time, and its throughput can be compared. The other has reads, writes and syncs: only reads are compared
//! there, since of the writes some are ext4's own.
//!
//! An error of a figure is |predicted / what fio reports - 1|. What program, file system, loop device and FUSE take themselves
//! is part of it. `stated_mean_error` and `stated_worst_error` are what `esker try` prints beside such predictions.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use esker_base::Nanos;
use esker_base::units::{GIB, KIB, MIB};
use esker_blktrace::sink::TAP_FORMAT;
use esker_blktrace::{Op, Record, Source, TraceReader};
use esker_plot::KnownError;
use esker_predict::outcome::Latency;
use esker_predict::{Candidate, Load, Plan, Run, SpeedChoice, Trace, Watch};
use esker_stack::Spec;

use crate::artc::mounted::{FileSystem, Mounted};
use crate::experiment::{Experiment, Figure, LabError, Options, Peer};
use crate::{peer, scratch};

/// The record.
pub const EXPERIMENT: Experiment = Experiment {
    name: "paced-ext4",
    summary: "fio on ext4 on an attached, paced disk model, against the model's virtual twin",
    source: "the issue of models: within the error that is stated for predictions of such devices",
    simulated: false,
    rivals: &["fio", "mkfs.ext4"],
    run,
};

const DISK: &str = "disk-model size=8GiB";
const DISK_SIZE: u64 = 8 * GIB;
/// Bytes of fio's file.
const FILE_SIZE: u64 = 256 * MIB;
const BLOCK: u64 = 4 * KIB;

/// A job of fio.
struct Job {
    name: &'static str,
    options: &'static str,
    /// Requests that it has in flight.
    depth: u32,
    /// Errors of mean, median and 99th percentile of the reads' latency.
    ids: [&'static str; 3],
    /// Error of requests per second, where all requests are the program's.
    rate: Option<&'static str>,
}

const JOBS: [Job; 2] = [
    Job {
        name: "reads one at a time",
        options: "--rw=randread --ioengine=psync",
        depth: 1,
        ids: ["reads_mean_error", "reads_p50_error", "reads_p99_error"],
        rate: Some("reads_throughput_error"),
    },
    Job {
        name: "reads, writes and syncs, four in flight",
        options: "--rw=randrw --rwmixread=70 --ioengine=io_uring --fsync=16",
        depth: 4,
        ids: ["mixed_mean_error", "mixed_p50_error", "mixed_p99_error"],
        rate: None,
    },
];

fn run(options: &Options, progress: &mut dyn FnMut(&str)) -> Result<Vec<Figure>, LabError> {
    let dir = scratch::folder(&options.scratch)?;
    let span = Duration::from_secs(if options.quick { 12 } else { 90 });
    progress("ext4 on the modelled disk");
    let disk = Disk::new(dir.path(), options.seed)?;
    let mut real = Vec::new();
    for job in &JOBS {
        progress(job.name);
        real.push(disk.reported(job, span, options.seed)?);
    }
    let parts = parts(&disk.recorded()?)?;
    let (mut figures, mut stated) = (Vec::new(), Vec::new());
    for ((job, real), records) in JOBS.iter().zip(&real).zip(parts) {
        progress(&format!("{}: {} requests in virtual time", job.name, records.len()));
        let predicted = predicted(job, records, options.seed)?;
        figures.extend(compared(job, real, &predicted));
        stated = predicted.known_errors;
    }
    Ok(summary(figures, &stated))
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
    fn new(dir: &Path, seed: u64) -> Result<Disk, LabError> {
        let trace = dir.join("requests");
        let spec =
            Spec::parse("paced-ext4", &format!("disk = {DISK} content=memory")).expect("the experiment's own text");
        let tap = format!("[device.vol]\nkind = \"tap\"\non = \"disk\"\npath = '{}'\n", trace.display());
        let text = format!("{}\n{tap}", spec.to_toml());
        let disk = Disk { mounted: Mounted::new("disk", FileSystem::Ext4, &text, dir, seed)?, trace };
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
        let fixed =
            format!("--bs=4k --direct=1 --time_based --norandommap --randseed={seed} --runtime={}s", span.as_secs());
        let report = peer::fio(&self.place(), &format!("{} --iodepth={} {fixed}", job.options, job.depth))?;
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
        let bytes = std::fs::read(&trace).map_err(|source| LabError::Scratch { dir: trace.clone(), source })?;
        let damaged = |error: &dyn std::fmt::Display| LabError::Data(format!("the recorded requests: {error}"));
        let mut reader = TraceReader::from_bytes(bytes, TAP_FORMAT).map_err(|error| damaged(&error))?;
        let mut records = Vec::new();
        while let Some(record) = reader.next_record().map_err(|error| damaged(&error))? {
            records.push(record);
        }
        Ok(records)
    }
}

/// What arrived during each job: between its marks, which are the last ones, since others may read the last block before.
fn parts(records: &[Record]) -> Result<Vec<Vec<Record>>, LabError> {
    let is_mark = |record: &Record| record.op == Op::Read && record.offset == DISK_SIZE - BLOCK && record.len == BLOCK;
    let marks: Vec<usize> = (0..records.len()).filter(|at| is_mark(&records[*at])).collect();
    let Some(first) = marks.len().checked_sub(2 * JOBS.len()) else {
        return Err(LabError::Data(format!(
            "{} of {} marks are in the recorded requests",
            marks.len(),
            2 * JOBS.len()
        )));
    };
    let part = |pair: &[usize]| {
        let between = &records[pair[0] + 1..pair[1]];
        let start = between.first().map_or(Nanos::ZERO, |record| record.at);
        between.iter().map(|record| Record { at: Nanos(record.at.0 - start.0), ..*record }).collect()
    };
    Ok(marks[first..].chunks(2).map(part).collect())
}

/// The same requests in virtual time, on the model alone.
fn predicted(job: &Job, records: Vec<Record>, seed: u64) -> Result<Run, LabError> {
    let spec = Spec::parse("paced-ext4", &format!("vol = {DISK} @")).expect("the experiment's own text");
    let plan = Plan {
        candidates: vec![Candidate { name: "disk".to_string(), what: DISK.to_string(), spec }],
        seed,
        load: Load::Closed { depth: job.depth, think: Nanos::ZERO },
        speed: SpeedChoice::Factor(1.0),
        ..Plan::of(vec![Trace::from_records("requests", records)])
    };
    let silent: Watch = Arc::new(|_, _| {});
    Ok(plan.prepare(&silent)?.run(0, &silent)?)
}

fn compared(job: &Job, real: &Reported, predicted: &Run) -> Vec<Figure> {
    let Latency { mean_ns, p50_ns, p99_ns, .. } = predicted.reads;
    let latencies = job.ids.into_iter().zip([mean_ns, p50_ns, p99_ns]).zip(real.latencies);
    let mut figures: Vec<Figure> =
        latencies.map(|((id, predicted), real)| error(id, predicted as f64, real, "ns of fio's reads")).collect();
    figures.extend(job.rate.map(|id| error(id, predicted.requests_per_s, real.per_second, "reads/s of fio")));
    figures
}

fn error(id: &'static str, predicted: f64, real: f64, unit: &str) -> Figure {
    let peer = Some(Peer { name: format!("{unit}, predicted {predicted:.0}"), value: real });
    Figure { peer, ..Figure::alone(id, (predicted / real - 1.0).abs(), "relative error") }
}

/// Mean and worst of all, what is stated of such predictions, and every error.
fn summary(errors: Vec<Figure>, stated: &[KnownError]) -> Vec<Figure> {
    let values = || errors.iter().map(|figure| figure.value);
    let unit = "relative error";
    let mut all = vec![
        Figure::alone("mean_error", values().sum::<f64>() / errors.len() as f64, unit),
        Figure::alone("worst_error", values().fold(0.0, f64::max), unit),
    ];
    for known in stated.iter().filter(|known| known.source.contains(EXPERIMENT.name)) {
        all.extend(known.mean.map(|mean| Figure::alone("stated_mean_error", mean, unit)));
        all.extend(known.worst.map(|worst| Figure::alone("stated_worst_error", worst, unit)));
    }
    all.extend(errors);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(at: u64, offset: u64) -> Record {
        Record { at: Nanos(at), volume: 0, op: Op::Read, offset, len: BLOCK }
    }

    #[test]
    fn each_job_gets_what_arrived_between_its_marks() {
        let mark = |at| record(at, DISK_SIZE - BLOCK);
        let others = [mark(1), record(2, 0)];
        let jobs =
            [mark(10), record(12, 4096), record(15, 0), mark(20), record(21, 0), mark(30), record(33, 8192), mark(40)];
        let all: Vec<Record> = others.into_iter().chain(jobs).collect();
        assert_eq!(parts(&all).unwrap(), [vec![record(0, 4096), record(3, 0)], vec![record(0, 8192)]]);
        assert!(parts(&all[..6]).unwrap_err().to_string().contains("3 of 4 marks"));
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
