//! `ingens-khugepaged`: how much of the speed-up that greedy faults give is had by managers that come after the fault,
//! in the same time.
//!
//! Greedy faults hide what a promoter in the background does: with `THP=always` there is hardly anything left for
//! khugepaged. So its memory is written while no fault may take a huge page, and only then is it let loose; the time
//! that counts begins there, for all. The manager is there from the beginning, as greedy faults are, since it goes by
//! the signals of the first writes. Under `THP=madvise` programs get what they ask for, and this one asks for nothing,
//! as most do.

use std::time::{Duration, Instant};

use esker_base::units::MIB;

use crate::ingens::loads::{self, Load};
use crate::ingens::settings::keep_memory;
use crate::ingens::{Arm, huge_of, room};
use esker_lab_kit::{Experiment, Figure, LabError, Options, Peer, timing::median};

/// The record.
pub const EXPERIMENT: Experiment = Experiment {
    name: "ingens-khugepaged",
    summary: "Speed-up of greedy faults that madvise, khugepaged (slow, fast) and the manager give in the same time",
    source: "Ingens, asynchronous promotion alone; the specification's bars: 1/4 at most without signals of faults, 90 % with",
    simulated: false,
    rivals: &[],
    run,
};

/// What makes huge pages: while memory is written, and from then on.
struct Promoter {
    name: &'static str,
    first: Arm,
    then: Arm,
    /// Id of its huge pages.
    huge: &'static str,
    /// Id of its share of greedy's speed-up.
    gain: Option<&'static str>,
}

const fn promoter(name: &'static str, first: Arm, then: Arm, huge: &'static str) -> Promoter {
    Promoter { name, first, then, huge, gain: None }
}

const ALL: usize = 6;
const PROMOTERS: [Promoter; ALL] = [
    promoter("base pages", Arm::Base, Arm::Base, "huge_base"),
    promoter("THP=always", Arm::Greedy, Arm::Greedy, "huge_greedy"),
    Promoter {
        gain: Some("gain_over_greedy_madvise"),
        ..promoter("THP=madvise", Arm::Advised, Arm::Advised, "huge_madvise")
    },
    Promoter {
        gain: Some("gain_over_greedy_khugepaged"),
        ..promoter("khugepaged", Arm::Base, Arm::Khugepaged, "huge_khugepaged")
    },
    Promoter {
        gain: Some("gain_over_greedy_khugepaged_fast"),
        ..promoter("khugepaged, fast", Arm::Base, Arm::KhugepagedFast, "huge_khugepaged_fast")
    },
    Promoter { gain: Some("gain_over_greedy_ours"), ..promoter("the manager", Arm::Ours, Arm::Ours, "huge_ours") },
];
const BASE: usize = 0;
const GREEDY: usize = 1;
/// Work between two looks at the clock.
const BATCH: u64 = 1 << 16;

/// What one did for a load, or for all of them on an average.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Run {
    /// Speed over that in base pages, less 1; as long as that is not known, the speed.
    gain: f64,
    /// Of its memory, in huge pages at the end.
    huge_share: f64,
}

fn run(options: &Options, progress: &mut dyn FnMut(&str)) -> Result<Vec<Figure>, LabError> {
    let (rounds, bytes, time, loads) = match options.quick {
        true => (3, 512 * MIB, Duration::from_secs(6), &loads::ALL[..1]),
        false => (5, 1024 * MIB, Duration::from_secs(30), &loads::ALL[..]),
    };
    let _kept = keep_memory(options)?;
    room(bytes, options)?;
    let mut seen = Vec::new();
    for round in 0..rounds {
        let mut of_loads = Vec::new();
        for load in loads {
            let runs = turns(load, round, bytes as usize, time, options, progress)?;
            of_loads.push(over_base(runs));
        }
        seen.push(mean_of(&of_loads));
    }
    Ok(figures_of(&seen))
}

