//! `cleaning-policies`: write amplification of victim policies and of separation, in the cleaning crate's simulated
//! store.
//!
//! Five parts. Uniform overwrites against the published formula (`uniform_wa_error`: worst relative difference from
//! 70 to 95 % live) and samples against their mean field (`choices_wa_error`). A tenth of the blocks with nine tenths
//! of the overwrites, from 60 to 90 % live, beside the floor of perfect separation (`paper` in those figures is that
//! floor). Other skews at 80 %. A hot set that moves. Snapshots and clones, whose blocks die when the last owner
//! goes; there the rival is the formula for uniform writes at the utilisation that was measured.
//!
//! *Best* is the lowest of the policies and placements listed here, which all know neither classes nor the future.

use esker_cleaning::analytic;
use esker_cleaning::model::load::{Load, Skew, TEN_NINETY};
use esker_cleaning::model::{Cleaner, Copies, Placement, Shape, SimulationPlan, Victims, run as simulate};
use esker_cleaning::policy::{Greedy, named};

use esker_lab_kit::{Figure, Lab, LabError, timing::worst};

/// The word for it in names of figures, policy, and placement.
type Method = (&'static str, &'static str, Placement);

/// Figures are named in this order.
const METHODS: [Method; 5] = [
    ("timestamp", "timestamp", Placement::OneLog),
    GREEDY,
    COST_BENEFIT,
    ("cost_benefit_2u", "cost-benefit-2u", Placement::OneLog),
    LIFETIME,
];
const GREEDY: Method = ("greedy", "greedy", Placement::OneLog);
const COST_BENEFIT: Method = ("cost_benefit", "cost-benefit", Placement::OneLog);
const LIFETIME: Method = ("lifetime", "cost-benefit", Placement::Lifetime);
const UNAWARE: Method = ("unaware", "cost-benefit", Placement::LifetimeUnaware);

/// Live percent of uniform overwrites, and of a tenth of the blocks with nine tenths of the overwrites.
const UNIFORM: [u32; 6] = [70, 75, 80, 85, 90, 95];
const SKEWED: [u32; 6] = [60, 70, 75, 80, 85, 90];

/// Sizes of the samples from which victims are chosen.
const CHOICES: [u32; 4] = [1, 2, 5, 10];

/// Zipf's exponent, and the word for it.
const ZIPF: [(f64, u32); 3] = [(0.6, 6), (0.8, 8), (1.0, 10)];

/// Overwrites in volumes after which the hot set moves on, and the word for them.
const DRIFT: [(f64, &str); 4] = [(0.1, "01"), (0.25, "025"), (1.0, "1"), (5.0, "5")];

/// The word for them, copies that are kept, and the share of overwrites that go to copies.
const COPIES: [(&str, usize, f64); 4] =
    [("snapshots_1", 1, 0.0), ("snapshots_2", 2, 0.0), ("snapshots_4", 4, 0.0), ("clones_4", 4, 0.2)];

const UNIT: &str = "blocks written per new block";

/// Segments, their blocks, and how many of them are kept free.
const SEGMENTS: u32 = 600;
const BLOCKS: u32 = 256;
const FREE: u32 = 6;

pub(crate) fn run(lab: &Lab<'_>) -> Result<Vec<Figure>, LabError> {
    let uniform = UNIFORM.map(|percent| {
        let live = share(percent);
        (format!("uniform_{percent}"), analytic::uniform(usable(live)), plan(lab, live, GREEDY))
    });
    let mut figures = by_formula(lab, ["uniform_wa_error", "formula"], &uniform);
    let sampled = CHOICES.map(|choices| {
        let plan = SimulationPlan { victims: Victims::Sampled(&Greedy, choices), ..plan(lab, 0.8, GREEDY) };
        (format!("choices_{choices}"), analytic::choices(usable(0.8), choices), plan)
    });
    figures.extend(by_formula(lab, ["choices_wa_error", "mean field"], &sampled));
    SKEWED.iter().for_each(|percent| figures.extend(skewed(lab, *percent)));
    for (theta, word) in ZIPF {
        let load = Load::steady(Skew::Zipf { theta });
        let values = METHODS.map(|method| amplification(&SimulationPlan { load, ..plan(lab, 0.8, method) }));
        lab.say(format!("Zipf {theta} at 80 %: {values:.3?}"));
        figures.push(Figure::alone(format!("zipf_{word}_greedy"), values[1], UNIT));
        figures.push(Figure::alone(format!("zipf_{word}_best"), least(&values), UNIT));
    }
    for (drift, word) in DRIFT {
        let load = Load { skew: TEN_NINETY, drift: Some(drift) };
        let methods = [GREEDY, LIFETIME];
        let values = methods.map(|method| amplification(&SimulationPlan { load, ..plan(lab, 0.75, method) }));
        lab.say(format!("the hot set moves after {drift} volumes, 75 %: greedy and lifetime {values:.3?}"));
        let named = methods.into_iter().zip(values);
        figures.extend(named.map(|(method, value)| Figure::alone(format!("drift_{word}_{}", method.0), value, UNIT)));
    }
    COPIES.iter().for_each(|copies| figures.extend(copied(lab, *copies)));
    Ok(figures)
}

