//! What if: replays of one trace on several targets, beside each other.

use std::collections::BTreeSet;
use std::fmt::Write;

use esker_report::{Bar, BarChart, Category, Drawn, PlotError, html};
use maud::{Markup, html};
use serde::Serialize;

use super::Report;
use super::html::{label, outstanding_figure};
use super::text::{percent, span};

/// A report and where it comes from.
pub struct Named {
    /// Name of its file.
    pub name: String,
    /// The report.
    pub report: Report,
}

/// Several targets beside each other; the first is what the others are compared with.
#[derive(Clone, Debug, Serialize)]
pub struct Comparison {
    /// What was replayed.
    pub trace: String,
    /// The rows, in the order given.
    pub targets: Vec<Row>,
}

/// One target.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// Name of the report.
    pub name: String,
    /// Type of file system.
    pub file_system: String,
    /// Mode of the replay.
    pub mode: String,
    /// Nanoseconds.
    pub elapsed_ns: u64,
    /// Elapsed time divided by the first row's; absent if too many calls failed, or I/O was not played.
    pub relative: Option<f64>,
    /// Why it is absent.
    pub no_relative: Option<&'static str>,
    /// Stated error of the elapsed time as a prediction; absent if it is none, or of an unknown error.
    pub error: Option<f64>,
    /// By that error, the program takes at least and at most this many nanoseconds.
    pub range_ns: Option<[u64; 2]>,
    /// Why the elapsed time is no prediction, if it is none.
    pub no_prediction: Option<String>,
    /// Share of calls with another result.
    pub failure_share: f64,
    /// Calls under way on average.
    pub outstanding_mean: f64,
    /// Thread time of each category in nanoseconds.
    pub categories: Vec<(String, u64)>,
}

/// Reports that cannot be compared.
#[derive(Debug, thiserror::Error)]
pub enum CompareError {
    /// Nothing given.
    #[error("nothing to compare: give at least two reports")]
    TooFew,
    /// Of different traces.
    #[error("{name} is a replay of {other}, not of {trace}: only replays of one trace can be compared")]
    OtherTrace {
        /// The report.
        name: String,
        /// Its trace.
        other: String,
        /// The first report's.
        trace: String,
    },
}

/// Compares them.
///
/// # Errors
/// [`CompareError`].
pub fn compare(reports: &[Named]) -> Result<Comparison, CompareError> {
    let [first, _, ..] = reports else { return Err(CompareError::TooFew) };
    let trace = &first.report.trace;
    if let Some(other) = reports.iter().find(|named| named.report.trace != *trace) {
        let (name, other) = (other.name.clone(), other.report.trace.clone());
        return Err(CompareError::OtherTrace { name, other, trace: trace.clone() });
    }
    let row = |named: &Named| {
        let report = &named.report;
        let no_relative = report.why_incomparable().or(first.report.why_incomparable());
        Row {
            name: named.name.clone(),
            file_system: report.target.file_system.clone(),
            mode: report.how.mode.clone(),
            elapsed_ns: report.elapsed_ns,
            relative: match no_relative {
                Some(_) => None,
                None => Some(report.elapsed_ns as f64 / first.report.elapsed_ns.max(1) as f64),
            },
            no_relative,
            error: report.prediction.as_ref().and_then(|prediction| prediction.error),
            range_ns: report.prediction.as_ref().and_then(|prediction| prediction.range_ns),
            no_prediction: report.no_prediction.clone(),
            failure_share: report.failure_share(),
            outstanding_mean: report.outstanding_mean,
            categories: report.categories.iter().map(|one| (one.name.clone(), one.time_ns)).collect(),
        }
    };
    Ok(Comparison { trace: trace.clone(), targets: reports.iter().map(row).collect() })
}

impl Row {
    fn cells(&self) -> Vec<String> {
        let relative = self.relative.map(|relative| format!("{relative:.3}"));
        let relative = relative.or(self.no_relative.map(str::to_string)).unwrap_or_default();
        let error = match (self.error, &self.no_prediction) {
            (Some(error), _) => percent(error),
            (None, Some(_)) => "no prediction".to_string(),
            (None, None) => "not known".to_string(),
        };
        let outstanding = format!("{:.2}", self.outstanding_mean);
        let (elapsed, failures) = (span(self.elapsed_ns), percent(self.failure_share));
        let [name, system, mode] = [&self.name, &self.file_system, &self.mode].map(String::clone);
        vec![name, system, mode, elapsed, relative, error, failures, outstanding]
    }

    fn time_ns(&self, category: &str) -> u64 {
        self.categories.iter().find(|(name, _)| name == category).map_or(0, |(_, time_ns)| *time_ns)
    }
}

const COLUMNS: [(&str, &str); 8] = [
    ("report", "the report's file"),
    ("file system", "type of the target's file system"),
    ("mode", "which order was kept"),
    ("elapsed", "time of the whole replay"),
    ("relative", "divided by the first report's"),
    ("stated error", "of the elapsed time as a prediction of the program itself"),
    ("failures", "share of calls with another result than traced"),
    ("outstanding", "calls under way on average"),
];

