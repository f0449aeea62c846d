//! `lfs-hotcold`: what cleaning costs a log-structured file system with hot and cold blocks: policies, targets of
//! passes, late aborts, age sort and a log for moved blocks.
//!
//! A tenth of the blocks gets nine tenths of the overwrites. The cleaner works in short passes, one step whenever 1 %
//! of the segments is clean, or goes on until a share of them is. Write amplification (WA) is blocks written for each
//! new one; the second half of the overwrites counts.
//!
//! All figures are *simulated*, by the store of the cleaning crate: it has no metadata, no checkpoints and no time.
//! A [`Cell`] says what is measured, and [`figures`] takes what measures it. So a served file system can measure the
//! same cells later, under a prefix of its own.

use std::collections::BTreeMap;

use esker_cleaning::model::load::{Load, Skew, TEN_NINETY};
use esker_cleaning::model::{Cleaner, Placement, Shape, SimulationPlan, Victims, run as simulate};
use esker_cleaning::policy::named;

use esker_lab_kit::{Figure, Lab, LabError};

/// Live percent of cells with short passes.
const SHORT: [u32; 7] = [50, 60, 70, 75, 80, 85, 90];
/// Live percent, and percent of the segments that are clean behind a pass.
const LONG: [(u32, u32); 7] = [(60, 5), (60, 20), (70, 10), (70, 20), (75, 5), (75, 20), (78, 20)];
/// Live percent of uniform overwrites.
const UNIFORM: [u32; 3] = [75, 82, 90];
/// Live percent at which placements are compared.
const PLACED: [u32; 2] = [75, 90];

const POLICIES: [&str; 5] = ["timestamp", GREEDY, COST_BENEFIT, "cost-benefit-2u", ADAPTIVE];
const GREEDY: &str = "greedy";
const COST_BENEFIT: &str = "cost-benefit";
const ADAPTIVE: &str = "adaptive";

/// Of the disk, what is never overwritten in the cells of late aborts, and what is live there in all.
const STILL: f64 = 0.2;
const LIVE_BESIDE_STILL: u32 = 70;
/// Dead share of a batch below which it is given up late.
const LATE_ABORT: f64 = 0.1;

const SEGMENTS: u32 = 600;
const BLOCKS: u32 = 256;
const FREE: u32 = 6;
const UNIT: &str = "blocks written per new block";

/// What is measured.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Cell {
    policy: &'static str,
    /// Percent of the blocks.
    live: u32,
    /// Percent of the segments that are clean behind a pass; 0: each pass is one step.
    target: u32,
    placement: Placement,
    skew: Skew,
    /// Share of the disk that is never overwritten.
    still: f64,
    /// Dead share of a batch below which it is given up late.
    least: f64,
}

impl Cell {
    /// Short passes over hot and cold blocks in one log.
    fn short(policy: &'static str, live: u32) -> Cell {
        Cell { policy, live, target: 0, placement: Placement::OneLog, skew: TEN_NINETY, still: 0.0, least: 0.0 }
    }
}

/// Answers the write amplification of a cell.
type Measure<'a> = dyn Fn(&Cell) -> Result<f64, LabError> + 'a;

pub(crate) fn run(lab: &Lab<'_>) -> Result<Vec<Figure>, LabError> {
    figures(lab, "", &|cell| Ok(simulated(lab, cell)))
}

/// All figures of one store; their names begin with `prefix`.
fn figures(lab: &Lab<'_>, prefix: &str, measure: &Measure<'_>) -> Result<Vec<Figure>, LabError> {
    let mut all = policies(lab, measure)?;
    all.push(uniform(lab, measure)?);
    all.extend(late_abort(lab, measure)?);
    all.extend(placements(lab, measure)?);
    all.iter_mut().for_each(|figure| figure.id = format!("{prefix}{}", figure.id));
    Ok(all)
}

