//! `anvil-gc-steady`: saturating random writes in the steady state of the collector, against the same writes without
//! one.
//!
//! 54 % of the space is live, 32 writers overwrite 4 KiB at random. *Without*: the same live data and writes on a
//! device so large that cleaning never begins. Both lie in files whose space was found before, as far as they are
//! written. First once the live data are written, then as much again as the device holds, then measured. After figure
//! 3.8 of ANViL, at 4 MiB a segment instead of 128 so that there are as many of them.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Instant;

use esker_base::Stream;
use esker_base::units::{GIB, MIB};
use esker_block::{Bio, BioError, Device};
use esker_stack::Export;

use esker_lab_kit::{Figure, Lab, LabError, rig::clients, scratch, volume_load};

const BLOCK: u64 = 4096;
/// Live share of the device.
const LIVE: f64 = 0.54;
const WRITERS: u64 = 32;
const PARAMS: &str = "block=4096 segment=4MiB checkpoint_interval=256MiB";

/// Bytes written to the log, moved, and of pages of the map; segments freed, and passes made.
const COUNTS: [&str; 6] = ["record_bytes", "data_bytes", "moved_bytes", "map_bytes", "segments_freed", "passes"];

/// What one run gave.
struct Run {
    /// Seconds of each write, sorted.
    latencies: Vec<f64>,
    seconds: f64,
    /// What [`COUNTS`] grew by while it was measured.
    grown: [f64; COUNTS.len()],
    /// Mean of the cleaner's share while it was measured.
    share: f64,
    utilization: f64,
}

pub(crate) fn run(lab: &Lab<'_>) -> Result<Vec<Figure>, LabError> {
    let (device, count) = lab.scale((GIB, 200_000), (4 * GIB, 1_000_000));
    let live = (device as f64 * LIVE) as u64 / MIB * MIB;
    let warm = device / BLOCK;
    let with = measure(lab, device, live, warm, count)?;
    lab.say(format!("with: {:.0} writes per second", count as f64 / with.seconds));
    let without = measure(lab, 8 * device, live, count / 8, count)?;
    lab.say(format!("without: {:.0} writes per second", count as f64 / without.seconds));
    let [records, data, moved, map, freed, _] = with.grown;
    let (user, written) = ((count * BLOCK) as f64, records + data);
    let taken = (written + moved) / (4.0 * MIB as f64);
    let (p99, p99_without) = (with.percentile(0.99), without.percentile(0.99));
    let over = Figure::alone("gc_write_p99_ratio", p99 / p99_without, "ratio");
    Ok(vec![
        over.peer("the same writes where cleaning never begins, ms", p99_without * 1e3),
        Figure::alone("p99_ms", p99 * 1e3, "ms"),
        Figure::alone("p999_ms", with.percentile(0.999) * 1e3, "ms"),
        Figure::alone("slowest_ms", with.percentile(1.0) * 1e3, "ms"),
        Figure::alone("gc_write_rate_ratio", without.seconds / with.seconds, "ratio"),
        Figure::alone("write_amplification", (written + moved + map) / user, "ratio"),
        Figure::alone("write_amplification_of_copies", (user + moved) / user, "ratio"),
        Figure::alone("imbalance", (taken - freed).abs() / taken, "ratio"),
        Figure::alone("traffic_over_share", 2.0 * moved / (2.0 * moved + written) / with.share, "ratio"),
        Figure::alone("utilization", with.utilization, "ratio"),
        Figure::alone("gc_passes_idle", without.grown[5], "passes"),
    ])
}

impl Run {
    fn percentile(&self, share: f64) -> f64 {
        let last = self.latencies.len() - 1;
        self.latencies[(share * last as f64) as usize]
    }
}

fn measure(lab: &Lab<'_>, device: u64, live: u64, warm: u64, count: u64) -> Result<Run, LabError> {
    let dir = lab.folder()?;
    let file = dir.path().join("volume");
    // Segments are taken from the front, and what is written once is live data, all overwrites and at most a third
    // for records.
    let once = live + (warm + count) * BLOCK * 4 / 3;
    scratch::zero_start(&file, device.min(once / MIB * MIB), device)?;
    let reactor = lab.reactor()?;
    let vol = volume_load::open(&reactor, &file, device, true, PARAMS)?;
    let seed = lab.seed;
    let run = reactor.block_on(async move {
        volume_load::write_all(&vol, MIB as usize, live / MIB, |i| i * MIB).await?;
        overwrite(&vol, live, warm, seed).await?;
        let look = |vol: &Export| COUNTS.map(|name| volume_load::stat(vol, name));
        let (before, start) = (look(&vol), Instant::now());
        let (latencies, share) = overwrite(&vol, live, count, seed + 1).await?;
        let (seconds, after) = (start.elapsed().as_secs_f64(), look(&vol));
        let grown = std::array::from_fn(|at| after[at] - before[at]);
        let utilization = volume_load::stat(&vol, "used_ratio");
        vol.stack().close().await;
        Ok::<Run, BioError>(Run { latencies, seconds, grown, share, utilization })
    })?;
    Ok(run)
}

/// Overwrites random blocks from many writers: the sorted seconds of each write, and the mean share of the cleaner.
async fn overwrite(vol: &Export, live: u64, count: u64, seed: u64) -> Result<(Vec<f64>, f64), BioError> {
    let seconds = Rc::new(RefCell::new(Vec::with_capacity(count as usize)));
    let shares = Rc::new(Cell::new((0.0, 0u64)));
    let writer = |writer| {
        let (vol, seconds, shares) = (vol.clone(), seconds.clone(), shares.clone());
        async move {
            let mut rng = Stream::named(seed, &format!("writer {writer}"));
            for i in 0..count / WRITERS {
                let buf = volume_load::numbered(vol.stack().pool(), BLOCK as usize, i);
                let start = Instant::now();
                vol.submit(Bio::write(rng.below(live / BLOCK) * BLOCK, buf)).await.result?;
                seconds.borrow_mut().push(start.elapsed().as_secs_f64());
                if writer == 0 && i % 100 == 0 {
                    let (sum, number) = shares.get();
                    shares.set((sum + volume_load::stat(&vol, "cleaner_share"), number + 1));
                }
            }
            Ok(())
        }
    };
    clients(vol.stack().rt(), WRITERS, writer).await.into_iter().collect::<Result<(), BioError>>()?;
    let mut seconds = seconds.take();
    seconds.sort_by(f64::total_cmp);
    let (sum, number) = shares.get();
    Ok((seconds, sum / number.max(1) as f64))
}
