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

use esker_base::units::{KIB, MIB};
use esker_base::{Nanos, Stream};
use esker_calibrate::{Calibrator, Options as CalibrateOptions, Part, TRIES, undisturbed};
use esker_predict::{Calibration, CandidateRun, ComparisonPlan, Latencies, Load, PredictError, Prepared};
use esker_trace_block::{Op, Record};

use crate::played::{self, silent};
use esker_lab_kit::machine::{CpuTimes, lost_ticks};
use esker_lab_kit::{Figure, Lab, LabError, timing::mean_and_worst};

/// Predicted runs of a stack: in virtual time nothing but the requests differs from one to the next.
const PREDICTED_MAX: u64 = 20;
/// Figures of one stack: errors of throughput, median and 99th percentile.
const FIGURES: [&str; 3] = ["throughput", "p50", "p99"];

/// One stack and what is asked of it.
struct Case {
    class: &'static Class,
    /// What the names of its figures begin with.
    id: &'static str,
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
    /// In names of figures.
    word: &'static str,
    /// What their predictions rest on.
    calibrated_by: &'static [Part],
    /// Turns of calibration in a round, and its steps from one real run to the next.
    turns: u32,
    steps: usize,
    /// Real runs after each turn.
    alone: u32,
}

impl Class {
    const fn new(names: [&'static str; 2], calibrated_by: &'static [Part], turns: u32, alone: u32) -> Class {
        Class { name: names[0], word: names[1], calibrated_by, turns, steps: turns as usize, alone }
    }
}

static MEMORY: Class = Class::new(["memory", "memory"], &[Part::Layers, Part::OnCpu], 1, 0);
static FILE: Class = Class::new(["files", "file"], &[Part::Waiting], 3, 0);
static DISK: Class = Class::new(["disk model", "disk_model"], &[], 1, 2);
static SSD: Class = Class::new(["SSD model", "ssd_model"], &[Part::Wakes], 1, 2);
static CLASSES: [&Class; 4] = [&MEMORY, &FILE, &DISK, &SSD];

impl Case {
    /// Requests of 4 KiB, one in flight.
    const fn new(class: &'static Class, id: &'static str, stack: &'static str, requests: u64, reach: u64) -> Case {
        Case { class, id, stack, depth: 1, gap: Nanos::ZERO, requests, reach, read_share: 1.0, lens: &[4 * KIB] }
    }

    /// The same of another stack.
    const fn on(self, id: &'static str, stack: &'static str) -> Case {
        Case { id, stack, ..self }
    }

    /// So many, of which this share is reads.
    const fn sends(self, requests: u64, read_share: f64) -> Case {
        Case { requests, read_share, ..self }
    }

    /// So many in flight, of these lengths.
    const fn closed(self, depth: u32, lens: &'static [u64]) -> Case {
        Case { depth, lens, ..self }
    }