impl Comparison {
    /// For people at a terminal.
    pub fn text(&self) -> String {
        let mut out = format!("{}\n", self.trace);
        let head = COLUMNS.map(|(title, _)| title.to_string()).to_vec();
        for cells in std::iter::once(head).chain(self.targets.iter().map(Row::cells)) {
            let line: String = cells.iter().map(|cell| format!("{cell:<20} ")).collect();
            writeln!(out, "{}", line.trim_end()).expect("a string takes all text");
        }
        for line in self.without_prediction() {
            writeln!(out, "{line}").expect("a string takes all text");
        }
        out
    }

    /// A line for each target whose time says nothing of the program.
    fn without_prediction(&self) -> Vec<String> {
        let why = |row: &Row| row.no_prediction.as_ref().map(|why| format!("{}: prediction none: {why}", row.name));
        self.targets.iter().filter_map(why).collect()
    }

    fn all_categories(&self) -> BTreeSet<&str> {
        self.targets.iter().flat_map(|row| row.categories.iter().map(|(name, _)| name.as_str())).collect()
    }

    fn category_table(&self) -> Markup {
        let titles: Vec<String> = self.targets.iter().map(|row| row.name.clone()).collect();
        let mut columns = vec![("category", "kind of call")];
        columns.extend(titles.iter().map(|title| (title.as_str(), "thread time in calls of this kind")));
        let row = |category: &str| {
            let times = self.targets.iter().map(|row| span(row.time_ns(category)));
            std::iter::once(category.to_string()).chain(times).collect::<Vec<_>>()
        };
        html::table(&columns, &self.all_categories().into_iter().map(row).collect::<Vec<_>>(), None)
    }

    fn category_chart(&self) -> BarChart {
        let category = |name: &str| {
            let bar = |row: &Row| bar(row.time_ns(name), None);
            Category { name: name.to_string(), bars: self.targets.iter().map(bar).collect() }
        };
        BarChart {
            title: "Thread time by category".to_string(),
            says: "Where the threads' time goes on each target.".to_string(),
            unit: "thread time in ms".to_string(),
            series: self.targets.iter().map(|row| row.name.clone()).collect(),
            categories: self.all_categories().into_iter().map(category).collect(),
        }
    }

    /// As a page; `reports` are those that were compared and `mark` names the program in a comment.
    ///
    /// # Errors
    /// If a figure cannot be drawn.
    pub fn page(&self, reports: &[Named], mark: &str) -> Result<String, PlotError> {
        let fastest = self.targets.iter().enumerate().filter(|(_, row)| row.relative.is_some());
        let fastest = fastest.min_by_key(|(_, row)| row.elapsed_ns).map(|(at, _)| at);
        let rows: Vec<_> = self.targets.iter().map(Row::cells).collect();
        let all: Vec<&Report> = reports.iter().map(|named| &named.report).collect();
        let mut outstanding = outstanding_figure(&all);
        for (series, row) in outstanding.series.iter_mut().zip(&self.targets) {
            series.name.clone_from(&row.name);
        }
        let figures: [&dyn Drawn; 3] = [&self.elapsed_chart(), &self.category_chart(), &outstanding];
        let targets = html! {
            (html::table(&COLUMNS, &rows, fastest))
            @if !self.without_prediction().is_empty() { (html::list(&self.without_prediction())) }
        };
        let body = html! {
            (html::section("Targets", &targets))
            (html::section("Figures", &html::figures(figures)?))
            (html::section("Thread time", &self.category_table()))
            (html::section("Latencies", &html! { @for named in reports { (latency_table(named)) } }))
        };
        Ok(html::page(&format!("What if: {}", self.trace), mark, &body))
    }

    fn elapsed_chart(&self) -> BarChart {
        let target = |row: &Row| Category { name: row.name.clone(), bars: vec![bar(row.elapsed_ns, row.range_ns)] };
        BarChart {
            title: "Elapsed time".to_string(),
            says:
                "Time of the whole replay on each target. An error bar spans the time that the program itself takes by \
                   the stated error; without a bar no error is known."
                    .to_string(),
            unit: "elapsed time in ms".to_string(),
            series: Vec::new(),
            categories: self.targets.iter().map(target).collect(),
        }
    }
}

/// A time, and the range in which the program's own may lie.
fn bar(time_ns: u64, range_ns: Option<[u64; 2]>) -> Bar {
    let ms = |ns: u64| ns as f64 / 1e6;
    Bar { value: ms(time_ns), error: range_ns.map(|[least, most]| (ms(least), ms(most))), text: span(time_ns) }
}

fn latency_table(named: &Named) -> Markup {
    let columns = [("call", "type of call"), ("p10", "10 %"), ("p50", "half"), ("p95", "95 %"), ("p99", "99 %")];
    let row = |call: &super::CallTime| {
        std::iter::once(call.call.clone()).chain(call.percentiles_ns.map(span)).collect::<Vec<_>>()
    };
    let rows: Vec<_> = named.report.calls.iter().map(row).collect();
    html! { h3 { (named.name) ": " (label(&named.report)) } (html::table(&columns, &rows, None)) }
}
