//! A test can fail: its body, or a test helper of the same file that it calls, asserts something.

use std::collections::BTreeSet;

use syn::spanned::Spanned;
use syn::visit::{self, Visit};

use super::Report;
use super::syntax::{Function, Word, functions, is_test_path, words};
use super::tree::Tree;

/// A macro or function whose name begins so is taken to assert.
const ASSERTING: &[&str] = &["assert", "debug_assert", "prop_assert", "check", "expect_", "verify"];
/// These too, by their whole name: they panic, or hand back what the test then must have seen.
const ALSO: &[&str] = &["panic", "unwrap_err", "expect_err", "TestCases"];
/// Crates that hold nothing but tests and their helpers.
const TEST_CRATES: &[&str] = &["crates/it/", "crates/testkit/"];

pub fn check(tree: &Tree, report: &mut Report) {
    for source in &tree.sources {
        let Ok(ast) = &source.ast else { continue };
        let all_tests = is_test_path(&source.path) || TEST_CRATES.iter().any(|path| source.path.starts_with(path));
        let functions = functions(ast);
        let asserting = asserting(&functions, all_tests);
        for test in functions.iter().filter(|function| function.is_test) {
            if !test.should_panic && !asserting.contains(test.name.as_str()) {
                let what = format!("test `{}` asserts nothing", test.name);
                report.find(&source.path, test.first, what, "assert what its name promises");
            }
        }
        let mut dropped = DroppedMatches::default();
        dropped.visit_file(ast);
        for line in dropped.lines {
            report.find(&source.path, line, "the answer of `matches!` is dropped", "wrap it in `assert!`");
        }
    }
}

/// Names of the functions that assert, directly or through test helpers of the same file.
fn asserting(functions: &[Function], all_tests: bool) -> BTreeSet<&str> {
    let tests: Vec<(&str, Vec<Word>)> = functions
        .iter()
        .filter(|function| all_tests || function.in_test || function.is_test)
        .map(|function| (function.name.as_str(), words(function.body.clone())))
        .collect();
    let mut known = BTreeSet::new();
    loop {
        let before = known.len();
        for (name, words) in &tests {
            if words.iter().any(|word| asserts(word, &known)) {
                known.insert(*name);
            }
        }
        if known.len() == before {
            return known;
        }
    }
}

fn asserts(word: &Word, known: &BTreeSet<&str>) -> bool {
    let by_name = |name: &str| ASSERTING.iter().any(|start| name.starts_with(start)) || ALSO.contains(&name);
    match word {
        Word::Macro(name) => by_name(name),
        Word::Call(name) => by_name(name) || known.contains(name.as_str()),
        Word::Name(name) => name == "TestCases",
    }
}

/// Lines where `matches!(..);` stands as a statement.
#[derive(Default)]
struct DroppedMatches {
    lines: Vec<usize>,
}

impl<'ast> Visit<'ast> for DroppedMatches {
    fn visit_stmt_macro(&mut self, statement: &'ast syn::StmtMacro) {
        if statement.semi_token.is_some() && statement.mac.path.is_ident("matches") {
            self.lines.push(statement.span().start().line);
        }
        visit::visit_stmt_macro(self, statement);
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{assert_fires, assert_silent};
    use super::*;

    const PATH: &str = "crates/base/src/tests.rs";

    fn check_text(text: &str, is_fine: bool) {
        if is_fine {
            assert_silent(check, &[(PATH, text)])
        } else {
            assert_fires(check, &[(PATH, text)], "asserts nothing")
        }
    }

    #[test]
    fn a_test_that_asserts_is_fine() {
        check_text("#[test] fn a() { assert_eq!(f(), 1); }", true);
        check_text("#[test] fn a() { loom::model(|| { assert!(f()); }); }", true);
        check_text("#[test] #[should_panic] fn a() { f(); }", true);
        check_text(
            "#[test] fn a() { case(1); }\nfn case(x: u8) { inner(x); }\nfn inner(x: u8) { assert!(x > 0); }",
            true,
        );
        check_text("proptest! { #[test] fn a(x in 0..3u8) { prop_assert!(f(x)); } }", true);
        check_text("#[test] fn a() { insta::assert_snapshot!(f()); }", true);
    }

    #[test]
    fn a_test_that_only_runs_is_a_finding() {
        check_text("#[test] fn a() { f().unwrap(); }", false);
        check_text("#[test] fn a() { f().expect(\"works\"); }", false);
        check_text("#[test] fn a() { case(1); }\nfn case(x: u8) { f(x); }", false);
        check_text("proptest! { #[test] fn a(x in 0..3u8) { f(x); } }", false);
    }

    #[test]
    fn the_code_under_test_does_not_assert_for_the_test() {
        let text = "fn f() { assert!(true); }\n#[cfg(test)] mod tests { #[test] fn a() { f(); } }";
        assert_fires(check, &[("crates/base/src/a.rs", text)], "asserts nothing");
    }

    #[test]
    fn a_dropped_matches_is_a_finding() {
        assert_fires(check, &[("a.rs", "fn f() {\n    matches!(1, 2);\n}")], "a.rs:2 the answer");
        assert_silent(check, &[("a.rs", "fn f() -> bool {\n    matches!(1, 2)\n}")]);
    }
}
