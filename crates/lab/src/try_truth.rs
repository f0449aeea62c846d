//! `try-truth`: how far predictions are from the truth.
//!
//! A stack is predicted in virtual time; then the same text is built in the real world and the same player sends it the
//! same requests. Memory and file devices are predicted with what `esker calibrate` measures, models as they are, paced
//! in the real world. A machine that others use changes its speed within a fraction of a second. The question is how
//! well the model describes the machine, not how well it foretells the neighbours. So calibration and real runs take
//! turns in many short rounds, step by step, and all rounds of each count together. A step during which others had the
//! CPU is taken again, a few times at most. The error of a figure is
//! |predicted / real - 1|; figures are throughput (in closed loop, where it is not given by the requests), median and 99th
//! percentile of latency. `stolen_share` says how much of the CPU time that was asked for a host gave to others
//! meanwhile: the 99th percentiles of answers that take microseconds are its stops.

use std::path::Path;
use std::sync::Arc;

use esker_base::units::{KIB, MIB};
use esker_base::{Nanos, Stream};
use esker_calibrate::{Calibrator, Options as CalibrateOptions, Part, TRIES, undisturbed};
use esker_predict::{
    Calibration, Candidate, CandidateRun, ComparisonPlan, Latencies, Load, PredictError, Prepared, SpeedChoice, Trace,
    Watch,
};
use esker_stack::Spec;
use esker_trace_block::{Op, Record};

use esker_lab_kit::{
    Experiment, Figure, LabError, Options, Peer,
    machine::{CpuTimes, lost_ticks},
    scratch,
};

/// The record.
pub const EXPERIMENT: Experiment = Experiment {
    name: "try-truth",
    summary: "Predicted against real throughput and latency, for memory, files and paced models, with and without layers",
    source: "the project's own bars: mean error at most 5 %, worst at most 15 %",
    simulated: false,
    rivals: &[],
    run,
};

/// Predicted runs of a stack: in virtual time nothing but the requests differs from one to the next.
const PREDICTED_MAX: u64 = 20;
/// Figures of one stack.
const FIGURES: usize = 3;

