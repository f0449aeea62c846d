//! `lfs-replay`, `lfs-replay-full`: a trace of an NFS server on `lfs`, by cleaning policy (experiments 9 and 10 of the
//! thesis on NILFS2).
//!
//! `lfs-replay`: a fifth of the volume is a file that never changes, and up to 47.3 % live. On a
//! modelled disk and on modelled flash, oldest first stands beside greedy and cost-benefit. `lfs-replay-full`: nothing
//! rests, and up to 81.6 % live; greedy beside cost-benefit on the disk.
//!
//! The trace lair62 is not public, so a generator makes text with its statistics, of a share of its files and
//! operations. Efficiency is the share of cleaned blocks that were not copied.

use esker_base::units::MIB;
use esker_fs_lfs::LfsConfig;
use esker_report::{Axis, Figure as Plot, Series};

use crate::lfs_mounted::{BLOCK, Disk};
use crate::lfs_trace::{Outcome, Played, Step, Told, Trace, played_all, sized};
use esker_lab_kit::{Figure, Lab, LabError, timing};

pub(crate) const HDD: (&str, &str) = ("hdd", "disk-model profile=hdd-7200-2021");
pub(crate) const SSD: (&str, &str) = ("ssd", "ssd-model profile=ssd-sata-2021");
const TIMESTAMP: &str = "timestamp";
pub(crate) const GREEDY: &str = "greedy";
pub(crate) const COST_BENEFIT: &str = "cost-benefit";

/// Of the volume, what lives at most, and what never changes (47.3 and 20 of 100 GB).
const LIVE: f64 = 0.473;
const STILL: f64 = 0.2;
/// The same of the fuller volume (47.3 of 58 GB).
const LIVE_FULL: f64 = 0.816;
/// Points of a line of a plot.
const POINTS: usize = 100;
const BINS: usize = 64;

/// The part of lair62 that is played: a fiftieth of its files, or a hundredth if it is to be quick. Its length in time
/// stays, so that lifetimes of files keep their ratio to the time in which the log goes round.
pub(crate) fn trace(lab: &Lab<'_>) -> Trace {
    Trace { seed: lab.seed, scale: lab.scale(0.01, 0.02), length: 1.0 }
}

/// Bytes of a segment: a volume has hundreds.
pub(crate) fn segment_bytes(lab: &Lab<'_>) -> Option<u64> {
    Some(lab.scale(MIB, 2 * MIB))
}

/// Bytes of the volume, and of the file that never changes.
pub(crate) fn volume_bytes(live: u64) -> (u64, u64) {
    let bytes = sized(live, LIVE);
    (bytes, (bytes as f64 * STILL) as u64 / MIB * MIB)
}

pub(crate) fn run(lab: &Lab<'_>) -> Result<Vec<Figure>, LabError> {
    let live = trace(lab).live_bytes()?;
    let (bytes, still) = volume_bytes(live);
    lab.say(format!("{} MiB live, a volume of {} MiB", live / MIB, bytes / MIB));
    let policies = [(TIMESTAMP, TIMESTAMP), (GREEDY, GREEDY), ("cb", COST_BENEFIT)];
    let arms: Vec<Arm> = [HDD, SSD]
        .into_iter()
        .flat_map(|device| policies.map(|(word, policy)| Arm { device, bytes, still, word, policy }))
        .collect();
    let outcomes = outcomes(lab, &arms)?;
    let mut all: Vec<Figure> = arms.iter().zip(&outcomes).flat_map(|(arm, outcome)| outcome.figures(arm)).collect();
    let [mut best_share, mut oldest_share, mut most] = [0.0_f64, 1.0_f64, 1.0_f64];
    for (arms, outcomes) in arms.chunks(policies.len()).zip(outcomes.chunks(policies.len())) {
        let oldest = &outcomes[0];
        oldest_share = oldest_share.min(oldest.gc_share());
        for (arm, other) in arms.iter().zip(outcomes).skip(1) {
            let (device, _) = arm.device;
            all.push(
                Figure::alone(format!("{}_over_timestamp_{device}", arm.word), oldest.seconds / other.seconds, "ratio")
                    .paper(if arm.device == HDD { 1.53 } else { 1.32 })
                    .peer("oldest first, simulated s", oldest.seconds),
            );
            best_share = best_share.max(other.gc_share());
            most = most.min(middle_efficiency(&other.steps));
        }
    }
    all.push(Figure::alone("gc_share_best", best_share, "share of the written blocks, at worst").paper(0.038));
    all.push(Figure::alone("gc_share_timestamp", oldest_share, "share of the written blocks, at least").paper(0.213));
    all.push(Figure::alone("efficiency_most", most, "median step of greedy and cost-benefit, at worst").paper(0.9));
    draw(lab, &arms, outcomes);
    Ok(all)
}

