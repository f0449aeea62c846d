//! The comparison as text for a terminal.

use esker_base::Nanos;
use esker_base::units::size_human;

use super::words::{COLUMNS, cells};
use crate::outcome::Comparison;
use crate::trace::Facts;

/// What was played and how, the table, the verdict, and what to know before quoting a figure.
pub fn text(comparison: &Comparison) -> String {
    let verdict = &comparison.verdict;
    let mut out = head(comparison);
    out.push(String::new());
    out.extend(table(comparison));
    out.push(String::new());
    out.push(format!("Verdict: {}", verdict.headline));
    out.extend(verdict.reasons.iter().chain(&verdict.changes).map(|line| format!("  {line}")));
    out.push(String::new());
    out.push("Before you quote a figure:".to_string());
    out.extend(comparison.caveats.iter().map(|line| format!("  {line}")));
    out.join("\n")
}

fn head(comparison: &Comparison) -> Vec<String> {
    let speed = &comparison.speed;
    let digests = comparison.runs.iter().map(|run| format!("{} {}", run.name, run.digest)).collect::<Vec<_>>();
    let verified = if comparison.verified { " (each run repeated with an equal result)" } else { "" };
    let mut lines = vec![
        format!("simulated (virtual time), seed {}, on any machine the same", comparison.seed),
        format!("speed    {} times as recorded, {}", speed.factor, speed.why),
    ];
    lines.extend(comparison.traces.iter().map(|facts| format!("trace    {}", trace(facts))));
    lines.extend(comparison.runs.iter().map(|run| format!("stack    {}: {}", run.name, run.what)));
    lines.push(format!("digests  {}{verified}", digests.join(", ")));
    lines
}

fn trace(facts: &Facts) -> String {
    format!(
        "{}: {} requests ({} reads, {} writes), {} moved, {} recorded",
        facts.name,
        facts.requests,
        facts.reads,
        facts.writes,
        size_human(facts.bytes),
        Nanos(facts.duration_ns)
    )
}

fn table(comparison: &Comparison) -> Vec<String> {
    let titles = COLUMNS.map(|(title, _)| title.to_string());
    let rows: Vec<[String; COLUMNS.len()]> = comparison.runs.iter().map(cells).collect();
    let rows = || std::iter::once(&titles).chain(&rows);
    let widths: [usize; COLUMNS.len()] =
        std::array::from_fn(|column| rows().map(|row| row[column].chars().count()).max().unwrap_or(0));
    let line = |row: &[String; COLUMNS.len()]| {
        let cell = |(at, text): (usize, &String)| match at {
            0 => format!("{text:<width$}", width = widths[0]),
            _ => format!("{text:>width$}", width = widths[at]),
        };
        row.iter().enumerate().map(cell).collect::<Vec<_>>().join("  ")
    };
    rows().map(line).collect()
}
