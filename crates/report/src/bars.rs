//! Values of categories as bars. Each value is printed beside its bar.

use maud::Markup;
use plotters::prelude::*;
use plotters::style::text_anchor::HPos;

use crate::figure::WIDTH;
use crate::ink::{LEGEND_ROW, colour, error_bar, legend_places, letters, line, write};
use crate::number::rounded;
use crate::picture::{Area, DrawError, Drawn, Picture, PlotError};
use crate::scale::Scale;

const MARGIN: i32 = 16;
const FONT: i32 = 18;
const BAR: i32 = 20;
const GAP: i32 = 12;
/// Room for the printed values at the right.
const VALUES: i32 = 110;
/// Room for the ticks and the unit below.
const FOOT: i32 = 56;
/// Letters of a name of a category that have room.
const LETTERS: usize = 20;

/// One bar.
#[derive(Clone, Debug, PartialEq)]
pub struct Bar {
    /// Its length.
    pub value: f64,
    /// From where to where the true value may lie, if that is known.
    pub error: Option<(f64, f64)>,
    /// The value as it is printed.
    pub text: String,
}

impl Bar {
    /// A value without a known error, as numbers are printed.
    pub fn of(value: f64) -> Bar {
        Bar { value, error: None, text: rounded(value) }
    }
}

/// Bars that belong together.
#[derive(Clone, Debug, PartialEq)]
pub struct Category {
    /// Its name.
    pub name: String,
    /// A bar for each series, in their order.
    pub bars: Vec<Bar>,
}

/// A chart of bars.
#[derive(Clone, Debug, PartialEq)]
pub struct BarChart {
    /// Its heading.
    pub title: String,
    /// What it shows.
    pub says: String,
    /// What the length of a bar is, with the unit.
    pub unit: String,
    /// Names of the bars of each category; none if each has but one.
    pub series: Vec<String>,
    /// From above.
    pub categories: Vec<Category>,
}

impl Drawn for BarChart {
    fn heading(&self) -> (&str, &str) {
        (&self.title, &self.says)
    }

    fn svg(&self) -> Result<Markup, PlotError> {
        Ok(self.picture()?.element())
    }
}

impl BarChart {
    pub(crate) fn picture(&self) -> Result<Picture, PlotError> {
        let rows: i32 = self.categories.iter().map(height).sum();
        let size = (WIDTH as u32, (self.top() + rows + FOOT) as u32);
        Picture::of((&self.title, &self.says), size, |area| self.draw(area))
    }

    fn legend(&self) -> Vec<(i32, i32)> {
        legend_places(self.series.iter().map(String::as_str), FONT, WIDTH)
    }

    fn top(&self) -> i32 {
        self.legend().last().map_or(MARGIN, |(_, y)| y + LEGEND_ROW + MARGIN)
    }

    /// Where the bars begin: behind the longest name.
    fn left(&self) -> i32 {
        let names = self.categories.iter().map(|category| letters(&shortened(&category.name), FONT));
        2 * MARGIN + names.max().unwrap_or(0)
    }

