//! `cleaning-policies`: write amplification of victim policies and of separation, in the cleaning crate's simulated
//! store.
//!
//! Five parts. Uniform overwrites against the published formula (`uniform_wa_error`: worst relative difference from 70
//! to 95 % live) and samples against their mean field (`choices_wa_error`). A tenth of the blocks with nine tenths of
//! the overwrites, from 60 to 90 % live, beside the floor of perfect separation (`paper` in those figures is that
//! floor). Other skews at 80 %. A hot set that moves. Snapshots and clones, whose blocks die when the last owner goes;
//! there the rival is the formula for uniform writes at the utilisation that was measured.
//!
//! *Best* is the lowest of the policies and placements listed here, which all know neither classes nor the future.

use esker_cleaning::analytic;
use esker_cleaning::model::load::{Load, Skew, TEN_NINETY};
use esker_cleaning::model::{Cleaner, Copies, Placement, Shape, SimulationPlan, Victims, run as simulate};
use esker_cleaning::policy::{Greedy, named};

use esker_lab_kit::{Experiment, Figure, LabError, Options, Peer};

/// The record.
pub const EXPERIMENT: Experiment = Experiment {
    name: "cleaning-policies",
    summary: "Write amplification of cleaning policies: utilisation, skew, drift, snapshots and clones, against theory",
    source: "Sprite-LFS, the thesis on NILFS2, SepBIT; Desnoyers 2012 and Van Houdt 2013; the project's own bars",
    simulated: true,
    rivals: &[],
    run,
};

/// Policy and placement; figures are named in this order.
const METHODS: [(&str, Placement); 5] = [
    ("timestamp", Placement::OneLog),
    ("greedy", Placement::OneLog),
    ("cost-benefit", Placement::OneLog),
    ("cost-benefit-2u", Placement::OneLog),
    ("cost-benefit", Placement::Lifetime),
];
/// Greedy's place in it.
const GREEDY: usize = 1;

const UNIFORM: [(f64, &str); 6] = [
    (0.70, "uniform_70"),
    (0.75, "uniform_75"),
    (0.80, "uniform_80"),
    (0.85, "uniform_85"),
    (0.90, "uniform_90"),
    (0.95, "uniform_95"),
];

const CHOICES: [(u32, &str); 4] = [(1, "choices_1"), (2, "choices_2"), (5, "choices_5"), (10, "choices_10")];

type Names = [&'static str; METHODS.len()];

const SKEWED: [(f64, Names); 6] = [
    (0.60, ["timestamp_60", "greedy_60", "cost_benefit_60", "cost_benefit_2u_60", "lifetime_60"]),
    (0.70, ["timestamp_70", "greedy_70", "cost_benefit_70", "cost_benefit_2u_70", "lifetime_70"]),
    (0.75, ["timestamp_75", "greedy_75", "cost_benefit_75", "cost_benefit_2u_75", "lifetime_75"]),
    (0.80, ["timestamp_80", "greedy_80", "cost_benefit_80", "cost_benefit_2u_80", "lifetime_80"]),
    (0.85, ["timestamp_85", "greedy_85", "cost_benefit_85", "cost_benefit_2u_85", "lifetime_85"]),
    (0.90, ["timestamp_90", "greedy_90", "cost_benefit_90", "cost_benefit_2u_90", "lifetime_90"]),
];

const ZIPF: [(f64, [&str; 2]); 3] = [
    (0.6, ["zipf_6_greedy", "zipf_6_best"]),
    (0.8, ["zipf_8_greedy", "zipf_8_best"]),
    (1.0, ["zipf_10_greedy", "zipf_10_best"]),
];

/// Overwrites in volumes after which the hot set moves on.
const DRIFT: [(f64, [&str; 2]); 4] = [
    (0.1, ["drift_01_greedy", "drift_01_lifetime"]),
    (0.25, ["drift_025_greedy", "drift_025_lifetime"]),
    (1.0, ["drift_1_greedy", "drift_1_lifetime"]),
    (5.0, ["drift_5_greedy", "drift_5_lifetime"]),
];

/// Copies that are kept, share of overwrites that go to copies, names.
const COPIES: [(usize, f64, [&str; 4]); 4] = [
    (1, 0.0, ["snapshots_1_greedy", "snapshots_1_cost_benefit", "snapshots_1_unaware", "snapshots_1_lifetime"]),
    (2, 0.0, ["snapshots_2_greedy", "snapshots_2_cost_benefit", "snapshots_2_unaware", "snapshots_2_lifetime"]),
    (4, 0.0, ["snapshots_4_greedy", "snapshots_4_cost_benefit", "snapshots_4_unaware", "snapshots_4_lifetime"]),
    (4, 0.2, ["clones_4_greedy", "clones_4_cost_benefit", "clones_4_unaware", "clones_4_lifetime"]),
];
const WITH_COPIES: [(&str, Placement); 4] = [
    ("greedy", Placement::OneLog),
    ("cost-benefit", Placement::OneLog),
    ("cost-benefit", Placement::LifetimeUnaware),
    ("cost-benefit", Placement::Lifetime),
];

const UNIT: &str = "blocks written per new block";

/// Segments, their blocks, and how many of them are kept free.
const SEGMENTS: u32 = 600;
const BLOCKS: u32 = 256;
const FREE: u32 = 6;

fn run(options: &Options, progress: &mut dyn FnMut(&str)) -> Result<Vec<Figure>, LabError> {
    let mut figures = Vec::new();
    uniform(options, progress, &mut figures);
    sampled(options, progress, &mut figures);
    skewed(options, progress, &mut figures);
    for (theta, names) in ZIPF {
        let load = Load::steady(Skew::Zipf { theta });
        let values = METHODS.map(|method| amplification(&SimulationPlan { load, ..plan(options, 0.8, method) }));
        progress(&format!("Zipf {theta} at 80 %: {values:.3?}"));
        figures.push(Figure::alone(names[0], values[GREEDY], UNIT));
        figures.push(Figure::alone(names[1], least(&values), UNIT));
    }
    for (drift, names) in DRIFT {
        let load = Load { skew: TEN_NINETY, drift: Some(drift) };
        let methods = [METHODS[GREEDY], METHODS[METHODS.len() - 1]];
        let values = methods.map(|method| amplification(&SimulationPlan { load, ..plan(options, 0.75, method) }));
        progress(&format!("the hot set moves after {drift} volumes, 75 %: greedy and lifetime {values:.3?}"));
        figures.extend(names.into_iter().zip(values).map(|(id, value)| Figure::alone(id, value, UNIT)));
    }
    copies(options, progress, &mut figures);
    Ok(figures)
}

/// The store in which the policies were calibrated; a quick run is shorter.
fn plan(options: &Options, live: f64, (policy, placement): (&str, Placement)) -> SimulationPlan<'static> {
    let rounds = if options.quick { 10.0 } else { 30.0 };
    SimulationPlan {
        shape: Shape { segments: SEGMENTS, blocks: BLOCKS, live },
        cleaner: Cleaner { low: FREE, high: 0, victims: 4 },
        victims: Victims::Best(named(policy).expect("the list names policies of the crate")),
        placement,
        load: Load::steady(TEN_NINETY),
        copies: None,
        rounds,
        seed: options.seed,
    }
}

