//! `artc-flash`: recorded programs, as fast as possible, on a modelled disk and on modelled flash, both as the
//! catalogue has them. Figures say how much less time threads spend in calls there, waits for other threads by pipes
//! included, and what share of it is `fsync`. `--quick` has a few of the recordings.

use esker_trace_replay::{Report, Speed};

use crate::artc::mounted::{FileSystem, Mounted};
use crate::artc::{How, prediction, replayed_cold, suite};
use esker_lab_kit::{Experiment, Figure, LabError, Options, scratch, timing};

/// The record.
pub const EXPERIMENT: Experiment = Experiment {
    name: "artc-flash",
    summary: "Thread time of recorded programs on a modelled disk over that on modelled flash, and what of it is fsync",
    source: "thesis on hardware-driven evolution, section 2.5.4, figures 2.15 and 2.16",
    simulated: false,
    rivals: &["mkfs.ext4"],
    run,
};

const DISK: &str = "vol = disk-model content=memory size=2GiB";
const FLASH: &str = "vol = ssd-model profile=ssd-sata-2021 content=memory size=2GiB";
/// Recordings of the short form.
const QUICK: [&str; 5] = ["git-checkout", "leveldb-fillsync", "python-compileall", "restic-backup", "sqlite-wal"];
/// Between these, most programs of the source are so many times faster.
const FASTER: (f64, f64) = (5.0, 20.0);

/// Where thread time went.
struct Spent {
    all_ns: f64,
    fsync_ns: f64,
}

fn run(options: &Options, progress: &mut dyn FnMut(&str)) -> Result<Vec<Figure>, LabError> {
    let dir = scratch::folder(&options.scratch)?;
    let mount = |name, text| Mounted::new(name, FileSystem::Ext4, text, dir.path(), options.seed);
    let (disk, flash) = (mount("disk", DISK)?, mount("flash", FLASH)?);
    let (mut ratios, mut shares) = (Vec::new(), [Vec::new(), Vec::new()]);
    for path in suite::recordings() {
        let (name, program) = suite::read(&path)?;
        if options.quick && !QUICK.contains(&name.as_str()) {
            continue;
        }
        let how = How::plain(prediction(), Speed::Afap, options.seed);
        let [on_disk, on_flash] =
            [&disk, &flash].map(|on| replayed_cold(&program, on, how).map(|report| spent(&report)));
        let (on_disk, on_flash) = (on_disk?, on_flash?);
        let ratio = on_disk.all_ns / on_flash.all_ns;
        progress(&format!("{name}: {:.0} ms on the disk, {ratio:.1} times as long as on flash", on_disk.all_ns / 1e6));
        ratios.push(ratio);
        for (shares, spent) in shares.iter_mut().zip([on_disk, on_flash]) {
            shares.push(spent.fsync_ns / spent.all_ns);
        }
    }
    let between = ratios.iter().filter(|ratio| (FASTER.0..=FASTER.1).contains(ratio)).count();
    let mean = |shares: &[f64]| shares.iter().sum::<f64>() / shares.len().max(1) as f64;
    Ok(vec![
        Figure::alone("traces", ratios.len() as f64, "traces"),
        Figure::alone("disk_over_flash_median", timing::median(ratios.clone()), "ratio of thread times"),
        Figure::alone("disk_over_flash_5_to_20", between as f64 / ratios.len().max(1) as f64, "share of the traces"),
        Figure::alone("fsync_share_disk", mean(&shares[0]), "of thread time, mean of the traces"),
        Figure::alone("fsync_share_flash", mean(&shares[1]), "of thread time, mean of the traces"),
    ])
}

fn spent(report: &Report) -> Spent {
    let total = |wanted: &str| -> u64 {
        let categories = report.categories.iter().filter(|category| wanted.is_empty() || category.name == wanted);
        categories.map(|category| category.time_ns).sum()
    };
    Spent { all_ns: total("").max(1) as f64, fsync_ns: total("fsync") as f64 }
}