    /// In open loop, one in so many microseconds.
    const fn open(self, gap_us: u64) -> Case {
        Case { depth: 0, gap: Nanos::micros(gap_us), ..self }
    }
}

/// Random reads and writes, 70 to 30, over memory; so many that it hardly counts how the caches of a CPU were found.
const PLAIN: Case = Case::new(&MEMORY, "memory", "vol = memory size=32MiB @", 120_000, 32 * MIB).sends(120_000, 0.7);
const FILE_READS: Case = Case::new(&FILE, "file_qd1", "vol = file path=PATH size=256MiB @", 1000, 256 * MIB);
const DISK_READS: Case =
    Case::new(&DISK, "disk_qd4", "vol = disk-model size=8GiB @", 500, 8 << 30).closed(4, &[4 * KIB]);
const SSD_READS: Case = Case::new(&SSD, "ssd_qd1", "vol = ssd-model size=8GiB @", 3000, 8 << 30);
const FOUR_DISKS: &str = "a = disk-model size=2GiB; b = disk-model size=2GiB; c = disk-model size=2GiB; d = disk-model size=2GiB; \
     s = stripe on a,b,c,d; r = rate on s iops=1600; t = stats on r; export vol = t";

static CASES: &[Case] = &[
    PLAIN,
    PLAIN.on("memory_layers", "vol = memory size=32MiB | offset | pass | stats | align | pass @"),
    Case { reach: 256 * MIB, ..PLAIN }
        .on("memory_mixed", "vol = memory size=256MiB | rate iops=1000000000 | stats @")
        .sends(120_000, 0.5)
        .closed(8, &[4 * KIB, 16 * KIB, 32 * KIB]),
    PLAIN.on(
        "memory_stripe",
        "a = memory size=16MiB; b = memory size=16MiB; s = stripe on a,b; t = stats on s; export vol = t",
    ),
    FILE_READS,
    FILE_READS
        .on("file_qd8_mixed", "vol = file path=PATH size=256MiB | stats | pass @")
        .sends(2000, 0.7)
        .closed(8, &[4 * KIB, 16 * KIB]),
    FILE_READS.on("file_qd16", "vol = file path=PATH size=256MiB | stats @").sends(2000, 1.0).closed(16, &[16 * KIB]),
    DISK_READS,
    DISK_READS.on("disk_open", FOUR_DISKS).sends(800, 0.6).open(3_750),
    SSD_READS,
    SSD_READS
        .on("ssd_qd16_mixed", "vol = ssd-model size=8GiB | stats | pass @")
        .sends(3000, 0.7)
        .closed(16, &[4 * KIB, 64 * KIB]),
    SSD_READS
        .on(
            "ssd_stripe_open",
            "a = ssd-model size=4GiB; b = ssd-model size=4GiB; s = stripe on a,b; t = stats on s; export vol = t",
        )
        .sends(3000, 0.5)
        .open(300),
];

/// Throughput, median and 99th percentile.
type Measured = [f64; FIGURES.len()];

/// The runs of one case.
type Runs = Vec<CandidateRun>;

pub(crate) fn run(lab: &Lab<'_>) -> Result<Vec<Figure>, LabError> {
    let dir = lab.folder()?;
    let calibrated = dir.path().join("calibrated").display().to_string();
    let mut calibrator = Calibrator::new(CalibrateOptions {
        machine: "this machine".to_string(),
        seed: lab.seed,
        file: Some(calibrated),
        raw: Vec::new(),
        only_devices: false,
        taken_away: lost_ticks,
    });
    let at = (dir.path(), lab.seed);
    let before = CpuTimes::now();
    let real = real_runs(&mut calibrator, at, lab)?;
    let stolen = CpuTimes::now().stolen_since(&before);
    let calibration = calibrator.finish();
    let (mut errors, mut repeats) = (Vec::new(), Vec::new());
    for (case, runs) in CASES.iter().zip(real) {
        lab.say(format!("predicting {}", case.stack));
        let predict = |round| case.prepared(at, round, Some(calibration.clone()))?.run(0, &silent());
        let predicted: Result<Runs, PredictError> = (0..PREDICTED_MAX.min(runs.len() as u64)).map(predict).collect();
        errors.extend(compared(case, &predicted?, &runs));
        repeats.extend(repeated(case, runs));
    }
    let mut figures = figures(errors);
    figures.extend(mean_and_worst("repeat_", &repeats));
    figures.push(Figure::alone("stolen_share", stolen, "of the CPU time asked for"));
    Ok(figures)
}

/// The runs of each case in the real world, between turns of calibration.
fn real_runs(calibrator: &mut Calibrator, at: (&Path, u64), lab: &Lab<'_>) -> Result<Vec<Runs>, LabError> {
    let rounds = lab.scale(5, 15);
    let mut real: Vec<Runs> = CASES.iter().map(|_| Vec::new()).collect();
    for round in 1..=rounds {
        for class in CLASSES {
            lab.say(format!("round {round} of {rounds}: {}", class.name));
            let mut cases: Vec<_> = CASES.iter().zip(&mut real).filter(|(case, _)| case.class == class).collect();
            for _ in 0..class.turns {
                interwoven(calibrator, class, &mut cases, |case, nth| {
                    let run = || case.prepared(at, nth, None)?.run_realtime(0, &silent());
                    undisturbed(TRIES, lost_ticks, run)
                })?;
            }
        }
    }
    Ok(real)
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

fn measured(runs: &[CandidateRun]) -> Measured {
    let latency = Latencies::pooled(runs.iter().map(|run| &run.latencies)).summary();
    let elapsed: u64 = runs.iter().map(|run| run.elapsed_ns).sum();
    [latency.requests as f64 / Nanos(elapsed).as_secs_f64(), latency.p50_ns as f64, latency.p99_ns as f64]
}

impl Case {
    fn prepared(&self, at: (&Path, u64), round: u64, by: Option<Calibration>) -> Result<Prepared, PredictError> {
        let (dir, seed) = at;
        let text = self.stack.replace("PATH", &dir.join("served").display().to_string());
        let load = match self.depth {
            0 => Load::Open,
            depth => Load::Closed { depth, think: Nanos::ZERO },
        };
        let calibration = by.map(|calibration| ("this run".to_string(), calibration));
        let plan = played::plan(&text, seed, load, self.records(seed, round));
        ComparisonPlan { calibration, ..plan }.prepare(&silent())
    }

    /// Other requests in each round, so that the rounds together stand for more than one of them.
    fn records(&self, seed: u64, round: u64) -> Vec<Record> {
        let mut random = Stream::named(seed + round, &format!("{}_throughput", self.id));
        let mut at = Nanos::ZERO;
        let record = |_| {
            at = Nanos(at.0 + (random.exponential() * self.gap.0 as f64) as u64);
            let len = self.lens[random.below(self.lens.len() as u64) as usize];
            let offset = random.below(self.reach / len) * len;
            let op = if random.chance(self.read_share) { Op::Read } else { Op::Write };
            Record { at, volume: 0, op, offset, len, who: 0 }
        };
        (0..self.requests).map(record).collect()
    }
}

/// How far the real runs of a case are from each other: the error that those of even number would have as a
/// prediction of the others. No prediction can be told from one that errs so much.
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
        let (id, error) = (format!("{}_{}", case.id, FIGURES[at]), (predicted[at] / real[at] - 1.0).abs());
        (case.class, Figure::alone(id, error, "relative error").peer(name, real[at]))
    };
    (first..FIGURES.len()).map(figure).collect()
}

/// Mean and worst of all, of each class, and every error.
fn figures(errors: Vec<(&'static Class, Figure)>) -> Vec<Figure> {
    let summary = |prefix: &str, of: &dyn Fn(&Class) -> bool| {
        let values: Vec<f64> = errors.iter().filter(|(class, _)| of(class)).map(|(_, figure)| figure.value).collect();
        mean_and_worst(prefix, &values)
    };
    let mut all: Vec<Figure> = summary("", &|_| true).into();
    for class in CLASSES {
        all.extend(summary(&format!("{}_", class.word), &|other| other == class));
    }
    all.extend(errors.into_iter().map(|(_, figure)| figure));
    all
}
