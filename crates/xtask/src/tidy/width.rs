//! Comment lines have at most 120 columns, as code has. Rustfmt does not wrap them.

use super::Report;
use super::comments::{Comment, comments};
use super::ratchet::{Offence, judge};
use super::tree::Tree;

/// As in rustfmt.toml.
const COLUMNS: usize = 120;

pub fn check(tree: &Tree, report: &mut Report) {
    let mut offences = Vec::new();
    for source in &tree.sources {
        let lines: Vec<&str> = source.text.lines().collect();
        for comment in comments(&source.text) {
            let columns = lines[comment.line - 1].chars().count();
            if columns > COLUMNS && can_wrap(&comment) {
                let what = format!("a comment line of {columns} columns, over {COLUMNS}");
                offences.push(Offence { path: source.path.clone(), line: comment.line, what });
            }
        }
    }
    judge("width", tree, offences, "wrap it, or put a comment behind code above its line", report);
}

/// A row of a table cannot, nor can a single long word such as an address.
fn can_wrap(comment: &Comment<'_>) -> bool {
    let said = comment.text.trim_start_matches(['/', '!']).trim_start();
    !said.starts_with('|') && said.contains(' ')
}

#[cfg(test)]
mod tests {
    use super::super::tests::{assert_fires, assert_silent};
    use super::*;

    fn of(columns: usize) -> String {
        format!("// a {}\n", "é".repeat(columns - 5))
    }

    #[test]
    fn a_wide_comment_is_a_finding() {
        assert_fires(check, &[("a.rs", &format!("fn f() {{}}\n{}", of(121)))], "a.rs:2 a comment line of 121 columns");
        assert_fires(check, &[("a.rs", &format!("fn f() {{}}   {}", of(110)))], "a.rs:1 a comment line of 122 columns");
    }

    #[test]
    fn other_wide_lines_pass() {
        let table = format!("//! | {}|\n", "cell ".repeat(30));
        let text = format!("const A: &str = \"// {}\";\n", "a ".repeat(60));
        let address = format!("// https://example.org/{}\n", "a".repeat(120));
        assert_silent(check, &[("a.rs", &format!("{table}{}{text}{address}", of(120))), ("a.md", &of(300))]);
    }
}
