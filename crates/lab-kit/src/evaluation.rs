//! Several experiments, each several times, within a budget of time: what each figure's values spread over.

use std::time::{Duration, Instant};

use esker_base::Progress;
use serde::Serialize;

use crate::experiment::{Experiment, Figure, Options};
use crate::machine::Machine;
use crate::timing;

/// A figure over several runs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Spread {
    /// Name of the figure.
    pub id: String,
    /// Unit of all values.
    pub unit: &'static str,
    /// The middle value.
    pub median: f64,
    /// Their mean.
    pub mean: f64,
    /// The least one.
    pub least: f64,
    /// The largest one.
    pub most: f64,
    /// One value for each run that gave it, in the order of the runs.
    pub values: Vec<f64>,
}

/// An experiment over several runs.
#[derive(Debug, Clone, Serialize)]
pub struct Evaluated {
    /// Name of the experiment.
    pub experiment: &'static str,
    /// What it reproduces, and what sets its bars.
    pub source: String,
    /// Whether time was virtual.
    pub simulated: bool,
    /// Seeds of the runs that gave figures.
    pub seeds: Vec<u64>,
    /// Seconds of real time that all its runs took.
    pub seconds: f64,
    /// What was measured, in the order of the first report.
    pub figures: Vec<Spread>,
    /// Why runs failed, or gave only a part of their figures.
    pub failures: Vec<String>,
}

/// What `esker lab repeat --json` prints.
#[derive(Debug, Clone, Serialize)]
pub struct Evaluation {
    /// Where it ran.
    pub machine: Machine,
    /// Whether the stated subsets were run.
    pub quick: bool,
    /// Seconds after which no run was begun.
    pub budget_seconds: Option<f64>,
    /// Runs that were wanted of each experiment.
    pub repeat: u32,
    /// Runs for which no time was left.
    pub left_out: u32,
    /// What was measured.
    pub experiments: Vec<Evaluated>,
}

/// The runs of one experiment.
struct Runs {
    experiment: &'static Experiment,
    seeds: Vec<u64>,
    took: Duration,
    longest: Duration,
    figures: Vec<Figure>,
    failures: Vec<String>,
}

impl Runs {
    fn of(experiment: &'static Experiment) -> Runs {
        let (took, longest) = (Duration::ZERO, Duration::ZERO);
        Runs { experiment, seeds: Vec::new(), took, longest, figures: Vec::new(), failures: Vec::new() }
    }

    fn run(&mut self, options: &Options, progress: &mut dyn FnMut(&str)) {
        let (start, name) = (Instant::now(), self.experiment.name);
        let report = self.experiment.report(options, &mut |line| progress(&format!("{name}: {line}")));
        let failure = match report {
            Ok(report) => {
                let failure = report.complete().err();
                self.seeds.push(options.seed);
                self.figures.extend(report.figures);
                failure
            }
            Err(error) => Some(error),
        };
        self.failures.extend(failure.map(|why| format!("seed {}: {why}", options.seed)));
        self.longest = self.longest.max(start.elapsed());
        self.took += start.elapsed();
    }

    fn evaluated(self) -> Evaluated {
        let Runs { experiment, seeds, took, figures, failures, .. } = self;
        let Experiment { name, simulated, .. } = *experiment;
        let source = experiment.source();
        let (seconds, figures) = (took.as_secs_f64(), spreads(&figures));
        Evaluated { experiment: name, source, simulated, seeds, seconds, figures, failures }
    }
}

