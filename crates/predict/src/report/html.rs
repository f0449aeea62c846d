//! The comparison as one HTML file that needs nothing else.

use esker_base::Nanos;
use esker_base::units::size_human;

use super::charts::{Figure, figures};
use super::words::{COLUMNS, cells, changed, energy, percent};
use crate::against::{Against, Difference, Differences};
use crate::error::PredictError;
use crate::outcome::{Comparison, DeviceRun, Run, WRITTEN_BY};
use crate::trace::Facts;

/// How the comparison was asked for.
#[derive(Clone, Debug, Default)]
pub struct Origin {
    /// The command line.
    pub command: String,
    /// The text of the stack that was written beside the page.
    pub stack: String,
}

const STYLE: &str = include_str!("report.css");

/// The page.
///
/// # Errors
/// If a figure cannot be drawn.
pub fn page(comparison: &Comparison, origin: &Origin) -> Result<String, PredictError> {
    let figures: String = figures(comparison)?.iter().map(figure).collect();
    let title = format!("{} is recommended", comparison.verdict.name);
    Ok(format!(
        "<!DOCTYPE html>\n<!-- Written by {WRITTEN_BY} {version}. Replaced by its next run in this folder. -->\n\
         <html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" content=\"width=device-width\">\n\
         <title>esker try: {title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n{head}{verdict}{table}\
         <section>\n<h2>Figures</h2>\n<div class=\"figures\">\n{figures}</div>\n</section>\n{against}{traces}{devices}{caveats}\
         {reproduce}</main>\n</body>\n</html>\n",
        version = comparison.version,
        title = escaped(&title),
        head = head(comparison),
        verdict = verdict(comparison),
        table = comparison_table(comparison),
        against = comparison.against.as_ref().map_or(String::new(), against),
        traces = traces(&comparison.traces),
        devices = devices(&comparison.runs),
        caveats = section("Before you quote a figure", &list(&comparison.caveats)),
        reproduce = reproduce(comparison, origin),
    ))
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

fn section(title: &str, body: &str) -> String {
    format!("<section>\n<h2>{}</h2>\n{body}</section>\n", escaped(title))
}

fn list(lines: &[String]) -> String {
    let items: String = lines.iter().map(|line| format!("<li>{}</li>\n", escaped(line))).collect();
    format!("<ul>\n{items}</ul>\n")
}

/// A table; the first column names its rows.
fn table(titles: &[(String, String)], rows: &[Vec<String>], strong: Option<usize>) -> String {
    let head: String = titles
        .iter()
        .map(|(title, means)| format!("<th scope=\"col\" title=\"{}\">{}</th>", escaped(means), escaped(title)))
        .collect();
    let body: String = rows
        .iter()
        .enumerate()
        .map(|(at, row)| {
            let class = if strong == Some(at) { " class=\"best\"" } else { "" };
            let cells: String = row.iter().skip(1).map(|cell| format!("<td>{}</td>", escaped(cell))).collect();
            format!("<tr{class}><th scope=\"row\">{}</th>{cells}</tr>\n", escaped(&row[0]))
        })
        .collect();
    format!("<div class=\"wide\"><table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}</tbody>\n</table></div>\n")
}

fn titles(names: &[&str]) -> Vec<(String, String)> {
    names.iter().map(|name| (name.to_string(), name.to_string())).collect()
}

fn head(comparison: &Comparison) -> String {
    let verified = if comparison.verified { "; each run was repeated with an equal result" } else { "" };
    format!(
        "<header>\n<p class=\"label\">simulated (virtual time)</p>\n<h1>Which stack serves these traces best?</h1>\n\
         <p>{traces}: {pace}. Seed {seed}{verified}.</p>\n<p>{charged}.</p>\n</header>\n",
        traces = escaped(&comparison.traces.iter().map(|facts| facts.name.as_str()).collect::<Vec<_>>().join(" and ")),
        pace = escaped(&comparison.pace()),
        charged = escaped(&comparison.charged()),
        seed = comparison.seed,
    )
}

fn verdict(comparison: &Comparison) -> String {
    let verdict = &comparison.verdict;
    format!(
        "<section class=\"verdict\">\n<h2>Verdict</h2>\n<p class=\"headline\">{}</p>\n{}<h3>What would change it</h3>\n\
         {}<h3>Error known of such predictions (throughput, p50, p99)</h3>\n{}</section>\n",
        escaped(&verdict.headline),
        list(&verdict.reasons),
        list(&verdict.changes),
        list(&comparison.known_errors())
    )
}

fn comparison_table(comparison: &Comparison) -> String {
    let columns = COLUMNS.map(|(title, means)| (title.to_string(), means.to_string()));
    let rows: Vec<Vec<String>> = comparison.runs.iter().map(|run| cells(run).into()).collect();
    let what = comparison.runs.iter().map(|run| format!("{}: {}", run.name, run.what)).collect::<Vec<_>>();
    section("Comparison", &(table(&columns, &rows, Some(comparison.verdict.winner)) + &list(&what)))
}

fn figure(figure: &Figure) -> String {
    format!(
        "<figure>\n<h3>{title}</h3>\n{svg}\n<figcaption>{says}</figcaption>\n</figure>\n",
        title = escaped(figure.title),
        svg = figure.svg.replacen("<svg ", &format!("<svg aria-label=\"{}\" ", escaped(figure.says)), 1),
        says = escaped(figure.says)
    )
}

/// A table of one candidate's figures then and now, for each.
fn against(against: &Against) -> String {
    let names = titles(&["candidate", "figure", &against.file, "now", "ratio"]);
    let row = |run: &Differences, difference: &Difference| {
        let name = if run.same_stack { run.name.clone() } else { format!("{} (another stack)", run.name) };
        let [old, new, ratio] = changed(difference);
        vec![name, difference.figure.to_string(), old, new, ratio]
    };
    let rows: Vec<Vec<String>> =
        against.runs.iter().flat_map(|run| run.figures.iter().map(move |difference| row(run, difference))).collect();
    let only =
        |names: &[String], which: &str| (!names.is_empty()).then(|| format!("only {which}: {}", names.join(", ")));
    let mut notes = against.warnings.clone();
    notes.extend(only(&against.gone, "there").into_iter().chain(only(&against.new, "here")));
    section("Against an older result", &(table(&names, &rows, None) + &list(&notes)))
}

fn traces(traces: &[Facts]) -> String {
    let names =
        ["trace", "volume", "requests", "reads", "not 4 KiB aligned", "moved", "reaches to", "recorded", "repeats"];
    let row = |facts: &Facts| {
        vec![
            facts.name.clone(),
            facts.volume.clone(),
            facts.requests.to_string(),
            percent(facts.reads as f64 / facts.requests as f64),
            percent(facts.unaligned as f64 / facts.requests as f64),
            size_human(facts.bytes),
            size_human(facts.reach_bytes),
            Nanos(facts.duration_ns).to_string(),
            facts.repeats.to_string(),
        ]
    };
    section("Traces", &table(&titles(&names), &traces.iter().map(row).collect::<Vec<_>>(), None))
}

fn devices(runs: &[Run]) -> String {
    let names = ["candidate", "device", "model", "size used", "busy", "energy", "price", "read", "written"];
    let row = |run: &Run, device: &DeviceRun| {
        vec![
            run.name.clone(),
            device.name.clone(),
            device.kind.to_string(),
            size_human(device.size_bytes),
            percent(device.busy),
            energy(device.energy_j),
            format!("${:.0}", device.price_usd),
            size_human(device.read_bytes),
            size_human(device.written_bytes),
        ]
    };
    let rows: Vec<Vec<String>> =
        runs.iter().flat_map(|run| run.devices.iter().map(move |device| row(run, device))).collect();
    section("Devices", &table(&titles(&names), &rows, None))
}

fn reproduce(comparison: &Comparison, origin: &Origin) -> String {
    let digests: Vec<String> = comparison
        .runs
        .iter()
        .map(|run| format!("{}: digest {} over {} events", run.name, run.digest(), run.events))
        .collect();
    let stacks: String = comparison
        .runs
        .iter()
        .map(|run| {
            let (name, text) = (escaped(&run.name), escaped(&run.stack));
            format!("<details><summary>Stack of {name}, as simulated</summary>\n<pre>{text}</pre></details>\n")
        })
        .collect();
    let body = format!(
        "<p>The same command line, version and traces give the same digests on every machine:</p>\n<pre>{}</pre>\n{}\
         <h3>The recommended stack, over files</h3>\n<pre>{}</pre>\n{stacks}",
        escaped(&origin.command),
        list(&digests),
        escaped(&origin.stack)
    );
    section("How to reproduce it", &body)
}
