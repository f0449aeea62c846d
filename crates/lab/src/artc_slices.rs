//! `artc-slices`: two threads that read a file each from its beginning on, on one modelled disk under the scheduler
//! BFQ. With long slices one thread reads on while the other one waits; with short ones the disk goes from file to
//! file. What was traced with each is replayed with each; an order that keeps the source's turns keeps its seeks, too.
//! `--quick` has fewer reads.

use std::path::{Path, PathBuf};

use esker_trace_order::rules::Order;
use esker_trace_replay::{InitMode, Speed};

use crate::artc::mounted::{FileSystem, Mounted};
use crate::artc::readers::{Readers, Source, Way, replays};
use crate::artc::{How, replayed, root};
use esker_lab_kit::{Experiment, Figure, LabError, Options, peer, scratch};

/// The record.
pub const EXPERIMENT: Experiment = Experiment {
    name: "artc-slices",
    summary: "Errors of replays between long and short slices of an I/O scheduler, by mode",
    source: "thesis on hardware-driven evolution, section 2.5.2, figures 2.8 and 2.9",
    simulated: false,
    rivals: &["mkfs.ext4"],
    run,
};

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

fn run(options: &Options, progress: &mut dyn FnMut(&str)) -> Result<Vec<Figure>, LabError> {
    let dir = scratch::folder(&options.scratch)?;
    let mounted = Mounted::new("disk", FileSystem::Ext4, &format!("vol = {DISK}"), dir.path(), options.seed)?;
    let scheduler = Scheduler::of(mounted.device())?;
    let reads = if options.quick { 600 } else { 3000 };
    let bytes = 64 << 20;
    let readers = Readers { threads: 2, reads, bytes, way: Way::InOrder, seed: options.seed };
    readers.prepare(&mounted.run_dir())?;
    let settings = [("long", LONG), ("short", SHORT)];
    let mut sources = Vec::new();
    for (name, setting) in settings {
        scheduler.set(setting)?;
        let source = Source::of(|| readers.run(&mounted.run_dir()))?;
        progress(&format!("original with {name} slices: {} ms", source.ms()));
        sources.push(source);
    }
    let [long, short] = [&sources[0], &sources[1]];
    let mut figures =
        vec![Figure::alone("short_over_long", short.elapsed_ns / long.elapsed_ns, "ratio of the program's own times")];
    for ((name, setting), (from, to), ids) in [
        (settings[1], (long, short), ["long_to_short_root_error", "long_to_short_temporal", "long_to_short_single"]),
        (settings[0], (short, long), ["short_to_long_root_error", "short_to_long_temporal", "short_to_long_single"]),
    ] {
        scheduler.set(setting)?;
        for (order, id) in [root(), Order::Temporal, Order::Single].into_iter().zip(ids) {
            let how = How { init: InitMode::None, ..How::plain(order, Speed::Scaled(1.0), options.seed) };
            let elapsed_ns = replays(|| replayed(&from.program, &mounted.run_dir(), how))?;
            let error = (elapsed_ns - to.elapsed_ns) / to.elapsed_ns;
            progress(&format!("to {name} slices: {} {:+.1} %", order.name(), error * 100.0));
            figures.push(match order {
                Order::Root(_) => Figure::alone(id, error.abs(), "share"),
                // 0: as the source, 1: as the target.
                _ => Figure::alone(id, along(elapsed_ns, from, to), "of the way from source to target"),
            });
        }
    }
    Ok(figures)
}

/// How far a time lies on the way from the source's to the target's.
fn along(elapsed_ns: f64, from: &Source, to: &Source) -> f64 {
    (elapsed_ns - from.elapsed_ns) / (to.elapsed_ns - from.elapsed_ns)
}
