//! `ingens-khugepaged`: how much of the speed-up that greedy faults give is had by managers that come after the fault,
//! in the same time.
//!
//! Greedy faults hide what a promoter in the background does: with `THP=always` there is hardly anything left for
//! khugepaged. So its memory is written while no fault may take a huge page, and only then is it let loose; the time
//! that counts begins there, for all. The manager is there from the beginning, as greedy faults are, since it goes by
//! the signals of the first writes. Under `THP=madvise` programs get what they ask for, and this one asks for
//! nothing, as most do.

use std::time::{Duration, Instant};

use esker_base::units::MIB;

use crate::ingens::loads::{self, Load};
use crate::ingens::settings::keep_memory;
use crate::ingens::{Arm, huge_of, room};
use esker_lab_kit::timing::{mean, median};
use esker_lab_kit::{Figure, Lab, LabError};

/// What makes huge pages: while memory is written, and from then on.
struct Promoter {
    /// In names of figures.
    word: &'static str,
    name: &'static str,
    first: Arm,
    then: Arm,
}

const fn promoter(word: &'static str, name: &'static str, first: Arm, then: Arm) -> Promoter {
    Promoter { word, name, first, then }
}

const ALL: usize = 6;
const PROMOTERS: [Promoter; ALL] = [
    promoter("base", "base pages", Arm::Base, Arm::Base),
    promoter("greedy", "THP=always", Arm::Greedy, Arm::Greedy),
    promoter("madvise", "THP=madvise", Arm::Advised, Arm::Advised),
    promoter("khugepaged", "khugepaged", Arm::Base, Arm::Khugepaged),
    promoter("khugepaged_fast", "khugepaged, fast", Arm::Base, Arm::KhugepagedFast),
    promoter("ours", "the manager", Arm::Ours, Arm::Ours),
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

pub(crate) fn run(lab: &Lab<'_>) -> Result<Vec<Figure>, LabError> {
    let (rounds, bytes, time, loads) = match lab.quick {
        true => (3, 512 * MIB, Duration::from_secs(6), &loads::ALL[..1]),
        false => (5, 1024 * MIB, Duration::from_secs(30), &loads::ALL[..]),
    };
    let _kept = keep_memory(lab)?;
    room(bytes, lab)?;
    let mut seen = Vec::new();
    for round in 0..rounds {
        let turns = |load| turns(load, round, bytes as usize, time, lab).map(over_base);
        seen.push(mean_of(&loads.iter().map(turns).collect::<Result<Vec<_>, _>>()?));
    }
    Ok(figures_of(&seen))
}

/// Each promoter once, the first place going around.
fn turns(load: &Load, round: usize, bytes: usize, time: Duration, lab: &Lab<'_>) -> Result<[Run; ALL], LabError> {
    let mut runs = [Run { gain: 0.0, huge_share: 0.0 }; ALL];
    for turn in 0..ALL {
        let at = (round + turn) % ALL;
        runs[at] = measure(load, &PROMOTERS[at], bytes, time, lab)?;
        let (name, who, Run { gain, huge_share }) = (load.name, PROMOTERS[at].name, runs[at]);
        lab.say(format!("{name}, round {}, {who}: {gain:.0} a second, {huge_share:.2} huge at the end", round + 1));
    }
    Ok(runs)
}

fn measure(load: &Load, promoter: &Promoter, bytes: usize, time: Duration, lab: &Lab<'_>) -> Result<Run, LabError> {
    let before = huge_of("self");
    let mut held = promoter.first.hold(lab)?;
    let mut work = (load.begin)(bytes, lab.seed);
    if promoter.first != promoter.then {
        drop(held);
        held = promoter.then.hold(lab)?;
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
    let of = |at: usize, get: fn(&Run) -> f64| mean(&loads.iter().map(|runs| get(&runs[at])).collect::<Vec<_>>());
    std::array::from_fn(|at| Run { gain: of(at, |run| run.gain), huge_share: of(at, |run| run.huge_share) })
}

fn figures_of(rounds: &[[Run; ALL]]) -> Vec<Figure> {
    let middle = |at: usize, get: fn(&Run) -> f64| median(rounds.iter().map(|runs| get(&runs[at])).collect());
    let greedy = middle(GREEDY, |run| run.gain);
    let mut figures = vec![Figure::alone("gain_greedy", greedy, "speed over base pages, less 1")];
    for (at, Promoter { word, .. }) in PROMOTERS.iter().enumerate() {
        if at > GREEDY {
            let (id, share) = (format!("gain_over_greedy_{word}"), middle(at, |run| run.gain) / greedy);
            figures.push(Figure::alone(id, share, "ratio").peer("THP=always, speed over base pages, less 1", greedy));
        }
        let huge = middle(at, |run| run.huge_share);
        figures.push(Figure::alone(format!("huge_{word}"), huge, "of its memory, at the end"));
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
