//! The figures of a trace as one HTML file that needs nothing else.

use super::summary::{Hour, Summary};
use super::working_set::{Popularity, Span, WorkingSet};
use esker_base::units::MIB;
use esker_report::html::{figures, page as whole_page, section, verbatim};
use esker_report::{Axis, Figure, PlotError, Series};
use maud::html;

/// The page of the trace `name`; `mark` names the program in a comment.
///
/// # Errors
/// If a figure cannot be drawn.
pub fn page(name: &str, mark: &str, summary: &Summary) -> Result<String, PlotError> {
    let all: Vec<Figure> = distributions(summary).into_iter().chain(in_time(summary)).chain(skew(summary)).collect();
    let body = html! {
        p { (exactness(summary)) }
        (section("Figures", &figures(&all)?))
        (section("Numbers", &verbatim(&summary.to_string())))
    };
    Ok(whole_page(&format!("Block trace {name}"), mark, &body))
}

fn exactness(summary: &Summary) -> String {
    let sampled = [("blocks", &summary.blocks), ("extents", &summary.extents)];
    let sampled: Vec<String> = sampled
        .into_iter()
        .filter(|(_, set)| set.one_in > 1)
        .map(|(name, set)| format!("working sets in {name} are estimated from one in {}", set.one_in))
        .collect();
    match sampled.is_empty() {
        true => "All figures are exact counts.".to_string(),
        false => format!("Counts of requests are exact; {}.", sampled.join(", ")),
    }
}

fn figure(title: &str, says: &str, x: Axis, y: Axis, series: Vec<Series>) -> Figure {
    Figure { title: title.to_string(), says: says.to_string(), x, y, series }
}

/// The part of the requests, in percent, up to each class.
fn cumulative(classes: impl Iterator<Item = (f64, u64)> + Clone) -> Vec<(f64, f64)> {
    let all = classes.clone().map(|class| class.1).sum::<u64>() as f64;
    let up_to = |sum: &mut u64, (value, requests): (f64, u64)| {
        *sum += requests;
        Some((value, *sum as f64 / all * 100.0))
    };
    classes.scan(0, up_to).collect()
}

fn distributions(summary: &Summary) -> [Figure; 3] {
    let distribution = |title, says, x, points| {
        figure(
            title,
            says,
            Axis::logarithmic(x),
            Axis::linear("share of requests in %"),
            vec![Series::line("", points)],
        )
    };
    let sizes = summary.sizes.iter().map(|class| (class.up_to_bytes as f64 / 1024.0, class.requests));
    let distances = summary.distances.iter().map(|class| (class.below_bytes as f64, class.requests));
    let gaps = summary.gaps.classes.iter().map(|class| (class.up_to_ns as f64 / 1e6, class.requests));
    [
        distribution("Sizes", "Share of the transfers up to a size.", "size in KiB", cumulative(sizes)),
        distribution(
            "Distances",
            "Share of the transfers that start within a distance of where their volume's last one ended; at 1 byte are \
             those that continue it exactly.",
            "distance in bytes",
            cumulative(distances),
        ),
        distribution("Times between requests", "Share of the requests up to a gap.", "gap in ms", cumulative(gaps)),
    ]
}

fn in_time(summary: &Summary) -> [Figure; 2] {
    let requests =
        |of: fn(&Hour) -> u64| summary.hours.iter().map(|hour| (f64::from(hour.number), of(hour) as f64)).collect();
    let mib = |set: &WorkingSet, of: fn(&Span) -> u64| {
        let size = |units: u64| units as f64 * set.unit_bytes as f64 / MIB as f64;
        set.hours.iter().map(|span| (f64::from(span.number), size(of(span)))).collect()
    };
    let blocks = &summary.blocks;
    [
        figure(
            "Requests in each hour",
            "Reads and all requests.",
            Axis::linear("hour"),
            Axis::linear("requests"),
            vec![
                Series::line("all", requests(|hour| hour.requests)),
                Series::line("reads", requests(|hour| hour.reads)),
            ],
        ),
        figure(
            "Working set of each hour",
            "Different 4 KiB blocks that were used in an hour, and how many of them in the hour before too.",
            Axis::linear("hour"),
            Axis::linear("MiB"),
            vec![
                Series::line("used", mib(blocks, |span| span.unique)),
                Series::line("before too", mib(blocks, |span| span.again)),
                Series::line("ever before", mib(blocks, |span| span.known)),
            ],
        ),
    ]
}

fn skew(summary: &Summary) -> [Figure; 2] {
    let sets = [("blocks of 4 KiB", &summary.blocks), ("extents of 1 MiB", &summary.extents)];
    let series = |point: fn(&WorkingSet, &Popularity) -> (f64, f64)| {
        let points = |set: &WorkingSet| set.popularity.iter().map(|ranked| point(set, ranked)).collect();
        sets.iter().map(|(name, set)| Series::line(name, points(set))).collect()
    };
    [
        figure(
            "Popularity",
            "How often the places of each rank are used. Zipf's law is a straight line.",
            Axis::logarithmic("rank"),
            Axis::logarithmic("uses"),
            series(|_, ranked| (ranked.rank as f64, f64::from(ranked.uses))),
        ),
        figure(
            "Skew",
            "Share of all uses that fall on the most used part of the places.",
            Axis::logarithmic("part of the places in %"),
            Axis::linear("share of uses in %"),
            series(|set, ranked| (ranked.rank as f64 / set.unique as f64 * 100.0, ranked.share * 100.0)),
        ),
    ]
}
