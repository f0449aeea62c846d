//! The differences between a comparison and an older one, read from the older one's `result.json`.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::error::PredictError;
use crate::outcome::{CandidateRun, Comparison, Latency, WRITTEN_BY};

/// What is taken from an older result.
#[derive(Clone, Debug, Deserialize)]
struct Result {
    written_by: String,
    version: String,
    seed: u64,
    #[serde(default)]
    load: Value,
    speed: Option<Speed>,
    traces: Vec<Trace>,
    runs: Vec<OldRun>,
}

#[derive(Clone, Debug, Deserialize)]
struct Speed {
    factor: f64,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
struct Trace {
    name: String,
    requests: u64,
}

#[derive(Clone, Debug, Deserialize)]
struct OldRun {
    name: String,
    stack: String,
    all: Latency,
    reads: Latency,
    writes: Latency,
    requests_per_s: f64,
    bytes_per_s: f64,
    busy: Option<f64>,
    energy_j: Option<f64>,
    price_usd: Option<f64>,
}

/// An older result.
#[derive(Clone, Debug)]
pub struct Older {
    file: String,
    result: Result,
}

/// The differences from an older result.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Against {
    /// Its file.
    pub file: String,
    /// Version of the program that made it.
    pub version: String,
    /// What else differs than the candidates, so that ratios say little about them.
    pub warnings: Vec<String>,
    /// Candidates of one name in both.
    pub runs: Vec<Differences>,
    /// Candidates only in the older result.
    pub gone: Vec<String>,
    /// Candidates only in this one.
    pub new: Vec<String>,
}

/// The differences of one candidate.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Differences {
    /// Its name.
    pub name: String,
    /// Whether its stack is the same text.
    pub same_stack: bool,
    /// Figures that both have.
    pub figures: Vec<Difference>,
}

/// One figure in both results.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Difference {
    /// What.
    pub figure: &'static str,
    /// Its unit.
    pub unit: &'static str,
    /// Then.
    pub old: f64,
    /// Now.
    pub new: f64,
    /// Now by then; `None` if it was 0.
    pub ratio: Option<f64>,
}

/// Name, unit, now, then.
type Pair = (&'static str, &'static str, Option<f64>, Option<f64>);

impl Older {
    /// Reads a `result.json`; `file` is its name in messages.
    ///
    /// # Errors
    /// What is no such result.
    pub fn parse(file: &str, text: &str) -> std::result::Result<Older, PredictError> {
        let wrong = |what: String| PredictError::Against { file: file.to_string(), what };
        let result: Result = serde_json::from_str(text).map_err(|e| wrong(e.to_string()))?;
        if result.written_by != WRITTEN_BY {
            return Err(wrong(format!("written_by is \"{}\"", result.written_by)));
        }
        Ok(Older { file: file.to_string(), result })
    }

    /// The differences of `now` from this.
    pub(crate) fn compared(self, now: &Comparison) -> Against {
        let warnings = self.warnings(now);
        let Older { file, result: Result { version, runs: old, .. } } = self;
        let of_name = |name: &str| old.iter().find(|run| run.name == name);
        let missing = |name: &str| of_name(name).is_none();
        let gone = old.iter().filter(|run| !now.runs.iter().any(|other| other.name == run.name));
        Against {
            warnings,
            runs: now.runs.iter().filter_map(|run| Some(differences(of_name(&run.name)?, run))).collect(),
            gone: gone.map(|run| run.name.clone()).collect(),
            new: now.runs.iter().map(|run| run.name.clone()).filter(|name| missing(name)).collect(),
            file,
            version,
        }
    }

    fn warnings(&self, now: &Comparison) -> Vec<String> {
        let old = &self.result;
        let traces: Vec<Trace> =
            now.traces.iter().map(|facts| Trace { name: facts.name.clone(), requests: facts.requests }).collect();
        let factor = |speed: Option<f64>| speed.map_or("none".to_string(), |factor| factor.to_string());
        let speeds = (old.speed.as_ref().map(|speed| speed.factor), now.speed.as_ref().map(|speed| speed.factor));
        let load = serde_json::to_value(now.load).unwrap_or_default();
        let told = [
            (traces != old.traces).then(|| "other traces were played, or another part of them".to_string()),
            (speeds.0 != speeds.1)
                .then(|| format!("the speed was {}, now it is {}", factor(speeds.0), factor(speeds.1))),
            (!old.load.is_null() && old.load != load)
                .then(|| "the load came in another way (open or closed loop)".into()),
            (old.seed != now.seed).then(|| format!("the seed was {}, now it is {}", old.seed, now.seed)),
        ];
        told.into_iter().flatten().collect()
    }
}

fn differences(old: &OldRun, new: &CandidateRun) -> Differences {
    let latency = |of: fn(&Latency) -> u64, old: &Latency, new: &Latency| {
        let value = |latency: &Latency| (latency.requests > 0).then(|| of(latency) as f64);
        (value(new), value(old))
    };
    let pair = |name, unit, (new, old)| (name, unit, new, old);
    let p50 = |latency: &Latency| latency.p50_ns;
    let p99 = |latency: &Latency| latency.p99_ns;
    let pairs: [Pair; 11] = [
        pair("read p50", "ns", latency(p50, &old.reads, &new.reads)),
        pair("read p99", "ns", latency(p99, &old.reads, &new.reads)),
        pair("write p50", "ns", latency(p50, &old.writes, &new.writes)),
        pair("write p99", "ns", latency(p99, &old.writes, &new.writes)),
        pair("p50", "ns", latency(p50, &old.all, &new.all)),
        pair("p99", "ns", latency(p99, &old.all, &new.all)),
        ("requests", "1/s", Some(new.requests_per_s), Some(old.requests_per_s)),
        ("throughput", "B/s", Some(new.bytes_per_s), Some(old.bytes_per_s)),
        ("busy", "share", new.busy, old.busy),
        ("energy", "J", new.energy_j, old.energy_j),
        ("price", "USD", new.price_usd, old.price_usd),
    ];
    let difference = |(figure, unit, new, old): Pair| {
        let (new, old) = (new?, old?);
        Some(Difference { figure, unit, old, new, ratio: (old != 0.0).then(|| new / old) })
    };
    Differences {
        name: new.name.clone(),
        same_stack: old.stack == new.stack,
        figures: pairs.into_iter().filter_map(difference).collect(),
    }
}
