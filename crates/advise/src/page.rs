//! The advice as one HTML file that needs nothing else.

use esker_base::Nanos;
use esker_base::units::size_human;
use esker_report::html::{figures, list, section, styled_page, table, verbatim};
use esker_report::{Axis, Figure, Series, Style};
use maud::{Markup, html};

use crate::advice::{Advice, WRITTEN_BY};
use crate::error::AdviseError;

/// A figure of a proposal that was played.
type Value = fn(&Point) -> f64;

/// What a proposal is in the plots.
struct Point {
    usd: f64,
    p95_ms: f64,
    energy_j: f64,
}

/// The page. `command` is the command line, and `stack` is the text that was written beside it, if any was.
///
/// # Errors
/// If a figure cannot be drawn.
pub fn page(advice: &Advice, command: &str, stack: Option<&str>) -> Result<String, AdviseError> {
    let title = "esker advise: what to buy";
    let mark = format!("Written by {WRITTEN_BY} {}. Replaced by its next run in this folder.", advice.version);
    let names: Vec<&str> = advice.traces.iter().map(|facts| facts.name.as_str()).collect();
    let body = html! {
        header {
            p.label { "simulated (virtual time)" }
            h1 { (advice.headline) }
            p { (advice.question) ". " (names.join(" and ")) ": " (advice.pace) ". Seed " (advice.seed) "." }
        }
        (section("Why", &list(&advice.reasons)))
        (lines("What is missing", &advice.deficits))
        (lines("What would change it", &advice.changes))
        (section("Figures", &figures(&drawn(advice))?))
        (section("Proposals that were played", &played(advice)))
        (section("Proposals that were only screened", &screened(advice)))
        (section("Tiering by extents alone", &sizing(advice)))
        (section("Again", &verbatim(command)))
        @if let Some(stack) = stack { (section("The stack", &verbatim(stack))) }
    };
    Ok(styled_page(title, &mark, "", &body))
}

fn lines(title: &str, lines: &[String]) -> Markup {
    html! { @if !lines.is_empty() { (section(title, &list(lines))) } }
}

fn span(ns: f64) -> String {
    Nanos(ns as u64).to_string()
}

fn played(advice: &Advice) -> Markup {
    let columns = [
        ("proposal", "What is bought, and how it is used"),
        ("USD", "Price of all devices"),
        ("mean", "Mean response"),
        ("p95", "95 % of the requests are faster"),
        ("p99", "99 % of the requests are faster"),
        ("p95 by screen", "What the estimate had said"),
        ("busy", "Share of time at work of the busiest device"),
        ("joules", "Energy of all devices"),
        ("written", "Bytes written to all devices"),
    ];
    let row = |(_, row, played): (usize, &crate::advice::AdviceRow, &crate::advice::Played)| {
        let note = if played.saturated.is_some() { " (saturated)" } else { "" };
        vec![
            format!("{}{note}", row.what),
            format!("{:.0}", row.usd),
            span(played.mean_ns),
            span(played.p95_ns),
            span(played.p99_ns),
            span(row.screened.p95_ns),
            format!("{:.0} %", played.busy * 100.0),
            format!("{:.0}", played.energy_j),
            size_human(played.written_bytes),
        ]
    };
    let best = advice.played().position(|(at, ..)| Some(at) == advice.winner);
    table(&columns, &advice.played().map(row).collect::<Vec<_>>(), best)
}

fn screened(advice: &Advice) -> Markup {
    let columns = [
        ("proposal", "What is bought, and how it is used"),
        ("USD", "Price of all devices"),
        ("mean", "Estimated mean response"),
        ("p95", "Estimated: 95 % of the requests are faster"),
        ("reads on the fast side", "Estimated share"),
        ("busy", "Estimated share of time at work of the busiest device"),
    ];
    let rows = advice.rows.iter().filter(|row| row.played.is_none()).map(|row| {
        let screened = &row.screened;
        vec![
            row.what.clone(),
            format!("{:.0}", row.usd),
            span(screened.mean_ns),
            span(screened.p95_ns),
            screened.fast_share.map_or("–".to_string(), |share| format!("{:.0} %", share * 100.0)),
            format!("{:.0} %", screened.busy * 100.0),
        ]
    });
    table(&columns, &rows.collect::<Vec<_>>(), None)
}

