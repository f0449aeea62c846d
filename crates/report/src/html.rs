//! Pages of HTML with figures, tables and sections. All text is escaped here.

use crate::figure::{Figure, PlotError};

const STYLE: &str = include_str!("page.css");

/// Text that can stand anywhere in HTML.
pub fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// A sentence with words in backticks, which stand as code on the page.
pub fn prose(text: &str) -> String {
    let parts: Vec<String> = text.split('`').map(escaped).collect();
    if parts.len().is_multiple_of(2) {
        return escaped(text);
    }
    let part = |(at, part): (usize, &String)| if at % 2 == 0 { part.clone() } else { format!("<code>{part}</code>") };
    parts.iter().enumerate().map(part).collect()
}

/// A part of a page; `body` is HTML.
pub fn section(title: &str, body: &str) -> String {
    format!("<section>\n<h2>{}</h2>\n{body}</section>\n", escaped(title))
}

/// Text as it is, in a font with letters of one width.
pub fn verbatim(text: &str) -> String {
    format!("<pre>{}</pre>\n", escaped(text))
}

/// A list of text.
pub fn list(lines: &[String]) -> String {
    let items: String = lines.iter().map(|line| format!("<li>{}</li>\n", prose(line))).collect();
    format!("<ul>\n{items}</ul>\n")
}

/// A table of text. Each column has a title and what the title means; the first column names the rows, and row number
/// `best` stands out.
pub fn table(columns: &[(&str, &str)], rows: &[Vec<String>], best: Option<usize>) -> String {
    let column = |(title, means): &(&str, &str)| {
        format!("<th scope=\"col\" title=\"{}\">{}</th>", escaped(means), escaped(title))
    };
    let head: String = columns.iter().map(column).collect();
    let row = |(at, cells): (usize, &Vec<String>)| {
        let class = if best == Some(at) { " class=\"best\"" } else { "" };
        let name: String =
            cells.iter().take(1).map(|cell| format!("<th scope=\"row\">{}</th>", escaped(cell))).collect();
        let cells: String = cells.iter().skip(1).map(|cell| format!("<td>{}</td>", escaped(cell))).collect();
        format!("<tr{class}>{name}{cells}</tr>\n")
    };
    let body: String = rows.iter().enumerate().map(row).collect();
    format!("<div class=\"wide\"><table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}</tbody>\n</table></div>\n")
}

/// All figures.
///
/// # Errors
/// If one cannot be drawn.
pub fn figures(figures: &[Figure]) -> Result<String, PlotError> {
    let figure = |figure: &Figure| Ok(drawing(&figure.title, &figure.says, &figure.svg()?));
    let figures = figures.iter().map(figure).collect::<Result<String, _>>()?;
    Ok(format!("<div class=\"figures\">\n{figures}</div>\n"))
}

/// One drawing, an SVG element, with its heading and what it shows.
pub fn drawing(title: &str, says: &str, svg: &str) -> String {
    let (title, says) = (escaped(title), escaped(says));
    let svg = svg.replacen("<svg ", &format!("<svg aria-label=\"{says}\" "), 1);
    format!("<figure>\n<h3>{title}</h3>\n{svg}\n<figcaption>{says}</figcaption>\n</figure>\n")
}

/// A whole page with its title as heading; `mark` names the program in a comment, and `body` is HTML.
pub fn page(title: &str, mark: &str, body: &str) -> String {
    styled_page(title, mark, "", &format!("<h1>{}</h1>\n{body}", escaped(title)))
}

/// A whole page whose body brings its own heading, and whose `style` is CSS beside that of all pages.
pub fn styled_page(title: &str, mark: &str, style: &str, body: &str) -> String {
    format!(
        "<!DOCTYPE html>\n<!-- {mark} -->\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n<title>{title}</title>\n<style>\n{STYLE}{style}</style>\n\
         </head>\n<body>\n<main>\n{body}</main>\n</body>\n</html>\n",
        mark = mark.replace("--", "- -"),
        title = escaped(title),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backticks_in_pairs_mark_code_and_a_single_one_stays() {
        assert_eq!(prose("run `a < b` now"), "run <code>a &lt; b</code> now");
        assert_eq!(prose("5` & more"), "5` &amp; more");
    }
}