fn amplification(plan: &SimulationPlan<'_>) -> f64 {
    simulate(plan).write_amplification()
}

/// Live share of the segments that can hold data.
fn usable(live: f64) -> f64 {
    live * f64::from(SEGMENTS) / f64::from(SEGMENTS - FREE)
}

fn least(values: &[f64]) -> f64 {
    values.iter().copied().fold(f64::INFINITY, f64::min)
}

fn uniform(options: &Options, progress: &mut dyn FnMut(&str), figures: &mut Vec<Figure>) {
    let mut worst: f64 = 0.0;
    for (live, id) in UNIFORM {
        let load = Load::steady(Skew::Uniform);
        let value = amplification(&SimulationPlan { load, rounds: 6.0, ..plan(options, live, METHODS[GREEDY]) });
        let expected = analytic::uniform(usable(live));
        worst = worst.max((value / expected - 1.0).abs());
        progress(&format!("{id}: {value:.3}, formula {expected:.3}"));
        figures.push(Figure::alone(id, value, UNIT).paper(expected));
    }
    figures.push(Figure::alone("uniform_wa_error", worst, "worst relative difference"));
}

fn sampled(options: &Options, progress: &mut dyn FnMut(&str), figures: &mut Vec<Figure>) {
    let mut worst: f64 = 0.0;
    for (choices, id) in CHOICES {
        let (load, victims) = (Load::steady(Skew::Uniform), Victims::Sampled(&Greedy, choices));
        let value =
            amplification(&SimulationPlan { load, victims, rounds: 6.0, ..plan(options, 0.8, METHODS[GREEDY]) });
        let expected = analytic::choices(usable(0.8), choices);
        worst = worst.max((value / expected - 1.0).abs());
        progress(&format!("{id}: {value:.3}, mean field {expected:.3}"));
        figures.push(Figure::alone(id, value, UNIT).paper(expected));
    }
    figures.push(Figure::alone("choices_wa_error", worst, "worst relative difference"));
}

fn skewed(options: &Options, progress: &mut dyn FnMut(&str), figures: &mut Vec<Figure>) {
    for (live, names) in SKEWED {
        let floor = analytic::separated(usable(live), 0.1, 0.9);
        let values = METHODS.map(|method| amplification(&plan(options, live, method)));
        progress(&format!("10/90 at {:.0} %: {values:.3?}, floor {floor:.3}", live * 100.0));
        figures.extend(names.into_iter().zip(values).map(|(id, value)| Figure::alone(id, value, UNIT).paper(floor)));
        let best = least(&values);
        let against = |id, name: &str, value: f64| Figure::alone(id, best / value, "ratio").peer(name, value);
        let floor_name = "floor of perfect separation, analytic";
        match names[GREEDY] {
            "greedy_75" => figures.push(against("best_over_floor_75", floor_name, floor)),
            "greedy_80" => figures.push(against("best_over_greedy_80", "greedy, same run", values[GREEDY])),
            "greedy_90" => figures.push(against("best_over_floor_90", floor_name, floor)),
            _ => (),
        }
    }
}

fn copies(options: &Options, progress: &mut dyn FnMut(&str), figures: &mut Vec<Figure>) {
    for (keep, written, names) in COPIES {
        for (id, method) in names.into_iter().zip(WITH_COPIES) {
            let copies = Some(Copies { every: 0.1, keep, written });
            let outcome = simulate(&SimulationPlan { copies, ..plan(options, 0.65, method) });
            let value = outcome.write_amplification();
            progress(&format!("{id}: {value:.3} with {:.1} % live", outcome.live * 100.0));
            let name = format!("formula for uniform overwrites at {:.1} % live", outcome.live * 100.0);
            let peer = Some(Peer { name, value: analytic::uniform(usable(outcome.live)) });
            figures.push(Figure::alone(id, value, UNIT).beside(peer));
        }
    }
}