pub(crate) fn run_full(lab: &Lab<'_>) -> Result<Vec<Figure>, LabError> {
    let live = trace(lab).live_bytes()?;
    let bytes = sized(live, LIVE_FULL);
    lab.say(format!("{} MiB live, a volume of {} MiB", live / MIB, bytes / MIB));
    let policies = [(GREEDY, GREEDY), ("cb", COST_BENEFIT)];
    let arms = policies.map(|(word, policy)| Arm { device: HDD, bytes, still: 0, word, policy });
    let outcomes = outcomes(lab, &arms)?;
    let mut all: Vec<Figure> = arms.iter().zip(&outcomes).flat_map(|(arm, outcome)| outcome.figures(arm)).collect();
    let halves = |outcome: &Outcome| {
        let half = outcome.report.lines / 2;
        let of =
            |is_first: bool| middle_efficiency(outcome.steps.iter().filter(|step| (step.line <= half) == is_first));
        [of(true), of(false)]
    };
    let (first, second) = (halves(&outcomes[0]), halves(&outcomes[1]));
    let unit = "median step, worse of both policies";
    all.push(Figure::alone("first_half_efficiency", first[0].min(second[0]), unit).paper(0.9));
    all.push(Figure::alone("second_half_efficiency", first[1].min(second[1]), unit));
    let [greedy, cost_benefit] = [outcomes[0].seconds, outcomes[1].seconds];
    all.push(
        Figure::alone("greedy_over_cb", cost_benefit / greedy, "ratio")
            .paper(1.05)
            .peer("cost-benefit, simulated s", cost_benefit),
    );
    draw(lab, &arms, outcomes);
    Ok(all)
}

/// A volume and its policy.
struct Arm {
    device: (&'static str, &'static str),
    bytes: u64,
    still: u64,
    /// What figures call the policy.
    word: &'static str,
    policy: &'static str,
}

impl Arm {
    fn name(&self) -> String {
        format!("{}, {}", self.policy, self.device.0)
    }
}

fn outcomes(lab: &Lab<'_>, arms: &[Arm]) -> Result<Vec<Outcome>, LabError> {
    let plans = arms.iter().map(|arm| Played {
        trace: trace(lab),
        disk: Disk { model: arm.device.1, bytes: arm.bytes, segment_bytes: segment_bytes(lab) },
        still: arm.still,
        policy: arm.policy,
        config: LfsConfig::usual(),
        looks: 0,
        has_snapshots: false,
    });
    let plans: Vec<Played> = plans.collect();
    played_all(&plans, |number, told| match told {
        Told::Tenths(tenths) => lab.say(format!("{}: {tenths} tenths", arms[number].name())),
        Told::Ended(outcome) => lab.say(format!("{}: {}", arms[number].name(), outcome.told())),
    })
}

fn draw(lab: &Lab<'_>, arms: &[Arm], outcomes: Vec<Outcome>) {
    let log: Vec<(String, Outcome)> = arms.iter().map(Arm::name).zip(outcomes).collect();
    plots(&log).into_iter().for_each(|plot| lab.draw(plot));
}

impl Outcome {
    fn told(&self) -> String {
        let report = &self.report;
        format!(
            "{:.1} simulated s, {} MiB in {} calls, {:.0} MiB on the disk, cleaner {:.3} of it in {} steps, median \
             efficiency {:.3}, {} calls without room, {} failed, {} waits in vain",
            self.seconds,
            report.bytes_written / MIB,
            report.calls,
            self.blocks * BLOCK as f64 / MIB as f64,
            self.gc_share(),
            self.steps.len(),
            middle_efficiency(&self.steps),
            report.no_room,
            report.failed,
            self.waited_in_vain
        )
    }

