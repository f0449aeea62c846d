//! The figures, as SVG without anything external. Each series has a colour of Okabe and Ito's palette, which people with
//! any colour vision can tell apart, and a mark of its own.

use std::ops::Range;

use plotters::coord::Shift;
use plotters::coord::ranged1d::{AsRangedCoord, Ranged, ValueFormatter};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use crate::error::PredictError;
use crate::outcome::{Comparison, Interval, Run};

const SIZE: (u32, u32) = (760, 380);
const PALETTE: [RGBColor; 7] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(86, 180, 233),
    RGBColor(230, 159, 0),
    RGBColor(60, 60, 60),
];
/// Every so many points of a series one carries its mark.
const MARK_EVERY: usize = 10;
const MARK: i32 = 5;
/// Text height in pixels: readable when the page shows a figure at two thirds of its size.
const FONT: i32 = 18;
const LEGEND_HEIGHT: i32 = 34;

/// Draws the marks of series number `$at` at `$points` of an area. Each shape is a type of its own.
macro_rules! draw_marks {
    ($area:expr, $at:expr, $points:expr) => {
        match $at % 3 {
            0 => draw_marks!(Circle: $area, $at, $points),
            1 => draw_marks!(TriangleMarker: $area, $at, $points),
            _ => draw_marks!(Cross: $area, $at, $points),
        }
    };
    ($shape:ident: $area:expr, $at:expr, $points:expr) => {
        for point in $points {
            $area.draw(&$shape::new(point, MARK, colour($at).stroke_width(2).filled())).map_err(|e| e.to_string())?;
        }
    };
}

fn colour(series: usize) -> RGBColor {
    PALETTE[series % PALETTE.len()]
}

/// A figure and the sentence that says what it shows.
pub struct Figure {
    pub title: &'static str,
    pub says: &'static str,
    pub svg: String,
}

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Points = Vec<(f64, f64)>;

/// One line for each candidate.
struct Lines {
    series: Vec<(String, Points)>,
    x: Axis,
    y: Axis,
}

struct Axis {
    title: &'static str,
    logarithmic: bool,
}

fn axis(title: &'static str) -> Axis {
    Axis { title, logarithmic: false }
}

fn log_axis(title: &'static str) -> Axis {
    Axis { title, logarithmic: true }
}

/// All figures of a comparison.
///
/// # Errors
/// If the drawing library refuses.
pub fn figures(comparison: &Comparison) -> Result<Vec<Figure>, PredictError> {
    let over_time = |value: fn(&Interval, f64) -> f64| move |run: &Run| in_intervals(run, value);
    let lines = |x, y, points: &dyn Fn(&Run) -> Points| {
        let series = comparison.runs.iter().map(|run| (run.name.clone(), points(run))).collect();
        draw_lines(&Lines { series, x, y })
    };
    let p99 = over_time(|interval, _| interval.p99_ns as f64 / 1e6);
    let answered = over_time(|interval, seconds| interval.answered_bytes as f64 / 1e6 / seconds);
    let queue = over_time(|interval, _| interval.inflight_max as f64);
    let time = || axis("virtual time in s");
    let mut all = vec![
        Figure {
            title: "Latency distribution",
            says: "Share of all requests that were answered within a time. Further left is faster.",
            svg: lines(log_axis("latency in ms"), axis("share of requests in %"), &distribution)?,
        },
        Figure {
            title: "Latency over time",
            says: "99th percentile of the requests that were due in each of a hundred equal intervals.",
            svg: lines(time(), log_axis("p99 in ms"), &p99)?,
        },
        Figure {
            title: "Throughput over time",
            says: "Bytes of the requests that were answered in each interval.",
            svg: lines(time(), axis("MB/s"), &answered)?,
        },
        Figure {
            title: "Requests in flight over time",
            says: "Most requests in flight at an arrival in each interval. A line that climbs to the end means that the \
                   stack falls behind.",
            svg: lines(time(), log_axis("requests"), &queue)?,
        },
    ];
    all.extend(scatters(comparison)?);
    Ok(all)
}

fn distribution(run: &Run) -> Points {
    run.cdf.iter().map(|(ns, share)| (*ns as f64 / 1e6, share * 100.0)).collect()
}

/// A point for the middle of each interval; without requests there is none.
fn in_intervals(run: &Run, value: fn(&Interval, f64) -> f64) -> Points {
    let seconds = run.intervals.get(1).map_or(1.0, |second| second.at_ns as f64 / 1e9);
    let point = |interval: &Interval| (interval.at_ns as f64 / 1e9 + seconds / 2.0, value(interval, seconds));
    run.intervals.iter().filter(|interval| interval.requests > 0).map(point).collect()
}

