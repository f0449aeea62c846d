//! `lfs-parallel-snapshots`: churn on an almost full volume while snapshots come and go, by each rule of counting
//! (experiment 11 of the thesis on NILFS2).
//!
//! A fifth of the volume is one file that never changes. Beside it files are rewritten, deleted and made; a tenth of
//! them gets nine tenths of the calls. After each share of the calls a random checkpoint becomes a snapshot, and of
//! more than three the oldest becomes a checkpoint. The cleaner runs when a change finds no room. Instead of the
//! source's trace, which is not public, calls are drawn from a seed. Seconds are simulated: those of a modelled disk.
//! Inaccuracy is the mean, over looks by brute force after each share, of miscounted blocks over all blocks.

use std::collections::VecDeque;

use esker_base::Stream;
use esker_base::units::{GIB, KIB};
use esker_fs_lfs::{LfsConfig, SnapshotCounting};

use crate::lfs_mounted::Mounted;
use esker_lab_kit::{Figure, Lab, LabError, timing};

/// Files that change.
const FILES: u64 = 400;
/// Snapshots that stay.
const KEPT: usize = 3;
/// Calls between two changes of snapshots.
const SHARE: u64 = 200;

/// What a run took, and how wrong counters were.
struct Churned {
    seconds: f64,
    inaccuracy: f64,
    worst: f64,
    blocks: f64,
}

pub(crate) fn run(lab: &Lab<'_>) -> Result<Vec<Figure>, LabError> {
    let shares = lab.scale(12, 80);
    let arm = |name: &str, rule: SnapshotCounting, has_snapshots: bool| -> Result<Churned, LabError> {
        let churned = churned(lab.seed, rule, has_snapshots, shares)?;
        let Churned { seconds, inaccuracy, worst, blocks } = churned;
        lab.say(format!("{name}: {seconds:.1} s, {blocks:.0} blocks, inaccuracy {inaccuracy:.5}, at worst {worst:.5}"));
        Ok(churned)
    };
    let none = arm("no snapshots", SnapshotCounting::Stock, false)?;
    let stock = arm("stock", SnapshotCounting::Stock, true)?;
    let starvation = arm("starvation", SnapshotCounting::Starvation, true)?;
    let dead = arm("dead", SnapshotCounting::Dead, true)?;
    let all = arm("all", SnapshotCounting::All, true)?;
    let background = arm("background", SnapshotCounting::Background, true)?;
    let tracked = [&starvation, &dead, &all, &background];
    let is_slowest = tracked.iter().all(|churned| churned.seconds <= stock.seconds);
    let over = |id: &str, churned: &Churned| {
        Figure::alone(id, churned.seconds / none.seconds, "ratio")
            .peer("the same calls without snapshots, simulated s", none.seconds)
    };
    Ok(vec![
        Figure::alone("dead_inaccuracy", dead.inaccuracy, "share of the blocks").paper(0.003),
        Figure::alone("all_inaccuracy", all.worst, "share of the blocks, at worst").paper(0.0),
        Figure::alone("background_inaccuracy", background.worst, "share of the blocks, at worst, behind each scan"),
        Figure::alone("starvation_inaccuracy", starvation.inaccuracy, "share of the blocks"),
        Figure::alone("stock_inaccuracy", stock.inaccuracy, "share of the blocks"),
        over("scan_over_none", &all),
        over("dead_over_none", &dead),
        over("background_over_none", &background),
        over("starvation_over_none", &starvation),
        over("stock_over_none", &stock),
        Figure::alone("untracked_is_slowest", f64::from(u8::from(is_slowest)), "1 if so"),
    ])
}

fn churned(seed: u64, rule: SnapshotCounting, has_snapshots: bool, shares: u64) -> Result<Churned, LabError> {
    let config = LfsConfig { snapshots: rule, ..LfsConfig::usual() };
    Mounted::run(seed, GIB, config, async move |mounted| {
        let mut rng = Stream::named(seed, "churn");
        mounted.write("static", 0, GIB / 5).await?;
        let sizes: Vec<u64> = (0..FILES).map(|_| drawn_size(&mut rng)).collect();
        for (file, bytes) in sizes.iter().enumerate() {
            mounted.write(&format!("file{file}"), 0, *bytes).await?;
        }
        mounted.sync().await?;
        let (mut kept, mut seconds, mut looks, mut blocks) = (VecDeque::new(), 0.0, Vec::new(), 0.0);
        for _ in 0..shares {
            let (begun, before) = (mounted.seconds(), mounted.blocks_written());
            for call in 0..SHARE {
                change(&mounted, &mut rng, &sizes).await?;
                if call % 50 == 0 {
                    mounted.sync().await?;
                }
            }
            if has_snapshots {
                turn(&mounted, &mut rng, &mut kept).await?;
            }
            mounted.sync().await?;
            seconds += mounted.seconds() - begun;
            blocks += mounted.blocks_written() - before;
            // Time of a scan in the background counts only as far as it delays calls.
            mounted.settle().await;
            let counted = mounted.found().await?;
            looks.push(counted.miscounted_blocks as f64 / counted.counted_blocks as f64);
        }
        let (inaccuracy, worst) = (timing::mean(&looks), timing::worst(&looks));
        Ok(Churned { seconds, inaccuracy, worst, blocks })
    })
}

/// Bytes of a file: most are small, and few hold most of the bytes.
fn drawn_size(rng: &mut Stream) -> u64 {
    ((4 * KIB) << rng.below(11)) + rng.below(4 * KIB)
}

/// A call on a file: all of it is rewritten, or it is deleted and made anew.
async fn change(mounted: &Mounted, rng: &mut Stream, sizes: &[u64]) -> Result<(), LabError> {
    let hot = FILES / 10;
    let file = if rng.below(10) < 9 { rng.below(hot) } else { hot + rng.below(FILES - hot) };
    let name = format!("file{file}");
    if rng.below(4) == 0 {
        mounted.remove(&name).await?;
    }
    mounted.write(&name, 0, sizes[file as usize]).await
}

/// Keeps a random one of the latest checkpoints, and lets the oldest go.
async fn turn(mounted: &Mounted, rng: &mut Stream, kept: &mut VecDeque<String>) -> Result<(), LabError> {
    let told = mounted.ask("checkpoints").await?;
    let words = told.lines().map(|line| line.split(' ').take(2).collect::<Vec<_>>());
    let others: Vec<String> = words.filter(|words| words[1] == "cp").map(|words| words[0].to_string()).collect();
    let others = &others[others.len().saturating_sub(8)..];
    let chosen = others[rng.below(others.len() as u64) as usize].clone();
    mounted.ask(&format!("snapshot {chosen}")).await?;
    kept.push_back(chosen);
    if kept.len() > KEPT
        && let Some(oldest) = kept.pop_front()
    {
        mounted.ask(&format!("checkpoint {oldest}")).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scanning_all_blocks_is_exact_under_churn() {
        let churned = churned(1, SnapshotCounting::All, true, 2).unwrap();
        assert!(churned.worst == 0.0 && churned.seconds > 0.0 && churned.blocks > 0.0);
    }
}