    fn figures(&self, arm: &Arm) -> [Figure; 3] {
        let id = |what: &str| format!("{}_{}_{what}", arm.word, arm.device.0);
        [
            Figure::alone(id("seconds"), self.seconds, "simulated s"),
            Figure::alone(id("gc_share"), self.gc_share(), "share of the written blocks"),
            Figure::alone(id("efficiency"), middle_efficiency(&self.steps), "median step"),
        ]
    }
}

/// The efficiency that half of the steps reach; 1 where nothing was cleaned.
fn middle_efficiency<'a>(steps: impl IntoIterator<Item = &'a Step>) -> f64 {
    let efficiencies: Vec<f64> = steps.into_iter().map(|step| step.efficiency).collect();
    if efficiencies.is_empty() { 1.0 } else { timing::median(efficiencies) }
}

/// Efficiency of cleaning over the replay, and segments by live share at its end.
fn plots(log: &[(String, Outcome)]) -> [Plot; 2] {
    let over_time = log.iter().map(|(name, outcome)| Series::line(name, means(&outcome.steps, outcome.report.lines)));
    let by_share = log.iter().map(|(name, outcome)| Series::line(name, histogram(&outcome.live)));
    [
        Plot {
            title: "Efficiency of cleaning (simulated)".to_string(),
            says: "Share of the cleaned blocks that were not copied: means over hundredths of the trace.".to_string(),
            x: Axis::linear("share of the trace"),
            y: Axis::linear("efficiency"),
            series: over_time.collect(),
        },
        Plot {
            title: "Segments by live share at the end (simulated)".to_string(),
            says: "A policy is good for later passes if few segments lie in the middle.".to_string(),
            x: Axis::linear("live share of a segment"),
            y: Axis::linear("share of the segments"),
            series: by_share.collect(),
        },
    ]
}

/// Mean efficiency in each hundredth of the trace in which a step was made.
fn means(steps: &[Step], lines: u64) -> Vec<(f64, f64)> {
    let mut sums = vec![(0.0, 0); POINTS];
    for step in steps {
        let at = (step.line as u128 * POINTS as u128 / u128::from(lines.max(1))) as usize;
        let (sum, count) = &mut sums[at.min(POINTS - 1)];
        (*sum, *count) = (*sum + step.efficiency, *count + 1);
    }
    let point = |(at, (sum, count)): (usize, (f64, u32))| {
        (count > 0).then(|| ((at as f64 + 0.5) / POINTS as f64, sum / f64::from(count)))
    };
    sums.into_iter().enumerate().filter_map(point).collect()
}

fn histogram(live: &[f64]) -> Vec<(f64, f64)> {
    let mut bins = vec![0.0; BINS];
    for share in live {
        bins[((share * BINS as f64) as usize).min(BINS - 1)] += 1.0 / live.len() as f64;
    }
    bins.into_iter().enumerate().map(|(bin, share)| ((bin as f64 + 0.5) / BINS as f64, share)).collect()
}

#[cfg(test)]
mod tests {
    use esker_report::Drawn as _;

    use super::*;
    use crate::lfs_trace::played;
    use esker_fs_lfs::SnapshotCounting;

    #[test]
    fn a_small_trace_is_played_cleaned_and_leaves_a_sound_image() {
        let trace = Trace { seed: 1, scale: 0.001, length: 0.3 };
        let bytes = sized(trace.live_bytes().unwrap(), 0.4).max(32 * MIB);
        let disk = Disk { model: SSD.1, bytes, segment_bytes: Some(MIB / 4) };
        let config = LfsConfig { snapshots: SnapshotCounting::All, ..LfsConfig::usual() };
        let plan = Played { trace, disk, still: 2 * MIB, policy: GREEDY, config, looks: 3, has_snapshots: true };
        let outcome = played(plan, drop).unwrap();
        let (steps, share) = (outcome.steps.len(), outcome.gc_share());
        assert!(steps > 0 && share > 0.0 && share < 1.0, "{steps} steps, {share} copied");
        assert!(outcome.steps.iter().all(|step| (0.0..=1.0).contains(&step.efficiency)));
        // Snapshots hold what the cleaner could give back otherwise, so some waits may be in vain.
        assert_eq!((outcome.report.no_room, outcome.miscounted.as_slice()), (0, &[0.0; 3][..]));
        assert!(plots(&[("greedy".to_string(), outcome)]).iter().all(|plot| plot.svg().is_ok()));
    }
}