/// Runs all of them once, then all again, `repeat` times, each time with the next seed, so that a budget that ends
/// early leaves none without figures. No run begins when the budget is spent, or when the longest one of its
/// experiment would not fit in what is left. What fails is told and does not keep the others from being run. Lines of
/// experiments go to `progress`; `watch` is told how many runs are behind.
pub fn evaluate(
    experiments: &[&'static Experiment],
    options: &Options,
    repeat: u32,
    budget: Option<Duration>,
    progress: &mut dyn FnMut(&str),
    watch: &dyn Fn(Progress<'_>),
) -> Evaluation {
    let start = Instant::now();
    let (mut begun, count) = (0, u64::from(repeat) * experiments.len() as u64);
    let mut all: Vec<Runs> = experiments.iter().map(|experiment| Runs::of(experiment)).collect();
    let mut left_out = 0;
    for round in 0..repeat {
        let options = Options { seed: options.seed + u64::from(round), ..options.clone() };
        for runs in &mut all {
            watch(Progress::of("experiments", "runs", begun, count));
            begun += 1;
            let fits = |budget: Duration| start.elapsed() < budget && start.elapsed() + runs.longest <= budget;
            match budget.is_none_or(fits) {
                true => runs.run(&options, progress),
                false => left_out += 1,
            }
        }
    }
    Evaluation {
        machine: Machine::here(),
        quick: options.quick,
        budget_seconds: budget.map(|budget| budget.as_secs_f64()),
        repeat,
        left_out,
        experiments: all.into_iter().map(Runs::evaluated).collect(),
    }
}

fn spreads(figures: &[Figure]) -> Vec<Spread> {
    let mut all: Vec<(&Figure, Vec<f64>)> = Vec::new();
    for figure in figures {
        match all.iter_mut().find(|(first, _)| first.id == figure.id) {
            Some((_, values)) => values.push(figure.value),
            None => all.push((figure, vec![figure.value])),
        }
    }
    let spread = |(first, values): (&Figure, Vec<f64>)| {
        let [least, most] = [0.0, 1.0].map(|share| timing::at_share(values.clone(), share));
        let (median, mean) = (timing::median(values.clone()), timing::mean(&values));
        Spread { id: first.id.clone(), unit: first.unit, median, mean, least, most, values }
    };
    all.into_iter().map(spread).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::LabError;

    const WELL: Experiment =
        Experiment::simulated("well", |lab| Ok(vec![Figure::alone("seed", lab.seed as f64, "seed")])).after("a test");
    const ODD: Experiment = Experiment {
        name: "odd",
        run: |lab| match lab.seed % 2 {
            0 => Err(LabError::Data("an even seed".to_string())),
            _ => Ok(vec![Figure::alone("odd", 1.0, "")]),
        },
        ..WELL
    };
    const HALF: Experiment = Experiment {
        name: "half",
        run: |_| Err(LabError::Absent { figures: vec![Figure::alone("own", 1.0, "")], why: "no rival".to_string() }),
        ..WELL
    };
    const LONG: Experiment = Experiment {
        name: "long",
        run: |_| {
            std::thread::sleep(Duration::from_millis(30));
            Ok(Vec::new())
        },
        ..WELL
    };

    fn evaluated(experiments: &[&'static Experiment], repeat: u32, budget: Option<Duration>) -> Evaluation {
        let options = Options { quick: true, seed: 1, scratch: ".".into() };
        evaluate(experiments, &options, repeat, budget, &mut |_| {}, &|_| {})
    }

    #[test]
    fn each_figure_has_its_spread_and_a_failure_stops_nobody() {
        let evaluation = evaluated(&[&ODD, &WELL], 4, None);
        let [odd, well] = &evaluation.experiments[..] else { panic!("both are there") };
        assert_eq!((odd.seeds.as_slice(), odd.failures.len()), (&[1, 3][..], 2));
        assert!(odd.failures[0].starts_with("seed 2: an even seed"), "{:?}", odd.failures);
        let Spread { median, mean, least, most, ref values, .. } = well.figures[0];
        assert_eq!((median, mean, least, most, values.as_slice()), (2.5, 2.5, 1.0, 4.0, &[1.0, 2.0, 3.0, 4.0][..]));
        assert_eq!(evaluation.left_out, 0);
    }

    #[test]
    fn a_missing_rival_is_a_failure_and_the_other_figures_stay() {
        let evaluation = evaluated(&[&HALF], 1, None);
        let half = &evaluation.experiments[0];
        assert_eq!((half.failures.as_slice(), half.figures.len()), (&["seed 1: no rival".to_string()][..], 1));
    }

    #[test]
    fn what_would_not_fit_in_the_budget_is_left_out() {
        let evaluation = evaluated(&[&LONG, &WELL], 3, Some(Duration::from_millis(50)));
        let [long, well] = &evaluation.experiments[..] else { panic!("both are there") };
        assert_eq!((long.seeds.len(), well.seeds.len() >= 2, evaluation.left_out >= 2), (1, true, true));
    }
}
