//! The frame of every drawing: what the drawing library draws, as an SVG element of a page or as a file.

use maud::{Markup, PreEscaped, html};
use plotters::coord::Shift;
use plotters::prelude::*;

/// The drawing library refused a figure.
#[derive(Debug, thiserror::Error)]
#[error("the figure {title:?} cannot be drawn: {why}")]
pub struct PlotError {
    title: String,
    why: DrawError,
}

/// What a page shows as a figure.
pub trait Drawn {
    /// Its heading, and what it shows.
    fn heading(&self) -> (&str, &str);

    /// The drawing as an SVG element, ready to stand in a page.
    ///
    /// # Errors
    /// If the drawing library refuses.
    fn svg(&self) -> Result<Markup, PlotError>;

    /// The width in pixels below which it is unreadable. On a screen that has less, it moves in a box of its own.
    fn least_width(&self) -> Option<u32> {
        None
    }
}

/// Why the drawing library refused.
pub(crate) type DrawError = DrawingAreaErrorKind<std::io::Error>;

pub(crate) type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// A drawing and the words that stand for it where it is not seen.
pub(crate) struct Picture {
    says: String,
    size: (u32, u32),
    /// Elements of SVG.
    drawn: Markup,
}

impl Picture {
    /// What `draw` draws on an area of a size. Title and sentence are those of the figure.
    pub(crate) fn of(
        (title, says): (&str, &str),
        size: (u32, u32),
        draw: impl FnOnce(&Area<'_>) -> Result<(), DrawError>,
    ) -> Result<Picture, PlotError> {
        let mut svg = String::new();
        let area = SVGBackend::with_string(&mut svg, size).into_drawing_area();
        let drawn = draw(&area).and_then(|()| area.present());
        drop(area);
        drawn.map_err(|why| PlotError { title: title.to_string(), why })?;
        // The library writes a frame of its own around the elements.
        let inside = svg.split_once('>').map_or("", |(_, rest)| rest);
        let inside = inside.rsplit_once("</svg>").map_or(inside, |(inside, _)| inside);
        Ok(Picture { says: says.to_string(), size, drawn: PreEscaped(inside.to_string()) })
    }

    fn view(&self) -> String {
        format!("0 0 {} {}", self.size.0, self.size.1)
    }

    /// An element of a page, which knows the name space, and gives width and background.
    pub(crate) fn element(&self) -> Markup {
        html! { svg viewBox=(self.view()) role="img" aria-label=(self.says) { (self.drawn) } }
    }

    /// A file on white that begins with a comment.
    pub(crate) fn file(&self, mark: &str) -> String {
        let file = html! {
            (comment(mark))
            svg xmlns="http://www.w3.org/2000/svg" viewBox=(self.view()) role="img" aria-label=(self.says) {
                rect width="100%" height="100%" fill="white" {}
                (self.drawn)
            }
        };
        file.into_string() + "\n"
    }
}

/// A comment on a line of its own. Two hyphens would end it, so they stand apart.
pub(crate) fn comment(text: &str) -> Markup {
    PreEscaped(format!("<!-- {} -->\n", text.replace("--", "- -")))
}
