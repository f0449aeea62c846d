//! The crate table of ARCHITECTURE.md.

use super::super::tree::Tree;

pub const PAGE: &str = "ARCHITECTURE.md";

/// A row of the crate table: `| tier or – | `name` | purpose | invariant |`.
pub struct Row {
    pub line: usize,
    pub tier: Option<u32>,
    pub name: String,
    pub purpose: String,
    pub invariant: String,
}

/// The crate table; empty without the page.
pub fn rows(tree: &Tree) -> Vec<Row> {
    let page = tree.texts.get(PAGE).map_or("", String::as_str);
    page.lines().enumerate().filter_map(|(at, line)| parse_row(at + 1, line)).collect()
}

fn parse_row(line: usize, text: &str) -> Option<Row> {
    let mut cells = text.trim().strip_prefix('|')?.trim_end_matches('|').split('|').map(str::trim);
    let tier = match cells.next()? {
        "–" | "-" => None,
        digits => Some(digits.parse().ok()?),
    };
    let name = cells.next()?.strip_prefix('`')?.strip_suffix('`')?.to_string();
    let purpose = cells.next().unwrap_or("").to_string();
    let invariant = cells.next().unwrap_or("").to_string();
    Some(Row { line, tier, name, purpose, invariant })
}
