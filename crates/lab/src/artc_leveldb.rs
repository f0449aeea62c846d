//! `artc-leveldb`: LevelDB reads random records and writes durable ones, on real file systems over modelled devices
//! that differ. What was recorded on each is replayed on each, at natural speed, with cold caches, the usual rules and
//! `thread_stage`. The error of a mode is how far its replay's elapsed time is from what LevelDB itself takes on the
//! target. `root_rw` is `root` with the rules `file_rw` and `fd_rw` in place of `file_seq` and `fd_seq`. Every run, of
//! LevelDB or of a replay, has a new file system, its files made in the same order at the same place, and nothing in
//! caches, the device's own included.
//!
//! Devices are those of the catalogue. A second arm has flash whose reads take 800 us, so that the device and not this
//! machine decides how long LevelDB takes. Its ids begin with `slow_flash_`; its pairs are those from or to that flash.
//!
//! `--quick` plays the modes `root`, `root_rw` and `temporal` alone, on three of the seven file systems and one of the
//! second arm. The work of a pair is the same in both forms. `root_short_form_error` is the mean error of `root` on the
//! pairs that both forms have.

use std::collections::BTreeSet;

use esker_trace_order::rules::Order;
use esker_trace_replay::Report;

use crate::artc::leveldb::{LevelDb, Load, Task};
use crate::artc::mounted::{FileSystem, ModelDevice, Mounted};
use crate::artc::{How, Source, prediction, replayed_cold, with_rw};
use esker_lab_kit::timing::{self, mean, worst};
use esker_lab_kit::{Figure, Lab, LabError};

/// Where LevelDB runs.
struct Place {
    name: &'static str,
    system: FileSystem,
    device: ModelDevice,
}

const fn place(name: &'static str, system: FileSystem, device: ModelDevice) -> Place {
    Place { name, system, device }
}

const PLACES: [Place; 9] = [
    place("ext4-disk", FileSystem::Ext4, ModelDevice::Disk),
    place("xfs-striped", FileSystem::Xfs, ModelDevice::Striped),
    place("btrfs-flash", FileSystem::Btrfs, ModelDevice::Flash),
    place("ext4-slow-flash", FileSystem::Ext4, ModelDevice::SlowFlash),
    place("ext3-disk", FileSystem::Ext3, ModelDevice::Disk),
    place("xfs-disk", FileSystem::Xfs, ModelDevice::Disk),
    place("btrfs-disk", FileSystem::Btrfs, ModelDevice::Disk),
    place("ext4-flash", FileSystem::Ext4, ModelDevice::Flash),
    place("btrfs-slow-flash", FileSystem::Btrfs, ModelDevice::SlowFlash),
];
/// How many of them the short form has.
const QUICK: usize = 4;

const LOAD: Load = Load { threads: 8, reads: 60, writes: 10, runs: 3 };
/// Replays of a pair and mode, of which the middle one counts; of two it is their mean. The long form has about the
/// source's 98 replays of each mode.
const REPLAYS: u32 = 1;
const QUICK_REPLAYS: u32 = 2;

const TASKS: [Task; 2] = [Task::ReadRandom, Task::FillSync];

/// One pair of places, played in one mode.
struct Row {
    task: Task,
    mode: &'static str,
    order: Order,
    from: usize,
    at: usize,
    /// Whether the slow flash is one of the two.
    is_slow: bool,
    /// Elapsed times of its replays.
    times: Vec<f64>,
    /// What LevelDB itself takes.
    original_ns: f64,
    /// Of the replay that had most.
    failures: u64,
    /// Stated by the report.
    stated: Option<f64>,
}

impl Row {
    /// Of the prediction, too long if positive.
    fn error(&self) -> f64 {
        timing::median(self.times.clone()) / self.original_ns - 1.0
    }

    fn played(&mut self, report: &Report) {
        self.times.push(report.elapsed_ns as f64);
        self.failures = self.failures.max(report.mismatches.count);
        self.stated = report.prediction.as_ref().and_then(|prediction| prediction.error);
    }
}

