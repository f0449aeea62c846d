//! Two reports side by side: of `esker lab run --json`, of `esker lab repeat --json`, or of fio.
//!
//! A report of fio is one of its `--output-format=json`. The structure of a file tells which report it is. Values
//! belong together if their names and units are equal.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

/// What wrote a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ReportKind {
    /// `esker lab run --json`.
    Run,
    /// `esker lab repeat --json`.
    Repeat,
    /// fio.
    Fio,
}

/// One value of a report.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NamedValue {
    /// Its name.
    pub id: String,
    /// Its unit.
    pub unit: String,
    /// The value, of several runs their median.
    pub value: f64,
}

/// A report.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Measured {
    /// Name of its file.
    pub file: String,
    /// What wrote it.
    pub kind: ReportKind,
    /// What it says of its run.
    pub about: String,
    /// Its experiment, if it is of one.
    #[serde(skip)]
    pub experiment: Option<String>,
    /// Its values.
    #[serde(skip)]
    pub values: Vec<NamedValue>,
}

/// A value that both reports have.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Pair {
    /// Its name.
    pub id: String,
    /// Its unit.
    pub unit: String,
    /// That of the first report.
    pub a: f64,
    /// That of the second one.
    pub b: f64,
    /// The second over the first, unless the first is 0.
    pub ratio: Option<f64>,
}

/// Two reports of one kind, value by value.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// The first report.
    pub a: Measured,
    /// The second one.
    pub b: Measured,
    /// What both have, in the order of the first.
    pub both: Vec<Pair>,
    /// What only the first has.
    pub only_a: Vec<NamedValue>,
    /// What only the second has.
    pub only_b: Vec<NamedValue>,
}

/// Why two reports cannot be compared.
#[derive(Debug, thiserror::Error)]
pub enum CompareError {
    /// A file is no JSON, or lacks a field of its kind.
    #[error("{file}: {why}; it is damaged or cut off: write it anew")]
    Malformed {
        /// Its name.
        file: String,
        /// What is wrong, and at which line and column.
        why: serde_json::Error,
    },
    /// A file is JSON of something else.
    #[error("{0}: no report of `esker lab run --json`, of `esker lab repeat --json` or of `fio --output-format=json`")]
    Foreign(String),
    /// The files are of different kinds.
    #[error("{a} is {a_kind}, and {b} is {b_kind}; compare two of one kind")]
    Kinds {
        /// The first file.
        a: String,
        /// Its kind.
        a_kind: ReportKind,
        /// The second file.
        b: String,
        /// Its kind.
        b_kind: ReportKind,
    },
    /// The files are of different experiments.
    #[error("{a} is of {a_experiment}, and {b} of {b_experiment}; compare two runs of one experiment")]
    Experiments {
        /// The first file.
        a: String,
        /// Its experiment.
        a_experiment: String,
        /// The second file.
        b: String,
        /// Its experiment.
        b_experiment: String,
    },
}

impl fmt::Display for ReportKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ReportKind::Run => "a report of `esker lab run`",
            ReportKind::Repeat => "a report of `esker lab repeat`",
            ReportKind::Fio => "a report of fio",
        })
    }
}

#[derive(Deserialize)]
struct RunFile {
    experiment: String,
    seed: u64,
    quick: bool,
    figures: Vec<RunFigure>,
}

#[derive(Deserialize)]
struct RunFigure {
    id: String,
    unit: String,
    value: Option<f64>,
}

#[derive(Deserialize)]
struct RepeatFile {
    quick: bool,
    repeat: u32,
    experiments: Vec<RepeatExperiment>,
}

#[derive(Deserialize)]
struct RepeatExperiment {
    experiment: String,
    figures: Vec<RepeatFigure>,
}

#[derive(Deserialize)]
struct RepeatFigure {
    id: String,
    unit: String,
    median: Option<f64>,
}

#[derive(Deserialize)]
struct FioFile {
    #[serde(rename = "fio version")]
    version: String,
    jobs: Vec<FioJob>,
}

#[derive(Deserialize)]
struct FioJob {
    jobname: String,
    read: FioWay,
    write: FioWay,
}

/// The reads or the writes of a job.
#[derive(Deserialize)]
struct FioWay {
    total_ios: u64,
    bw: f64,
    iops: f64,
    clat_ns: FioLatency,
}

#[derive(Deserialize)]
struct FioLatency {
    mean: f64,
    #[serde(default)]
    percentile: BTreeMap<String, f64>,
}

