//! Series of points in a coordinate system. Each series has a colour of Okabe and Ito's palette, which people with any
//! colour vision can tell apart, and a mark of its own.

use std::ops::Range;

use maud::Markup;
use plotters::coord::ranged1d::{AsRangedCoord, Ranged, ValueFormatter};
use plotters::prelude::*;
use plotters::style::text_anchor::HPos;

use crate::bars::{Bar, BarChart, Category};
use crate::ink::{LEGEND_ROW, colour, error_bar, legend_places, line, write};
use crate::labels::{Space, place};
use crate::number::rounded;
use crate::picture::{Area, DrawError, Drawn, Picture, PlotError};

/// Pixels of the drawing; a page shows them at about half of that on a narrow screen.
pub(crate) const WIDTH: i32 = 560;
const HEIGHT: i32 = 346;
/// Every so many points of a line one carries its mark.
const MARK_EVERY: usize = 10;
const MARK: i32 = 5;
/// Text height in pixels: readable when the page shows a figure at half of its size.
const FONT: i32 = 20;
/// Of the names beside points.
const NAMES: i32 = 18;
/// Room of a legend beside its rows.
const LEGEND: i32 = 10;
/// What a figure says in the place of points.
const NOTHING: &str = "Nothing was measured for this figure.";

/// One axis.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    /// What it shows, with the unit.
    pub title: String,
    /// Whether equal distances are equal ratios. Points that are not above 0 are left out then.
    pub logarithmic: bool,
}

impl Axis {
    /// Equal distances are equal differences.
    pub fn linear(title: &str) -> Axis {
        Axis { title: title.to_string(), logarithmic: false }
    }

    /// Equal distances are equal ratios.
    pub fn logarithmic(title: &str) -> Axis {
        Axis { title: title.to_string(), logarithmic: true }
    }
}

/// How the points of a series are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// Joined, some of them with a mark.
    Line,
    /// Joined by a grey line, behind those that are not lines of help.
    Guide,
    /// Joined by a dashed line, behind as well.
    Dashed,
    /// Each with a mark.
    Marks,
    /// Each with a mark and the name of the series beside it, which the legend then leaves out.
    Named,
}

impl Style {
    fn is_help(self) -> bool {
        matches!(self, Style::Guide | Style::Dashed)
    }
}

/// Points that belong together.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// Its name in the legend; without one it is not there.
    pub name: String,
    /// How it is shown.
    pub style: Style,
    /// Its points, in order.
    pub points: Vec<(f64, f64)>,
    /// Upright error bars: where they stand, and from where to where the true value may lie.
    pub errors: Vec<(f64, [f64; 2])>,
}

impl Series {
    /// Points of a style, without error bars.
    pub fn of(style: Style, name: &str, points: Vec<(f64, f64)>) -> Series {
        Series { name: name.to_string(), style, points, errors: Vec::new() }
    }

    /// A line.
    pub fn line(name: &str, points: Vec<(f64, f64)>) -> Series {
        Series::of(Style::Line, name, points)
    }

    /// Single points.
    pub fn marks(name: &str, points: Vec<(f64, f64)>) -> Series {
        Series::of(Style::Marks, name, points)
    }

    /// A line of help without a name, for instance at a limit.
    pub fn help(style: Style, points: Vec<(f64, f64)>) -> Series {
        Series::of(style, "", points)
    }
}

/// A figure and the sentence that says what it shows.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// Its heading.
    pub title: String,
    /// What it shows.
    pub says: String,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// What is drawn, in the order of the legend.
    pub series: Vec<Series>,
}

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
            $area.draw(&$shape::new(point, MARK, colour($at).stroke_width(2).filled()))?;
        }
    };
}

type Chart<'a, 'b, X, Y> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<X, Y>>;

impl Drawn for Figure {
    fn heading(&self) -> (&str, &str) {
        (&self.title, &self.says)
    }

    fn svg(&self) -> Result<Markup, PlotError> {
        Ok(self.picture()?.element())
    }
}

impl Figure {
    /// The figure as a file of its own that begins with a comment.
    ///
    /// # Errors
    /// If the drawing library refuses.
    pub fn file(&self, comment: &str) -> Result<String, PlotError> {
        Ok(self.picture()?.file(comment))
    }

    fn picture(&self) -> Result<Picture, PlotError> {
        if let Some(bars) = self.as_bars() {
            return bars.picture();
        }
        let size = (WIDTH as u32, (HEIGHT + self.legend_height()) as u32);
        Picture::of((&self.title, &self.says), size, |area| self.draw_on(area))
    }

    fn draw_on(&self, area: &Area<'_>) -> Result<(), DrawError> {
        let (x, y) = (self.range(&self.x, |point| point.0), self.range(&self.y, |point| point.1));
        match (self.x.logarithmic, self.y.logarithmic) {
            (false, false) => self.draw(area, x, y),
            (false, true) => self.draw(area, x, y.log_scale()),
            (true, false) => self.draw(area, x.log_scale(), y),
            (true, true) => self.draw(area, x.log_scale(), y.log_scale()),
        }
    }

