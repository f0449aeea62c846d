//! The tree itself is tidy; helpers for the tests of single rules.

use super::*;

#[test]
fn the_tree_is_tidy() {
    let report = run(&crate::root(), None).expect("the tree can be read");
    let lines: Vec<String> = report.findings.iter().map(Finding::to_string).collect();
    assert!(lines.is_empty(), "cargo xtask tidy has {} findings:\n{}", lines.len(), lines.join("\n"));
}

#[test]
fn an_unknown_rule_is_refused_with_the_list() {
    let error = main(&["nonsense".into()]).unwrap_err();
    assert!(error.contains("tiers"), "{error}");
}

/// Runs one rule and returns its findings as `file:line what`.
pub fn findings(check: Check, tree: &Tree) -> Vec<String> {
    let mut report = Report::default();
    check(tree, &mut report);
    report.findings.iter().map(|f| format!("{}:{} {}", f.file, f.line, f.what)).collect()
}

/// Asserts that a rule has exactly one finding in these files and that it holds `what`.
pub fn assert_fires(check: Check, files: &[(&str, &str)], what: &str) {
    let found = findings(check, &Tree::of(files));
    assert!(matches!(found.as_slice(), [one] if one.contains(what)), "expected one finding with {what:?}: {found:?}");
}

/// Asserts that a rule is content with these files.
pub fn assert_silent(check: Check, files: &[(&str, &str)]) {
    let found = findings(check, &Tree::of(files));
    assert!(found.is_empty(), "expected no finding: {found:?}");
}