/// All once, by their places; the first turn goes around.
fn turns(
    load: &Load,
    round: usize,
    bytes: usize,
    time: Duration,
    options: &Options,
    progress: &mut dyn FnMut(&str),
) -> Result<[Run; ALL], LabError> {
    let mut runs = [Run { gain: 0.0, huge_share: 0.0 }; ALL];
    for turn in 0..ALL {
        let at = (round + turn) % ALL;
        runs[at] = measure(load, &PROMOTERS[at], bytes, time, options)?;
        let (name, who, Run { gain, huge_share }) = (load.name, PROMOTERS[at].name, runs[at]);
        progress(&format!("{name}, round {}, {who}: {gain:.0} a second, {huge_share:.2} huge at the end", round + 1));
    }
    Ok(runs)
}

fn measure(load: &Load, promoter: &Promoter, bytes: usize, time: Duration, options: &Options) -> Result<Run, LabError> {
    let before = huge_of("self");
    let mut held = promoter.first.hold(options)?;
    let mut work = (load.begin)(bytes, options.seed);
    if promoter.first != promoter.then {
        drop(held);
        held = promoter.then.hold(options)?;
    }
    let (begun, mut done) = (Instant::now(), 0);
    while begun.elapsed() < time {
        work.work(BATCH);
        done += BATCH;
    }
    let rate = done as f64 / begun.elapsed().as_secs_f64();
    let huge_share = huge_of("self").saturating_sub(before) as f64 / bytes as f64;
    drop(work);
    drop(held);
    Ok(Run { gain: rate, huge_share })
}

/// Speeds are compared within a round of one load, since a machine is faster in one minute than in the next.
fn over_base(runs: [Run; ALL]) -> [Run; ALL] {
    runs.map(|run| Run { gain: run.gain / runs[BASE].gain - 1.0, ..run })
}

fn mean_of(loads: &[[Run; ALL]]) -> [Run; ALL] {
    let mean = |get: &dyn Fn(&[Run; ALL]) -> f64| loads.iter().map(get).sum::<f64>() / loads.len() as f64;
    std::array::from_fn(|at| Run { gain: mean(&|runs| runs[at].gain), huge_share: mean(&|runs| runs[at].huge_share) })
}

fn figures_of(rounds: &[[Run; ALL]]) -> Vec<Figure> {
    let middle = |at: usize, get: fn(&Run) -> f64| median(rounds.iter().map(|runs| get(&runs[at])).collect());
    let greedy = middle(GREEDY, |run| run.gain);
    let mut figures = vec![Figure::alone("gain_greedy", greedy, "speed over base pages, less 1")];
    for (at, promoter) in PROMOTERS.iter().enumerate() {
        let peer = || Some(Peer { name: "THP=always, speed over base pages, less 1".to_string(), value: greedy });
        let of_gain = |id| Figure::alone(id, middle(at, |run| run.gain) / greedy, "ratio").beside(peer());
        figures.extend(promoter.gain.map(of_gain));
        figures.push(Figure::alone(promoter.huge, middle(at, |run| run.huge_share), "of its memory, at the end"));
    }
    figures
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_of_a_speed_up_are_taken_within_rounds() {
        // The machine is half as fast in the second round; speeds over base pages are 1, 2, 1, 1.2, 1.8 and 2.
        let round = |speed: f64| {
            let huge = [0.0, 1.0, 0.0, 0.2, 0.9, 1.0];
            over_base(huge.map(|huge_share| Run { gain: speed * (1.0 + huge_share), huge_share }))
        };
        let figures = figures_of(&[round(100.0), mean_of(&[round(50.0), round(25.0)])]);
        let value = |id| figures.iter().find(|figure| figure.id == id).expect("it is told").value;
        assert_eq!(value("gain_greedy"), 1.0);
        assert!((value("gain_over_greedy_khugepaged") - 0.2).abs() < 1e-12);
        assert!((value("gain_over_greedy_khugepaged_fast") - 0.9).abs() < 1e-12);
        assert_eq!((value("gain_over_greedy_ours"), value("gain_over_greedy_madvise")), (1.0, 0.0));
        assert_eq!((value("huge_base"), value("huge_khugepaged_fast")), (0.0, 0.9));
    }
}