fn sizing(advice: &Advice) -> Markup {
    let sizing = &advice.sizing;
    let columns: Vec<(&str, &str)> = std::iter::once(("epoch", "A twelfth of the traces"))
        .chain(sizing.devices.iter().map(|name| (name.as_str(), "Devices needed, without rounding")))
        .collect();
    let row = |(at, needs): (usize, &Vec<f64>)| {
        std::iter::once((at + 1).to_string()).chain(needs.iter().map(|need| format!("{need:.3}"))).collect()
    };
    let rows: Vec<Vec<String>> = sizing.epochs.iter().enumerate().map(row).collect();
    html! { p { (advice.sizing_text()) "." } (table(&columns, &rows, None)) }
}

fn drawn(advice: &Advice) -> Vec<Figure> {
    let price: (&str, Value) = ("price in US dollars", |point| point.usd);
    let p95: (&str, Value) = ("p95 in ms", |point| point.p95_ms);
    let energy: (&str, Value) = ("energy in joules", |point| point.energy_j);
    let says = "Each mark is a proposal that was played. The grey line joins those that no other one beats in both.";
    vec![
        scatter(advice, "Price and response", says, (price, p95)),
        scatter(advice, "Price and energy", says, (price, energy)),
        scatter(advice, "Energy and response", says, (energy, p95)),
        curve(advice),
        epochs(advice),
    ]
}

fn scatter(advice: &Advice, title: &str, says: &str, axes: ((&'static str, Value), (&'static str, Value))) -> Figure {
    let ((x_title, x), (y_title, y)) = axes;
    let point = |row: &crate::advice::AdviceRow, played: &crate::advice::Played| {
        let point = Point { usd: row.usd, p95_ms: played.p95_ns / 1e6, energy_j: played.energy_j };
        (x(&point), y(&point))
    };
    let mut points: Vec<(f64, f64)> = advice.played().map(|(_, row, played)| point(row, played)).collect();
    let mut series: Vec<Series> =
        advice.played().map(|(_, row, played)| Series::of(Style::Named, &row.name, vec![point(row, played)])).collect();
    points.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
    let mut front: Vec<(f64, f64)> = Vec::new();
    for point in points {
        if front.last().is_none_or(|best| point.1 < best.1) {
            front.push(point);
        }
    }
    series.push(Series::help(Style::Guide, front));
    let (x, y) = (Axis::linear(x_title), Axis::logarithmic(y_title));
    Figure { title: title.to_string(), says: says.to_string(), x, y, series }
}

fn curve(advice: &Advice) -> Figure {
    let points = advice.curve.iter().map(|(bytes, share)| (*bytes as f64 / (1u64 << 20) as f64, share * 100.0));
    Figure {
        title: "What a cache answers".to_string(),
        says: "Share of reads that a cache with lines of 64 KiB answers, by its size (LRU, exact).".to_string(),
        x: Axis::logarithmic("size in MiB"),
        y: Axis::linear("reads in %"),
        series: vec![Series::line("lru", points.collect())],
    }
}

fn epochs(advice: &Advice) -> Figure {
    let of = |at: usize| {
        let points = advice.sizing.epochs.iter().enumerate().map(|(epoch, needs)| (epoch as f64 + 1.0, needs[at]));
        Series::line(&advice.sizing.devices[at], points.collect())
    };
    let used = (0..advice.sizing.devices.len()).filter(|at| advice.sizing.fractional[*at] > 0.0);
    Figure {
        title: "Devices by epoch".to_string(),
        says: "Devices of each type that tiering by extents needs in each twelfth of the traces.".to_string(),
        x: Axis::linear("epoch"),
        y: Axis::linear("devices"),
        series: used.map(of).collect(),
    }
}
