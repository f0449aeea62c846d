//! The comparison as text for a terminal.

use esker_base::Nanos;
use esker_base::units::size_human;

use super::words::{COLUMNS, cells, changed};
use crate::against::Against;
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
    out.push(format!("Beaten by no other in price, p99, throughput and energy at once: {}", pareto(comparison)));
    out.push("Error known of such predictions (throughput, p50, p99):".to_string());
    out.extend(comparison.known_errors().iter().map(|line| format!("  {line}")));
    if let Some(against) = &comparison.against {
        out.push(String::new());
        out.extend(against_older(against));
    }
    out.push(String::new());
    out.push("Before you quote a figure:".to_string());
    out.extend(comparison.caveats.iter().map(|line| format!("  {line}")));
    out.join("\n")
}

fn head(comparison: &Comparison) -> Vec<String> {
    let digests = comparison.runs.iter().map(|run| format!("{} {}", run.name, run.digest())).collect::<Vec<_>>();
    let verified = if comparison.verified { " (each run repeated with an equal result)" } else { "" };
    let mut lines = vec![
        format!("simulated (virtual time), seed {}, on any machine the same", comparison.seed),
        format!("{}    {}", if comparison.speed.is_some() { "speed" } else { "load " }, comparison.pace()),
        format!("costs    {}", comparison.charged()),
    ];
    lines.extend(comparison.traces.iter().map(|facts| format!("trace    {}", trace(facts))));
    lines.extend(comparison.runs.iter().map(|run| format!("stack    {}: {}", run.name, run.what)));
    lines.push(format!("digests  {}{verified}", digests.join(", ")));
    lines
}

fn pareto(comparison: &Comparison) -> String {
    if comparison.pareto.is_empty() { "none keeps up".to_string() } else { comparison.pareto.join(", ") }
}

/// A line for each figure of each candidate in both results.
fn against_older(against: &Against) -> Vec<String> {
    let mut out = vec![format!("Against {} (version {}):", against.file, against.version)];
    out.extend(against.warnings.iter().map(|line| format!("  warning: {line}")));
    for run in &against.runs {
        out.push(format!("  {}{}", run.name, if run.same_stack { "" } else { " (another stack of that name)" }));
        for difference in &run.figures {
            let [old, new, ratio] = changed(difference);
            out.push(format!("    {:<12} {old:>12}  ->  {new:>12}  {ratio}", difference.figure));
        }
    }
    let only =
        |names: &[String], which: &str| (!names.is_empty()).then(|| format!("  only {which}: {}", names.join(", ")));
    out.extend(only(&against.gone, "there").into_iter().chain(only(&against.new, "here")));
    out
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
