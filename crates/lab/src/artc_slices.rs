//! `artc-slices`: two threads that read a file each from its beginning on, on one modelled disk under the scheduler
//! BFQ. With long slices one thread reads on while the other one waits; with short ones the disk goes from file to
//! file. What was traced with each is replayed with each; an order that keeps the source's turns keeps its seeks,
//! too. `--quick` has fewer reads.

use std::path::{Path, PathBuf};

use esker_trace_order::compiled::Program;

use crate::artc::mounted::{FileSystem, Mounted};
use crate::artc::readers::{Crossed, Readers, Way};
use crate::artc::{How, Source, replayed};
use esker_lab_kit::{Figure, Lab, LabError, peer};

/// A quick disk that reads ahead for one stream at a time: a read of another stream in between pays the seek.
const DISK: &str = "disk-model content=memory size=1GiB rpm=36000 seek_single=100us seek_average=1500us seek_full=3200us \
                    buffer=256KiB segments=1 read_ahead=128KiB";

/// What BFQ is told, by files of its folder: a slice in ms, how long it waits for a thread's next request in ms. Both
/// settings treat threads alike, whatever they did before.
type Setting = [(&'static str, &'static str); 3];
const LONG: Setting = [("low_latency", "0"), ("timeout_sync", "100"), ("slice_idle", "8")];
const SHORT: Setting = [("low_latency", "0"), ("timeout_sync", "1"), ("slice_idle", "0")];

/// The scheduler of a mounted device.
struct Scheduler(PathBuf);

impl Scheduler {
    /// BFQ; the device counts as one that turns, since BFQ waits for no thread's next request on others.
    fn of(device: &Path) -> Result<Scheduler, LabError> {
        let name = device.file_name().ok_or_else(|| LabError::Data("the device has no name".to_string()))?;
        let queue = Path::new("/sys/block").join(name).join("queue");
        write_setting(&queue.join("rotational"), "1")?;
        write_setting(&queue.join("scheduler"), "bfq")?;
        Ok(Scheduler(queue.join("iosched")))
    }

    fn set(&self, setting: Setting) -> Result<(), LabError> {
        setting.iter().try_for_each(|(file, value)| write_setting(&self.0.join(file), value))
    }
}

fn write_setting(file: &Path, value: &str) -> Result<(), LabError> {
    std::fs::write(file, value).map_err(|error| peer::fault("BFQ", format!("{}: {error}", file.display())))
}

pub(crate) fn run(lab: &Lab<'_>) -> Result<Vec<Figure>, LabError> {
    let mounted = Mounted::new(lab, FileSystem::Ext4, &format!("vol = {DISK}"))?;
    let scheduler = Scheduler::of(mounted.device())?;
    let reads = lab.scale(600, 3000);
    let readers = Readers { threads: 2, reads, bytes: 64 << 20, way: Way::InOrder, seed: lab.seed };
    readers.prepare(&mounted.run_dir())?;
    let crossed = Crossed {
        names: ["long", "short"],
        run: |_: usize| readers.run(&mounted.run_dir()),
        replay: |_: usize, program: &Program, how: How| replayed(program, &mounted.run_dir(), how),
        // 0: as the source, 1: as the target.
        told: along,
        unit: "of the way from source to target",
    };
    let (short_over_long, figures) = crossed.measure(lab, |at| scheduler.set([LONG, SHORT][at]))?;
    let ratio = Figure::alone("short_over_long", short_over_long, "ratio of the program's own times");
    Ok([ratio].into_iter().chain(figures).collect())
}

/// How far a time lies on the way from the source's to the target's.
fn along(elapsed_ns: f64, from: &Source, to: &Source) -> f64 {
    (elapsed_ns - from.elapsed_ns) / (to.elapsed_ns - from.elapsed_ns)
}
