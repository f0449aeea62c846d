//! `artc-micro`: threads that read random blocks of their own files, on one modelled disk and on two striped ones. What was
//! traced on each is replayed on each; the error of a mode is how far its replay's elapsed time is from that of the program
//! itself on the target. `--quick` has 2 threads and few reads.

use std::path::Path;

use esker_replay::{InitMode, Speed};
use esker_trace::compiled::Program;
use esker_trace::rules::Order;

use crate::artc::mounted::Mounted;
use crate::artc::readers::Readers;
use crate::artc::{How, compiled, replayed, root};
use crate::artc_concurrency::DISK;
use crate::experiment::{Experiment, Figure, LabError, Options};
use crate::{scratch, timing};

/// The record.
pub const EXPERIMENT: Experiment = Experiment {
    name: "artc-micro",
    summary: "Errors of replays of parallel readers across one and two modelled disks, by mode",
    source: "thesis on hardware-driven evolution, section 2.5.2, figure 2.8",
    simulated: false,
    rivals: &[],
    run,
};

/// A program's run on one device: its trace, and how long it took there.
struct Source {
    program: Program,
    elapsed_ns: f64,
}

/// Relative errors of each mode.
#[derive(Default)]
struct Errors {
    root: Vec<f64>,
    temporal: Vec<f64>,
    single: Vec<f64>,
}

fn run(options: &Options, progress: &mut dyn FnMut(&str)) -> Result<Vec<Figure>, LabError> {
    let dir = scratch::folder(&options.scratch)?;
    let stripe = format!("a = {DISK}; b = {DISK}; vol = stripe chunk=512KiB on a, b");
    let devices = [
        Mounted::new("disk", &format!("vol = {DISK}"), dir.path(), options.seed)?,
        Mounted::new("striped", &stripe, dir.path(), options.seed)?,
    ];
    let sizes: &[(u32, u32)] = if options.quick { &[(2, 300)] } else { &[(1, 1000), (2, 1000), (8, 1000)] };
    let (mut errors, mut alone) = (Errors::default(), Vec::new());
    for (threads, reads) in sizes {
        let readers = Readers {
            threads: *threads,
            reads: *reads,
            files: *threads,
            own: true,
            bytes: 32 << 20,
            seed: options.seed,
        };
        let sources =
            devices.iter().map(|device| source(&readers, &device.run_dir())).collect::<Result<Vec<_>, _>>()?;
        alone.push(sources[0].elapsed_ns);
        for source in &sources {
            for (target, device) in sources.iter().zip(&devices) {
                let how = format!("{threads} threads, {} to {} ms", ms(source.elapsed_ns), ms(target.elapsed_ns));
                compare(source, target, &device.run_dir(), options, &mut errors, &mut |text| {
                    progress(&format!("{how}: {text}"))
                })?;
            }
        }
    }
    let mean = |errors: &[f64]| errors.iter().sum::<f64>() / errors.len().max(1) as f64;
    let worst = |errors: &[f64]| errors.iter().copied().fold(0.0, f64::max);
    Ok(vec![
        Figure::alone("pairs", errors.root.len() as f64, "pairs of source and target"),
        Figure { paper: Some(0.05), ..Figure::alone("root_worst_error", worst(&errors.root), "share") },
        Figure::alone("root_mean_error", mean(&errors.root), "share"),
        Figure::alone("temporal_mean_error", mean(&errors.temporal), "share"),
        Figure::alone("single_mean_error", mean(&errors.single), "share"),
        Figure::alone("time_of_most_over_fewest_threads", alone[alone.len() - 1] / alone[0], "ratio"),
    ])
}

fn ms(ns: f64) -> u64 {
    (ns / 1e6) as u64
}

/// Runs a program three times; the trace is of the last run, the time the middle one.
fn source(readers: &Readers, dir: &Path) -> Result<Source, LabError> {
    readers.prepare(dir)?;
    let runs = (0..3).map(|_| readers.run(dir)).collect::<Result<Vec<_>, _>>()?;
    let elapsed_ns = timing::median(runs.iter().map(|run| run.elapsed_ns as f64).collect());
    let trace = runs.into_iter().next_back().expect("it ran").trace;
    Ok(Source { program: compiled(trace)?, elapsed_ns })
}

fn compare(
    source: &Source,
    target: &Source,
    dir: &Path,
    options: &Options,
    errors: &mut Errors,
    progress: &mut dyn FnMut(&str),
) -> Result<(), LabError> {
    let modes =
        [(root(), &mut errors.root), (Order::Temporal, &mut errors.temporal), (Order::Single, &mut errors.single)];
    for (order, errors) in modes {
        let how = How { order, speed: Speed::Scaled(1.0), init: InitMode::Delta, repeat: 1, seed: options.seed };
        let report = replayed(&source.program, dir, how)?;
        let error = (report.elapsed_ns as f64 - target.elapsed_ns).abs() / target.elapsed_ns;
        progress(&format!("{} {} ms, error {:.1} %", report.how.mode, report.elapsed_ns / 1_000_000, error * 100.0));
        errors.push(error);
    }
    Ok(())
}
