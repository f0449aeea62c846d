//! Pages of HTML with figures, tables and sections. All text is escaped here.

use crate::figure::{Figure, PlotError};

const STYLE: &str = include_str!("page.css");

/// Text that can stand anywhere in HTML.
pub fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// A part of a page; `body` is HTML.
pub fn section(title: &str, body: &str) -> String {
    format!("<section>\n<h2>{}</h2>\n{body}</section>\n", escaped(title))
}

/// Text as it is, in a font with letters of one width.
pub fn verbatim(text: &str) -> String {
    format!("<pre>{}</pre>\n", escaped(text))
}

/// All figures.
///
/// # Errors
/// If one cannot be drawn.
pub fn figures(figures: &[Figure]) -> Result<String, PlotError> {
    let figures = figures.iter().map(figure).collect::<Result<String, _>>()?;
    Ok(format!("<div class=\"figures\">\n{figures}</div>\n"))
}

fn figure(figure: &Figure) -> Result<String, PlotError> {
    let says = escaped(&figure.says);
    let svg = figure.svg()?.replacen("<svg ", &format!("<svg aria-label=\"{says}\" "), 1);
    let title = escaped(&figure.title);
    Ok(format!("<figure>\n<h3>{title}</h3>\n{svg}\n<figcaption>{says}</figcaption>\n</figure>\n"))
}

/// A whole page; `mark` says in a comment who wrote it, and `body` is HTML.
pub fn page(title: &str, mark: &str, body: &str) -> String {
    format!(
        "<!DOCTYPE html>\n<!-- {mark} -->\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n<title>{title}</title>\n<style>\n{STYLE}</style>\n\
         </head>\n<body>\n<main>\n<h1>{title}</h1>\n{body}</main>\n</body>\n</html>\n",
        mark = mark.replace("--", "- -"),
        title = escaped(title),
    )
}
