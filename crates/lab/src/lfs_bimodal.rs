//! `lfs-bimodal`: how full segments are behind 24 rounds of filling and cleaning, by policy.
//!
//! After figure 7.5 of the thesis on NILFS2. Files of one block fill 60 % of a store, and a tenth of them gets nine
//! tenths of the overwrites. Each round overwrites until the store is full. Between two rounds the cleaner works until
//! a fifth of the segments is clean. Live shares of all full segments at the end of the last round lie in 512 bins.
//!
//! All figures are *simulated*: by the store of the cleaning crate, which has no metadata, no checkpoints and no time;
//! and, with ids that begin with `lfs_`, by `lfs` on modelled flash with its cleaner. There an overwrite of a file of
//! one block also writes its inode, and entries of the DAT. A write takes 10 ms for the ages of segments.

use std::cell::Cell;
use std::rc::Rc;

use esker_base::units::MIB;
use esker_cleaning::model::load::{Load, TEN_NINETY};
use esker_cleaning::model::{Cleaner, Filled, Placement, Shape, SimulationPlan, Victims, fill};
use esker_cleaning::policy::named;
use esker_fs_lfs::cleaner::CleanerTurn;
use esker_fs_lfs::{LfsCleaner, LfsConfig};
use esker_report::{Axis, Figure as Plot, Series};
use esker_trace_nfs::hot_cold::FILES_PER_ROOM;
use esker_trace_nfs::{AccessPattern, HotCold};

use crate::lfs_mounted::{Disk, EPOCH, Mounted, cleaner_config};
use crate::lfs_replay::SSD;
use esker_lab_kit::{Figure, Lab, LabError};

/// Figures begin with the first word; the second names the policy.
const POLICIES: [(&str, &str); 5] = [
    ("greedy", "greedy"),
    ("cb", "cost-benefit"),
    ("cb_2u", "cost-benefit-2u"),
    ("timestamp", "timestamp"),
    ("adaptive", "adaptive"),
];
/// Policies of which `lfs` is filled and cleaned.
const MOUNTED: usize = 2;
/// Time of a write on `lfs`, in nanoseconds, and writes between two checkpoints.
const WRITE_NS: i64 = 10_000_000;
const WRITES_PER_SYNC: u64 = 1_000;
const ROUNDS: u32 = 24;
const BINS: usize = 512;
const LIVE: f64 = 0.60;
/// Share of the segments that is clean behind a pass, and of those that are left for the cleaner.
const TARGET: f64 = 0.20;
const RESERVE: f64 = 0.01;
/// Share of the segments of `lfs` that is clean when it counts as full: the file system holds back some for itself.
const FULL: f64 = 0.07;
/// Share of the blocks that is hot.
const HOT: f64 = 0.1;
/// Cold files that were overwritten in the source's run.
const COLD_OVERWRITTEN: f64 = 0.4;
/// Bounds of the live shares that count as low, as in the middle and as high.
const LOW: [f64; 2] = [0.0, 0.2];
const MIDDLE: [f64; 2] = [0.5, 0.8];
const HIGH: [f64; 2] = [0.8, f64::INFINITY];

