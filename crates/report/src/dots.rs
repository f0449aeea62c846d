//! Values as dots, one row for each, beside those of a source. Values of one unit share a panel with its scale.

use maud::Markup;
use plotters::prelude::*;
use plotters::style::text_anchor::HPos;

use crate::ink::{PALETTE, line, write};
use crate::number::{rounded, wrapped};
use crate::picture::{Area, DrawError, Drawn, Picture, PlotError};
use crate::scale::Scale;

const MARGIN: i32 = 16;
const FONT: i32 = 14;
const HEADING: i32 = 18;
/// Mean width of a character of the small font, in hundredths of a pixel.
const CHARACTER: i32 = 760;
const LINE: i32 = 20;
const ROW: i32 = 22;
/// Room of a panel beside its rows: its unit above, its ticks below.
const PANEL: i32 = 60;
const PLOT: i32 = 340;
/// Room for the printed values at the right.
const VALUES: i32 = 210;
const DOT: i32 = 5;

/// One value.
#[derive(Clone, Debug, PartialEq)]
pub struct DotRow {
    /// Its name.
    pub name: String,
    /// Our own value.
    pub ours: f64,
    /// The source's own value, if it has one.
    pub source: Option<f64>,
}

/// Values on one scale.
#[derive(Clone, Debug, PartialEq)]
pub struct Panel {
    /// Their unit.
    pub unit: String,
    /// The values, from above.
    pub rows: Vec<DotRow>,
}

/// A chart of dots.
#[derive(Clone, Debug, PartialEq)]
pub struct DotChart {
    /// Its heading.
    pub title: String,
    /// What it shows.
    pub says: String,
    /// How our values were found: measured, or simulated.
    pub found: &'static str,
    /// Its panels, from above.
    pub panels: Vec<Panel>,
}

/// Where heading and sentence of a chart stand.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Head {
    /// In the drawing.
    Drawn,
    /// On the page around it.
    Beside,
}

impl Drawn for DotChart {
    fn heading(&self) -> (&str, &str) {
        (&self.title, &self.says)
    }

    fn svg(&self) -> Result<Markup, PlotError> {
        Ok(self.picture(Head::Beside)?.element())
    }

    fn least_width(&self) -> Option<u32> {
        u32::try_from(self.width()).ok()
    }
}

impl DotChart {
    /// The chart as a file of its own that begins with a comment.
    ///
    /// # Errors
    /// If the drawing library refuses.
    pub fn file(&self, comment: &str) -> Result<String, PlotError> {
        Ok(self.picture(Head::Drawn)?.file(comment))
    }

    fn picture(&self, head: Head) -> Result<Picture, PlotError> {
        Picture::of((&self.title, &self.says), self.size(head), |area| self.draw(area, head))
    }

    /// Where the dots begin: behind the longest name.
    fn left(&self) -> i32 {
        let names = self.panels.iter().flat_map(|panel| &panel.rows).map(|row| row.name.chars().count());
        2 * MARGIN + names.max().unwrap_or(0) as i32 * CHARACTER / 100
    }

    fn width(&self) -> i32 {
        self.left() + PLOT + VALUES
    }

    fn lines(&self) -> Vec<String> {
        wrapped(&self.says, ((self.width() - 2 * MARGIN) * 100 / CHARACTER) as usize)
    }

    /// Where the legend begins: below heading and sentence.
    fn top(&self, head: Head) -> i32 {
        match head {
            Head::Drawn => 2 * MARGIN + HEADING + self.lines().len() as i32 * LINE,
            Head::Beside => MARGIN,
        }
    }

    fn size(&self, head: Head) -> (u32, u32) {
        let panels: i32 = self.panels.iter().map(|panel| PANEL + panel.rows.len() as i32 * ROW).sum();
        (self.width() as u32, (self.top(head) + LINE + panels + MARGIN) as u32)
    }

    fn draw(&self, area: &Area<'_>, head: Head) -> Result<(), DrawError> {
        if head == Head::Drawn {
            write(area, &self.title, (MARGIN, MARGIN + HEADING / 2), HEADING, HPos::Left)?;
            for (line, y) in self.lines().iter().zip((2 * MARGIN + HEADING..).step_by(LINE as usize)) {
                write(area, line, (MARGIN, y), FONT, HPos::Left)?;
            }
        }
        self.legend(area, self.top(head))?;
        let mut y = self.top(head) + LINE;
        for panel in &self.panels {
            self.draw_panel(area, panel, y)?;
            y += PANEL + panel.rows.len() as i32 * ROW;
        }
        Ok(())
    }