    /// Lines of one point each are no lines: the same values as bars.
    fn as_bars(&self) -> Option<BarChart> {
        let shown = || self.series.iter().filter(|series| !series.style.is_help());
        let points: Vec<(&Series, Vec<(f64, f64)>)> =
            shown().map(|series| (series, self.visible(&series.points).collect())).collect();
        let is_short = |points: &Vec<(f64, f64)>| points.iter().all(|point| point.0 == points[0].0);
        let are_lines = points.iter().all(|(series, points)| series.style == Style::Line && is_short(points));
        let first = points.iter().find_map(|(_, points)| points.first())?.0;
        let is_one = points.iter().flat_map(|(_, points)| points).all(|point| point.0 == first);
        let name = |series: &Series, x: f64| {
            let name = if series.name.is_empty() { &self.y.title } else { &series.name };
            if is_one { name.clone() } else { format!("{name} at {}", rounded(x)) }
        };
        let bar = |(series, points): &(&Series, Vec<(f64, f64)>)| {
            let (x, y) = *points.last()?;
            Some(Category { name: name(series, x), bars: vec![Bar::of(y)] })
        };
        let at = if is_one { format!(", at {} {}", self.x.title, rounded(first)) } else { String::new() };
        are_lines.then(|| BarChart {
            title: self.title.clone(),
            says: self.says.clone(),
            unit: format!("{}{at}", self.y.title),
            series: Vec::new(),
            categories: points.iter().filter_map(bar).collect(),
        })
    }

    /// All points and ends of error bars that the axes can show.
    fn all_visible(&self) -> Vec<(f64, f64)> {
        let ends = self.series.iter().flat_map(|series| &series.errors).flat_map(|(x, ends)| ends.map(|y| (*x, y)));
        let points = self.series.iter().flat_map(|series| series.points.iter().copied());
        self.visible(&points.chain(ends).collect::<Vec<_>>()).collect()
    }

    /// The range of all values on an axis: from 0, or with some room on both sides of a logarithmic one.
    fn range(&self, axis: &Axis, value: fn(&(f64, f64)) -> f64) -> Range<f64> {
        let points = self.all_visible();
        let values = points.iter().map(value);
        let (low, high) = values.fold((f64::INFINITY, 0.0f64), |(low, high), value| (low.min(value), high.max(value)));
        match axis.logarithmic {
            true if low.is_finite() => low / 1.3..high * 1.3,
            true => 0.1..10.0,
            false => 0.0..if high > 0.0 { high * 1.05 } else { 1.0 },
        }
    }

    /// The points that the axes can show.
    fn visible<'a>(&'a self, points: &'a [(f64, f64)]) -> impl Iterator<Item = (f64, f64)> + 'a {
        let fits = |axis: &Axis, value: f64| value.is_finite() && (!axis.logarithmic || value > 0.0);
        points.iter().copied().filter(move |point| fits(&self.x, point.0) && fits(&self.y, point.1))
    }