/// All policies, with short and with long passes.
fn policies(lab: &Lab<'_>, measure: &Measure<'_>) -> Result<Vec<Figure>, LabError> {
    let cells = SHORT.map(|live| (live, 0)).into_iter().chain(LONG);
    let (mut all, mut values) = (Vec::new(), BTreeMap::new());
    for (live, target) in cells {
        let place = if target == 0 { format!("{live}") } else { format!("{live}_to_{target}") };
        for policy in POLICIES {
            let value = measure(&Cell { target, ..Cell::short(policy, live) })?;
            values.insert((live, target, policy), value);
            all.push(Figure::alone(format!("{}_{place}", policy.replace('-', "_")), value, UNIT));
        }
        let told = POLICIES.map(|policy| format!("{policy} {:.3}", values[&(live, target, policy)]));
        lab.say(format!("{live} % live, target {target} %: {}", told.join(", ")));
    }
    let ratio = |id: &str, (live, target): (u32, u32), over: &'static str, under: &'static str| {
        let of = |policy| values[&(live, target, policy)];
        Figure::alone(id, of(over) / of(under), "ratio").peer(format!("{under}, same cell"), of(under))
    };
    all.push(ratio("cb_over_greedy_75", (75, 0), COST_BENEFIT, GREEDY));
    all.push(ratio("cb_over_greedy_85", (85, 0), COST_BENEFIT, GREEDY));
    all.push(ratio("greedy_over_cb_target20", (75, 20), GREEDY, COST_BENEFIT));
    let over_best = |(live, target, policy): &(u32, u32, &str), value: &f64| {
        let of = |policy| values[&(*live, *target, policy)];
        (*policy == ADAPTIVE).then(|| value / of(GREEDY).min(of(COST_BENEFIT)))
    };
    let over_best: Vec<f64> = values.iter().filter_map(|(cell, value)| over_best(cell, value)).collect();
    let worst = over_best.iter().copied().fold(0.0, f64::max);
    all.push(Figure::alone("adaptive_worst_over_best", worst, "ratio to the better one of greedy and cost-benefit"));
    let better = over_best.iter().filter(|ratio| **ratio < 1.0).count();
    all.push(Figure::alone("adaptive_cells_better", better as f64, "cells in which it beats both"));
    Ok(all)
}

/// How far policies are apart where all blocks are alike.
fn uniform(lab: &Lab<'_>, measure: &Measure<'_>) -> Result<Figure, LabError> {
    let mut worst: f64 = 0.0;
    for live in UNIFORM {
        let of = |policy| measure(&Cell { skew: Skew::Uniform, ..Cell::short(policy, live) });
        let values = POLICIES.iter().map(|policy| of(*policy)).collect::<Result<Vec<f64>, _>>()?;
        let most = values.iter().copied().fold(0.0, f64::max);
        let least = values.iter().copied().fold(f64::INFINITY, f64::min);
        lab.say(format!("uniform at {live} %: {values:.3?}"));
        worst = worst.max(most / least - 1.0);
    }
    Ok(Figure::alone("uniform_spread", worst, "largest relative difference of two policies"))
}

/// Oldest first beside data that are never overwritten, with and without late aborts. Other policies leave such
/// segments alone, so that they save nothing.
fn late_abort(lab: &Lab<'_>, measure: &Measure<'_>) -> Result<Vec<Figure>, LabError> {
    let mut all = Vec::new();
    for (id, policy) in [
        ("late_abort_saves", "timestamp"),
        ("late_abort_saves_greedy", GREEDY),
        ("late_abort_saves_cost_benefit", COST_BENEFIT),
    ] {
        let cell = Cell { still: STILL, ..Cell::short(policy, LIVE_BESIDE_STILL) };
        let (without, with) = (measure(&cell)?, measure(&Cell { least: LATE_ABORT, ..cell })?);
        lab.say(format!("{policy} beside a fifth that rests: {without:.3}, with late aborts {with:.3}"));
        all.push(saves(id, with, without, "the same without late aborts"));
    }
    Ok(all)
}

/// Cost-benefit with moved blocks sorted by age, in a log of their own, and both.
fn placements(lab: &Lab<'_>, measure: &Measure<'_>) -> Result<Vec<Figure>, LabError> {
    let (mut all, mut streams) = (Vec::new(), Vec::new());
    for live in PLACED {
        let of = |placement| measure(&Cell { placement, ..Cell::short(COST_BENEFIT, live) });
        let plain = of(Placement::OneLog)?;
        let (sorted, apart) = (of(Placement::OneLogSorted)?, of(Placement::MovedApart)?);
        let both = of(Placement::MovedApartSorted)?;
        lab.say(format!("cost-benefit at {live} %: {plain:.3}; sorted {sorted:.3}, apart {apart:.3}, both {both:.3}"));
        let saves = |id: &str, with| saves(&format!("{id}_{live}"), with, plain, "one log, not sorted");
        streams.push(1.0 - apart / plain);
        all.extend([
            saves("age_sort_saves", sorted),
            saves("gc_stream_saves", apart),
            saves("age_sort_and_stream_save", both),
        ]);
    }
    let least = streams.into_iter().fold(f64::INFINITY, f64::min);
    all.push(Figure::alone("gc_stream_saves", least, "share of the blocks written, where it saves least"));
    Ok(all)
}

