//! What all drawings draw in pixels: words, thin lines, error bars, and the places of names in a legend.

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use crate::picture::{Area, DrawError};

/// Okabe and Ito's colours.
pub(crate) const PALETTE: [RGBColor; 7] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(86, 180, 233),
    RGBColor(230, 159, 0),
    RGBColor(60, 60, 60),
];
/// Half the length of the stroke that ends an error bar.
const CAP: i32 = 5;
/// Where the first name of a legend stands.
pub(crate) const LEGEND_LEFT: i32 = 16;
/// Height of a row of a legend.
pub(crate) const LEGEND_ROW: i32 = 24;

/// The colour of series number `at`.
pub(crate) fn colour(at: usize) -> RGBColor {
    PALETTE[at % PALETTE.len()]
}

/// Words whose middle is at the height of `at`.
pub(crate) fn write(area: &Area<'_>, text: &str, at: (i32, i32), size: i32, from: HPos) -> Result<(), DrawError> {
    let style = TextStyle::from(("sans-serif", size).into_font()).pos(Pos::new(from, VPos::Center));
    area.draw(&Text::new(text, at, style))
}

/// A thin line.
pub(crate) fn line(area: &Area<'_>, from: (i32, i32), to: (i32, i32), opacity: f64) -> Result<(), DrawError> {
    area.draw(&PathElement::new([from, to], BLACK.mix(opacity)))
}

/// A level or upright line with a stroke across at each end.
pub(crate) fn error_bar(area: &Area<'_>, from: (i32, i32), to: (i32, i32), shade: ShapeStyle) -> Result<(), DrawError> {
    let across = if from.1 == to.1 { (0, CAP) } else { (CAP, 0) };
    let cap = |end: (i32, i32)| [(end.0 - across.0, end.1 - across.1), (end.0 + across.0, end.1 + across.1)];
    [[from, to], cap(from), cap(to)].into_iter().try_for_each(|ends| area.draw(&PathElement::new(ends, shade)))
}

/// Where the names of a legend begin: in as many rows as they need in this width.
pub(crate) fn legend_places<'a>(names: impl Iterator<Item = &'a str>, size: i32, width: i32) -> Vec<(i32, i32)> {
    let (mut x, mut y) = (LEGEND_LEFT, 0);
    let place = |name: &str| {
        let step = 48 + letters(name, size);
        if x > LEGEND_LEFT && x + step > width {
            (x, y) = (LEGEND_LEFT, y + LEGEND_ROW);
        }
        let place = (x, y);
        x += step;
        place
    };
    names.map(place).collect()
}

/// Width of a text in pixels, about.
pub(crate) fn letters(text: &str, size: i32) -> i32 {
    text.chars().count() as i32 * size * 9 / 20
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_do_not_fit_into_a_row_begin_another() {
        let names = ["greedy", "cost-benefit", "cost-benefit-2u", "timestamp", "adaptive", "lfs, greedy"];
        let rows: Vec<i32> =
            legend_places(names.into_iter(), 20, 560).into_iter().map(|(_, y)| y / LEGEND_ROW).collect();
        assert_eq!(rows, [0, 0, 0, 1, 1, 1]);
    }
}