pub(crate) fn run(lab: &Lab<'_>) -> Result<Vec<Figure>, LabError> {
    let (segments, blocks) = lab.scale((600, 512), (2_400, 2_048));
    let share = |of: f64| (f64::from(segments) * of) as u32;
    let (mut all, mut shares) = (Vec::new(), Vec::new());
    for (word, policy) in POLICIES {
        let filled = fill(
            &SimulationPlan {
                shape: Shape { segments, blocks, live: LIVE },
                cleaner: Cleaner { low: share(RESERVE), high: share(TARGET), victims: 4, least: 0.0 },
                victims: Victims::Best(named(policy).expect("the list names policies of the crate")),
                placement: Placement::OneLog,
                load: Load::steady(TEN_NINETY),
                still: 0.0,
                copies: None,
                rounds: 0.0,
                seed: lab.seed,
            },
            ROUNDS,
        );
        let live = live_shares(&filled, blocks);
        let figures = figures(word, &live);
        let told: Vec<String> = figures.iter().map(|figure| format!("{} {:.3}", figure.id, figure.value)).collect();
        lab.say(format!("simulated, {policy}: {}, WA {:.3}", told.join(", "), filled.write_amplification));
        all.extend(figures);
        let unit = "blocks written per new block";
        all.push(Figure::alone(format!("{word}_wa"), filled.write_amplification, unit));
        let cold = (filled.overwritten - HOT) / (1.0 - HOT);
        all.push(
            Figure::alone(format!("{word}_cold_overwritten"), cold, "share of the cold files").paper(COLD_OVERWRITTEN),
        );
        shares.push((policy, live));
    }
    for (word, policy) in POLICIES.into_iter().take(MOUNTED) {
        let filled = on_lfs(lab, policy)?;
        let figures = figures(&format!("lfs_{word}"), &filled.live);
        let told: Vec<String> = figures.iter().map(|figure| format!("{} {:.3}", figure.id, figure.value)).collect();
        lab.say(format!("lfs, {policy}: {}, {:.3} blocks for each file", told.join(", "), filled.blocks_per_write));
        all.extend(figures);
        let unit = "blocks written per overwritten file";
        all.push(Figure::alone(format!("lfs_{word}_wa"), filled.blocks_per_write, unit));
        shares.push((if word == "cb" { "cost-benefit, lfs" } else { "greedy, lfs" }, filled.live));
    }
    plots(&shares).into_iter().for_each(|plot| lab.draw(plot));
    Ok(all)
}

fn live_shares(filled: &Filled, blocks: u32) -> Vec<f64> {
    filled.live.iter().map(|live| f64::from(*live) / f64::from(blocks)).collect()
}

/// What rounds on `lfs` came to.
struct FilledLfs {
    live: Vec<f64>,
    blocks_per_write: f64,
}

/// Fills and cleans `lfs` on modelled flash.
fn on_lfs(lab: &Lab<'_>, policy: &'static str) -> Result<FilledLfs, LabError> {
    let (bytes, segment) = lab.scale((192 * MIB, MIB / 4), (2_400 * MIB, MIB));
    let disk = Disk { model: SSD.1, bytes, segment_bytes: Some(segment) };
    let seed = lab.seed;
    Mounted::on(seed, disk, LfsConfig::usual(), async move |mounted| {
        let clock = Rc::new(Cell::new(EPOCH));
        let cleaner = LfsCleaner::new(&mounted.rt, Rc::new(mounted.fs.control()), cleaner_config(policy));
        let mut target = mounted.target(&clock);
        let mut files = HotCold::new(AccessPattern::HotCold, (LIVE * 100.0) as u64, WRITES_PER_SYNC, seed);
        let segments = mounted.stat("clean_segments") + mounted.stat("dirty_segments");
        let (mut overwritten, mut before) = (0, 0.0);
        for round in 0..ROUNDS {
            let mut has_room = |_: &_| {
                clock.set(clock.get() + FILES_PER_ROOM as i64 * WRITE_NS);
                mounted.stat("clean_segments") > segments * FULL
            };
            let filled = files.fill(&mut target, None, &mut has_room).await.map_err(LabError::data)?;
            // The first round makes the files.
            if round == 0 {
                before = mounted.blocks_written();
            } else {
                overwritten += filled.overwritten;
            }
            if round + 1 < ROUNDS {
                clean(&mounted, &cleaner, segments * TARGET).await?;
            }
        }
        mounted.sync().await?;
        let blocks_per_write = (mounted.blocks_written() - before) / overwritten as f64;
        Ok(FilledLfs { live: mounted.live_shares().await?, blocks_per_write })
    })
}

/// Cleans until so many segments are clean.
async fn clean(mounted: &Mounted, cleaner: &LfsCleaner, clean: f64) -> Result<(), LabError> {
    while mounted.stat("clean_segments") < clean {
        match cleaner.turn().await.map_err(LabError::data)? {
            CleanerTurn::Made(_) => {}
            turn => mounted.rt.sleep(cleaner.pause_after(&turn)).await,
        }
    }
    Ok(())
}

