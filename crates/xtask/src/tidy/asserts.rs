//! A test can fail: its body, or a test helper of the same file that it calls, asserts something. And no answer of a
//! check is dropped: of `matches!`, or of a function `check…` that returns a `Result` or `bool`.

use std::collections::BTreeSet;

use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{Expr, ItemUse, Pat, ReturnType, Signature, Stmt, Type, UseTree};

use super::Report;
use super::syntax::{Function, Word, functions, is_test_path, names_of, words};
use super::tree::{Source, Tree};

/// A macro or function whose name begins so is taken to assert.
const ASSERTING: &[&str] = &["assert", "debug_assert", "prop_assert", "check", "expect_", "verify"];
/// These too, by their whole name: they panic, or hand back what the test then must have seen.
const ALSO: &[&str] = &["panic", "unwrap_err", "expect_err", "TestCases"];
/// The first word of functions whose answer must be looked at.
const CHECKING: &str = "check";
/// Such functions are found in the file that calls them and in this crate.
const SHARED_CHECKS: &str = "crates/testkit/src/";
const SHARED_CRATE: &str = "esker_testkit";
/// Crates that hold nothing but tests and their helpers.
const TEST_CRATES: &[&str] = &["crates/it/", "crates/testkit/"];

pub fn check(tree: &Tree, report: &mut Report) {
    let shared = answering(tree.sources.iter().filter(|source| source.path.starts_with(SHARED_CHECKS)));
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
        let mut dropped = Dropped { known: answering(std::iter::once(source)), shared: &shared, found: Vec::new() };
        dropped.visit_file(ast);
        for (line, what) in dropped.found {
            let fix = "wrap it in `assert!`, unwrap it, or hand it on";
            report.find(&source.path, line, format!("the answer of `{what}` is dropped"), fix);
        }
    }
}

/// The checks in these sources that answer.
fn answering<'a>(sources: impl Iterator<Item = &'a Source>) -> BTreeSet<String> {
    let mut answers = Answers::default();
    sources.filter_map(|source| source.ast.as_ref().ok()).for_each(|ast| answers.visit_file(ast));
    // A name that stands for two functions in one file cannot be resolved.
    answers.answering.difference(&answers.silent).cloned().collect()
}

/// Names of checks, by whether they return a `Result` or `bool`.
#[derive(Default)]
struct Answers {
    answering: BTreeSet<String>,
    silent: BTreeSet<String>,
}

impl<'ast> Visit<'ast> for Answers {
    fn visit_signature(&mut self, signature: &'ast Signature) {
        let name = signature.ident.to_string();
        if name.starts_with(CHECKING) {
            let answers = match &signature.output {
                ReturnType::Type(_, ty) => matches!(ty.as_ref(), Type::Path(path)
                    if path.path.segments.last().is_some_and(|last| last.ident == "Result" || last.ident == "bool")),
                ReturnType::Default => false,
            };
            let names = if answers { &mut self.answering } else { &mut self.silent };
            names.insert(name);
        }
        visit::visit_signature(self, signature);
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

/// Statements that drop an answer: `matches!(..);`, `check(..);`, `let _ = check(..);` and `check(..).ok();`.
struct Dropped<'a> {
    /// The checks of the file, and those of the shared crate that it uses.
    known: BTreeSet<String>,
    shared: &'a BTreeSet<String>,
    found: Vec<(usize, String)>,
}

impl Dropped<'_> {
    /// The check whose answer `expr` is.
    fn check_in(&self, expr: &Expr) -> Option<String> {
        let name = match expr {
            Expr::Call(call) => match call.func.as_ref() {
                Expr::Path(path) => {
                    let segments = &path.path.segments;
                    let name = segments.last()?.ident.to_string();
                    let is_shared = segments.first()?.ident == SHARED_CRATE && self.shared.contains(&name);
                    // A longer path leads out of the file.
                    return (is_shared || segments.len() == 1 && self.known.contains(&name)).then_some(name);
                }
                _ => return None,
            },
            Expr::MethodCall(call) if call.method == "ok" => return self.check_in(&call.receiver),
            Expr::MethodCall(call) => call.method.to_string(),
            Expr::Await(waits) => return self.check_in(&waits.base),
            _ => return None,
        };
        self.known.contains(&name).then_some(name)
    }
}

impl<'ast> Visit<'ast> for Dropped<'_> {
    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        if let UseTree::Path(path) = &item.tree
            && path.ident == SHARED_CRATE
        {
            let mut names = Vec::new();
            names_of(&item.tree, &mut names);
            self.known.extend(names.into_iter().filter(|name| self.shared.contains(name)));
        }
    }

    fn visit_stmt(&mut self, statement: &'ast Stmt) {
        let dropped = match statement {
            Stmt::Macro(call) if call.semi_token.is_some() && call.mac.path.is_ident("matches") => {
                Some("matches!".to_string())
            }
            Stmt::Expr(expr, Some(_)) => self.check_in(expr),
            Stmt::Local(local) if matches!(local.pat, Pat::Wild(_)) => {
                local.init.as_ref().and_then(|init| self.check_in(&init.expr))
            }
            _ => None,
        };
        self.found.extend(dropped.map(|what| (statement.span().start().line, what)));
        visit::visit_stmt(self, statement);
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

    #[test]
    fn a_dropped_check_is_a_finding() {
        const CHECKS: &str =
            "fn check_a() -> bool { true }\nfn check_b(x: u8) -> Result<(), u8> { Err(x) }\nfn check_c() {}\n";
        let with = |body: &str| format!("{CHECKS}async fn f() -> Result<(), u8> {{\n    {body}\n}}\n");
        for body in ["check_a();", "let _ = check_b(1);", "check_b(1).ok();", "self.check_a();", "if x { check_a(); }"]
        {
            assert_fires(check, &[("a.rs", &with(body))], "a.rs:5 the answer of `check_");
        }
        for body in
            ["check_c();", "check_b(1)?;", "let x = check_a();", "assert!(check_a());", "check_b(1)", "check_z();"]
        {
            assert_silent(check, &[("a.rs", &with(body))]);
        }
    }

    #[test]
    fn checks_are_known_by_the_file_and_by_testkit() {
        const CHECK: &str = "pub async fn check_a() -> Result<(), u8> { Ok(()) }";
        const SHARED: (&str, &str) = ("crates/testkit/src/b.rs", CHECK);
        let user = |begin: &str, call: &str| format!("{begin} async fn f() {{ let _ = {call}().await; }}");
        let imports = user("use esker_testkit::{b, check_a};", "check_a");
        for text in [imports.as_str(), &user("", "esker_testkit::check_a")] {
            assert_fires(check, &[SHARED, ("crates/dev/src/a.rs", text)], "a.rs:1 the answer of `check_a`");
        }
        assert_silent(check, &[("crates/dev/src/a.rs", &imports), ("crates/block/src/b.rs", CHECK)]);
        for text in [user("use super::check_a;", "check_a"), user("use esker_testkit::b;", "other::check_a")] {
            assert_silent(check, &[SHARED, ("crates/dev/src/a.rs", &text)]);
        }
        let twice = user(&format!("{CHECK}\nmod m {{ fn check_a() {{}} }}\n"), "check_a");
        assert_silent(check, &[("crates/dev/src/a.rs", &twice)]);
    }
}