pub(crate) fn run(lab: &Lab<'_>) -> Result<Vec<Figure>, LabError> {
    let places = lab.scale(&PLACES[..QUICK], &PLACES[..]);
    let leveldb = LevelDb::new(lab, LOAD)?;
    let mount = |place: &Place| Mounted::new(lab, place.system, &place.device.text());
    let mounted = places.iter().map(mount).collect::<Result<Vec<_>, _>>()?;
    let mut rows = Vec::new();
    for task in TASKS {
        let mut originals = Vec::new();
        for (place, on) in places.iter().zip(&mounted) {
            let original = leveldb.original(task, on)?;
            lab.say(format!("{} on {}: {} ms", task.name(), place.name, original.ms()));
            originals.push(original);
        }
        let mut played = unplayed(task, places, &originals, lab);
        for round in 1..=lab.scale(QUICK_REPLAYS, REPLAYS) {
            for row in &mut played {
                let how = How::paced(row.order, lab.seed);
                row.played(&replayed_cold(&originals[row.from].program, &mounted[row.at], how)?);
                let (from, to, error) = (places[row.from].name, places[row.at].name, row.error() * 100.0);
                let (task, mode, failures) = (task.name(), row.mode, row.failures);
                lab.say(format!("{round}: {task}, {from} to {to}: {mode} {error:+.1} %, {failures} failures"));
            }
            // A run that is cut off has told something.
            lab.say(format!("{round}: {}, mean errors: {}", task.name(), means(&played, lab)));
        }
        rows.extend(played);
    }
    let (slow, catalogue): (Vec<Row>, Vec<Row>) = rows.into_iter().partition(|row| row.is_slow);
    let slow = figures(&slow).into_iter().map(|figure| Figure { id: format!("slow_flash_{}", figure.id), ..figure });
    Ok(figures(&catalogue).into_iter().chain(slow).collect())
}

/// All pairs in all modes. Those of a pair come one after the other, on a machine that is as busy for all of them.
fn unplayed(task: Task, places: &[Place], originals: &[Source], lab: &Lab<'_>) -> Vec<Row> {
    let mut rows = Vec::new();
    for (at, target) in originals.iter().enumerate() {
        for from in 0..originals.len() {
            let original_ns = target.elapsed_ns;
            let is_slow = [from, at].iter().any(|place| places[*place].device == ModelDevice::SlowFlash);
            rows.extend(orders(lab).into_iter().map(|(mode, order)| {
                let times = Vec::new();
                Row { task, mode, order, from, at, is_slow, times, original_ns, failures: 0, stated: None }
            }));
        }
    }
    rows
}

fn orders(lab: &Lab<'_>) -> Vec<(&'static str, Order)> {
    let orders = [prediction(), with_rw(prediction()), Order::Temporal, Order::Single, Order::Unconstrained];
    let all = MODES.iter().map(|(mode, _)| *mode).zip(orders);
    all.take(lab.scale(3, 5)).collect()
}

/// Mean errors by mode, for people.
fn means(rows: &[Row], lab: &Lab<'_>) -> String {
    let modes = orders(lab).into_iter();
    let told = modes.map(|(mode, _)| format!("{mode} {:.1} %", mean(&errors(rows, mode, None)) * 100.0));
    told.collect::<Vec<_>>().join(", ")
}

/// Without their signs.
fn errors(rows: &[Row], mode: &str, task: Option<Task>) -> Vec<f64> {
    of(rows, mode, task).map(|row| row.error().abs()).collect()
}

fn of<'a>(rows: &'a [Row], mode: &'a str, task: Option<Task>) -> impl Iterator<Item = &'a Row> {
    rows.iter().filter(move |row| row.mode == mode && task.is_none_or(|task| task == row.task))
}

/// The share of rows that are as they should be.
fn share<'a>(rows: impl Iterator<Item = &'a Row>, is_so: impl Fn(&Row) -> bool) -> f64 {
    let so: Vec<f64> = rows.map(|row| f64::from(u8::from(is_so(row)))).collect();
    mean(&so)
}

/// Modes, and the source's mean and median.
const MODES: [(&str, [Option<f64>; 2]); 5] = [
    ("root", [Some(0.106), Some(0.076)]),
    ("root_rw", [None, None]),
    ("temporal", [Some(0.213), Some(0.191)]),
    ("single", [Some(0.435), None]),
    ("unconstrained", [None, None]),
];

/// The error that all modes should be within for durable writes.
const FILLSYNC_ERROR: f64 = 0.15;

