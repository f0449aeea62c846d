//! `ingens-overhead`: CPU time of loads that greedy huge pages serve well, beside our manager and with its CPU time,
//! over that with `THP=always`; and what the manager itself costs.

use std::time::{Duration, Instant};

use esker_base::units::MIB;

use crate::ingens::loads::{self, Load};
use crate::ingens::settings::keep_memory;
use crate::ingens::{Arm, FRESH, huge_of, room, room_up_to, thread_cpu, wait_stable};
use esker_lab_kit::timing::{at_share, in_turns, mean, over};
use esker_lab_kit::{Figure, Lab, LabError};

/// Sizes of a run.
#[derive(Clone, Copy)]
struct Scale {
    pairs: u32,
    /// Memory of a load.
    bytes: usize,
    /// Time of a load.
    time: Duration,
    /// Memory of the process beside which the manager's own cost is seen.
    watched: usize,
    /// For so long, idle and busy.
    watch: Duration,
}

/// As much time for its memory as in full: what the first use of memory costs counts as much. Short runs differ more,
/// so there are more of them.
const QUICK: Scale = Scale::new(7, 64, 7_500, 512, 12);
const FULL: Scale = Scale::new(5, 512, 60_000, 10_240, 120);

impl Scale {
    /// Memory is in MiB, the time of a load in milliseconds, that of idling and being busy in seconds.
    const fn new(pairs: u32, mib: u64, millis: u64, watched_mib: u64, watch: u64) -> Scale {
        let (bytes, watched) = ((mib * MIB) as usize, (watched_mib * MIB) as usize);
        let (time, watch) = (Duration::from_millis(millis), Duration::from_secs(watch));
        Scale { pairs, bytes, time, watched, watch }
    }
}

/// The load's speed is tried with so much work.
const TRIED: u64 = 1 << 20;
/// Everything is promoted that will be once nothing was for so long.
const SETTLED: Duration = Duration::from_secs(5);
const SETTLED_MOST: Duration = Duration::from_secs(120);

const ABOVE: &str = "of the CPU time with THP=always, above it";

pub(crate) fn run(lab: &Lab<'_>) -> Result<Vec<Figure>, LabError> {
    let scale = lab.scale(QUICK, FULL);
    let _kept = keep_memory(lab)?;
    room((scale.watched + FRESH) as u64, lab)?;
    let overheads = loads::ALL.iter().map(|load| overhead(load, scale, lab));
    let mut figures = overheads.collect::<Result<Vec<_>, _>>()?;
    let overheads: Vec<f64> = figures.iter().map(|figure| figure.value).collect();
    figures.push(Figure::alone("mean", mean(&overheads), ABOVE).paper(0.007));
    figures.push(Figure::alone("worst", at_share(overheads, 1.0), ABOVE).paper(0.030));
    figures.extend(daemon_shares(scale, lab)?);
    Ok(figures)
}

/// What one run of a load took.
struct Cost {
    cpu: f64,
    manager: f64,
    digest: u64,
}

fn overhead(load: &Load, scale: Scale, lab: &Lab<'_>) -> Result<Figure, LabError> {
    let count = count_for(load, scale, lab.seed);
    let (mut ours, mut rivals) = (Vec::new(), Vec::new());
    for pair in 1..=scale.pairs {
        let of = |arm| move || cost(load, arm, count, scale.bytes, lab);
        let (cost, greedy) = in_turns(pair, of(Arm::Ours), of(Arm::Greedy))?;
        if cost.digest != greedy.digest {
            return Err(LabError::Data(format!("{}: its results depend on how its faults are served", load.name)));
        }
        let (name, pairs, rival) = (load.name, scale.pairs, greedy.cpu);
        let own = format!("{:.3} s of CPU and {:.3} s of the manager", cost.cpu, cost.manager);
        lab.say(format!("{name}, pair {pair} of {pairs}: {own}, {rival:.3} s greedy"));
        ours.push(cost.cpu + cost.manager);
        rivals.push(rival);
    }
    let over = over(load.name, &ours, rivals, "THP=always, s of CPU");
    Ok(Figure { value: over.value - 1.0, unit: ABOVE, ..over })
}

/// How much work takes about the time of a run.
fn count_for(load: &Load, scale: Scale, seed: u64) -> u64 {
    let mut work = (load.begin)(scale.bytes, seed);
    let begun = Instant::now();
    work.work(TRIED);
    let rate = TRIED as f64 / begun.elapsed().as_secs_f64();
    (rate * scale.time.as_secs_f64()) as u64
}

fn cost(load: &Load, arm: Arm, count: u64, bytes: usize, lab: &Lab<'_>) -> Result<Cost, LabError> {
    let held = arm.hold(lab)?;
    let (cpu, manager) = (thread_cpu(), held.cpu());
    let mut work = (load.begin)(bytes, lab.seed);
    work.work(count);
    let digest = work.digest();
    drop(work);
    Ok(Cost { cpu: (thread_cpu() - cpu).as_secs_f64(), manager: (held.cpu() - manager).as_secs_f64(), digest })
}

/// The manager's share of a CPU beside a process that sleeps, and beside one that works and takes fresh memory.
fn daemon_shares(scale: Scale, lab: &Lab<'_>) -> Result<[Figure; 2], LabError> {
    room_up_to(scale.watched as u64 + loads::turnover(scale.watch), lab)?;
    let held = Arm::Ours.hold(lab)?;
    let mut work = (loads::ALL[0].begin)(scale.watched, lab.seed);
    // A promoted process is not idle.
    wait_stable(SETTLED, SETTLED_MOST, || huge_of("self"), PartialEq::eq);
    held.shares(work.as_mut(), scale.watch, lab)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_work_of_a_run_fits_its_time() {
        let scale = Scale { bytes: 1 << 20, time: Duration::from_millis(50), ..QUICK };
        for load in &loads::ALL {
            let count = count_for(load, scale, 1);
            assert!(count > 1000, "{}: {count}", load.name);
        }
    }
}
