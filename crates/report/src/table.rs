//! Tables for people: columns below each other, numbers on the right.

use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, ContentArrangement, Table};

/// Blanks between two columns.
const GAP: u16 = 2;

/// Rows below the names of their columns, or without names. A column of numbers, with or without units, is aligned to
/// the right. Cells are wrapped where the table would be wider than `width`.
pub fn table(names: &[&str], rows: &[Vec<String>], width: Option<usize>) -> String {
    render(names, rows, width, &|column| is_of_numbers(rows, column))
}

/// The same, for rows whose first cell is a name, and all others are numbers or stand for one.
pub fn table_of_numbers(names: &[&str], rows: &[Vec<String>]) -> String {
    render(names, rows, None, &|column| column > 0)
}

fn render(names: &[&str], rows: &[Vec<String>], width: Option<usize>, is_right: &dyn Fn(usize) -> bool) -> String {
    let mut table = Table::new();
    table.load_preset(NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    if let Some(width) = width {
        table.set_content_arrangement(ContentArrangement::Dynamic);
        table.set_width(u16::try_from(width).unwrap_or(u16::MAX));
    }
    if !names.is_empty() {
        table.set_header(names);
    }
    table.add_rows(rows);
    let last = table.column_count().saturating_sub(1);
    for (at, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, if at == last { 0 } else { GAP }));
        if is_right(at) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table.trim_fmt()
}

/// Whether a column has numbers, and nothing else but gaps.
fn is_of_numbers(rows: &[Vec<String>], column: usize) -> bool {
    let mut cells =
        rows.iter().filter_map(|row| row.get(column)).filter(|cell| !matches!(cell.as_str(), "" | "-")).peekable();
    cells.peek().is_some() && cells.all(|cell| is_number(cell))
}

/// A number in front of at most one word, its unit.
fn is_number(cell: &str) -> bool {
    let mut words = cell.split(' ');
    let number = words.next().unwrap_or_default().trim_start_matches(['-', '+', '~', '$']);
    let is_unit = |word: &str| !word.is_empty() && word.len() <= 5 && !word.starts_with(|c: char| c.is_ascii_digit());
    number.starts_with(|c: char| c.is_ascii_digit())
        && number.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | ',' | '_' | '%'))
        && words.next().is_none_or(is_unit)
        && words.next().is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows<const N: usize>(rows: &[[&str; N]]) -> Vec<Vec<String>> {
        rows.iter().map(|row| row.iter().map(ToString::to_string).collect()).collect()
    }

    #[test]
    fn numbers_are_on_the_right_and_words_on_the_left() {
        let rows = rows(&[["db", "1.5 GiB", "-"], ["scratch", "12 B", "a snapshot"]]);
        let expected = "name        size  of\ndb       1.5 GiB  -\nscratch     12 B  a snapshot";
        assert_eq!(table(&["name", "size", "of"], &rows, None), expected);
        assert_eq!(table(&[], &rows[..1], None), "db  1.5 GiB  -");
        assert_eq!(table_of_numbers(&["a", "b"], &[vec!["x".into(), "none".into()]]), "a     b\nx  none");
    }

    #[test]
    fn a_cell_is_wrapped_where_the_line_would_be_too_wide() {
        let rows = rows(&[["a", "one two three four"]]);
        assert_eq!(table(&[], &rows, Some(12)), "a  one two\n   three\n   four");
    }

    #[test]
    fn a_column_with_words_is_one_of_words() {
        for cell in ["10.2 ms", "~6.28 kJ", "$150", "68.8 %", "16x", "1,234", "-5"] {
            assert!(is_number(cell), "{cell}");
        }
        for cell in ["4 of 5", "disk", "10 ms of 20", "1:2", "2-way", "unix:1"] {
            assert!(!is_number(cell), "{cell}");
        }
    }
}
