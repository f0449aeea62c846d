//! `caching-vs-tiering`: the same SSD before the same disks, as a cache and as a tier. Source: items 53 to 57 of the
//! specification of extensions; the thesis on extending storage, chapter 6.
//!
//! The thesis has 200 GB of SSD before 12 SATA disks, and the recorded week of servers. Here the week is generated and
//! made small: each volume has a part of its bytes and requests, so each place is used as often, and the SSD has the
//! same part. One disk stands for the twelve: it has the same part of their room, and all is played so much faster that
//! it is asked as often as each of them. All times of the layers are shorter by the same factor. The SSD is a new drive
//! of which a part is used. All data lies on the disk at first. Times are simulated.

use std::rc::Rc;

use esker_base::Nanos;
use esker_base::units::{GIB, MIB};
use esker_lab_kit::rig::Rig;
use esker_lab_kit::{Figure, Lab, LabError};
use esker_stack::Stack;
use esker_trace_block::Record;
use esker_trace_block::generate::Profile;

use crate::edt_testbed::{Clients, Waits, all_moved, end_of, faster, on_one_volume, order, told};
use crate::played::stat;

/// Part of bytes and requests that the short and the long form have.
const PARTS: [f64; 2] = [0.0025, 0.01];
/// SATA disks of the thesis, and bytes of them and of its SSDs.
const DISKS: f64 = 12.0;
const SATA_BYTES: f64 = 1e12;
const SSD_BYTES: f64 = 200e9;
/// SSDs of the thesis.
const SSDS: f64 = 2.0;
/// Bytes for the map of a layer.
const MAP: u64 = 16 * MIB;
const EPOCH: Nanos = Nanos::secs(1_800);
const LOOK: Nanos = Nanos::secs(60);
const DIRTY_AGE: Nanos = Nanos::secs(5);

