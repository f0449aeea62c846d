//! Reports as a page with figures.

use esker_report::{Axis, Figure, PlotError, Series, html};
use maud::{Markup, html};

use super::text::{percent, span, text};
use super::{CallTime, PERCENTILES, Report};

/// Types of calls whose latencies are drawn.
const DRAWN: usize = 4;
const MS: f64 = 1e6;

/// The page of reports (at least one) of one trace; `mark` names the program in a comment.
///
/// # Errors
/// If a figure cannot be drawn.
pub fn page(reports: &[Report], mark: &str) -> Result<String, PlotError> {
    let bodies = reports.iter().map(body).collect::<Result<Vec<Markup>, _>>()?;
    let body = html! {
        @for (report, body) in reports.iter().zip(&bodies) {
            @if reports.len() > 1 { h2 { (label(report)) } }
            (body)
        }
    };
    let trace = reports.first().map_or("nothing", |report| &report.trace);
    Ok(html::page(&format!("Replay of {trace}"), mark, &body))
}

fn body(report: &Report) -> Result<Markup, PlotError> {
    let figures = html::figures(&[outstanding_figure(&[report]), latency_figure(report)])?;
    Ok(html! {
        (html::section("Summary", &html::verbatim(&text(report))))
        (html::section("Figures", &figures))
        (html::section("Calls", &calls(report)))
        (html::section("Threads", &threads(report)))
        (html::section("Results that differ", &mismatches(report)))
        (html::section("Files that differ", &tree_differences(report)))
    })
}

/// Calls under way over time, a line for each report.
pub(super) fn outstanding_figure(reports: &[&Report]) -> Figure {
    let line = |report: &&Report| {
        let step = report.elapsed_ns as f64 / report.outstanding.len().max(1) as f64;
        let points = report.outstanding.iter().enumerate();
        let points = points.map(|(at, calls)| ((at as f64 + 0.5) * step / MS, f64::from(*calls))).collect();
        Series::line(&label(report), points)
    };
    Figure {
        title: "Outstanding calls".to_string(),
        says: "How many calls were under way at equidistant instants of the replay.".to_string(),
        x: Axis::linear("time in ms"),
        y: Axis::linear("calls"),
        series: reports.iter().map(line).collect(),
    }
}

/// What tells a report from others.
pub(super) fn label(report: &Report) -> String {
    format!("{} {}", report.target.file_system, report.how.mode)
}

fn latency_figure(report: &Report) -> Figure {
    let line = |call: &CallTime, name: &str, percentiles: &[u64; 4]| {
        let points = PERCENTILES.iter().zip(percentiles).map(|(p, ns)| (f64::from(*p), *ns as f64 / 1e3));
        Series::line(&format!("{}{name}", call.call), points.collect())
    };
    let both =
        report.calls.iter().take(DRAWN).flat_map(|call| {
            [line(call, "", &call.percentiles_ns), line(call, " traced", &call.traced_percentiles_ns)]
        });
    Figure {
        title: "Latency by percentile".to_string(),
        says: "The types of calls that took the most time: their latency now and in the trace.".to_string(),
        x: Axis::linear("percentile"),
        y: Axis::logarithmic("latency in us"),
        series: both.collect(),
    }
}

fn calls(report: &Report) -> Markup {
    let columns = [
        ("call", "type of call"),
        ("count", "how many were made"),
        ("total", "sum of their latencies"),
        ("traced total", "the same in the trace"),
        ("p10", "10 % took at most this long"),
        ("p50", "half took at most this long"),
        ("p95", "95 % took at most this long"),
        ("p99", "99 % took at most this long"),
        ("traced p50", "half took at most this long in the trace"),
    ];
    let row = |call: &CallTime| {
        let mut cells =
            vec![call.call.clone(), call.count.to_string(), span(call.total_ns), span(call.traced_total_ns)];
        cells.extend(call.percentiles_ns.map(span));
        cells.push(span(call.traced_percentiles_ns[1]));
        cells
    };
    html::table(&columns, &report.calls.iter().map(row).collect::<Vec<_>>(), None)
}

fn threads(report: &Report) -> Markup {
    let columns = [
        ("thread", "the traced thread"),
        ("actions", "calls made"),
        ("in calls", "time in calls"),
        ("waiting", "time waiting for other threads"),
        ("delayed", "traced computation that was slept"),
        ("idle", "before its start, after its end, and the replayer itself"),
    ];
    let row = |thread: &super::ThreadTime| {
        let spans = [thread.busy_ns, thread.waiting_ns, thread.delay_ns, thread.idle_ns].map(span);
        [vec![thread.thread.clone(), thread.actions.to_string()], spans.to_vec()].concat()
    };
    html::table(&columns, &report.threads.iter().map(row).collect::<Vec<_>>(), None)
}

fn tree_differences(report: &Report) -> Markup {
    let columns = [
        ("path", "in the trace"),
        ("expected", "what the program left there"),
        ("actual", "what is there after the replay"),
    ];
    let tree = &report.tree_differences;
    let said = match &tree.not_compared {
        Some(why) => format!("not compared: {why}"),
        None => format!("{} of {} names", tree.count, tree.compared),
    };
    let row = |one: &super::TreeDifference| vec![one.path.clone(), one.expected.clone(), one.actual.clone()];
    let rows: Vec<_> = tree.listed.iter().map(row).collect();
    html! { (html::list(&[said])) (html::table(&columns, &rows, None)) }
}

fn mismatches(report: &Report) -> Markup {
    let columns = [
        ("action", "its number in the trace"),
        ("thread", "the traced thread"),
        ("call", "with its arguments"),
        ("expected", "the traced result"),
        ("actual", "the result now"),
    ];
    let all = &report.mismatches;
    let row = |one: &super::Mismatch| {
        vec![one.action.to_string(), one.thread.clone(), one.call.clone(), one.expected.clone(), one.actual.clone()]
    };
    let rows: Vec<_> = all.listed.iter().map(row).collect();
    let adapted: Vec<String> = report.adapted.iter().map(|one| format!("{}: {} times", one.what, one.count)).collect();
    let said = format!("{} of {} ({})", all.count, all.compared, percent(report.failure_share()));
    let mut lines = vec![said];
    lines.extend(all.by_call.iter().map(|(call, count)| format!("{call}: {count}")));
    lines.extend(adapted);
    html! { (html::list(&lines)) (html::table(&columns, &rows, None)) }
}