/// Shares of the segments that are hardly, half and nearly full.
fn figures(word: &str, live: &[f64]) -> [Figure; 3] {
    [("low", LOW), ("middle", MIDDLE), ("high", HIGH)].map(|(name, [from, to])| {
        let within = live.iter().filter(|share| (from..to).contains(*share)).count();
        Figure::alone(format!("{word}_{name}"), within as f64 / live.len() as f64, "share of the full segments")
    })
}

/// Shares of the segments by bins of their live share.
fn histogram(live: &[f64]) -> Vec<f64> {
    let mut bins = vec![0.0; BINS];
    for share in live {
        bins[((share * BINS as f64) as usize).min(BINS - 1)] += 1.0 / live.len() as f64;
    }
    bins
}

/// The histogram and its sums from the emptiest segment on.
fn plots(shares: &[(&str, Vec<f64>)]) -> [Plot; 2] {
    let at = |bin: usize| (bin as f64 + 0.5) / BINS as f64;
    let bins = shares.iter().map(|(policy, live)| (*policy, histogram(live)));
    let (mut single, mut sums) = (Vec::new(), Vec::new());
    for (policy, bins) in bins {
        single.push(Series::line(policy, bins.iter().enumerate().map(|(bin, share)| (at(bin), *share)).collect()));
        let mut sum = 0.0;
        let sum_up = |(bin, share): (usize, &f64)| {
            sum += share;
            (at(bin), sum)
        };
        sums.push(Series::line(policy, bins.iter().enumerate().map(sum_up).collect()));
    }
    let plot = |title: &str, says: &str, y: &str, series| Plot {
        title: title.to_string(),
        says: says.to_string(),
        x: Axis::linear("live share of a segment"),
        y: Axis::linear(y),
        series,
    };
    [
        plot(
            "Segments by live share (simulated)",
            "Full segments behind 24 rounds, in 512 bins. A policy is good for later passes if few lie in the middle.",
            "share of the segments",
            single,
        ),
        plot(
            "Segments up to a live share (simulated)",
            "The same, summed up from the emptiest on: steep at both ends and flat between them is bimodal.",
            "share of the segments, summed up",
            sums,
        ),
    ]
}

#[cfg(test)]
mod tests {
    use esker_report::html;

    use super::*;

    #[test]
    fn each_segment_counts_once_and_bounds_belong_to_the_upper_part() {
        let live = [0.0, 0.19, 0.2, 0.5, 0.79, 0.8, 1.0];
        let found = figures("x", &live).map(|figure| (figure.id, (figure.value * 7.0).round()));
        assert_eq!(found, [("x_low".into(), 2.0), ("x_middle".into(), 2.0), ("x_high".into(), 2.0)]);
        let bins = histogram(&live);
        assert_eq!((bins.len(), bins.iter().filter(|bin| **bin > 0.0).count()), (512, 7));
        assert!((bins.iter().sum::<f64>() - 1.0).abs() < 1e-9);
    }

    #[test]
    fn sums_end_at_one() {
        let [single, sums] = plots(&[("greedy", vec![0.1, 0.6, 0.6, 1.0])]);
        assert_eq!((single.series[0].points.len(), sums.series[0].points.len()), (BINS, BINS));
        assert!((sums.series[0].points[BINS - 1].1 - 1.0).abs() < 1e-9);
    }

    #[test]
    fn a_browser_shows_all_policies() {
        let live = |policy: usize| (0..600).map(|segment| (segment * (policy + 3) % 600) as f64 / 599.0).collect();
        let names = POLICIES.map(|(_, policy)| policy).into_iter().chain(["greedy, lfs", "cost-benefit, lfs"]);
        let shares: Vec<(&str, Vec<f64>)> = names.enumerate().map(|(at, name)| (name, live(at))).collect();
        let figures = html::figures(&plots(&shares)).unwrap();
        esker_testkit::browser::check("lfs-bimodal", &html::page("lfs-bimodal", "a test", &figures));
    }
}
