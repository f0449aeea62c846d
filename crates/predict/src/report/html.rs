//! The comparison as one HTML file that needs nothing else.

use esker_base::Nanos;
use esker_base::units::size_human;
use esker_report::html::{escaped, figures, list, prose, section, styled_page, table};

use super::charts;
use super::words::{changed, columns, energy, percent, products};
use crate::against::{Against, Difference, Differences};
use crate::error::PredictError;
use crate::facts::Facts;
use crate::outcome::{CandidateRun, Comparison, DeviceRun, LayerRun, WRITTEN_BY};

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
    let title = format!("esker try: {} is recommended", comparison.verdict.name);
    let mark = format!("Written by {WRITTEN_BY} {}. Replaced by its next run in this folder.", comparison.version);
    let body = [
        head(comparison),
        verdict(comparison),
        comparison_table(comparison),
        section("Figures", &figures(&charts::of(comparison))?),
        comparison.against.as_ref().map_or(String::new(), against),
        traces(&comparison.traces),
        devices(&comparison.runs),
        layers(&comparison.runs),
        section("Before you quote a figure", &list(&comparison.caveats)),
        reproduce(comparison, origin),
    ];
    Ok(styled_page(&title, &mark, STYLE, &body.concat()))
}

/// Columns whose titles say all.
fn titles<'a>(names: &[&'a str]) -> Vec<(&'a str, &'a str)> {
    names.iter().map(|name| (*name, *name)).collect()
}

fn head(comparison: &Comparison) -> String {
    let verified = if comparison.verified { "; each run was repeated with an equal result" } else { "" };
    format!(
        "<header>\n<p class=\"label\">simulated (virtual time)</p>\n<h1>Which stack serves these traces best?</h1>\n\
         <p>{traces}: {pace}. Seed {seed}{verified}.</p>\n<p>{charged}.</p>\n</header>\n",
        traces = escaped(&comparison.traces.iter().map(|facts| facts.name.as_str()).collect::<Vec<_>>().join(" and ")),
        pace = escaped(&comparison.pace()),
        charged = prose(&comparison.charged()),
        seed = comparison.seed,
    )
}

fn verdict(comparison: &Comparison) -> String {
    let verdict = &comparison.verdict;
    format!(
        "<section class=\"verdict\">\n<h2>Verdict</h2>\n<p class=\"headline\">{}</p>\n{}<h3>What would change it</h3>\n\
         {}<h3>Errors known of such predictions</h3>\n{}</section>\n",
        escaped(&verdict.headline),
        list(&verdict.reasons),
        list(&verdict.changes),
        list(&comparison.known_errors())
    )
}

fn comparison_table(comparison: &Comparison) -> String {
    let columns = columns(&comparison.runs, None);
    let cells = |run| columns.iter().map(|column| (column.cell)(run)).collect();
    let rows: Vec<Vec<String>> = comparison.runs.iter().map(cells).collect();
    let titles: Vec<_> = columns.iter().map(|column| (column.title, column.means)).collect();
    let mut what = comparison.runs.iter().map(|run| format!("{}: {}", run.name, run.what)).collect::<Vec<_>>();
    what.extend(products(&comparison.runs));
    section("Comparison", &(table(&titles, &rows, Some(comparison.verdict.winner)) + &list(&what)))
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
    let names = [
        "trace",
        "volume",
        "requests",
        "reads",
        "flushes",
        "not 4 KiB aligned",
        "moved",
        "reaches to",
        "recorded",
        "repeats",
    ];
    let row = |facts: &Facts| {
        vec![
            facts.name.clone(),
            facts.volume.clone(),
            facts.requests.to_string(),
            percent(facts.share(facts.reads)),
            facts.flushes.to_string(),
            percent(facts.share(facts.unaligned)),
            size_human(facts.bytes),
            size_human(facts.reach_bytes),
            facts.time_step_ns.map_or("no times".to_string(), |_| Nanos(facts.duration_ns).to_string()),
            facts.repeats.to_string(),
        ]
    };
    section("Traces", &table(&titles(&names), &traces.iter().map(row).collect::<Vec<_>>(), None))
}

fn devices(runs: &[CandidateRun]) -> String {
    let names = [
        "candidate",
        "device",
        "model",
        "product",
        "capacity",
        "size used",
        "busy",
        "energy",
        "price",
        "read",
        "written",
    ];
    let row = |run: &CandidateRun, device: &DeviceRun| {
        let product = device.product.as_ref();
        let year = product.and_then(|product| product.price_year);
        vec![
            run.name.clone(),
            device.name.clone(),
            device.kind.to_string(),
            product.map_or("-".to_string(), |product| product.name.clone()),
            product.map_or("-".to_string(), |product| size_human(product.capacity_bytes)),
            size_human(device.size_bytes),
            percent(device.busy),
            energy(device.energy_j, product.is_some_and(|product| product.power_is_estimated)),
            format!("${:.0}{}", device.price_usd, year.map_or(String::new(), |year| format!(" ({year})"))),
            size_human(device.read_bytes),
            size_human(device.written_bytes),
        ]
    };
    let rows: Vec<Vec<String>> =
        runs.iter().flat_map(|run| run.devices.iter().map(move |device| row(run, device))).collect();
    section("Devices", &table(&titles(&names), &rows, None))
}

/// Nothing if no layer tells numbers that are not 0.
fn layers(runs: &[CandidateRun]) -> String {
    let of_run = |run: &CandidateRun| {
        let row = |layer: &LayerRun| vec![run.name.clone(), layer.name.clone(), layer.kind.to_string(), layer.text()];
        run.layers.iter().map(row).collect::<Vec<_>>()
    };
    let rows: Vec<Vec<String>> = runs.iter().flat_map(of_run).filter(|row| !row[3].is_empty()).collect();
    match rows.is_empty() {
        true => String::new(),
        false => section("Layers", &table(&titles(&["candidate", "layer", "kind", "numbers"]), &rows, None)),
    }
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