fn share(percent: u32) -> f64 {
    f64::from(percent) / 100.0
}

/// The store in which the policies were calibrated; a quick run is shorter.
fn plan(lab: &Lab<'_>, live: f64, (_, policy, placement): Method) -> SimulationPlan<'static> {
    SimulationPlan {
        shape: Shape { segments: SEGMENTS, blocks: BLOCKS, live },
        cleaner: Cleaner { low: FREE, high: 0, victims: 4, least: 0.0 },
        victims: Victims::Best(named(policy).expect("the list names policies of the crate")),
        placement,
        load: Load::steady(TEN_NINETY),
        still: 0.0,
        copies: None,
        rounds: lab.scale(10.0, 30.0),
        seed: lab.seed,
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

/// A figure, what is expected of it, and how it is measured.
type Case = (String, f64, SimulationPlan<'static>);

/// Uniform overwrites against what a formula expects of them.
fn by_formula(lab: &Lab<'_>, [worst_id, formula]: [&str; 2], cases: &[Case]) -> Vec<Figure> {
    let (mut figures, mut errors) = (Vec::new(), Vec::new());
    for (id, expected, plan) in cases {
        let load = Load::steady(Skew::Uniform);
        let value = amplification(&SimulationPlan { load, rounds: 6.0, ..*plan });
        errors.push((value / expected - 1.0).abs());
        lab.say(format!("{id}: {value:.3}, {formula} {expected:.3}"));
        figures.push(Figure::alone(id, value, UNIT).paper(*expected));
    }
    figures.push(Figure::alone(worst_id, worst(&errors), "worst relative difference"));
    figures
}

fn skewed(lab: &Lab<'_>, percent: u32) -> Vec<Figure> {
    let live = share(percent);
    let floor = analytic::separated(usable(live), 0.1, 0.9);
    let values = METHODS.map(|method| amplification(&plan(lab, live, method)));
    lab.say(format!("10/90 at {percent} %: {values:.3?}, floor {floor:.3}"));
    let named = METHODS.iter().zip(values);
    let mut figures: Vec<Figure> = named
        .map(|(method, value)| Figure::alone(format!("{}_{percent}", method.0), value, UNIT).paper(floor))
        .collect();
    let against = |rival, name: &str, value: f64| {
        Figure::alone(format!("best_over_{rival}_{percent}"), least(&values) / value, "ratio").peer(name, value)
    };
    match percent {
        75 | 90 => figures.push(against("floor", "floor of perfect separation, analytic", floor)),
        80 => figures.push(against("greedy", "greedy, same run", values[1])),
        _ => (),
    }
    figures
}

fn copied(lab: &Lab<'_>, (word, keep, written): (&str, usize, f64)) -> [Figure; 4] {
    [GREEDY, COST_BENEFIT, UNAWARE, LIFETIME].map(|method| {
        let copies = Some(Copies { every: 0.1, keep, written });
        let outcome = simulate(&SimulationPlan { copies, ..plan(lab, 0.65, method) });
        let (id, value) = (format!("{word}_{}", method.0), outcome.write_amplification());
        let live = outcome.live * 100.0;
        lab.say(format!("{id}: {value:.3} with {live:.1} % live"));
        let name = format!("formula for uniform overwrites at {live:.1} % live");
        Figure::alone(id, value, UNIT).peer(name, analytic::uniform(usable(outcome.live)))
    })
}