    fn legend(&self, area: &Area<'_>, y: i32) -> Result<(), DrawError> {
        mark(area, (MARGIN + DOT, y), true)?;
        write(area, self.found, (MARGIN + 3 * DOT, y), FONT, HPos::Left)?;
        let has_source = self.panels.iter().flat_map(|panel| &panel.rows).any(|row| row.source.is_some());
        if has_source {
            mark(area, (MARGIN + 100, y), false)?;
            write(area, "in the source", (MARGIN + 100 + 3 * DOT, y), FONT, HPos::Left)?;
        }
        Ok(())
    }

    fn draw_panel(&self, area: &Area<'_>, panel: &Panel, top: i32) -> Result<(), DrawError> {
        let left = self.left();
        let scale = Scale::over(panel.rows.iter().flat_map(|row| [Some(row.ours), row.source]).flatten());
        let at = |value: f64| scale.place(value).map(|share| left + (share * f64::from(PLOT)) as i32);
        let (first, last) = (top + ROW + ROW / 2, top + ROW + panel.rows.len() as i32 * ROW);
        write(area, &panel.unit, (left, top + ROW / 2), FONT, HPos::Left)?;
        for (x, tick) in scale.ticks.iter().filter_map(|tick| at(*tick).map(|x| (x, tick))) {
            line(area, (x, first - ROW / 2), (x, last), 0.15)?;
            write(area, &rounded(*tick), (x, last + ROW / 2), FONT, HPos::Center)?;
        }
        for (row, y) in panel.rows.iter().zip((first..).step_by(ROW as usize)) {
            write(area, &row.name, (left - MARGIN, y), FONT, HPos::Right)?;
            line(area, (left, y), (left + PLOT, y), 0.08)?;
            // The source's value is hollow, so that an equal one of ours shows inside.
            let source = row.source.and_then(at);
            source.map_or(Ok(()), |x| mark(area, (x, y), false))?;
            at(row.ours).map_or(Ok(()), |x| mark(area, (x, y), true))?;
            let source = row.source.map(|source| format!(" (source {})", rounded(source))).unwrap_or_default();
            let values = format!("{}{source}", rounded(row.ours));
            write(area, &values, (left + PLOT + MARGIN, y), FONT, HPos::Left)?;
        }
        Ok(())
    }
}

/// A filled circle for a value of ours, a hollow and larger one for a value of the source.
fn mark(area: &Area<'_>, at: (i32, i32), is_ours: bool) -> Result<(), DrawError> {
    match is_ours {
        true => area.draw(&Circle::new(at, DOT, PALETTE[0].filled())),
        false => area.draw(&Circle::new(at, DOT + 2, PALETTE[1].stroke_width(2))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(rows: &[(&str, f64, Option<f64>)]) -> DotChart {
        let rows =
            rows.iter().map(|(name, ours, source)| DotRow { name: name.to_string(), ours: *ours, source: *source });
        let panels = vec![Panel { unit: "ratio <".to_string(), rows: rows.collect() }];
        DotChart { title: "a chart".to_string(), says: "what it shows".to_string(), found: "simulated", panels }
    }

    #[test]
    fn each_value_has_its_dot_its_source_and_its_printed_value() {
        let svg = chart(&[("first_id", 0.465_384, Some(0.5)), ("second", 1.0, None)]).svg().unwrap().into_string();
        for text in ["first_id", "second", "0.4654 (source 0.5)", "ratio &lt;", "simulated", "in the source"] {
            assert!(svg.contains(text), "{text} is missing in {svg}");
        }
        assert_eq!(svg.matches("<circle").count(), 2 + 3, "two in the legend, three values: {svg}");
    }

    #[test]
    fn without_values_of_a_source_the_legend_has_none() {
        let svg = chart(&[("alone", 2.0, None)]).svg().unwrap().into_string();
        assert!(!svg.contains("in the source") && svg.matches("<circle").count() == 2, "{svg}");
    }

    #[test]
    fn nonsense_is_printed_and_has_no_dot() {
        let svg = chart(&[("none", f64::NAN, None)]).svg().unwrap().into_string();
        assert!(svg.contains("NaN") && svg.matches("<circle").count() == 1, "{svg}");
        assert!(DotChart { panels: Vec::new(), ..chart(&[]) }.svg().is_ok());
    }

    #[test]
    fn heading_and_sentence_are_drawn_into_a_file_and_stand_beside_the_chart_on_a_page() {
        let chart = chart(&[("a", 1.0, None)]);
        let count = |svg: &str| ["a chart", "what it shows"].map(|text| svg.matches(text).count());
        assert_eq!(
            count(&chart.svg().unwrap().into_string()),
            [0, 1],
            "the sentence is its label for readers of screens"
        );
        assert_eq!(count(&chart.file("ours").unwrap()), [1, 2]);
    }

    #[test]
    fn a_file_has_a_comment_and_the_name_space() {
        let file = chart(&[("a", 1.0, None)]).file("ours -- here").unwrap();
        assert!(
            file.starts_with("<!-- ours - - here -->\n<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox"),
            "{file}"
        );
    }
}
