//! What the figures of a comparison show.

use esker_report::{Axis, Figure, Series, Style};

use crate::outcome::{CandidateRun, Comparison, Interval};

/// Title of an axis.
const PRICE: &str = "price in US dollars";

type Points = Vec<(f64, f64)>;

/// All figures of a comparison.
pub(super) fn of(comparison: &Comparison) -> Vec<Figure> {
    lines(&comparison.runs).into_iter().chain(scatters(comparison)).collect()
}

/// Figures with a line for each candidate.
fn lines(runs: &[CandidateRun]) -> [Figure; 4] {
    let figure = |title: &str, says: &str, x, y, points: &dyn Fn(&CandidateRun) -> Points| {
        let series = runs.iter().map(|run| Series::line(&run.name, points(run))).collect();
        Figure { title: title.to_string(), says: says.to_string(), x, y, series }
    };
    let over_time = |title, says, y, value: fn(&Interval, f64) -> f64| {
        figure(title, says, Axis::linear("virtual time in s"), y, &|run| in_intervals(run, value))
    };
    [
        figure(
            "Latency distribution",
            "Share of all requests that were answered within a time. Further left is faster.",
            Axis::logarithmic("latency in ms"),
            Axis::linear("share of requests in %"),
            &distribution,
        ),
        over_time(
            "Latency over time",
            "99th percentile of the requests that were due in each of a hundred equal intervals.",
            Axis::logarithmic("p99 in ms"),
            |interval, _| interval.p99_ns as f64 / 1e6,
        ),
        over_time(
            "Throughput over time",
            "Bytes of the requests that were answered in each interval.",
            Axis::linear("MB/s"),
            |interval, seconds| interval.answered_bytes as f64 / 1e6 / seconds,
        ),
        over_time(
            "Requests in flight over time",
            "Most requests in flight at an arrival in each interval. A line that climbs to the end means that the stack \
             falls behind.",
            Axis::logarithmic("requests"),
            |interval, _| interval.inflight_max as f64,
        ),
    ]
}

fn distribution(run: &CandidateRun) -> Points {
    run.cdf.iter().map(|(ns, share)| (*ns as f64 / 1e6, share * 100.0)).collect()
}

/// A point for the middle of each interval; without requests there is none.
fn in_intervals(run: &CandidateRun, value: fn(&Interval, f64) -> f64) -> Points {
    let seconds = run.intervals.get(1).map_or(1.0, |second| second.at_ns as f64 / 1e9);
    let point = |interval: &Interval| (interval.at_ns as f64 / 1e9 + seconds / 2.0, value(interval, seconds));
    run.intervals.iter().filter(|interval| interval.requests > 0).map(point).collect()
}

/// Two quantities of each candidate that has both, with the Pareto front as a line.
struct Scatter {
    title: &'static str,
    says: &'static str,
    x: &'static str,
    y: Axis,
    /// What is paid; less is better.
    cost: fn(&CandidateRun) -> Option<f64>,
    gain: fn(&CandidateRun) -> f64,
    /// Whether a larger gain is better.
    up: bool,
    /// A line at this gain.
    target: Option<f64>,
}

impl Scatter {
    fn figure(&self, runs: &[CandidateRun]) -> Figure {
        let point = |run: &CandidateRun| (self.cost)(run).map(|cost| (cost, (self.gain)(run)));
        let points: Points = runs.iter().filter_map(point).collect();
        let mark = |run: &CandidateRun| Series {
            errors: point(run).into_iter().filter_map(|(cost, gain)| Some((cost, span(run, gain)?))).collect(),
            ..Series::of(Style::Named, &run.name, point(run).into_iter().collect())
        };
        let target = self.target.map(|target| Series::help(Style::Dashed, across(&points, target)));
        let front = Series::help(Style::Guide, self.front(points));
        let series = runs.iter().map(mark).chain(target).chain([front]).collect();
        Figure {
            title: self.title.to_string(),
            says: self.says.to_string(),
            x: Axis::linear(self.x),
            y: self.y.clone(),
            series,
        }
    }

    /// The points that no other one beats in both figures, from left to right.
    fn front(&self, mut points: Points) -> Points {
        let order = |a: f64, b: f64| if self.up { b.total_cmp(&a) } else { a.total_cmp(&b) };
        points.sort_by(|a, b| a.0.total_cmp(&b.0).then(order(a.1, b.1)));
        let mut front = Points::new();
        for point in points {
            if front.last().is_none_or(|best| order(point.1, best.1).is_lt()) {
                front.push(point);
            }
        }
        front
    }
}

/// Where the true value may lie by the worst error that is known of predictions for such devices: that much below or
/// above itself it would be predicted so.
fn span(run: &CandidateRun, predicted: f64) -> Option<[f64; 2]> {
    let worst = run.known_errors.iter().filter_map(|known| known.worst).reduce(f64::max)?;
    (worst < 1.0).then(|| [predicted / (1.0 + worst), predicted / (1.0 - worst)])
}

/// A level line from 0 to the last of the points.
fn across(points: &Points, y: f64) -> Points {
    let last = points.iter().map(|point| point.0).fold(0.0, f64::max);
    vec![(0.0, y), (if last > 0.0 { last } else { 1.0 }, y)]
}

fn scatters(comparison: &Comparison) -> [Figure; 3] {
    let latency = |title, says, x, cost| Scatter {
        title,
        says,
        x,
        y: Axis::logarithmic("p99 in ms"),
        cost,
        gain: |run| run.all.p99_ns as f64 / 1e6,
        up: false,
        target: Some(comparison.verdict.target_p99_ns as f64 / 1e6),
    };
    let price = latency(
        "Price and latency",
        "Price of all devices against the 99th percentile of all requests. Further left is cheaper, further down is \
         faster; the dashed line is the target. The grey line joins those that no other one beats in both. Bars span \
         the worst error known of such predictions.",
        PRICE,
        |run| run.price_usd,
    );
    let throughput = Scatter {
        title: "Price and throughput",
        says: "Price of all devices against bytes read and written a second. Further left is cheaper, further up is \
               faster; the grey line joins those that no other one beats in both. Bars span the worst error known.",
        x: PRICE,
        y: Axis::linear("MB/s"),
        cost: |run| run.price_usd,
        gain: |run| run.bytes_per_s / 1e6,
        up: true,
        target: None,
    };
    let energy = latency(
        "Energy and latency",
        "Joules of all devices in this run against the 99th percentile of all requests. Further left takes less, \
         further down is faster; the grey line joins those that no other one beats in both. Bars span the worst error \
         known of the latency.",
        "energy in J",
        |run| run.energy_j,
    );
    [price, throughput, energy].map(|scatter| scatter.figure(&comparison.runs))
}
