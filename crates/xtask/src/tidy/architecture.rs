//! ARCHITECTURE.md lists each crate exactly once, and each crate's root says the same two things: purpose and invariant.

use super::Report;
use super::tree::Tree;

const PAGE: &str = "ARCHITECTURE.md";

/// A row of the crate table: `| number or – | `name` | purpose | invariant |`.
pub struct Row {
    pub line: usize,
    pub number: Option<u32>,
    pub name: String,
    purpose: String,
    invariant: String,
}

/// The crate table of ARCHITECTURE.md; empty without the page.
pub fn crate_table(tree: &Tree) -> Vec<Row> {
    let page = tree.texts.get(PAGE).map_or("", String::as_str);
    page.lines().enumerate().filter_map(|(at, line)| parse_row(at + 1, line)).collect()
}

fn parse_row(line: usize, text: &str) -> Option<Row> {
    let mut cells = text.trim().strip_prefix('|')?.trim_end_matches('|').split('|').map(str::trim);
    let number = match cells.next()? {
        "–" | "-" => None,
        digits => Some(digits.parse().ok()?),
    };
    let name = cells.next()?.strip_prefix('`')?.strip_suffix('`')?.to_string();
    let purpose = cells.next().unwrap_or("").to_string();
    let invariant = cells.next().unwrap_or("").to_string();
    Some(Row { line, number, name, purpose, invariant })
}

pub fn check(tree: &Tree, report: &mut Report) {
    let rows = crate_table(tree);
    check_rows(tree, &rows, report);
    for krate in &tree.crates {
        if !rows.iter().any(|row| row.name == krate.name) {
            let what = format!("crate `{}` is missing in the crate table", krate.name);
            report.find(PAGE, 1, what, "add a row: number, name, purpose, invariant");
        }
        for root in &krate.roots {
            check_root(root, tree.texts.get(root).map_or("", String::as_str), report);
        }
    }
}

fn check_rows(tree: &Tree, rows: &[Row], report: &mut Report) {
    for (at, row) in rows.iter().enumerate() {
        let mut find = |what: String, fix: &str| report.find(PAGE, row.line, what, fix);
        if !tree.has_crate(&row.name) {
            find(format!("the table lists `{}`, which is no workspace member", row.name), "remove the row");
        }
        if rows[..at].iter().any(|earlier| earlier.name == row.name) {
            find(format!("the table lists `{}` twice", row.name), "keep one row");
        }
        if row.purpose.is_empty() || row.invariant.is_empty() {
            find(format!("`{}` lacks its purpose or its invariant", row.name), "fill both cells");
        }
    }
}

fn check_root(root: &str, text: &str, report: &mut Report) {
    let doc: Vec<&str> = text.lines().take_while(|line| line.starts_with("//!")).collect();
    if doc.is_empty() {
        report.find(root, 1, "the crate root does not open with `//!`", "say its purpose in one sentence");
    } else if !doc.iter().any(|line| line.contains("Invariant:")) {
        report.find(root, 1, "the crate's documentation has no `Invariant:` line", "say what the crate never does");
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{assert_fires, assert_silent};
    use super::*;

    const PAGE_TEXT: &str = "| nr | crate | what | invariant |\n|---|---|---|---|\n| 0 | `base` | words | no I/O |\n";
    const ROOT: (&str, &str) = ("crates/base/src/lib.rs", "//! Words.\n//!\n//! Invariant: no I/O.\n");

    #[test]
    fn a_listed_and_documented_crate_is_fine() {
        assert_silent(check, &[(PAGE, PAGE_TEXT), ROOT]);
    }

    #[test]
    fn both_lists_must_agree() {
        assert_fires(check, &[(PAGE, ""), ROOT], "missing in the crate table");
        assert_fires(check, &[(PAGE, PAGE_TEXT)], "no workspace member");
        let twice = format!("{PAGE_TEXT}| 0 | `base` | words | no I/O |\n");
        assert_fires(check, &[(PAGE, &twice), ROOT], "twice");
    }

    #[test]
    fn purpose_and_invariant_are_required_in_both_places() {
        assert_fires(check, &[(PAGE, "| 0 | `base` | words | |\n"), ROOT], "lacks its purpose");
        assert_fires(check, &[(PAGE, PAGE_TEXT), (ROOT.0, "//! Words.\n")], "no `Invariant:`");
        assert_fires(check, &[(PAGE, PAGE_TEXT), (ROOT.0, "mod a;\n")], "does not open");
    }
}
