//! The comparison as one HTML file that needs nothing else.

use esker_base::Nanos;
use esker_base::units::size_human;
use esker_report::html::{figures, list, prose, section, styled_page, table, verbatim};
use maud::{Markup, html};

use super::words::{changed, columns, energy, percent, products};
use super::{answers, charts};
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
    let verdict = &comparison.verdict;
    let body = html! {
        (head(comparison))
        (section("Figures", &figures(&charts::of(comparison))?))
        (comparison_table(comparison))
        (section("Why", &list(&verdict.reasons)))
        (section("What would change it", &list(&verdict.changes)))
        (section("Errors known of such predictions", &list(&comparison.known_errors())))
        @if let Some(older) = &comparison.against { (against(older)) }
        (traces(&comparison.traces))
        (devices(&comparison.runs))
        (layers(&comparison.runs))
        (section("Before you quote a figure", &list(&comparison.caveats)))
        (reproduce(comparison, origin))
    };
    Ok(styled_page(&title, &mark, STYLE, &body))
}

/// Columns whose titles say all.
fn titles<'a>(names: &[&'a str]) -> Vec<(&'a str, &'a str)> {
    names.iter().map(|name| (*name, *name)).collect()
}

/// What to buy and how good it is, before anything else.
fn head(comparison: &Comparison) -> Markup {
    let traces = comparison.traces.iter().map(|facts| facts.name.as_str()).collect::<Vec<_>>().join(" and ");
    let verified = if comparison.verified { "; each run was repeated with an equal result" } else { "" };
    html! {
        header {
            p.label { "simulated (virtual time)" }
            h1 { (answers::advice(comparison)) }
            dl.answers {
                @for (question, answer) in answers::of(comparison) { div { dt { (question) } dd { (answer) } } }
            }
            p { (comparison.verdict.headline) }
            p.dim {
                (traces) ": " (comparison.pace()) ". Seed " (comparison.seed) (verified) ". "
                (prose(&comparison.charged())) "."
            }
        }
    }
}

fn comparison_table(comparison: &Comparison) -> Markup {
    let columns = columns(&comparison.runs, None);
    let cells = |run| columns.iter().map(|column| (column.cell)(run)).collect();
    let rows: Vec<Vec<String>> = comparison.runs.iter().map(cells).collect();
    let titles: Vec<_> = columns.iter().map(|column| (column.title, column.means)).collect();
    let mut what = comparison.runs.iter().map(|run| format!("{}: {}", run.name, run.what)).collect::<Vec<_>>();
    what.extend(products(&comparison.runs));
    let table = table(&titles, &rows, Some(comparison.verdict.winner));
    section("Comparison", &html! { (table) (list(&what)) })
}

/// A table of one candidate's figures then and now, for each.
fn against(against: &Against) -> Markup {
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
    section("Against an older result", &html! { (table(&names, &rows, None)) (list(&notes)) })
}

fn traces(traces: &[Facts]) -> Markup {
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

fn devices(runs: &[CandidateRun]) -> Markup {
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
fn layers(runs: &[CandidateRun]) -> Markup {
    let of_run = |run: &CandidateRun| {
        let row = |layer: &LayerRun| vec![run.name.clone(), layer.name.clone(), layer.kind.to_string(), layer.text()];
        run.layers.iter().map(row).collect::<Vec<_>>()
    };
    let rows: Vec<Vec<String>> = runs.iter().flat_map(of_run).filter(|row| !row[3].is_empty()).collect();
    match rows.is_empty() {
        true => html! {},
        false => section("Layers", &table(&titles(&["candidate", "layer", "kind", "numbers"]), &rows, None)),
    }
}

fn reproduce(comparison: &Comparison, origin: &Origin) -> Markup {
    let digest = |run: &CandidateRun| format!("{}: digest {} over {} events", run.name, run.digest(), run.events);
    let body = html! {
        p { "The same command line, version and traces give the same digests on every machine:" }
        (verbatim(&origin.command))
        (list(&comparison.runs.iter().map(digest).collect::<Vec<_>>()))
        h3 { "The recommended stack, over files" }
        (verbatim(&origin.stack))
        @for run in &comparison.runs {
            details { summary { "Stack of " (run.name) ", as simulated" } (verbatim(&run.stack)) }
        }
    };
    section("How to reproduce it", &body)
}
