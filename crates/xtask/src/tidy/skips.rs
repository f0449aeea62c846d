//! A test says that it is skipped by `skip` of `esker-skip` alone, which records it; and each test in the list of tests
//! that may be skipped exists.

use std::collections::BTreeSet;

use super::Report;
use super::syntax::functions;
use super::tree::Tree;
use crate::skips::{LIST, Listed};

/// The word that announces a skip. In two parts, because this file is judged too.
const WORD: &str = concat!("SKIP", "PED");
/// The crate that owns the word, and that of experiments, which tell what they leave out in their reports.
const MAY_SAY_IT: &[&str] = &["crates/skip/", "crates/lab/"];

pub fn check(tree: &Tree, report: &mut Report) {
    for source in tree.sources.iter().filter(|source| !MAY_SAY_IT.iter().any(|place| source.path.starts_with(place))) {
        for (at, _) in source.text.lines().enumerate().filter(|(_, line)| line.contains(WORD)) {
            report.find(&source.path, at + 1, "a skip that leaves no record", "call `skip` of esker-skip");
        }
    }
    let Some(text) = tree.texts.get(LIST) else { return };
    match Listed::parse(text) {
        Ok(listed) => check_names(tree, text, &listed, report),
        Err(error) => report.find(LIST, 1, error, "repair the list"),
    }
}

fn check_names(tree: &Tree, text: &str, listed: &Listed, report: &mut Report) {
    let parsed = tree.sources.iter().filter_map(|source| source.ast.as_ref().ok());
    let known: BTreeSet<String> =
        parsed.flat_map(functions).filter(|function| function.is_test).map(|function| function.name).collect();
    for test in listed.tests() {
        let name = test.rsplit([' ', ':']).next().unwrap_or(test);
        if !known.contains(name) {
            let line = text.lines().position(|line| line.contains(test)).map_or(1, |at| at + 1);
            report.find(LIST, line, format!("there is no test `{name}`"), "take it from the list, or name it anew");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{assert_fires, assert_silent};
    use super::*;

    const TEST: (&str, &str) = ("crates/a/src/lib.rs", "#[test] fn t() { assert!(true); }");

    #[test]
    fn a_skip_without_a_record_is_a_finding() {
        let text = format!("fn f() {{ println!(\"{WORD}: no root\"); }}");
        assert_fires(check, &[("crates/a/src/tests.rs", &text)], "leaves no record");
        assert_silent(check, &[("crates/lab/src/a.rs", &text), ("crates/skip/src/lib.rs", &text)]);
    }

    #[test]
    fn a_listed_test_that_is_gone_is_a_finding() {
        assert_silent(check, &[TEST, (LIST, "root = [\"esker-a m::t\"]\n")]);
        assert_fires(check, &[TEST, (LIST, "root = [\"esker-a m::old\"]\n")], "no test `old`");
        assert_fires(check, &[TEST, (LIST, "luck = []\n")], "no ability");
    }
}