fn saves(id: &str, with: f64, without: f64, name: &str) -> Figure {
    Figure::alone(id, 1.0 - with / without, "share of the blocks written").peer(name, without)
}

/// The cell in the store of the cleaning crate.
fn simulated(lab: &Lab<'_>, cell: &Cell) -> f64 {
    let Cell { policy, live, target, placement, skew, still, least } = *cell;
    let live = f64::from(live) / 100.0;
    // Long passes take longer to settle. Uniform overwrites settle at once.
    let rounds = match skew {
        Skew::Uniform => 6.0,
        Skew::HotCold { .. } | Skew::Zipf { .. } if target > 0 => lab.scale(16.0, 20.0),
        Skew::HotCold { .. } | Skew::Zipf { .. } => lab.scale(10.0, 30.0),
    };
    let plan = SimulationPlan {
        shape: Shape { segments: SEGMENTS, blocks: BLOCKS, live },
        cleaner: Cleaner { low: FREE, high: SEGMENTS * target / 100, victims: 4, least },
        victims: Victims::Best(named(policy).expect("the list names policies of the crate")),
        placement,
        load: Load::steady(skew),
        still: still / live,
        copies: None,
        rounds,
        seed: lab.seed,
    };
    simulate(&plan).write_amplification()
}

#[cfg(test)]
mod tests {
    use super::*;
    use esker_lab_kit::Options;

    /// Figures of a store whose costs are known.
    fn known(prefix: &str) -> BTreeMap<String, f64> {
        let options = Options { quick: true, seed: 1, scratch: ".".into() };
        let mut quiet = |_: &str| ();
        let lab = Lab::new(&options, &mut quiet);
        let measure = |cell: &Cell| {
            let wa = match (cell.policy, cell.skew) {
                (_, Skew::Uniform) => 2.0 + f64::from(u8::from(cell.policy == GREEDY)) * 0.01,
                ("timestamp", _) => 4.0 - 4.0 * cell.least,
                (COST_BENEFIT, _) if cell.target == 20 => 3.0,
                (ADAPTIVE, _) if cell.live == 78 => 2.5,
                (COST_BENEFIT | "cost-benefit-2u", _) => 1.6,
                (ADAPTIVE, _) => 1.5,
                _ => 2.0,
            };
            let placed = match cell.placement {
                Placement::MovedApart if cell.live == 90 => 0.95,
                Placement::MovedApart | Placement::OneLogSorted => 0.9,
                _ => 1.0,
            };
            Ok(wa * placed)
        };
        let figures = figures(&lab, prefix, &measure).unwrap();
        figures.into_iter().map(|figure| (figure.id, figure.value)).collect()
    }

    #[test]
    fn figures_compare_the_cells_that_their_names_tell() {
        let found = known("");
        for (id, expected) in [
            ("cb_over_greedy_75", 0.8),
            ("cb_over_greedy_85", 0.8),
            ("greedy_over_cb_target20", 2.0 / 3.0),
            ("uniform_spread", 0.005),
            ("late_abort_saves", 0.1),
            ("late_abort_saves_greedy", 0.0),
            ("age_sort_saves_75", 0.1),
            ("age_sort_saves_90", 0.1),
            ("gc_stream_saves", 0.05),
            ("gc_stream_saves_75", 0.1),
            ("adaptive_worst_over_best", 1.25),
            ("adaptive_cells_better", 13.0),
        ] {
            assert!((found[id] - expected).abs() < 1e-9, "{id}: {}", found[id]);
        }
    }

    #[test]
    fn another_store_has_a_prefix_of_its_own() {
        let names = |prefix: &str| known(prefix).into_keys().collect::<Vec<_>>();
        let expected: Vec<String> = names("").iter().map(|id| format!("served_{id}")).collect();
        assert_eq!(names("served_"), expected);
    }
}