/// Reads a report, whose kind its structure tells. What a program printed before its report is passed over.
///
/// # Errors
/// [`CompareError::Malformed`] and [`CompareError::Foreign`].
pub fn read(file: &str, text: &str) -> Result<Measured, CompareError> {
    let text = without_remarks(text);
    let has = |json: &Json, keys: [&str; 2]| keys.iter().all(|key| json.get(key).is_some());
    let (kind, experiment, about, values) = match parsed::<Json>(file, &text)? {
        json if has(&json, ["experiment", "figures"]) => {
            let run: RunFile = parsed(file, &text)?;
            let about = format!("{}, seed {}{}", run.experiment, run.seed, subset(run.quick));
            let values = run.figures.into_iter().filter_map(|one| value(one.id, one.unit, one.value));
            (ReportKind::Run, Some(run.experiment), about, values.collect())
        }
        json if has(&json, ["experiments", "repeat"]) => {
            let repeat: RepeatFile = parsed(file, &text)?;
            let about = format!("medians of up to {} runs{}", repeat.repeat, subset(repeat.quick));
            (ReportKind::Repeat, None, about, repeat.experiments.into_iter().flat_map(medians).collect())
        }
        json if has(&json, ["fio version", "jobs"]) => {
            let fio: FioFile = parsed(file, &text)?;
            (ReportKind::Fio, None, fio.version, jobs(&fio.jobs))
        }
        _ => return Err(CompareError::Foreign(file.to_string())),
    };
    Ok(Measured { file: file.to_string(), kind, about, experiment, values })
}

/// Puts the values of two reports side by side.
///
/// # Errors
/// [`CompareError::Kinds`] and [`CompareError::Experiments`].
pub fn compare(a: Measured, b: Measured) -> Result<Comparison, CompareError> {
    if a.kind != b.kind {
        return Err(CompareError::Kinds { a: a.file, a_kind: a.kind, b: b.file, b_kind: b.kind });
    }
    if let (Some(of_a), Some(of_b)) = (&a.experiment, &b.experiment)
        && of_a != of_b
    {
        let [a_experiment, b_experiment] = [of_a, of_b].map(String::clone);
        return Err(CompareError::Experiments { a: a.file, a_experiment, b: b.file, b_experiment });
    }
    let same = |one: &NamedValue, values: &[NamedValue]| {
        values.iter().find(|other| other.id == one.id && other.unit == one.unit).map(|other| other.value)
    };
    let pair = |one: &NamedValue| {
        let (a, b) = (one.value, same(one, &b.values)?);
        let ratio = (a != 0.0).then(|| b / a);
        Some(Pair { id: one.id.clone(), unit: one.unit.clone(), a, b, ratio })
    };
    let both = a.values.iter().filter_map(pair).collect();
    let only = |here: &[NamedValue], there: &[NamedValue]| -> Vec<NamedValue> {
        here.iter().filter(|one| same(one, there).is_none()).cloned().collect()
    };
    let (only_a, only_b) = (only(&a.values, &b.values), only(&b.values, &a.values));
    Ok(Comparison { a, b, both, only_a, only_b })
}

fn parsed<'a, T: Deserialize<'a>>(file: &str, text: &'a str) -> Result<T, CompareError> {
    serde_json::from_str(text).map_err(|why| CompareError::Malformed { file: file.to_string(), why })
}

/// The text with empty lines in place of those before the first `{`: positions in it stay right.
fn without_remarks(text: &str) -> String {
    let begin = text.lines().take_while(|line| !line.trim_start().starts_with('{')).count();
    match begin < text.lines().count() {
        true => text
            .lines()
            .enumerate()
            .fold(String::new(), |text, (at, line)| text + if at < begin { "" } else { line } + "\n"),
        false => text.to_string(),
    }
}

fn subset(quick: bool) -> &'static str {
    if quick { ", quick subset" } else { "" }
}

/// A value, unless its report has none in its place: JSON has no word for what is no number.
fn value(id: String, unit: String, value: Option<f64>) -> Option<NamedValue> {
    value.map(|value| NamedValue { id, unit, value })
}

fn medians(one: RepeatExperiment) -> impl Iterator<Item = NamedValue> {
    let name = one.experiment;
    one.figures.into_iter().filter_map(move |figure| value(format!("{name}/{}", figure.id), figure.unit, figure.median))
}

/// The values of all jobs. Jobs of one name have a number behind it, from the second on.
fn jobs(jobs: &[FioJob]) -> Vec<NamedValue> {
    let mut names: BTreeMap<&str, u32> = BTreeMap::new();
    let mut values = Vec::new();
    for job in jobs {
        let count = names.entry(&job.jobname).or_default();
        *count += 1;
        let name = if *count == 1 { job.jobname.clone() } else { format!("{}#{count}", job.jobname) };
        for (way, what) in [("read", &job.read), ("write", &job.write)] {
            if what.total_ios > 0 {
                values.extend(what.values(&format!("{name}/{way}")));
            }
        }
    }
    values
}

impl FioWay {
    fn values(&self, name: &str) -> Vec<NamedValue> {
        let latency = |what: &str, ns: f64| (what.to_string(), "us", ns / 1e3);
        let percentile = |(what, key): (&str, &str)| Some(latency(what, *self.clat_ns.percentile.get(key)?));
        let percentiles = [("clat_p50", "50.000000"), ("clat_p99", "99.000000"), ("clat_p99.9", "99.900000")];
        [("bw".to_string(), "KiB/s", self.bw), ("iops".to_string(), "per s", self.iops)]
            .into_iter()
            .chain([latency("clat_mean", self.clat_ns.mean)])
            .chain(percentiles.into_iter().filter_map(percentile))
            .map(|(what, unit, value)| NamedValue { id: format!("{name}/{what}"), unit: unit.to_string(), value })
            .collect()
    }
}

#[cfg(test)]
mod tests;