/// The range of all values; for a logarithmic axis those above 0, with some room on both sides.
fn range_of(values: impl Iterator<Item = f64>, axis: &Axis) -> Range<f64> {
    let values = values.filter(|value| !axis.logarithmic || *value > 0.0);
    let (low, high) = values.fold((f64::INFINITY, 0.0f64), |(low, high), value| (low.min(value), high.max(value)));
    match axis.logarithmic {
        true if low.is_finite() => low / 1.3..high * 1.3,
        true => 0.1..10.0,
        false => 0.0..if high > 0.0 { high * 1.05 } else { 1.0 },
    }
}

fn draw_lines(lines: &Lines) -> Result<String, PredictError> {
    let points = || lines.series.iter().flat_map(|(_, points)| points.iter());
    let x = range_of(points().map(|point| point.0), &lines.x);
    let y = range_of(points().map(|point| point.1), &lines.y);
    drawn(|area| match (lines.x.logarithmic, lines.y.logarithmic) {
        (false, false) => lines.draw(area, x.clone(), y.clone()),
        (false, true) => lines.draw(area, x.clone(), y.clone().log_scale()),
        (true, false) => lines.draw(area, x.clone().log_scale(), y.clone()),
        (true, true) => lines.draw(area, x.clone().log_scale(), y.clone().log_scale()),
    })
}

/// Runs `draw` on an empty figure and returns its SVG, ready to stand in a page.
fn drawn(draw: impl Fn(&Area<'_>) -> Result<(), String>) -> Result<String, PredictError> {
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
        area.fill(&WHITE).map_err(|e| PredictError::Figure(e.to_string()))?;
        draw(&area).map_err(PredictError::Figure)?;
        area.present().map_err(|e| PredictError::Figure(e.to_string()))?;
    }
    // Inside a page the name space is known, and the width is the page's.
    let body = svg.split_once('>').map_or("", |(_, body)| body);
    Ok(format!("<svg viewBox=\"0 0 {} {}\" role=\"img\">{body}", SIZE.0, SIZE.1))
}

/// A number without needless digits.
fn tick(value: &f64) -> String {
    match value.abs() {
        0.0 => "0".to_string(),
        x if x >= 100.0 => format!("{value:.0}"),
        x if x >= 1.0 => format!("{}", (value * 100.0).round() / 100.0),
        _ => format!("{}", (value * 1e6).round() / 1e6),
    }
}

impl Lines {
    fn draw<X, Y>(&self, area: &Area<'_>, x: X, y: Y) -> Result<(), String>
    where
        X: AsRangedCoord<Value = f64>,
        Y: AsRangedCoord<Value = f64>,
        X::CoordDescType: Ranged<ValueType = f64> + ValueFormatter<f64>,
        Y::CoordDescType: Ranged<ValueType = f64> + ValueFormatter<f64>,
    {
        let names: Vec<&str> = self.series.iter().map(|(name, _)| name.as_str()).collect();
        let mut chart = ChartBuilder::on(&legend(area, &names)?)
            .margin(12)
            .margin_top(0)
            .x_label_area_size(56)
            .y_label_area_size(72)
            .build_cartesian_2d(x, y)
            .map_err(|e| e.to_string())?;
        mesh(&mut chart, self.x.title, self.y.title)?;
        for (at, (_, points)) in self.series.iter().enumerate() {
            let line = LineSeries::new(points.iter().copied(), colour(at).stroke_width(2));
            chart.draw_series(line).map_err(|e| e.to_string())?;
            let marked = points.iter().skip(at * 2).step_by(MARK_EVERY).copied();
            draw_marks!(chart.plotting_area(), at, marked);
        }
        Ok(())
    }
}

type Chart<'a, 'b, X, Y> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<X, Y>>;

fn mesh<X, Y>(chart: &mut Chart<'_, '_, X, Y>, x: &str, y: &str) -> Result<(), String>
where
    X: Ranged<ValueType = f64> + ValueFormatter<f64>,
    Y: Ranged<ValueType = f64> + ValueFormatter<f64>,
{
    chart
        .configure_mesh()
        .bold_line_style(BLACK.mix(0.12))
        .light_line_style(TRANSPARENT)
        .x_desc(x)
        .y_desc(y)
        .x_labels(8)
        .y_labels(6)
        .label_style(("sans-serif", FONT))
        .axis_desc_style(("sans-serif", FONT))
        .x_label_formatter(&tick)
        .y_label_formatter(&tick)
        .draw()
        .map_err(|e| e.to_string())
}

/// The names of the series with their marks, in a strip above the chart, where they hide nothing. Returns what is left.
fn legend<'a>(area: &Area<'a>, names: &[&str]) -> Result<Area<'a>, String> {
    let (strip, rest) = area.split_vertically(LEGEND_HEIGHT);
    let mut x = 76;
    for (at, name) in names.iter().enumerate() {
        let middle = LEGEND_HEIGHT / 2;
        draw_marks!(strip, at, [(x, middle)]);
        let style = TextStyle::from(("sans-serif", FONT).into_font()).pos(Pos::new(HPos::Left, VPos::Center));
        strip.draw(&Text::new(*name, (x + 12, middle), style)).map_err(|e| e.to_string())?;
        x += 44 + name.chars().count() as i32 * FONT * 11 / 20;
    }
    Ok(rest)
}