fn figures(rows: &[Row]) -> Vec<Figure> {
    let pairs: BTreeSet<_> = rows.iter().map(|row| (row.from, row.at)).collect();
    let failures = |mode| of(rows, mode, None).map(|row| row.failures).sum::<u64>() as f64;
    let ratio = |mode| mean(&errors(rows, mode, None)) / mean(&errors(rows, "temporal", None));
    let fillsync =
        share(rows.iter().filter(|row| row.task == Task::FillSync), |row| row.error().abs() <= FILLSYNC_ERROR);
    let stated = |mode| share(of(rows, mode, None), |row| row.stated.is_some_and(|stated| row.error().abs() <= stated));
    let is_short = |row: &&Row| row.from < QUICK && row.at < QUICK;
    let short: Vec<f64> = of(rows, "root", None).filter(is_short).map(|row| row.error().abs()).collect();
    let mut figures = vec![
        Figure::alone("root_short_form_error", mean(&short), "mean error of the pairs that the short form has"),
        Figure::alone("replay_pairs", pairs.len() as f64, "pairs of source and target").paper(49.0),
        Figure::alone("root_over_temporal", ratio("root"), "ratio of mean errors").paper(0.5),
        Figure::alone("root_rw_over_temporal", ratio("root_rw"), "ratio of mean errors"),
        Figure::alone("root_failures", failures("root"), "calls that came out otherwise"),
        Figure::alone("root_rw_failures", failures("root_rw"), "calls that came out otherwise"),
        Figure::alone("root_within_stated_error", stated("root"), "share of predictions"),
        Figure::alone("root_rw_within_stated_error", stated("root_rw"), "share of predictions"),
        Figure::alone("fillsync_within_15_percent", fillsync, "share of predictions in all modes"),
    ];
    for (mode, papers) in MODES {
        figures.extend(of_mode(rows, mode, papers));
    }
    figures
}

/// Mean, median, worst decile and worst of a mode's errors, their means of reads and durable writes, and how many
/// predictions of reads are too long. None of a mode that was not played.
fn of_mode(rows: &[Row], mode: &str, [paper_mean, paper_median]: [Option<f64>; 2]) -> Vec<Figure> {
    let errors = |task| errors(rows, mode, task);
    let all = errors(None);
    if all.is_empty() {
        return Vec::new();
    }
    let too_long = share(of(rows, mode, Some(Task::ReadRandom)), |row| row.error() > 0.0);
    let values = [
        ("mean_error", mean(&all), paper_mean),
        ("median_error", timing::median(all.clone()), paper_median),
        ("decile_error", timing::at_share(all.clone(), 0.9), None),
        ("worst_error", worst(&all), None),
        ("readrandom_error", mean(&errors(Some(Task::ReadRandom))), None),
        ("fillsync_error", mean(&errors(Some(Task::FillSync))), None),
        ("readrandom_too_long", too_long, None),
    ];
    values.map(|(what, value, paper)| Figure::alone(format!("{mode}_{what}"), value, "share").paper(paper)).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(task: Task, mode: &'static str, times: &[f64], stated: Option<f64>) -> Row {
        let (order, times) = (prediction(), times.to_vec());
        Row { task, mode, order, from: 0, at: 0, is_slow: false, times, original_ns: 100.0, failures: 1, stated }
    }

    #[test]
    fn figures_are_of_the_middle_replay_of_each_pair() {
        let rows = [
            row(Task::ReadRandom, "root", &[104.0, 90.0, 110.0], Some(0.05)),
            row(Task::FillSync, "root", &[90.0], Some(0.05)),
            row(Task::ReadRandom, "temporal", &[140.0], None),
            row(Task::FillSync, "temporal", &[120.0], None),
        ];
        let figures = figures(&rows);
        let value = |id| figures.iter().find(|figure| figure.id == id).map(|figure| (figure.value * 1e6).round() / 1e6);
        assert_eq!([value("root_mean_error"), value("root_worst_error")], [Some(0.07), Some(0.1)]);
        assert_eq!(value("root_short_form_error"), Some(0.07), "all pairs of these rows are of the short form");
        assert_eq!([value("temporal_mean_error"), value("temporal_readrandom_error")], [Some(0.3), Some(0.4)]);
        assert_eq!([value("root_within_stated_error"), value("fillsync_within_15_percent")], [Some(0.5), Some(0.5)]);
        assert_eq!([value("temporal_readrandom_too_long"), value("root_failures")], [Some(1.0), Some(2.0)]);
        assert_eq!(value("single_mean_error"), None, "a mode that was not played has no figure");
    }
}
