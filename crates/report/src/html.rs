//! Pages of HTML with figures, tables and sections. The library escapes all text.

use maud::{DOCTYPE, Markup, PreEscaped, html};

use crate::picture::{Drawn, PlotError, comment};

const STYLE: &str = include_str!("page.css");

/// A sentence with words in backticks, which stand as code on the page.
pub fn prose(text: &str) -> Markup {
    let parts: Vec<&str> = text.split('`').collect();
    if parts.len().is_multiple_of(2) {
        return html! { (text) };
    }
    html! {
        @for (at, part) in parts.into_iter().enumerate() {
            @if at % 2 == 0 { (part) } @else { code { (part) } }
        }
    }
}

/// A part of a page.
pub fn section(title: &str, body: &Markup) -> Markup {
    html! { section { h2 { (title) } (body) } }
}

/// Several parts, one behind the other.
pub fn together(parts: &[Markup]) -> Markup {
    html! { @for part in parts { (part) } }
}

/// Text as it is, in a font with letters of one width.
pub fn verbatim(text: &str) -> Markup {
    html! { pre { (text) } }
}

/// A list of sentences.
pub fn list(lines: &[String]) -> Markup {
    html! { ul { @for line in lines { li { (prose(line)) } } } }
}

/// A table of text. Each column has a title and what the title means; the first column names the rows, and row number
/// `best` stands out.
pub fn table(columns: &[(&str, &str)], rows: &[Vec<String>], best: Option<usize>) -> Markup {
    html! {
        div.wide { table {
            thead { tr { @for (title, means) in columns { th scope="col" title=(means) { (title) } } } }
            tbody {
                @for (at, row) in rows.iter().enumerate() {
                    tr class=[(best == Some(at)).then_some("best")] {
                        @for cell in row.iter().take(1) { th scope="row" { (cell) } }
                        @for cell in row.iter().skip(1) { td { (cell) } }
                    }
                }
            }
        } }
    }
}

/// All figures, each with its heading and what it shows.
///
/// # Errors
/// If one cannot be drawn.
pub fn figures<'a, D: Drawn + ?Sized + 'a>(figures: impl IntoIterator<Item = &'a D>) -> Result<Markup, PlotError> {
    let drawn = figures.into_iter().map(|figure| {
        let ((title, says), svg) = (figure.heading(), figure.svg()?);
        let least = figure.least_width().map(|width| format!("--least: {width}px"));
        Ok(html! { figure style=[least] { h3 { (title) } (svg) figcaption { (says) } } })
    });
    let drawn = drawn.collect::<Result<Vec<Markup>, PlotError>>()?;
    Ok(html! { div.figures { @for figure in &drawn { (figure) } } })
}

/// A whole page with its title as heading; `mark` names the program in a comment.
pub fn page(title: &str, mark: &str, body: &Markup) -> String {
    styled_page(title, mark, "", &html! { h1 { (title) } (body) })
}

/// A whole page whose body brings its own heading, and whose `style` is CSS beside that of all pages.
pub fn styled_page(title: &str, mark: &str, style: &str, body: &Markup) -> String {
    let page = html! {
        (DOCTYPE) "\n" (comment(mark))
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width";
                title { (title) }
                style { (PreEscaped(STYLE)) (PreEscaped(style)) }
            }
            body { main { (body) } }
        }
    };
    page.into_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backticks_in_pairs_mark_code_and_a_single_one_stays() {
        assert_eq!(prose("run `a < b` now").into_string(), "run <code>a &lt; b</code> now");
        assert_eq!(prose("5` & more").into_string(), "5` &amp; more");
    }
}