    fn draw(&self, area: &Area<'_>) -> Result<(), DrawError> {
        for ((at, name), (x, y)) in self.series.iter().enumerate().zip(self.legend()) {
            let middle = y + LEGEND_ROW / 2 + 4;
            area.draw(&Rectangle::new([(x, middle - 6), (x + 12, middle + 6)], colour(at).filled()))?;
            write(area, name, (x + 20, middle), FONT, HPos::Left)?;
        }
        let (left, top) = (self.left(), self.top());
        let bars = || self.categories.iter().flat_map(|category| &category.bars);
        let scale = Scale::from_zero(bars().flat_map(|bar| [bar.value, bar.error.map_or(0.0, |(_, high)| high)]));
        let at = |value: f64| scale.place(value).map(|share| left + (share * f64::from(WIDTH - VALUES - left)) as i32);
        let end = top + self.categories.iter().map(height).sum::<i32>();
        for (x, tick) in scale.ticks.iter().filter_map(|tick| at(*tick).map(|x| (x, tick))) {
            line(area, (x, top - GAP / 2), (x, end - GAP / 2), 0.15)?;
            write(area, &rounded(*tick), (x, end + GAP / 2), FONT - 2, HPos::Center)?;
        }
        write(area, &self.unit, (left, end + FOOT - 2 * GAP), FONT, HPos::Left)?;
        let mut y = top;
        for category in &self.categories {
            let middle = y + (height(category) - GAP) / 2;
            write(area, &shortened(&category.name), (left - MARGIN / 2, middle), FONT, HPos::Right)?;
            for (number, bar) in category.bars.iter().enumerate() {
                draw_bar(area, bar, colour(number), y + number as i32 * BAR, &at)?;
            }
            y += height(category);
        }
        Ok(())
    }
}

/// Room of a category.
fn height(category: &Category) -> i32 {
    category.bars.len().max(1) as i32 * BAR + GAP
}

/// The end of a name, which tells files of one folder apart.
fn shortened(name: &str) -> String {
    match name.chars().count() {
        count if count > LETTERS => format!("…{}", name.chars().skip(count - LETTERS + 1).collect::<String>()),
        _ => name.to_string(),
    }
}

fn draw_bar(
    area: &Area<'_>,
    bar: &Bar,
    colour: RGBColor,
    top: i32,
    at: &dyn Fn(f64) -> Option<i32>,
) -> Result<(), DrawError> {
    let middle = top + BAR / 2;
    if let (Some(zero), Some(end)) = (at(0.0), at(bar.value)) {
        // A value near 0 stays visible.
        let end = end.max(zero + 1);
        area.draw(&Rectangle::new([(zero, top + 2), (end, top + BAR - 2)], colour.filled()))?;
    }
    if let Some((Some(low), Some(high))) = bar.error.map(|(low, high)| (at(low), at(high))) {
        error_bar(area, (low, middle), (high, middle), BLACK.stroke_width(2))?;
    }
    write(area, &bar.text, (WIDTH - VALUES + MARGIN, middle), FONT, HPos::Left)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(values: &[f64]) -> BarChart {
        let category = |value: &f64| Category { name: format!("<{value}>"), bars: vec![Bar::of(*value), Bar::of(1.0)] };
        BarChart {
            title: "a chart".to_string(),
            says: "what it shows".to_string(),
            unit: "ms".to_string(),
            series: vec!["one".to_string(), "two".to_string()],
            categories: values.iter().map(category).collect(),
        }
    }

    #[test]
    fn each_value_has_its_bar_its_name_and_its_printed_value() {
        let svg = chart(&[0.5, 123.456]).svg().unwrap().into_string();
        for text in ["&lt;0.5&gt;", "123.5", "one", "two", "ms"] {
            assert!(svg.contains(text), "{text} is missing in {svg}");
        }
        assert_eq!(svg.matches("<rect").count(), 2 + 4, "two in the legend: {svg}");
    }

    #[test]
    fn an_error_is_a_line_with_two_ends() {
        let mut chart = chart(&[2.0]);
        let without = chart.svg().unwrap().into_string().matches("<polyline").count();
        chart.categories[0].bars[0].error = Some((1.0, 4.0));
        assert_eq!(chart.svg().unwrap().into_string().matches("<polyline").count(), without + 3);
    }

    #[test]
    fn nothing_and_nonsense_are_drawn_without_a_fault() {
        assert!(chart(&[]).svg().is_ok());
        let svg = chart(&[f64::NAN, -1.0, f64::INFINITY]).svg().unwrap().into_string();
        assert!(svg.contains("NaN") && svg.contains("one"), "{svg}");
        let short = shortened("/a/long/folder/with/a/file.json");
        assert!(short.ends_with("a/file.json") && short.chars().count() == LETTERS, "{short}");
    }
}
