//! `artc-leveldb`: LevelDB reads random records and writes durable ones, on real file systems over modelled devices that differ.
//! What was recorded on each is replayed on each, at natural speed, with cold caches, the usual rules and `thread_stage`; the
//! error of a mode is how far its replay's elapsed time is from what LevelDB itself takes on the target. Every run, of LevelDB or
//! of a replay, has a new file system, its files made in the same order at the same place, and nothing in caches, the
//! device's own included. `--quick` is less work in the modes `root` and `temporal` alone, on the first
//! three of the seven file systems: 3 x 3 pairs instead of 7 x 7.

use esker_replay::Speed;
use esker_trace::rules::Order;

use crate::artc::leveldb::{LevelDb, Load, Original, PYTHON, Task};
use crate::artc::mounted::{DISK, FLASH, FileSystem, Mounted};
use crate::artc::{How, prediction, replayed_cold};
use crate::experiment::{Experiment, Figure, LabError, Options};
use crate::{scratch, timing};

/// The record.
pub const EXPERIMENT: Experiment = Experiment {
    name: "artc-leveldb",
    summary: "Errors of replays of LevelDB across file systems and modelled devices, by mode",
    source: "thesis on hardware-driven evolution, section 2.5.3, figures 2.10 to 2.12",
    simulated: false,
    rivals: &[PYTHON, "mkfs.ext4", "mkfs.xfs", "mkfs.btrfs"],
    run,
};

/// Where LevelDB runs.
struct Place {
    name: &'static str,
    system: FileSystem,
    device: Device,
}

#[derive(Clone, Copy)]
enum Device {
    Disk,
    Striped,
    Flash,
}

const PLACES: [Place; 7] = [
    Place { name: "ext4-disk", system: FileSystem::Ext4, device: Device::Disk },
    Place { name: "xfs-striped", system: FileSystem::Xfs, device: Device::Striped },
    Place { name: "btrfs-flash", system: FileSystem::Btrfs, device: Device::Flash },
    Place { name: "ext3-disk", system: FileSystem::Ext3, device: Device::Disk },
    Place { name: "xfs-disk", system: FileSystem::Xfs, device: Device::Disk },
    Place { name: "btrfs-disk", system: FileSystem::Btrfs, device: Device::Disk },
    Place { name: "ext4-flash", system: FileSystem::Ext4, device: Device::Flash },
];
/// How many of them the short form has.
const QUICK: usize = 3;

const LOAD: Load = Load { threads: 8, reads: 500, writes: 100, runs: 3, seed: 0 };
const QUICK_LOAD: Load = Load { threads: 8, reads: 80, writes: 10, runs: 3, seed: 0 };
/// Replays of a pair and mode, of which the middle one counts; of two it is their mean.
const REPLAYS: u32 = 3;
const QUICK_REPLAYS: u32 = 2;

const TASKS: [Task; 2] = [Task::ReadRandom, Task::FillSync];

impl Device {
    fn text(self) -> String {
        match self {
            Device::Disk => format!("vol = {DISK}"),
            Device::Striped => format!("a = {DISK}; b = {DISK}; vol = stripe chunk=512KiB on a, b"),
            Device::Flash => format!("vol = {FLASH}"),
        }
    }
}

/// One replay.
struct Row {
    task: Task,
    mode: &'static str,
    error: f64,
    failures: u64,
}

