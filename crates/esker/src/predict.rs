//! Which stack serves a recorded load best: a prediction in virtual time.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use esker_base::{Nanos, Progress};
use esker_predict::report::{Origin, page};
use esker_predict::{Candidate, Comparison, ComparisonPlan, SpeedChoice, Trace};
use esker_stack::Spec;
use esker_trace_block::Record;

use crate::error::Error;
use crate::trace::{Request, bytes};

/// A prediction to be made. Nothing is read or run before [`Prediction::run`].
#[derive(Clone)]
pub struct Prediction {
    plan: ComparisonPlan,
}

/// What was predicted. All times, energies and prices are simulated.
#[derive(Clone, Debug)]
pub struct Predicted(Comparison);

/// One candidate of a prediction.
#[derive(Clone, Debug, PartialEq)]
pub struct Judged {
    /// Its name.
    pub name: String,
    /// The median time of a request.
    pub p50: Duration,
    /// The time that 99 % of the requests stay below.
    pub p99: Duration,
    /// Requests a second.
    pub requests_per_s: f64,
    /// Share of the time in which its busiest device works, where devices tell it.
    pub busy: Option<f64>,
    /// Joules that its devices take, where their models know.
    pub energy_j: Option<f64>,
    /// Price of its devices, where their models know.
    pub price_usd: Option<f64>,
    /// Why the run was cut off, if the candidate does not keep up.
    pub saturated: Option<String>,
}

/// Predicts how stacks serve block traces, as `esker try` does. Files may be packed, and their formats are recognised.
pub fn predict<P: AsRef<Path>>(traces: impl IntoIterator<Item = P>) -> Prediction {
    Prediction { plan: ComparisonPlan::of(traces.into_iter().map(|trace| of_file(trace.as_ref())).collect()) }
}

impl Default for Prediction {
    /// One without a trace yet.
    fn default() -> Prediction {
        predict::<&Path>([])
    }
}

fn of_file(path: &Path) -> Trace {
    let (name, path) = (path.display().to_string(), path.to_path_buf());
    let part = name.clone();
    Trace::new(&name, None, Arc::new(move || Ok(vec![(part.clone(), bytes(&path)?)])))
}

impl Prediction {
    /// Adds a candidate: a stack text whose exports serve the volumes of the traces, in their order. Without any, the
    /// candidates of `esker try` are compared.
    ///
    /// # Errors
    /// [`Error::Text`].
    pub fn stack(mut self, name: &str, text: &str) -> Result<Prediction, Error> {
        self.plan.candidates.push(Candidate::of(name, name, Spec::parse(name, text)?));
        Ok(self)
    }

    /// Adds a trace that this program made: requests in order of time.
    pub fn trace(mut self, name: &str, requests: impl IntoIterator<Item = Request>) -> Prediction {
        self.plan.traces.push(Trace::from_records(name, requests.into_iter().map(Record::from).collect()));
        self
    }

    /// The most that the 99th percentile may be; 20 ms unless it is set.
    pub fn target_p99(mut self, target: Duration) -> Prediction {
        self.plan.target_p99 = Nanos(u64::try_from(target.as_nanos()).unwrap_or(u64::MAX));
        self
    }

    /// Plays the traces so many times as fast as they were recorded.
    pub fn speed(mut self, factor: f64) -> Prediction {
        self.plan.speed = SpeedChoice::Factor(factor);
        self
    }

    /// Seed of all random streams. One seed gives one prediction, byte for byte.
    pub fn seed(mut self, seed: u64) -> Prediction {
        self.plan.seed = seed;
        self
    }

    /// Plays the traces against every candidate. `watch` is told what is worked on, and how many requests of it are
    /// done, of how many.
    ///
    /// # Errors
    /// [`Error::Predict`]: a trace that cannot be read, or a candidate that cannot serve it.
    pub fn run(self, watch: impl Fn(&str, u64, u64) + Send + Sync + 'static) -> Result<Predicted, Error> {
        let watch: esker_predict::Watch =
            Arc::new(move |told: Progress<'_>| watch(told.part, told.done, told.total.unwrap_or(0)));
        Ok(Predicted(self.plan.compare(&watch)?))
    }
}

impl Predicted {
    /// The name of the candidate that is chosen: the cheapest that meets the target, or the one that comes closest.
    pub fn winner(&self) -> &str {
        &self.0.verdict.name
    }

    /// Whether it meets the target.
    pub fn is_met(&self) -> bool {
        self.0.verdict.met
    }

    /// The outcome in one sentence.
    pub fn headline(&self) -> &str {
        &self.0.verdict.headline
    }

    /// Why, with a sentence for each candidate, and what would change it.
    pub fn reasons(&self) -> impl Iterator<Item = &str> {
        self.0.verdict.reasons.iter().chain(&self.0.verdict.changes).map(String::as_str)
    }

    /// All candidates, in their order.
    pub fn candidates(&self) -> Vec<Judged> {
        let judged = |run: &esker_predict::CandidateRun| Judged {
            name: run.name.clone(),
            p50: Duration::from_nanos(run.all.p50_ns),
            p99: Duration::from_nanos(run.all.p99_ns),
            requests_per_s: run.requests_per_s,
            busy: run.busy,
            energy_j: run.energy_j,
            price_usd: run.price_usd,
            saturated: run.saturated.clone(),
        };
        self.0.runs.iter().map(judged).collect()
    }

    /// All of it, as `result.json` of `esker try` has it.
    pub fn to_json(&self) -> String {
        self.0.to_json()
    }

    /// What must be said beside a figure that is quoted.
    pub fn caveats(&self) -> &[String] {
        &self.0.caveats
    }

    /// All of it as a page that needs nothing else, as `report.html` of `esker try`.
    ///
    /// # Errors
    /// [`Error::Predict`]: a figure cannot be drawn.
    pub fn to_html(&self) -> Result<String, Error> {
        let origin = Origin { command: "esker::predict".to_string(), stack: self.0.winner().stack.clone() };
        Ok(page(&self.0, &origin)?)
    }
}