/// One stack and what is asked of it.
struct Case {
    class: &'static Class,
    /// Names of its figures: errors of throughput, median and 99th percentile.
    ids: [&'static str; FIGURES],
    /// With PATH for the scratch file.
    stack: &'static str,
    /// Requests in flight; 0 for an open loop.
    depth: u32,
    /// In open loop: mean time between requests.
    gap: Nanos,
    requests: u64,
    /// Bytes that requests are spread over.
    reach: u64,
    read_share: f64,
    lens: &'static [u64],
}

/// Devices whose predictions err alike.
#[derive(PartialEq)]
struct Class {
    name: &'static str,
    mean: &'static str,
    worst: &'static str,
    /// What their predictions rest on.
    calibrated_by: &'static [Part],
    /// Turns of calibration in a round, and its steps from one real run to the next.
    turns: u32,
    steps: usize,
    /// Real runs after each turn.
    alone: u32,
}

static MEMORY: Class = Class {
    name: "memory",
    mean: "memory_mean_error",
    worst: "memory_worst_error",
    calibrated_by: &[Part::Layers, Part::OnCpu],
    turns: 1,
    steps: 1,
    alone: 0,
};
static FILE: Class = Class {
    name: "files",
    mean: "file_mean_error",
    worst: "file_worst_error",
    calibrated_by: &[Part::Waiting],
    turns: 3,
    steps: 3,
    alone: 0,
};
static DISK: Class = Class {
    name: "disk model",
    mean: "disk_model_mean_error",
    worst: "disk_model_worst_error",
    calibrated_by: &[],
    turns: 1,
    steps: 1,
    alone: 2,
};
static SSD: Class = Class {
    name: "SSD model",
    mean: "ssd_model_mean_error",
    worst: "ssd_model_worst_error",
    calibrated_by: &[Part::Wakes],
    turns: 1,
    steps: 1,
    alone: 2,
};
static CLASSES: [&Class; 4] = [&MEMORY, &FILE, &DISK, &SSD];

macro_rules! ids {
    ($name:literal) => {
        [concat!($name, "_throughput"), concat!($name, "_p50"), concat!($name, "_p99")]
    };
}

/// Random 4 KiB reads and writes, 70 to 30, one in flight, over memory; so many that it hardly counts how the caches of
/// a CPU were found.
const PLAIN: Case = Case {
    class: &MEMORY,
    ids: ids!("memory"),
    stack: "vol = memory size=32MiB @",
    depth: 1,
    gap: Nanos::ZERO,
    requests: 120_000,
    reach: 32 * MIB,
    read_share: 0.7,
    lens: &[4 * KIB],
};

static CASES: &[Case] = &[
    PLAIN,
    Case {
        ids: ids!("memory_layers"),
        stack: "vol = memory size=32MiB | offset | pass | stats | align | pass @",
        ..PLAIN
    },
    Case {
        ids: ids!("memory_mixed"),
        stack: "vol = memory size=256MiB | rate iops=1000000000 | stats @",
        depth: 8,
        reach: 256 * MIB,
        read_share: 0.5,
        lens: &[4 * KIB, 16 * KIB, 32 * KIB],
        ..PLAIN
    },
    Case {
        ids: ids!("memory_stripe"),
        stack: "a = memory size=16MiB; b = memory size=16MiB; s = stripe on a,b; t = stats on s; export vol = t",
        ..PLAIN
    },
    Case { class: &FILE, ids: ids!("file_qd1"), stack: "vol = file path=PATH size=256MiB @", ..FILE_READS },
    Case {
        class: &FILE,
        ids: ids!("file_qd8_mixed"),
        stack: "vol = file path=PATH size=256MiB | stats | pass @",
        depth: 8,
        read_share: 0.7,
        lens: &[4 * KIB, 16 * KIB],
        requests: 2000,
        ..FILE_READS
    },
    Case {
        class: &FILE,
        ids: ids!("file_qd16"),
        stack: "vol = file path=PATH size=256MiB | stats @",
        depth: 16,
        lens: &[16 * KIB],
        requests: 2000,
        ..FILE_READS
    },
    DISK_READS,
    Case {
        ids: ids!("disk_open"),
        stack: "a = disk-model size=2GiB; b = disk-model size=2GiB; c = disk-model size=2GiB; d = disk-model size=2GiB; \
                s = stripe on a,b,c,d; r = rate on s iops=1600; t = stats on r; export vol = t",
        depth: 0,
        gap: Nanos::micros(3_750),
        requests: 800,
        read_share: 0.6,
        ..DISK_READS
    },
    SSD_READS,
    Case {
        ids: ids!("ssd_qd16_mixed"),
        stack: "vol = ssd-model size=8GiB | stats | pass @",
        depth: 16,
        read_share: 0.7,
        lens: &[4 * KIB, 64 * KIB],
        ..SSD_READS
    },
    Case {
        ids: ids!("ssd_stripe_open"),
        stack: "a = ssd-model size=4GiB; b = ssd-model size=4GiB; s = stripe on a,b; t = stats on s; export vol = t",
        depth: 0,
        gap: Nanos::micros(300),
        requests: 3000,
        read_share: 0.5,
        ..SSD_READS
    },
];

const FILE_READS: Case = Case { requests: 1000, reach: 256 * MIB, read_share: 1.0, ..PLAIN };

const DISK_READS: Case = Case {
    class: &DISK,
    ids: ids!("disk_qd4"),
    stack: "vol = disk-model size=8GiB @",
    depth: 4,
    requests: 500,
    reach: 8 << 30,
    read_share: 1.0,
    ..PLAIN
};

const SSD_READS: Case = Case {
    class: &SSD,
    ids: ids!("ssd_qd1"),
    stack: "vol = ssd-model size=8GiB @",
    requests: 3000,
    reach: 8 << 30,
    read_share: 1.0,
    ..PLAIN
};

/// Throughput, median and 99th percentile.
type Measured = [f64; FIGURES];

/// The runs of one case.
type Runs = Vec<CandidateRun>;

fn run(options: &Options, progress: &mut dyn FnMut(&str)) -> Result<Vec<Figure>, LabError> {
    let dir = scratch::folder(&options.scratch)?;
    let calibrated = dir.path().join("calibrated").display().to_string();
    let mut calibrator = Calibrator::new(CalibrateOptions {
        machine: "this machine".to_string(),
        seed: options.seed,
        file: Some(calibrated),
        raw: Vec::new(),
        only_devices: false,
        taken_away: lost_ticks,
    });
    let rounds = if options.quick { 5 } else { 15 };
    let before = CpuTimes::now();
    let mut real: Vec<Runs> = CASES.iter().map(|_| Vec::new()).collect();
    for round in 1..=rounds {
        for class in CLASSES {
            progress(&format!("round {round} of {rounds}: {}", class.name));
            let mut cases: Vec<_> = CASES.iter().zip(&mut real).filter(|(case, _)| case.class == class).collect();
            for _ in 0..class.turns {
                interwoven(&mut calibrator, class, &mut cases, |case, nth| {
                    let run = || case.prepared(dir.path(), options.seed, nth, None)?.run_realtime(0, &silent());
                    undisturbed(TRIES, lost_ticks, run)
                })?;
            }
        }
    }
    let stolen = CpuTimes::now().stolen_since(&before);
    let calibration = calibrator.finish();
    let (mut errors, mut repeats) = (Vec::new(), Vec::new());
    for (case, runs) in CASES.iter().zip(real) {
        progress(&format!("predicting {}", case.stack));
        let predict = |round| {
            let prepared = case.prepared(dir.path(), options.seed, round, Some(calibration.clone()))?;
            prepared.run(0, &silent())
        };
        let predicted: Result<Runs, PredictError> = (0..PREDICTED_MAX.min(runs.len() as u64)).map(predict).collect();
        errors.extend(compared(case, &predicted?, &runs));
        repeats.extend(repeated(case, runs));
    }
    let mut figures = figures(errors);
    figures.extend(mean_and_worst("repeat_mean_error", "repeat_worst_error", &repeats));
    figures.push(Figure::alone("stolen_share", stolen, "of the CPU time asked for"));
    Ok(figures)
}

/// Calibrates what a class rests on once more and runs its cases in turn between the steps, so that both see the same
/// machine. `run` gets the number of the case's run.
fn interwoven(
    calibrator: &mut Calibrator,
    class: &Class,
    cases: &mut [(&Case, &mut Runs)],
    run: impl Fn(&Case, u64) -> Result<CandidateRun, PredictError>,
) -> Result<(), PredictError> {
    let (mut ran, mut failure) = (0, None);
    let mut next = || {
        let at = ran % cases.len();
        let (case, runs) = &mut cases[at];
        match run(case, runs.len() as u64) {
            Ok(ended) => runs.push(ended),
            Err(error) => failure = failure.take().or(Some(error)),
        }
        ran += 1;
    };
    let mut steps = 0_usize;
    for part in class.calibrated_by {
        calibrator.round_of(*part, &mut |_| {
            if steps.is_multiple_of(class.steps) {
                next();
            }
            steps += 1;
        })?;
    }
    // What rests on no calibration still runs.
    (0..class.alone).for_each(|_| next());
    failure.map_or(Ok(()), Err)
}

fn silent() -> Watch {
    Arc::new(|_, _| {})
}

fn measured(runs: &[CandidateRun]) -> Measured {
    let latency = Latencies::pooled(runs.iter().map(|run| &run.latencies)).summary();
    let elapsed: u64 = runs.iter().map(|run| run.elapsed_ns).sum();
    [latency.requests as f64 / Nanos(elapsed).as_secs_f64(), latency.p50_ns as f64, latency.p99_ns as f64]
}

impl Case {
    fn prepared(
        &self,
        dir: &Path,
        seed: u64,
        round: u64,
        calibration: Option<Calibration>,
    ) -> Result<Prepared, PredictError> {
        let text = self.stack.replace("PATH", &dir.join("served").display().to_string());
        let spec = Spec::parse("try-truth", &text).unwrap_or_else(|e| panic!("the experiment's own text: {e}"));
        let candidate = Candidate { name: "vol".to_string(), what: text, spec };
        let load = match self.depth {
            0 => Load::Open,
            depth => Load::Closed { depth, think: Nanos::ZERO },
        };
        let plan = ComparisonPlan {
            candidates: vec![candidate],
            seed,
            load,
            speed: SpeedChoice::Factor(1.0),
            calibration: calibration.map(|calibration| ("this run".to_string(), calibration)),
            ..ComparisonPlan::of(vec![Trace::from_records("requests", self.records(seed, round))])
        };
        plan.prepare(&silent())
    }

