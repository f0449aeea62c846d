//! `artc-flash`: recorded programs, as fast as possible, on a modelled disk and on modelled flash, both as the
//! catalogue has them. Figures say how much less time threads spend in calls there, waits for other threads by pipes
//! included, and what share of it is `fsync`. `--quick` has a few of the recordings.

use esker_trace_replay::{Report, Speed};

use crate::artc::mounted::{FileSystem, Mounted};
use crate::artc::{How, prediction, replayed_cold, suite};
use esker_lab_kit::timing::{mean, median};
use esker_lab_kit::{Figure, Lab, LabError};

const DISK: &str = "vol = disk-model content=memory size=2GiB";
const FLASH: &str = "vol = ssd-model profile=ssd-sata-2021 content=memory size=2GiB";
/// Recordings of the short form.
const QUICK: [&str; 5] = ["git-checkout", "leveldb-fillsync", "python-compileall", "restic-backup", "sqlite-wal"];
/// Between these, most programs of the source are so many times faster.
const FASTER: (f64, f64) = (5.0, 20.0);

pub(crate) fn run(lab: &Lab<'_>) -> Result<Vec<Figure>, LabError> {
    let mount = |text| Mounted::new(lab, FileSystem::Ext4, text);
    let (disk, flash) = (mount(DISK)?, mount(FLASH)?);
    let (mut ratios, mut shares) = (Vec::new(), [Vec::new(), Vec::new()]);
    for program in suite::programs(lab.quick.then_some(&QUICK)) {
        let (name, program) = program?;
        let how = How::plain(prediction(), Speed::Afap, lab.seed);
        let spent = |on| replayed_cold(&program, on, how).map(|report| spent(&report));
        let ([disk_ns, disk_fsync_ns], [flash_ns, flash_fsync_ns]) = (spent(&disk)?, spent(&flash)?);
        let ratio = disk_ns / flash_ns;
        lab.say(format!("{name}: {:.0} ms on the disk, {ratio:.1} times as long as on flash", disk_ns / 1e6));
        ratios.push(ratio);
        shares[0].push(disk_fsync_ns / disk_ns);
        shares[1].push(flash_fsync_ns / flash_ns);
    }
    let between = ratios.iter().filter(|ratio| (FASTER.0..=FASTER.1).contains(ratio)).count();
    Ok(vec![
        Figure::alone("traces", ratios.len() as f64, "traces"),
        Figure::alone("disk_over_flash_median", median(ratios.clone()), "ratio of thread times"),
        Figure::alone("disk_over_flash_5_to_20", between as f64 / ratios.len().max(1) as f64, "share of the traces"),
        Figure::alone("fsync_share_disk", mean(&shares[0]), "of thread time, mean of the traces"),
        Figure::alone("fsync_share_flash", mean(&shares[1]), "of thread time, mean of the traces"),
    ])
}

/// Nanoseconds of thread time, and those of them in `fsync`.
fn spent(report: &Report) -> [f64; 2] {
    let total = |wanted: &str| -> u64 {
        let categories = report.categories.iter().filter(|category| wanted.is_empty() || category.name == wanted);
        categories.map(|category| category.time_ns).sum()
    };
    [total("").max(1) as f64, total("fsync") as f64]
}
