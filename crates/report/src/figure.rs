//! Series of points in a coordinate system. Each series has a colour of Okabe and Ito's palette, which people with any
//! colour vision can tell apart, and a mark of its own.

use std::ops::Range;

use maud::Markup;
use plotters::coord::ranged1d::{AsRangedCoord, Ranged, ValueFormatter};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use crate::picture::{Area, DrawError, Picture, PlotError};

const SIZE: (u32, u32) = (760, 380);
pub(crate) const PALETTE: [RGBColor; 7] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(86, 180, 233),
    RGBColor(230, 159, 0),
    RGBColor(60, 60, 60),
];
/// Every so many points of a line one carries its mark.
const MARK_EVERY: usize = 10;
const MARK: i32 = 5;
/// Text height in pixels: readable when the page shows a figure at two thirds of its size.
const FONT: i32 = 18;
const LEGEND_HEIGHT: i32 = 34;
const LEGEND_ROW: i32 = 24;
const LEGEND_LEFT: i32 = 76;

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
}

impl Series {
    /// A line.
    pub fn line(name: &str, points: Vec<(f64, f64)>) -> Series {
        Series { name: name.to_string(), style: Style::Line, points }
    }

    /// Single points.
    pub fn marks(name: &str, points: Vec<(f64, f64)>) -> Series {
        Series { name: name.to_string(), style: Style::Marks, points }
    }

    /// A line of help without a name, for instance at a limit.
    pub fn help(style: Style, points: Vec<(f64, f64)>) -> Series {
        Series { name: String::new(), style, points }
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

fn colour(series: usize) -> RGBColor {
    PALETTE[series % PALETTE.len()]
}

type Chart<'a, 'b, X, Y> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<X, Y>>;

impl Figure {
    /// The figure as an SVG element, ready to stand in a page.
    ///
    /// # Errors
    /// If the drawing library refuses.
    pub fn svg(&self) -> Result<Markup, PlotError> {
        Ok(self.picture()?.element())
    }

    /// The figure as a file of its own that begins with a comment.
    ///
    /// # Errors
    /// If the drawing library refuses.
    pub fn file(&self, comment: &str) -> Result<String, PlotError> {
        Ok(self.picture()?.file(comment))
    }

    fn picture(&self) -> Result<Picture, PlotError> {
        Picture::of((&self.title, &self.says), SIZE, |area| self.draw_on(area))
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

    /// The range of all values on an axis: from 0, or with some room on both sides of a logarithmic one.
    fn range(&self, axis: &Axis, value: fn(&(f64, f64)) -> f64) -> Range<f64> {
        let values = self.series.iter().flat_map(|series| self.visible(series)).map(|point| value(&point));
        let (low, high) = values.fold((f64::INFINITY, 0.0f64), |(low, high), value| (low.min(value), high.max(value)));
        match axis.logarithmic {
            true if low.is_finite() => low / 1.3..high * 1.3,
            true => 0.1..10.0,
            false => 0.0..if high > 0.0 { high * 1.05 } else { 1.0 },
        }
    }

    /// The points that the axes can show.
    fn visible<'a>(&'a self, series: &'a Series) -> impl Iterator<Item = (f64, f64)> + 'a {
        let fits = |axis: &Axis, value: f64| value.is_finite() && (!axis.logarithmic || value > 0.0);
        series.points.iter().copied().filter(move |point| fits(&self.x, point.0) && fits(&self.y, point.1))
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
            .x_label_area_size(56)
            .y_label_area_size(72)
            .build_cartesian_2d(x, y)?;
        self.mesh(&mut chart)?;
        let (help, shown): (Vec<_>, Vec<_>) = self.series.iter().enumerate().partition(|(_, one)| one.style.is_help());
        for (at, series) in help.into_iter().chain(shown) {
            let points: Vec<(f64, f64)> = self.visible(series).collect();
            join(&mut chart, series.style, at, &points)?;
            let (first, every) = match series.style {
                Style::Line => (at * 2, MARK_EVERY),
                Style::Marks => (0, 1),
                Style::Guide | Style::Dashed => (points.len(), 1),
            };
            draw_marks!(chart.plotting_area(), at, points.iter().copied().skip(first).step_by(every));
        }
        Ok(())
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
            .x_labels(8)
            .y_labels(6)
            .label_style(("sans-serif", FONT))
            .axis_desc_style(("sans-serif", FONT))
            .x_label_formatter(&tick)
            .y_label_formatter(&tick)
            .draw()
    }

    /// The names of the series with their marks, in a strip above the chart, where they hide nothing. Returns what is
    /// left.
    fn legend<'a>(&self, area: &Area<'a>) -> Result<Area<'a>, DrawError> {
        let places = self.legend_places();
        let last = places.last().map_or(0, |(_, (_, y))| *y);
        let (strip, rest) = area.split_vertically(last + LEGEND_HEIGHT);
        for (at, (x, y)) in places {
            let middle = y + LEGEND_HEIGHT / 2;
            draw_marks!(strip, at, [(x, middle)]);
            let style = TextStyle::from(("sans-serif", FONT).into_font()).pos(Pos::new(HPos::Left, VPos::Center));
            strip.draw(&Text::new(self.series[at].name.as_str(), (x + 12, middle), style))?;
        }
        Ok(rest)
    }

    /// The named series, and where their marks stand: in as many rows as their names need.
    fn legend_places(&self) -> Vec<(usize, (i32, i32))> {
        let (mut x, mut y) = (LEGEND_LEFT, 0);
        let named = self.series.iter().enumerate().filter(|(_, series)| !series.name.is_empty());
        let place = |(at, series): (usize, &Series)| {
            let width = 44 + series.name.chars().count() as i32 * FONT * 11 / 20;
            if x > LEGEND_LEFT && x + width > SIZE.0 as i32 {
                (x, y) = (LEGEND_LEFT, y + LEGEND_ROW);
            }
            let place = (at, (x, y));
            x += width;
            place
        };
        named.map(place).collect()
    }
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
        Style::Marks => return Ok(()),
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
    fn names_that_do_not_fit_into_a_row_begin_another() {
        let series = ["greedy", "cost-benefit", "cost-benefit-2u", "timestamp", "adaptive", "lfs, greedy", ""];
        let figure = Figure {
            title: String::new(),
            says: String::new(),
            x: Axis::linear("x"),
            y: Axis::linear("y"),
            series: series.map(|name| Series::line(name, vec![(1.0, 1.0)])).into(),
        };
        let rows: Vec<i32> = figure.legend_places().into_iter().map(|(_, (_, y))| y / LEGEND_ROW).collect();
        assert_eq!(rows, [0, 0, 0, 0, 1, 1]);
        assert!(figure.svg().unwrap().into_string().contains("lfs, greedy"));
    }

    #[test]
    fn ticks_are_short() {
        let shown =
            [0.0, 0.001, 1.5, 250.0, 9_999.0, 10_000.0, 250_000.0, 1e6, 1.5e11, -2e13].map(|value| tick(&value));
        assert_eq!(shown, ["0", "0.001", "1.5", "250", "9999", "10k", "250k", "1M", "150G", "-20T"]);
    }
}