/// What stands before or beside the disk.
#[derive(Clone, Copy, Debug)]
enum Arm {
    /// Lines of 1 MiB, with more arguments.
    Cache(&'static str),
    /// Chunks of so many MiB, epochs of so many natural times, and more arguments.
    Tier(u64, Nanos, &'static str),
}

/// The final choice of the thesis for each.
const BACK: Arm = Arm::Cache("mode=write-back");
const THROUGH: Arm = Arm::Cache("mode=write-through");
const BEFORE: Arm = Arm::Cache("mode=write-back fill=before");
const TIER: Arm = Arm::Tier(1, EPOCH, UTILISATION);
const UTILISATION: &str = "plan=edt objective=resources";

/// A load at its speed.
struct Load {
    records: Vec<Record>,
    bytes: u64,
    part: f64,
}

/// What a run found behind its training.
struct Found {
    waits: Waits,
    /// Share of requests that the SSD answers.
    ssd_share: f64,
    /// Chunks or lines that moved.
    moves: f64,
    memory: f64,
    /// What a tier did, for people.
    told: String,
}

impl Load {
    /// So many hours of a profile, made small. Volumes lie one behind the other.
    fn new(lab: &Lab<'_>, name: &str, hours: f64) -> Result<Load, LabError> {
        let part = lab.scale(PARTS[0], PARTS[1]);
        let profile = Profile::builtin(name).map_err(LabError::data)?.scaled(part);
        let (records, bytes) = on_one_volume((name, &profile), lab.seed, hours, speed(part))?;
        Ok(Load { records, bytes, part })
    }

    /// By how much the load is faster.
    fn speed(&self) -> f64 {
        speed(self.part)
    }

    /// A natural time at the speed of the load.
    fn fast(&self, natural: Nanos) -> Nanos {
        faster(natural, self.speed())
    }

    /// The stack of an arm.
    fn text(&self, arm: Arm) -> String {
        let disk = (DISKS * SATA_BYTES * self.part) as u64 / MIB * MIB;
        let ssd = (SSD_BYTES * self.part) as u64;
        let span = |natural| format!("{}ns", self.fast(natural).0);
        let fast = |more: u64| (ssd + MAP + more).next_multiple_of(MIB);
        let devices = |fast: u64| {
            format!(
                "h = disk-model profile=hdd-7200-2008 capacity={disk}; s = ssd-model profile=ssd-sata-2010; \
                 f = offset start=0 size={fast} on s"
            )
        };
        match arm {
            Arm::Cache(args) => format!(
                "{}; vol = cache policy=mq line=1MiB bypass=0 dirty_age={} {args} on h, f",
                devices(fast(0)),
                span(DIRTY_AGE)
            ),
            Arm::Tier(chunk, epoch, args) => format!(
                // One slot of each end stays free.
                "{}; vol = tier devices=\"ssd(bytes={}); sata(bytes={})\" extent={chunk}MiB size={} epoch={} look={} {args} on f, h",
                devices(fast(chunk * MIB)),
                (SSD_BYTES / SSDS / self.speed()) as u64,
                (SATA_BYTES / self.speed()) as u64,
                self.bytes.next_multiple_of(64 * MIB),
                span(epoch),
                span(LOOK)
            ),
        }
    }

    /// Plays the load up to the second hour, and tells of the time between both.
    fn played(&self, lab: &Lab<'_>, arm: Arm, hours: [f64; 2]) -> Result<Found, LabError> {
        let Rig { world, stack } = Rig::simulated(lab.seed, &self.text(arm))?;
        let [from, to] = hours.map(|hour| self.fast(Nanos::from_secs_f64(hour * 3_600.0)));
        let until = |at| self.records.partition_point(|record| record.at < at);
        let (trained, measured) = (self.records[..until(from)].to_vec(), self.records[until(from)..until(to)].to_vec());
        let found = world.block_on(async move {
            let moves = move |stack: &Rc<Stack>| match arm {
                Arm::Cache(_) => stat(stack, "vol", "fills") + stat(stack, "vol", "written_back"),
                Arm::Tier(..) => stat(stack, "vol", "moved"),
            };
            if let Arm::Tier(chunk, ..) = arm {
                to_disk(&stack, chunk).await?;
            }
            let clients = Clients::new(&stack);
            for record in &trained {
                clients.send(record).await;
            }
            let (moved, misses) = (moves(&stack), misses(&stack, arm));
            let mut on_disk = 0.0;
            for record in &measured {
                if let Arm::Tier(chunk, ..) = arm {
                    on_disk += f64::from(u8::from(end_of(&stack, record.offset / (chunk * MIB)).await? == 1));
                }
                clients.send(record).await;
            }
            clients.ended().await;
            if matches!(arm, Arm::Cache(_)) {
                on_disk = self::misses(&stack, arm) - misses;
            }
            Ok::<_, LabError>(Found {
                waits: clients.between(from, to),
                ssd_share: 1.0 - on_disk / measured.len() as f64,
                moves: moves(&stack) - moved,
                memory: stat(&stack, "vol", "memory_bytes"),
                told: if matches!(arm, Arm::Tier(..)) { told(&stack) } else { String::new() },
            })
        })?;
        lab.say(format!(
            "{arm:?}, hours {hours:?}: {}, {:.3} of them by the SSD, {} moves{}",
            found.waits.text(),
            found.ssd_share,
            found.moves,
            found.told
        ));
        Ok(found)
    }
}

/// By how much a part of the load is faster.
fn speed(part: f64) -> f64 {
    1.0 / (DISKS * part)
}

/// Requests that the disk had to answer. In write-back each write goes to the SSD.
fn misses(stack: &Rc<Stack>, arm: Arm) -> f64 {
    match arm {
        Arm::Cache(_) => stat(stack, "vol", "read_misses"),
        Arm::Tier(..) => 0.0,
    }
}

/// Moves everything to the disk.
async fn to_disk(stack: &Rc<Stack>, chunk: u64) -> Result<(), LabError> {
    stack.opened().await;
    let extents = stat(stack, "vol", "extents");
    order(stack, &format!("place 0-{} 1", extents - 1.0)).await?;
    all_moved(stack).await;
    // What stays is what found no room there.
    let told = order(stack, "ends").await?;
    match told["ends"][0]["extents"].as_u64() {
        Some(0) => Ok(()),
        left => Err(LabError::data(format!("{left:?} chunks of {chunk} MiB stay on the SSD"))),
    }
}

pub(crate) fn run(lab: &Lab<'_>) -> Result<Vec<Figure>, LabError> {
    let trained = lab.scale(24.0, 120.0);
    let steady = Load::new(lab, "msr-like", trained + 2.0)?;
    let mut figures = steady_figures(lab, &steady, [trained, trained + 2.0])?;
    figures.extend(shift(lab)?);
    figures.extend(algorithms(lab, &steady)?);
    figures.extend(epochs(lab, &steady)?);
    figures.extend(metadata());
    Ok(figures)
}

/// Behind the training, at the same hours of the day as in the thesis.
fn steady_figures(lab: &Lab<'_>, load: &Load, hours: [f64; 2]) -> Result<Vec<Figure>, LabError> {
    let played = |arm| load.played(lab, arm, hours);
    let [back, through, before] = [played(BACK)?, played(THROUGH)?, played(BEFORE)?];
    let chunks =
        [played(TIER)?, played(Arm::Tier(16, EPOCH, UTILISATION))?, played(Arm::Tier(64, EPOCH, UTILISATION))?];
    let tier = &chunks[0];
    let over = |id: &str, ours: &Found, theirs: &Found| {
        let (ours, theirs) = (ours.waits.mean_ms(), theirs.waits.mean_ms());
        Figure::alone(id, ours / theirs, "ratio of mean times").peer("the other, ms", theirs)
    };
    let is_best = chunks[1..].iter().all(|other| tier.waits.mean_ms() <= other.waits.mean_ms());
    let memory = tier.memory / back.memory;
    Ok(vec![
        Figure::alone("moves_cache_over_tier", back.moves / tier.moves.max(1.0), "ratio of moves")
            .paper(10.0)
            .peer("moves of the tier", tier.moves),
        Figure::alone("cache_ssd_share", back.ssd_share, "share of requests").paper(0.97),
        Figure::alone("tier_ssd_share", tier.ssd_share, "share of requests").paper(0.5),
        over("back_over_tier_steady", &back, tier).paper(0.75),
        over("through_over_tier_steady", &through, tier).paper(1.0),
        over("before_over_tier_steady", &before, tier),
        Figure::alone("chunk_1m_best", f64::from(u8::from(is_best)), "1: least mean of 1, 16 and 64 MiB").paper(1.0),
        over("chunk_16m_over_1m", &chunks[1], tier),
        over("chunk_64m_over_1m", &chunks[2], tier),
        Figure::alone("memory_tier_over_cache", memory, "ratio of bytes").peer("of the cache, bytes", back.memory),
    ])
}

/// The hot set is renewed, and large reads come.
fn shift(lab: &Lab<'_>) -> Result<[Figure; 1], LabError> {
    let load = Load::new(lab, "msr-shift", 8.0)?;
    let mean = |arm| Ok::<_, LabError>(load.played(lab, arm, [6.0, 8.0])?.waits.mean_ms());
    let (back, through, tier) = (mean(BACK)?, mean(THROUGH)?, mean(TIER)?);
    let best = back.min(through);
    let figure = Figure::alone("tier_over_cache_shift", tier / best, "ratio of mean times");
    Ok([figure.paper(1.0).peer("the better cache, ms", best)])
}

/// Algorithms of tiers in the busiest hours.
fn algorithms(lab: &Lab<'_>, load: &Load) -> Result<[Figure; 3], LabError> {
    let played = |args| Ok::<_, LabError>(load.played(lab, Arm::Tier(16, EPOCH, args), [6.0, 8.0])?.waits);
    let greedy = played("plan=greedy throttle=false")?;
    let greedy_thr = played("plan=greedy")?;
    let plain = played("plan=edt objective=resources throttle=false")?;
    let thr = played(UTILISATION)?;
    let over = |id: &str, ours: f64, theirs: f64| {
        Figure::alone(id, ours / theirs, "ratio of times").peer("the other, ms", theirs)
    };
    lab.say(format!("greedy with relief over greedy: {:.3}", greedy_thr.mean_ms() / greedy.mean_ms()));
    Ok([
        over("util_thr_over_greedy", thr.mean_ms(), greedy.mean_ms()).paper(0.88),
        over("util_over_greedy", plain.mean_ms(), greedy.mean_ms()).paper(0.9),
        over("util_thr_over_greedy_p95", thr.percentile_ms(0.95), greedy.percentile_ms(0.95)),
    ])
}

/// Lengths of epochs.
fn epochs(lab: &Lab<'_>, load: &Load) -> Result<[Figure; 2], LabError> {
    let mut means = Vec::new();
    for minutes in [15, 30, 60, 120] {
        let epoch = Nanos::secs(minutes * 60);
        means.push(load.played(lab, Arm::Tier(16, epoch, UTILISATION), [6.0, 10.0])?.waits.mean_ms());
    }
    let is_best = means.iter().all(|mean| means[1] <= *mean);
    let best = means.iter().copied().fold(f64::INFINITY, f64::min);
    Ok([
        Figure::alone("epoch_30m_mean_best", f64::from(u8::from(is_best)), "1: least mean of four lengths").paper(1.0),
        Figure::alone("epoch_30m_over_best", means[1] / best, "ratio of mean times").peer("the best, ms", best),
    ])
}

/// Bytes of metadata by the formulas of the thesis: an SSD of a tenth of the data, chunks of one size, and lines that
/// are remembered for three times the SSD.
fn metadata() -> [Figure; 3] {
    let data = 1024 * GIB;
    let (chunks, lines) = ((data / MIB) as f64, (data / MIB) as f64 / 10.0);
    let (cache, tier) = (8.0 * lines * (1.0 + 3.0), |accessed: f64| 20.0 * chunks * accessed);
    let ratio = |id: &str, accessed| Figure::alone(id, tier(accessed) / cache, "ratio of bytes by formula");
    [
        ratio("metadata_formula_half", 0.5).paper(3.1),
        ratio("metadata_formula_all", 1.0).paper(6.25),
        Figure::alone("metadata_formula_mib_per_tib", tier(1.0) / MIB as f64, "MiB for a TiB in chunks of 1 MiB")
            .paper(20.0),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_is_that_of_the_formulas() {
        let [half, all, tib] = metadata().map(|figure| figure.value);
        assert!((half - 3.125).abs() < 1e-3 && (all - 6.25).abs() < 1e-3, "{half} {all}");
        assert!((tib - 20.0).abs() < 1e-9, "{tib}");
    }

    #[test]
    fn a_small_load_asks_the_disk_as_often_as_each_of_twelve() {
        let load = Load { records: Vec::new(), bytes: 15 * GIB, part: PARTS[0] };
        // 716 requests a second in the thesis.
        let per_s = 716.0 * load.part * load.speed();
        assert!((per_s - 716.0 / 12.0).abs() < 1e-9, "{per_s}");
        assert_eq!(load.fast(Nanos::secs(100)), Nanos::secs(3));
        let text = load.text(TIER);
        assert!(text.contains("capacity=29999759360; "), "{text}");
        assert!(text.contains("ssd(bytes=3000000000); sata(bytes=29999999999)"), "{text}");
        assert!(text.contains("epoch=54000000000ns look=1800000000ns"), "{text}");
    }
}