/// Two figures of each candidate that has both.
struct Scatter<'a> {
    runs: &'a [Run],
    x: Axis,
    y: Axis,
    point: fn(&Run) -> Option<(f64, f64)>,
    /// Whether a larger y is better; a smaller x always is.
    up: bool,
    /// A line at this y.
    target: Option<f64>,
}

impl Scatter<'_> {
    /// The points that no other one beats in both figures, from left to right.
    fn front(&self, points: &[Option<(f64, f64)>]) -> Points {
        let better = |a: f64, b: f64| if self.up { a > b } else { a < b };
        let mut sorted: Points = points.iter().flatten().copied().collect();
        sorted
            .sort_by(|a, b| a.0.total_cmp(&b.0).then(if self.up { b.1.total_cmp(&a.1) } else { a.1.total_cmp(&b.1) }));
        let mut front = Points::new();
        for point in sorted {
            if front.last().is_none_or(|best| better(point.1, best.1)) {
                front.push(point);
            }
        }
        front
    }

    fn drawn(&self) -> Result<String, PredictError> {
        let points: Vec<Option<(f64, f64)>> = self.runs.iter().map(self.point).collect();
        let x = range_of(points.iter().flatten().map(|point| point.0), &self.x);
        let y = range_of(points.iter().flatten().map(|point| point.1).chain(self.target), &self.y);
        drawn(|area| match self.y.logarithmic {
            true => self.draw(area, &points, x.clone(), y.clone().log_scale()),
            false => self.draw(area, &points, x.clone(), y.clone()),
        })
    }

    fn draw<Y>(&self, area: &Area<'_>, points: &[Option<(f64, f64)>], x: Range<f64>, y: Y) -> Result<(), String>
    where
        Y: AsRangedCoord<Value = f64>,
        Y::CoordDescType: Ranged<ValueType = f64> + ValueFormatter<f64>,
    {
        let names: Vec<&str> = self.runs.iter().map(|run| run.name.as_str()).collect();
        let target = self.target.map(|target| [(x.start, target), (x.end, target)]);
        let mut chart = ChartBuilder::on(&legend(area, &names)?)
            .margin(12)
            .margin_top(0)
            .x_label_area_size(56)
            .y_label_area_size(72)
            .build_cartesian_2d(x, y)
            .map_err(|e| e.to_string())?;
        mesh(&mut chart, self.x.title, self.y.title)?;
        if let Some(target) = target {
            let dashed = DashedLineSeries::new(target, 6, 5, BLACK.mix(0.6).stroke_width(1));
            chart.draw_series(dashed).map_err(|e| e.to_string())?;
        }
        let front = LineSeries::new(self.front(points), BLACK.mix(0.35).stroke_width(2));
        chart.draw_series(front).map_err(|e| e.to_string())?;
        for (at, point) in points.iter().enumerate() {
            draw_marks!(chart.plotting_area(), at, point.iter().copied());
        }
        Ok(())
    }
}

/// Figures of two quantities, with the Pareto front as a line.
fn scatters(comparison: &Comparison) -> Result<Vec<Figure>, PredictError> {
    let runs = comparison.runs.as_slice();
    let latency = Scatter {
        runs,
        x: axis("price in US dollars"),
        y: log_axis("p99 in ms"),
        point: |run| Some((run.price_usd?, run.all.p99_ns as f64 / 1e6)),
        up: false,
        target: Some(comparison.verdict.target_p99_ns as f64 / 1e6),
    };
    let throughput = Scatter {
        runs,
        x: axis("price in US dollars"),
        y: axis("MB/s"),
        point: |run| Some((run.price_usd?, run.bytes_per_s / 1e6)),
        up: true,
        target: None,
    };
    let energy = Scatter {
        runs,
        x: axis("energy in J"),
        y: log_axis("p99 in ms"),
        point: |run| Some((run.energy_j?, run.all.p99_ns as f64 / 1e6)),
        up: false,
        target: latency.target,
    };
    Ok(vec![
        Figure {
            title: "Price and latency",
            says: "Price of all devices against the 99th percentile of all requests. Further left is cheaper, further down \
                   is faster; the dashed line is the target. The grey line joins those that no other one beats in both.",
            svg: latency.drawn()?,
        },
        Figure {
            title: "Price and throughput",
            says: "Price of all devices against bytes read and written a second. Further left is cheaper, further up is \
                   faster; the grey line joins those that no other one beats in both.",
            svg: throughput.drawn()?,
        },
        Figure {
            title: "Energy and latency",
            says: "Joules of all devices in this run against the 99th percentile of all requests. Further left takes less, \
                   further down is faster; the grey line joins those that no other one beats in both.",
            svg: energy.drawn()?,
        },
    ])
}
