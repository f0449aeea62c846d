//! `artc-cache`: two threads that read random blocks of a file each, through the page cache; the first one has read its
//! whole file before. Where the cache holds that file, its reads are hits; where it does not, they are misses beside
//! those of the other thread. What was traced with each cache is replayed with each; the small one is a control group
//! around program and replay. `--quick` has fewer reads of smaller files.

use esker_trace_order::rules::Order;
use esker_trace_replay::{InitMode, Speed};

use crate::artc::mounted::{DISK, FileSystem, Mounted};
use crate::artc::readers::{Readers, Source, Way, replays};
use crate::artc::{How, replayed, root};
use esker_lab_kit::{Experiment, Figure, LabError, Options, cgroup::Limited, scratch};

/// The record.
pub const EXPERIMENT: Experiment = Experiment {
    name: "artc-cache",
    summary: "Errors of replays between a large and a small page cache, by mode",
    source: "thesis on hardware-driven evolution, section 2.5.2, figure 2.8",
    simulated: false,
    rivals: &["mkfs.ext4"],
    run,
};

#[derive(Clone, Copy)]
enum Cache {
    /// All of the memory that this machine has.
    Large,
    /// So many bytes.
    Small(u64),
}

impl Cache {
    fn around<T>(self, work: impl FnOnce() -> Result<T, LabError>) -> Result<T, LabError> {
        let _limited = match self {
            Cache::Large => None,
            Cache::Small(bytes) => Some(Limited::to(bytes)?),
        };
        work()
    }
}

fn run(options: &Options, progress: &mut dyn FnMut(&str)) -> Result<Vec<Figure>, LabError> {
    let dir = scratch::folder(&options.scratch)?;
    let stripe = format!("a = {DISK}; b = {DISK}; vol = stripe chunk=512KiB on a, b");
    let mounted = Mounted::new("striped", FileSystem::Ext4, &stripe, dir.path(), options.seed)?;
    let (reads, bytes) = if options.quick { (1000, 48 << 20) } else { (4000, 128 << 20) };
    let readers = Readers { threads: 2, reads, bytes, way: Way::Cached, seed: options.seed };
    readers.prepare(&mounted.run_dir())?;
    // Less than the file that is read first, more than a replay itself needs.
    let caches = [Cache::Large, Cache::Small(bytes / 2)];
    let sources = caches.map(|cache| source(&readers, &mounted, cache));
    let [large, small] = sources;
    let (large, small) = (large?, small?);
    progress(&format!("original: {} ms with a large cache, {} ms with a small one", large.ms(), small.ms()));
    let mut errors = |source: &Source, target: &Source, cache: Cache, what: &str| {
        let [root, temporal, single] = [root(), Order::Temporal, Order::Single].map(|order| -> Result<f64, LabError> {
            let error = error(source, target, &mounted, cache, How::plain(order, Speed::Scaled(1.0), options.seed))?;
            progress(&format!("{what}: {} {:+.1} %", order.name(), error * 100.0));
            Ok(error)
        });
        Ok::<_, LabError>([root?, temporal?, single?])
    };
    let shrunk = errors(&large, &small, caches[1], "large to small")?;
    let grown = errors(&small, &large, caches[0], "small to large")?;
    let too_long = |id, value, paper| Figure::alone(id, value, "share, too long if positive").paper(paper);
    Ok(vec![
        Figure::alone(
            "small_cache_time_ratio",
            small.elapsed_ns / large.elapsed_ns,
            "ratio of the program's own times",
        ),
        Figure::alone("large_to_small_root_error", shrunk[0].abs(), "share"),
        too_long("large_to_small_temporal", shrunk[1], Some(0.33)),
        too_long("large_to_small_single", shrunk[2], Some(0.33)),
        Figure::alone("small_to_large_root_error", grown[0].abs(), "share"),
        too_long("small_to_large_temporal", grown[1], None),
        too_long("small_to_large_single", grown[2], None),
    ])
}

fn source(readers: &Readers, on: &Mounted, cache: Cache) -> Result<Source, LabError> {
    Source::of(|| {
        on.forget()?;
        cache.around(|| readers.run(&on.run_dir()))
    })
}

/// The signed error of a replay.
fn error(source: &Source, target: &Source, on: &Mounted, cache: Cache, how: How) -> Result<f64, LabError> {
    let elapsed_ns = replays(|| {
        on.forget()?;
        cache.around(|| replayed(&source.program, &on.run_dir(), How { init: InitMode::None, ..how }))
    })?;
    Ok((elapsed_ns - target.elapsed_ns) / target.elapsed_ns)
}
