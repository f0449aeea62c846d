//! Each program that `cargo xtask peers` installs is run by some source, or by a table of programs below `data`: no row
//! outlives its comparison.

use super::Report;
use super::tree::Tree;

const TABLE: &str = "crates/xtask/src/peers.rs";

pub fn check(tree: &Tree, report: &mut Report) {
    // Without the table, as in the fixtures of other rules, there is nothing to compare.
    if tree.paths.contains(TABLE) {
        check_programs(tree, crate::peers::programs(), report);
    }
}

fn check_programs(tree: &Tree, programs: impl Iterator<Item = &'static str>, report: &mut Report) {
    for program in programs {
        let literal = format!("\"{program}\"");
        let sources = tree.sources.iter().filter(|source| !source.path.starts_with("crates/xtask/"));
        let tables = tree.texts.iter().filter(|(path, _)| path.starts_with("data/") && path.ends_with(".toml"));
        let mut users = sources.map(|source| &source.text).chain(tables.map(|(_, text)| text));
        if !users.any(|text| text.contains(&literal)) {
            report.find(TABLE, 1, format!("no source runs `{program}`"), "remove its row, or write the comparison");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_that_nobody_runs_are_findings() {
        let tree = Tree::of(&[("crates/lab/src/a.rs", "fn f() { run(\"fio\") }"), (TABLE, "\"nbdkit\"")]);
        let mut report = Report::default();
        check_programs(&tree, ["fio", "nbdkit"].into_iter(), &mut report);
        let found: Vec<&str> = report.findings.iter().map(|finding| finding.what.as_str()).collect();
        assert_eq!(found, ["no source runs `nbdkit`"]);
    }
}