fn run(options: &Options, progress: &mut dyn FnMut(&str)) -> Result<Vec<Figure>, LabError> {
    let dir = scratch::folder(&options.scratch)?;
    let (places, load) = if options.quick { (&PLACES[..QUICK], QUICK_LOAD) } else { (&PLACES[..], LOAD) };
    let leveldb = LevelDb::new(dir.path(), Load { seed: options.seed, ..load })?;
    let mount = |place: &Place| Mounted::new(place.name, place.system, &place.device.text(), dir.path(), options.seed);
    let mounted = places.iter().map(mount).collect::<Result<Vec<_>, _>>()?;
    let mut rows = Vec::new();
    for task in TASKS {
        let mut originals = Vec::new();
        for (place, on) in places.iter().zip(&mounted) {
            originals.push(leveldb.original(task, on)?);
            progress(&format!(
                "{} on {}: {} ms",
                task.name(),
                place.name,
                ms(originals[originals.len() - 1].elapsed_ns)
            ));
        }
        for (at, on) in mounted.iter().enumerate() {
            for (from, source) in originals.iter().enumerate() {
                let pair = format!("{}, {} to {}", task.name(), places[from].name, places[at].name);
                replay(source, &originals[at], on, options, &mut |mode, error, failures| {
                    progress(&format!("{pair}: {mode} {:+.1} %, {failures} failures", error * 100.0));
                    rows.push(Row { task, mode, error: error.abs(), failures });
                })?;
            }
        }
    }
    Ok(figures(&rows, places.len()))
}

fn ms(ns: f64) -> u64 {
    (ns / 1e6) as u64
}

/// Replays in all modes; tells each one's signed error and its failures.
fn replay(
    source: &Original,
    target: &Original,
    on: &Mounted,
    options: &Options,
    tell: &mut dyn FnMut(&'static str, f64, u64),
) -> Result<(), LabError> {
    for order in orders(options) {
        let how = How::plain(order, Speed::Scaled(1.0), options.seed);
        let (mut times, mut failures) = (Vec::new(), 0);
        for _ in 0..if options.quick { QUICK_REPLAYS } else { REPLAYS } {
            let report = replayed_cold(&source.program, on, how)?;
            times.push(report.elapsed_ns as f64);
            failures = report.mismatches.count.max(failures);
        }
        let error = (timing::median(times) - target.elapsed_ns) / target.elapsed_ns;
        tell(order.name(), error, failures);
    }
    Ok(())
}

fn orders(options: &Options) -> Vec<Order> {
    let all = [prediction(), Order::Temporal, Order::Single, Order::Unconstrained];
    all[..if options.quick { 2 } else { 4 }].to_vec()
}

fn figures(rows: &[Row], places: usize) -> Vec<Figure> {
    let errors = |mode: &str, task: Option<Task>| -> Vec<f64> {
        let wanted = rows.iter().filter(|row| row.mode == mode && task.is_none_or(|task| task == row.task));
        wanted.map(|row| row.error).collect()
    };
    let mean = |mode, task| {
        let errors = errors(mode, task);
        errors.iter().sum::<f64>() / errors.len().max(1) as f64
    };
    let error = |id, paper, value| Figure { paper, ..Figure::alone(id, value, "share") };
    let failures = rows.iter().filter(|row| row.mode == "root").map(|row| row.failures).sum::<u64>();
    let ratio = mean("root", None) / mean("temporal", None);
    let mut figures = vec![
        Figure { paper: Some(49.0), ..Figure::alone("pairs", (places * places) as f64, "pairs of source and target") },
        error("root_mean_error", Some(0.106), mean("root", None)),
        error("temporal_mean_error", Some(0.213), mean("temporal", None)),
        Figure { paper: Some(0.5), ..Figure::alone("root_over_temporal", ratio, "ratio of mean errors") },
        error("root_median_error", Some(0.076), timing::median(errors("root", None))),
        error("temporal_median_error", Some(0.191), timing::median(errors("temporal", None))),
        error("root_readrandom_error", None, mean("root", Some(Task::ReadRandom))),
        error("temporal_readrandom_error", None, mean("temporal", Some(Task::ReadRandom))),
        error("root_fillsync_error", None, mean("root", Some(Task::FillSync))),
        error("temporal_fillsync_error", None, mean("temporal", Some(Task::FillSync))),
        Figure::alone("root_failures", failures as f64, "calls that came out otherwise"),
    ];
    if rows.iter().any(|row| row.mode == "single") {
        figures.push(error("single_mean_error", Some(0.435), mean("single", None)));
        figures.push(error("unconstrained_mean_error", None, mean("unconstrained", None)));
    }
    figures
}
