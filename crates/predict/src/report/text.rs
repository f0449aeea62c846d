//! The comparison as text for a terminal.

use esker_base::Nanos;
use esker_base::units::size_human;
use esker_report::table_of_numbers;

use super::words::{changed, columns, products};
use crate::against::Against;
use crate::facts::Facts;
use crate::outcome::{CandidateRun, Comparison};

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
    out.push("Errors known of such predictions:".to_string());
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
        format!("load     {}", comparison.pace()),
        format!("costs    {}", comparison.charged()),
    ];
    lines.extend(comparison.traces.iter().map(|facts| format!("trace    {}", trace(facts))));
    lines.extend(comparison.runs.iter().map(|run| format!("stack    {}: {}", run.name, run.what)));
    lines.extend(products(&comparison.runs).into_iter().map(|line| format!("drive    {line}")));
    lines.extend(comparison.runs.iter().flat_map(layers));
    lines.push(format!("digests  {}{verified}", digests.join(", ")));
    lines
}

/// A line for each layer that tells numbers.
fn layers(run: &CandidateRun) -> impl Iterator<Item = String> {
    let told = run.layers.iter().map(|layer| (layer, layer.text())).filter(|(_, text)| !text.is_empty());
    told.map(|(layer, text)| format!("layer    {}: {} ({}): {text}", run.name, layer.name, layer.kind))
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
    let counts =
        [(facts.reads, "reads"), (facts.writes, "writes"), (facts.flushes, "flushes"), (facts.discards, "discards")];
    let counts = counts.iter().filter(|(count, _)| *count > 0).map(|(count, name)| format!("{count} {name}"));
    let recorded = match facts.time_step_ns {
        None => "without times".to_string(),
        Some(_) => format!("over {}", Nanos(facts.duration_ns)),
    };
    format!(
        "{} ({}): {} requests ({}), {} moved, {recorded}",
        facts.name,
        facts.volume,
        facts.requests,
        counts.collect::<Vec<_>>().join(", "),
        size_human(facts.bytes),
    )
}

/// The 95th percentiles stand on the page; here they would make lines too long.
const LEFT_OUT: usize = 1;

fn table(comparison: &Comparison) -> Vec<String> {
    let columns = columns(&comparison.runs, Some(LEFT_OUT));
    let titles: Vec<&str> = columns.iter().map(|column| column.title).collect();
    let cells = |run| columns.iter().map(|column| (column.cell)(run)).collect();
    let rows: Vec<Vec<String>> = comparison.runs.iter().map(cells).collect();
    table_of_numbers(&titles, &rows).lines().map(String::from).collect()
}
