//! Marks of generated blocks are whole, and no table beside them says by hand what records say.
//!
//! Whether a block says what its records say is the matter of tests that are linked with the records: `docs` of
//! `esker-it` and `verb::reference` of `esker-cli`. `cargo xtask docs` mends both.

use super::Report;
use super::tree::Tree;

const BEGIN: &str = "<!-- generated:";
const END: &str = "<!-- end -->";
/// Where tables of parameters and the like are generated.
const PAGES: &str = "docs/reference/kinds/";
/// Beginnings of tables that records say.
const HEADS: &[&str] = &["| parameter |", "| statistic |", "| order |", "| profile | product |"];

pub fn check(tree: &Tree, report: &mut Report) {
    for (path, text) in tree.documents() {
        check_page(path, text, report);
    }
}

fn check_page(path: &str, text: &str, report: &mut Report) {
    let (mut open, mut names): (Option<usize>, Vec<&str>) = (None, Vec::new());
    for (at, line) in text.lines().enumerate().map(|(at, line)| (at + 1, line)) {
        if line.starts_with(BEGIN) {
            if let Some(begin) = open.replace(at) {
                report.find(path, begin, "this block does not end", format!("write `{END}` after it"));
            }
            if names.contains(&line) {
                report.find(path, at, "two blocks have this name", "keep one");
            }
            names.push(line);
        } else if line == END && open.take().is_none() {
            report.find(path, at, "no block ends here", "remove the mark");
        } else if open.is_none() && path.starts_with(PAGES) && HEADS.iter().any(|head| line.starts_with(head)) {
            let fix = format!("put `{BEGIN} WHAT of KIND -->` and `{END}` in its place, and run `cargo xtask docs`");
            report.find(path, at, "a table by hand of what records say", fix);
        }
    }
    if let Some(begin) = open {
        report.find(path, begin, "this block does not end", format!("write `{END}` after it"));
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{assert_fires, assert_silent};
    use super::*;

    const PAGE: &str = "docs/reference/kinds/a.md";

    #[test]
    fn whole_marks_and_other_tables_pass() {
        let block = "<!-- generated: parameters of a -->\n\n| parameter | type |\n|---|---|\n\n<!-- end -->\n";
        let table = "| request | what happens |\n|---|---|\n";
        assert_silent(check, &[(PAGE, &format!("# a\n\n{block}\n{table}<!-- a remark -->\n"))]);
        assert_silent(check, &[("docs/guide/a.md", "| parameter | meaning |\n|---|---|\n")]);
    }

    #[test]
    fn marks_that_do_not_pair_are_findings() {
        assert_fires(check, &[(PAGE, "# a\n\n<!-- generated: b -->\n")], "a.md:3 this block does not end");
        assert_fires(check, &[(PAGE, "<!-- generated: b -->\n<!-- generated: c -->\n<!-- end -->\n")], "a.md:1 ");
        assert_fires(check, &[(PAGE, "# a\n<!-- end -->\n")], "a.md:2 no block ends here");
        assert_fires(check, &[(PAGE, &"<!-- generated: b -->\n<!-- end -->\n".repeat(2))], "a.md:3 two blocks");
    }

    #[test]
    fn a_table_by_hand_is_a_finding() {
        for head in HEADS {
            assert_fires(check, &[(PAGE, &format!("# a\n\n{head} b |\n|---|---|\n"))], "a.md:3 a table by hand");
        }
    }
}
