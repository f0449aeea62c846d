//! `lfs-tracking`: what counters of live blocks cost (experiments 3 and 4 of the thesis on NILFS2).
//!
//! A file is written in order and made durable, then written once more, so that all its first blocks end. One mount
//! keeps the counters, the other does not; the images have the same entries. Blocks and seconds are those of a modelled
//! disk, so the ratio of throughputs is simulated. CPU times are real: the median of rounds in turns.

use esker_base::units::{GIB, MIB};
use esker_fs_lfs::LfsConfig;

use crate::lfs_mounted::Mounted;
use esker_lab_kit::cpu_time::CpuTime;
use esker_lab_kit::{Figure, Lab, LabError, timing};

/// What writing cost: simulated seconds, and blocks, of the first pass and of the second.
struct Cost {
    seconds: [f64; 2],
    blocks: [f64; 2],
    cpu: f64,
}

pub(crate) fn run(lab: &Lab<'_>) -> Result<Vec<Figure>, LabError> {
    let (bytes, rounds) = (lab.scale(512 * MIB, 4 * GIB), lab.scale(3, 5));
    let mut costs: [Vec<Cost>; 2] = Default::default();
    for round in 1..=rounds {
        for (arm, is_tracking) in [true, false].into_iter().enumerate() {
            let cost = cost(lab.seed, bytes, is_tracking)?;
            let ([first, second], cpu) = (cost.seconds, cost.cpu);
            lab.say(format!(
                "round {round} of {rounds}, tracking {is_tracking}: {first:.2} and {second:.2} s, CPU {cpu:.2} s"
            ));
            costs[arm].push(cost);
        }
    }
    let [tracked, untracked] = &costs;
    let (on, off) = (&tracked[0], &untracked[0]);
    let rate = |cost: &Cost, pass: usize| bytes as f64 / MIB as f64 / cost.seconds[pass];
    let ratio = |id: &str, pass: usize| {
        let (ours, theirs) = (rate(on, pass), rate(off, pass));
        Figure::alone(id, ours / theirs, "ratio").peer("tracking=off, simulated MiB/s", theirs)
    };
    let overhead = |id: &str, pass: usize| {
        let blocks = off.blocks[pass];
        Figure::alone(id, on.blocks[pass] / blocks - 1.0, "share of the blocks").peer("tracking=off, blocks", blocks)
    };
    let cpu = |costs: &[Cost]| costs.iter().map(|cost| 1.0 / cost.cpu).collect::<Vec<f64>>();
    Ok(vec![
        overhead("blocks_overhead", 0),
        overhead("rewrite_blocks_overhead", 1),
        ratio("throughput_ratio_untracked", 0),
        ratio("rewrite_throughput_ratio_untracked", 1),
        timing::over("cpu_ratio_untracked", &cpu(tracked), cpu(untracked), "tracking=off, runs per CPU second"),
    ])
}

fn cost(seed: u64, bytes: u64, is_tracking: bool) -> Result<Cost, LabError> {
    let config = LfsConfig { is_tracking, ..LfsConfig::usual() };
    let begun = CpuTime::now().own;
    let (seconds, blocks) = Mounted::run(seed, 3 * bytes, config, async move |mounted| {
        let (mut seconds, mut blocks) = ([0.0; 2], [0.0; 2]);
        for pass in 0..2 {
            let (begun, before) = (mounted.seconds(), mounted.blocks_written());
            mounted.write("file", 0, bytes).await?;
            mounted.sync().await?;
            (seconds[pass], blocks[pass]) = (mounted.seconds() - begun, mounted.blocks_written() - before);
        }
        Ok((seconds, blocks))
    })?;
    Ok(Cost { seconds, blocks, cpu: CpuTime::now().own - begun })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_passes_cost_blocks_and_time() {
        for is_tracking in [true, false] {
            let cost = cost(1, 8 * MIB, is_tracking).unwrap();
            assert!(cost.seconds.iter().chain(&cost.blocks).all(|value| *value > 0.0));
        }
    }
}
