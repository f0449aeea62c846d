//! `lfs-snapshot`: what a change of mode costs by each rule of counting (experiments 5 and 6 of the thesis on NILFS2).
//!
//! Two files are written, a checkpoint becomes a snapshot, the second file is deleted. Then the snapshot becomes a
//! checkpoint and back, again and again. The volume has ten times the room of the data. A long run has the source's own
//! sizes, a quick one a tenth. Times are simulated: those of a modelled disk. They have no CPU time. Blocks are those
//! that the disk is given.

use esker_base::units::{GIB, MIB};
use esker_fs_lfs::check::Counted;
use esker_fs_lfs::{LfsConfig, SnapshotCounting};

use crate::lfs_mounted::Mounted;
use esker_lab_kit::{Figure, Lab, LabError};

/// Room of a volume, in bytes of one of the two files.
const ROOM: u64 = 20;

/// What pairs of changes cost.
struct Pairs {
    /// Seconds of a pair.
    seconds: f64,
    /// Blocks that one creation writes.
    blocks: f64,
    /// Milliseconds of the slowest call.
    call_ms: f64,
    /// MiB of metadata in memory at most.
    peak_mib: f64,
    /// Seconds from a change to the end of its scan, at worst.
    settled: f64,
    counted: Counted,
}

pub(crate) fn run(lab: &Lab<'_>) -> Result<Vec<Figure>, LabError> {
    let (file, count) = (lab.scale(512 * MIB, 5 * GIB), 10);
    let arm = |rule: SnapshotCounting, file: u64| -> Result<Pairs, LabError> {
        let pairs = pairs(lab.seed, rule, file, count)?;
        let Pairs { seconds, blocks, call_ms, peak_mib, settled, counted } = &pairs;
        lab.say(format!(
            "{rule:?}, files of {} MiB: {seconds:.4} s a pair, {blocks:.0} blocks a creation, {call_ms:.1} ms the slowest \
             call, {settled:.2} s to the end of a scan, {peak_mib:.1} MiB, {} of {} blocks miscounted",
            file / MIB,
            counted.miscounted_blocks,
            counted.counted_blocks
        ));
        Ok(pairs)
    };
    let stock = arm(SnapshotCounting::Stock, file)?;
    let starvation = arm(SnapshotCounting::Starvation, file)?;
    let dead = arm(SnapshotCounting::Dead, file)?;
    let all = arm(SnapshotCounting::All, file)?;
    let background = arm(SnapshotCounting::Background, file)?;
    let mut volumes = vec![(ROOM * file, all.seconds)];
    for part in [4, 2] {
        volumes.push((ROOM * file / part, arm(SnapshotCounting::All, file / part)?.seconds));
    }
    let points: Vec<(f64, f64)> = volumes.iter().map(|(bytes, seconds)| (*bytes as f64, *seconds)).collect();
    let over = |id: &str, ours: f64, name: &str, other: f64| Figure::alone(id, ours / other, "ratio").peer(name, other);
    Ok(vec![
        over("starvation_over_stock", starvation.seconds, "stock, simulated seconds a pair", stock.seconds),
        over("dead_over_stock", dead.seconds, "stock, simulated seconds a pair", stock.seconds).paper(21.0),
        over("all_over_dead", all.seconds, "Scan-Dead-Blocks, simulated seconds a pair", dead.seconds).paper(1.7),
        over("blocks_over_stock", dead.blocks, "stock, blocks of a creation", stock.blocks).paper(1000.0),
        over("all_blocks_over_dead", all.blocks, "Scan-Dead-Blocks, blocks of a creation", dead.blocks).paper(2.0),
        Figure::alone("volume_r2", r2(&points), "share of the variance"),
        Figure::alone("background_call_ms", background.call_ms, "simulated ms, the slowest call"),
        Figure::alone("background_peak_mib", background.peak_mib, "MiB of metadata"),
        Figure::alone(
            "background_settled_s",
            background.settled,
            "simulated s from a change to the end of its scan, at worst",
        ),
        Figure::alone("background_counters_off", background.counted.counters_off as f64, "segments"),
        Figure::alone("all_counters_off", all.counted.counters_off as f64, "segments"),
        Figure::alone("all_peak_mib", all.peak_mib, "MiB of metadata"),
        Figure::alone("pair_s_stock", stock.seconds, "simulated s").paper(0.08),
        Figure::alone("pair_s_dead", dead.seconds, "simulated s").paper(1.7),
        Figure::alone("pair_s_all", all.seconds, "simulated s").paper(2.9),
    ])
}

fn pairs(seed: u64, rule: SnapshotCounting, file: u64, count: u64) -> Result<Pairs, LabError> {
    let config = LfsConfig { snapshots: rule, ..LfsConfig::usual() };
    Mounted::run(seed, ROOM * file, config, async move |mounted| {
        for name in ["first", "second"] {
            mounted.write(name, 0, file).await?;
            mounted.sync().await?;
        }
        let number = mounted.ask("snapshot").await?;
        mounted.remove("second").await?;
        mounted.sync().await?;
        mounted.settle().await;
        let (mut seconds, mut blocks, mut call_ms, mut peak, mut settled) = (0.0, 0.0, 0.0_f64, 0.0_f64, 0.0);
        for pair in 0..count {
            for mode in ["checkpoint", "snapshot"] {
                let (begun, before) = (mounted.seconds(), mounted.blocks_written());
                mounted.ask(&format!("{mode} {number}")).await?;
                let took = mounted.seconds() - begun;
                seconds += took;
                call_ms = call_ms.max(took * 1e3);
                peak = peak.max(mounted.stat("metadata_bytes"));
                if mode == "snapshot" {
                    blocks += mounted.blocks_written() - before;
                }
                // In every second pair the second change finds the scan of the first under way.
                if pair % 2 == 0 || mode == "snapshot" {
                    let begun = mounted.seconds();
                    peak = peak.max(mounted.settle().await);
                    settled = f64::max(settled, mounted.seconds() - begun);
                }
            }
        }
        let counted = mounted.counted().await?;
        let (seconds, blocks, peak_mib) = (seconds / count as f64, blocks / count as f64, peak / MIB as f64);
        Ok(Pairs { seconds, blocks, call_ms, peak_mib, settled, counted })
    })
}

/// How much of the variance a straight line explains.
fn r2(points: &[(f64, f64)]) -> f64 {
    let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / points.len() as f64;
    let (x, y) = (mean(|point| point.0), mean(|point| point.1));
    let sum = |of: &dyn Fn(f64, f64) -> f64| points.iter().map(|point| of(point.0 - x, point.1 - y)).sum::<f64>();
    let (xx, yy, xy) = (sum(&|x, _| x * x), sum(&|_, y| y * y), sum(&|x, y| x * y));
    xy * xy / (xx * yy)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_explains_all_of_its_points() {
        assert!((r2(&[(1.0, 3.0), (2.0, 5.0), (4.0, 9.0)]) - 1.0).abs() < 1e-9);
        assert!(r2(&[(1.0, 1.0), (2.0, 9.0), (3.0, 1.0)]) < 0.1);
    }

    #[test]
    fn a_small_volume_tells_the_cost_of_a_pair() {
        let stock = pairs(1, SnapshotCounting::Stock, 4 * MIB, 1).unwrap();
        let all = pairs(1, SnapshotCounting::All, 4 * MIB, 1).unwrap();
        assert!(stock.seconds > 0.0 && stock.blocks > 0.0 && all.blocks > stock.blocks);
        assert_eq!(all.counted.counters_off, 0);
    }
}
