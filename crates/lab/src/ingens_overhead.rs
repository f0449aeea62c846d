//! `ingens-overhead`: CPU time of loads that greedy huge pages serve well, beside our manager and with its CPU time,
//! over that with `THP=always`; and what the manager itself costs.

use std::time::{Duration, Instant};

use esker_base::units::MIB;

use crate::ingens::loads::{self, Load};
use crate::ingens::settings::keep_memory;
use crate::ingens::{Arm, FRESH, huge_of, room, room_up_to, thread_cpu, wait_stable};
use esker_lab_kit::{
    Experiment, Figure, LabError, Options, Peer,
    timing::{in_turns, median},
};

/// The record.
pub const EXPERIMENT: Experiment = Experiment {
    name: "ingens-overhead",
    summary: "CPU time of array, graph and request loads with the manager and its own, over THP=always",
    source: "Ingens, overhead without fragmentation: 0.7 % mean, 3.0 % worst; the project's own bars for the manager",
    simulated: false,
    rivals: &[],
    run,
};

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
const QUICK: Scale = Scale {
    pairs: 7,
    bytes: 64 * MIB as usize,
    time: Duration::from_millis(7_500),
    watched: 512 * MIB as usize,
    watch: Duration::from_secs(12),
};
const FULL: Scale = Scale {
    pairs: 5,
    bytes: 512 * MIB as usize,
    time: Duration::from_secs(60),
    watched: 10_240 * MIB as usize,
    watch: Duration::from_secs(120),
};
/// The load's speed is tried with so much work.
const TRIED: u64 = 1 << 20;
/// Everything is promoted that will be once nothing was for so long.
const SETTLED: Duration = Duration::from_secs(5);
const SETTLED_MOST: Duration = Duration::from_secs(120);

fn run(options: &Options, progress: &mut dyn FnMut(&str)) -> Result<Vec<Figure>, LabError> {
    let scale = if options.quick { QUICK } else { FULL };
    let _kept = keep_memory(options)?;
    room((scale.watched + FRESH) as u64, options)?;
    let mut figures = Vec::new();
    let mut overheads = Vec::new();
    for load in &loads::ALL {
        let figure = overhead(load, scale, options, progress)?;
        overheads.push(figure.value);
        figures.push(figure);
    }
    let unit = "of the CPU time with THP=always, above it";
    let mean = overheads.iter().sum::<f64>() / overheads.len() as f64;
    let worst = overheads.iter().copied().fold(f64::MIN, f64::max);
    figures.push(Figure::alone("mean", mean, unit).paper(0.007));
    figures.push(Figure::alone("worst", worst, unit).paper(0.030));
    figures.extend(daemon_shares(scale, options, progress)?);
    Ok(figures)
}

/// What one run of a load took.
struct Cost {
    cpu: f64,
    manager: f64,
    digest: u64,
}

fn overhead(load: &Load, scale: Scale, options: &Options, progress: &mut dyn FnMut(&str)) -> Result<Figure, LabError> {
    let count = count_for(load, scale, options.seed);
    let mut ratios = Vec::new();
    let mut rivals = Vec::new();
    for pair in 1..=scale.pairs {
        let of = |arm| move || cost(load, arm, count, scale.bytes, options);
        let (ours, greedy) = in_turns(pair, of(Arm::Ours), of(Arm::Greedy))?;
        if ours.digest != greedy.digest {
            return Err(LabError::Data(format!("{}: its results depend on how its faults are served", load.name)));
        }
        progress(&format!(
            "{}, pair {} of {}: {:.3} s of CPU and {:.3} s of the manager, {:.3} s greedy",
            load.name, pair, scale.pairs, ours.cpu, ours.manager, greedy.cpu
        ));
        ratios.push((ours.cpu + ours.manager) / greedy.cpu - 1.0);
        rivals.push(greedy.cpu);
    }
    let peer = Some(Peer { name: "THP=always, s of CPU".to_string(), value: median(rivals) });
    let unit = "of the CPU time with THP=always, above it";
    Ok(Figure::alone(load.name, median(ratios), unit).beside(peer))
}

/// How much work takes about the time of a run.
fn count_for(load: &Load, scale: Scale, seed: u64) -> u64 {
    let mut work = (load.begin)(scale.bytes, seed);
    let begun = Instant::now();
    work.work(TRIED);
    let rate = TRIED as f64 / begun.elapsed().as_secs_f64();
    (rate * scale.time.as_secs_f64()) as u64
}

fn cost(load: &Load, arm: Arm, count: u64, bytes: usize, options: &Options) -> Result<Cost, LabError> {
    let held = arm.hold(options)?;
    let (cpu, manager) = (thread_cpu(), held.cpu());
    let mut work = (load.begin)(bytes, options.seed);
    work.work(count);
    let digest = work.digest();
    drop(work);
    Ok(Cost { cpu: (thread_cpu() - cpu).as_secs_f64(), manager: (held.cpu() - manager).as_secs_f64(), digest })
}

/// The manager's share of a CPU beside a process that sleeps, and beside one that works and takes fresh memory.
fn daemon_shares(scale: Scale, options: &Options, progress: &mut dyn FnMut(&str)) -> Result<[Figure; 2], LabError> {
    room_up_to(scale.watched as u64 + loads::turnover(scale.watch), options)?;
    let held = Arm::Ours.hold(options)?;
    let mut work = (loads::ALL[0].begin)(scale.watched, options.seed);
    // A promoted process is not idle.
    wait_stable(SETTLED, SETTLED_MOST, || huge_of("self"), PartialEq::eq);
    held.shares(work.as_mut(), scale.watch, progress)
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