    /// Other requests in each round, so that the rounds together stand for more than one of them.
    fn records(&self, seed: u64, round: u64) -> Vec<Record> {
        let mut random = Stream::named(seed + round, self.ids[0]);
        let mut at = Nanos::ZERO;
        let record = |_| {
            at = Nanos(at.0 + (random.exponential() * self.gap.0 as f64) as u64);
            let len = self.lens[random.below(self.lens.len() as u64) as usize];
            let offset = random.below(self.reach / len) * len;
            let op = if random.chance(self.read_share) { Op::Read } else { Op::Write };
            Record { at, volume: 0, op, offset, len }
        };
        (0..self.requests).map(record).collect()
    }
}

/// How far the real runs of a case are from each other: the error that those of even number would have as a prediction
/// of the others. No prediction can be told from one that errs so much.
fn repeated(case: &Case, runs: Runs) -> Vec<f64> {
    let mut halves = [Vec::new(), Vec::new()];
    runs.into_iter().enumerate().for_each(|(at, run)| halves[at % 2].push(run));
    compared(case, &halves[0], &halves[1]).into_iter().map(|(_, figure)| figure.value).collect()
}

/// The errors of a case, with what was predicted and what was real.
fn compared(case: &Case, predicted: &[CandidateRun], real: &[CandidateRun]) -> Vec<(&'static Class, Figure)> {
    let units = ["requests/s", "ns", "ns"];
    // In open loop the requests themselves say how many there are in a second.
    let first = usize::from(case.depth == 0);
    let (predicted, real) = (measured(predicted), measured(real));
    let figure = |at: usize| {
        let name = format!("{} in real time, predicted {:.0}", units[at], predicted[at]);
        let error = (predicted[at] / real[at] - 1.0).abs();
        let peer = Some(Peer { name, value: real[at] });
        (case.class, Figure::alone(case.ids[at], error, "relative error").beside(peer))
    };
    (first..FIGURES).map(figure).collect()
}

/// Mean and worst of all, of each class, and every error.
fn figures(errors: Vec<(&'static Class, Figure)>) -> Vec<Figure> {
    let summary = |mean: &'static str, worst: &'static str, of: &dyn Fn(&Class) -> bool| {
        let values: Vec<f64> = errors.iter().filter(|(class, _)| of(class)).map(|(_, figure)| figure.value).collect();
        mean_and_worst(mean, worst, &values)
    };
    let mut all: Vec<Figure> = summary("mean_error", "worst_error", &|_| true).into();
    for class in CLASSES {
        all.extend(summary(class.mean, class.worst, &|other| other == class));
    }
    all.extend(errors.into_iter().map(|(_, figure)| figure));
    all
}

fn mean_and_worst(mean: &'static str, worst: &'static str, values: &[f64]) -> [Figure; 2] {
    let sum: f64 = values.iter().sum();
    [
        Figure::alone(mean, sum / values.len() as f64, "relative error"),
        Figure::alone(worst, values.iter().copied().fold(0.0, f64::max), "relative error"),
    ]
}
