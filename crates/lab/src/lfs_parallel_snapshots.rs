//! `lfs-parallel-snapshots`: the trace of `lfs-replay` on a modelled disk while snapshots come and go, by each rule of
//! counting (experiment 11 of the thesis on NILFS2).
//!
//! After each share of the trace a random one of the latest checkpoints becomes a snapshot, and of more than three the
//! oldest becomes a checkpoint. Then counters are held against a count by brute force, in time that does not count.
//! Seconds are simulated. Inaccuracy is the mean, over these looks, of miscounted blocks over all blocks.
//!
//! Cost-benefit chooses, and greedy beside it where the source saw it ahead: with Scan-All-Blocks, if the time of a
//! counter's last change also tells of blocks of the DAT.

use esker_base::units::MIB;
use esker_fs_lfs::{LfsConfig, SnapshotCounting};

use crate::lfs_mounted::{BLOCK, Disk};
use crate::lfs_replay::{COST_BENEFIT, GREEDY, HDD, volume_bytes};
use crate::lfs_trace::{Outcome, Played, Told, Trace, played_all};
use esker_lab_kit::{Figure, Lab, LabError, timing};

/// Bytes of the volume over those of `lfs-replay`. Snapshots of a small part hold files that pass, which are large in
/// it.
const ROOM_FOR_SNAPSHOTS: f64 = 2.0;

/// What a run differs in.
#[derive(Clone, Copy)]
struct Arm {
    name: &'static str,
    rule: SnapshotCounting,
    has_snapshots: bool,
    policy: &'static str,
    tells_dat_times: bool,
}

impl Arm {
    fn of(name: &'static str, rule: SnapshotCounting) -> Arm {
        Arm { name, rule, has_snapshots: true, policy: COST_BENEFIT, tells_dat_times: false }
    }
}

/// The part of lair62 that is played here: there are nine arms. Where snapshots fill the volume, a policy that believes
/// stale counters copies without end, so a longer part takes hours.
fn trace(lab: &Lab<'_>) -> Trace {
    let (scale, length) = lab.scale((0.001, 0.3), (0.002, 0.6));
    Trace { seed: lab.seed, scale, length }
}

pub(crate) fn run(lab: &Lab<'_>) -> Result<Vec<Figure>, LabError> {
    let all = Arm::of("all", SnapshotCounting::All);
    let faithful = Arm { name: "all, times of the DAT", tells_dat_times: true, ..all };
    let arms = [
        Arm { has_snapshots: false, ..Arm::of("no snapshots", SnapshotCounting::Stock) },
        Arm::of("stock", SnapshotCounting::Stock),
        Arm::of("starvation", SnapshotCounting::Starvation),
        Arm::of("dead", SnapshotCounting::Dead),
        all,
        Arm::of("background", SnapshotCounting::Background),
        Arm { name: "all, greedy", policy: GREEDY, ..all },
        faithful,
        Arm { name: "all, greedy, times of the DAT", policy: GREEDY, ..faithful },
    ];
    let outcomes = outcomes(lab, &arms)?;
    let [none, stock, starvation, dead, all, background, greedy, faithful, faithful_greedy] = &outcomes[..] else {
        unreachable!("each arm has its outcome");
    };
    let tracked = [starvation, dead, all, background];
    let is_slowest = tracked.iter().all(|outcome| outcome.seconds <= stock.seconds);
    let over = |id: &str, outcome: &Outcome| {
        Figure::alone(id, outcome.seconds / none.seconds, "ratio")
            .peer("the same trace without snapshots, simulated s", none.seconds)
    };
    let ahead = |id: &str, greedy: &Outcome, other: &Outcome| {
        Figure::alone(id, other.seconds / greedy.seconds, "ratio").peer("cost-benefit, simulated s", other.seconds)
    };
    let inaccuracy = |id: &str, outcome: &Outcome| Figure::alone(id, mean(outcome), "share of the blocks");
    let at_worst = |id: &str, outcome: &Outcome| {
        Figure::alone(id, timing::worst(&outcome.miscounted), "share of the blocks, at worst")
    };
    Ok(vec![
        inaccuracy("dead_inaccuracy", dead).paper(0.003),
        at_worst("all_inaccuracy", all).paper(0.0),
        at_worst("background_inaccuracy", background),
        inaccuracy("starvation_inaccuracy", starvation),
        inaccuracy("stock_inaccuracy", stock),
        over("scan_over_none", all),
        over("dead_over_none", dead),
        over("background_over_none", background),
        over("starvation_over_none", starvation),
        over("stock_over_none", stock),
        Figure::alone("untracked_is_slowest", f64::from(u8::from(is_slowest)), "1 if so"),
        ahead("greedy_over_cb_all", greedy, all),
        ahead("greedy_over_cb_all_dat_times", faithful_greedy, faithful),
    ])
}

fn mean(outcome: &Outcome) -> f64 {
    timing::mean(&outcome.miscounted)
}

fn outcomes(lab: &Lab<'_>, arms: &[Arm]) -> Result<Vec<Outcome>, LabError> {
    let live = trace(lab).live_bytes()?;
    let (bytes, still) = volume_bytes((live as f64 * ROOM_FOR_SNAPSHOTS) as u64);
    lab.say(format!("{} MiB live, a volume of {} MiB", live / MIB, bytes / MIB));
    let plans = arms.iter().map(|arm| Played {
        trace: trace(lab),
        disk: Disk { model: HDD.1, bytes, segment_bytes: Some(lab.scale(MIB / 4, MIB / 2)) },
        still,
        policy: arm.policy,
        config: LfsConfig { snapshots: arm.rule, tells_dat_times: arm.tells_dat_times, ..LfsConfig::usual() },
        looks: lab.scale(12, 24),
        has_snapshots: arm.has_snapshots,
    });
    let plans: Vec<Played> = plans.collect();
    played_all(&plans, |number, told| match told {
        Told::Tenths(tenths) => lab.say(format!("{}: {tenths} tenths", arms[number].name)),
        Told::Ended(outcome) => lab.say(format!(
            "{}: {:.1} s, {:.0} MiB, cleaner {:.3} of the blocks, inaccuracy {:.5}, at worst {:.5}, {} calls without \
             room",
            arms[number].name,
            outcome.seconds,
            outcome.blocks * BLOCK as f64 / MIB as f64,
            outcome.gc_share(),
            mean(outcome),
            timing::worst(&outcome.miscounted),
            outcome.report.no_room
        )),
    })
}