    fn draw<X, Y>(&self, area: &Area<'_>, x: X, y: Y) -> Result<(), DrawError>
    where
        X: AsRangedCoord<Value = f64>,
        Y: AsRangedCoord<Value = f64>,
        X::CoordDescType: Ranged<ValueType = f64> + ValueFormatter<f64>,
        Y::CoordDescType: Ranged<ValueType = f64> + ValueFormatter<f64>,
    {
        let mut chart = ChartBuilder::on(&self.legend(area)?)
            .margin(12)
            .margin_top(0)
            .x_label_area_size(58)
            .y_label_area_size(92)
            .build_cartesian_2d(x, y)?;
        self.mesh(&mut chart)?;
        let (help, shown): (Vec<_>, Vec<_>) = self.series.iter().enumerate().partition(|(_, one)| one.style.is_help());
        let (mut named, mut taken) = (Vec::new(), Vec::new());
        for (at, series) in help.into_iter().chain(shown) {
            let points: Vec<(f64, f64)> = self.visible(&series.points).collect();
            join(&mut chart, series.style, at, &points)?;
            for (x, ends) in &series.errors {
                let [low, high] = ends.map(|y| chart.backend_coord(&(*x, y)));
                error_bar(area, low, high, colour(at).mix(0.7).stroke_width(2))?;
                taken.push(Space { left: low.0 - MARK, top: high.1, right: low.0 + MARK, bottom: low.1 });
            }
            let (first, every) = match series.style {
                Style::Line => (at * 2, MARK_EVERY),
                Style::Marks | Style::Named => (0, 1),
                Style::Guide | Style::Dashed => (points.len(), 1),
            };
            draw_marks!(chart.plotting_area(), at, points.iter().copied().skip(first).step_by(every));
            if series.style == Style::Named {
                named.extend(points.iter().map(|point| (chart.backend_coord(point), series.name.as_str())));
            }
        }
        let (x, y) = chart.plotting_area().get_pixel_range();
        let frame = Space { left: x.start, top: y.start, right: x.end, bottom: y.end };
        let mut shown = self.series.iter().filter(|series| !series.style.is_help());
        match shown.all(|series| self.visible(&series.points).next().is_none()) {
            true => write(area, NOTHING, ((x.start + x.end) / 2, (y.start + y.end) / 2), FONT, HPos::Center),
            false => name_points(area, &named, taken, frame),
        }
    }

    fn mesh<X, Y>(&self, chart: &mut Chart<'_, '_, X, Y>) -> Result<(), DrawError>
    where
        X: Ranged<ValueType = f64> + ValueFormatter<f64>,
        Y: Ranged<ValueType = f64> + ValueFormatter<f64>,
    {
        chart
            .configure_mesh()
            .bold_line_style(BLACK.mix(0.12))
            .light_line_style(TRANSPARENT)
            .x_desc(&self.x.title)
            .y_desc(&self.y.title)
            .x_labels(6)
            .y_labels(6)
            .label_style(("sans-serif", FONT))
            .axis_desc_style(("sans-serif", FONT))
            .x_label_formatter(&tick)
            .y_label_formatter(&tick)
            .draw()
    }

    /// The series that the legend names.
    fn in_legend(&self) -> impl Iterator<Item = (usize, &str)> {
        let named = self.series.iter().enumerate().filter(|(_, series)| series.style != Style::Named);
        named.map(|(at, series)| (at, series.name.as_str())).filter(|(_, name)| !name.is_empty())
    }

    fn legend_places(&self) -> Vec<(i32, i32)> {
        legend_places(self.in_legend().map(|(_, name)| name), FONT, WIDTH)
    }

    fn legend_height(&self) -> i32 {
        self.legend_places().last().map_or(LEGEND, |(_, y)| y + LEGEND_ROW + LEGEND)
    }

    /// The names of the series with their marks, in a strip above the chart, where they hide nothing. Returns what is
    /// left.
    fn legend<'a>(&self, area: &Area<'a>) -> Result<Area<'a>, DrawError> {
        let (strip, rest) = area.split_vertically(self.legend_height());
        for ((at, name), (x, y)) in self.in_legend().zip(self.legend_places()) {
            let middle = y + LEGEND_ROW / 2 + LEGEND / 2;
            draw_marks!(strip, at, [(x, middle)]);
            write(&strip, name, (x + 12, middle), FONT, HPos::Left)?;
        }
        Ok(rest)
    }
}

/// Writes the names of points, with a thin line to those that had to stand further away.
fn name_points(
    area: &Area<'_>,
    named: &[((i32, i32), &str)],
    mut taken: Vec<Space>,
    frame: Space,
) -> Result<(), DrawError> {
    taken.extend(named.iter().map(|(at, _)| Space::around(*at, MARK + 1)));
    for ((at, name), space) in named.iter().zip(place(named, NAMES, taken, frame)) {
        let near = space.nearest(*at);
        if (near.0 - at.0).abs().max((near.1 - at.1).abs()) > 3 * MARK {
            line(area, *at, near, 0.4)?;
        }
        write(area, name, (space.left, (space.top + space.bottom) / 2), NAMES, HPos::Left)?;
    }
    Ok(())
}

/// The line through the points of series number `at`, if its style has one.
fn join<X, Y>(chart: &mut Chart<'_, '_, X, Y>, style: Style, at: usize, points: &[(f64, f64)]) -> Result<(), DrawError>
where
    X: Ranged<ValueType = f64>,
    Y: Ranged<ValueType = f64>,
{
    let points = points.iter().copied();
    let drawn = match style {
        Style::Line => chart.draw_series(LineSeries::new(points, colour(at).stroke_width(2))),
        Style::Guide => chart.draw_series(LineSeries::new(points, BLACK.mix(0.35).stroke_width(2))),
        Style::Dashed => chart.draw_series(DashedLineSeries::new(points, 6, 5, BLACK.mix(0.6).stroke_width(1))),
        Style::Marks | Style::Named => return Ok(()),
    };
    drawn.map(drop)
}

/// A number without needless digits; from 10,000 on in thousands (k), millions (M) and so on.
fn tick(value: &f64) -> String {
    let large = [(1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")];
    let unit = large.into_iter().find(|(factor, _)| value.abs() >= *factor && value.abs() >= 1e4);
    let (factor, unit) = unit.unwrap_or((1.0, ""));
    let value = value / factor;
    match value.abs() {
        0.0 => "0".to_string(),
        x if x >= 100.0 => format!("{value:.0}{unit}"),
        x if x >= 1.0 => format!("{}{unit}", (value * 100.0).round() / 100.0),
        _ => format!("{}", (value * 1e6).round() / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_short() {
        let shown =
            [0.0, 0.001, 1.5, 250.0, 9_999.0, 10_000.0, 250_000.0, 1e6, 1.5e11, -2e13].map(|value| tick(&value));
        assert_eq!(shown, ["0", "0.001", "1.5", "250", "9999", "10k", "250k", "1M", "150G", "-20T"]);
    }
}
