//! Sizes: files of at most 1000 lines and functions of at most 70, tests not counted; what exceeds them may only
//! shrink.

use super::Report;
use super::ratchet::{Ratchet, Verdict};
use super::syntax::{functions, is_test_path, test_spans};
use super::tree::{Source, Tree};

struct Limit {
    what: &'static str,
    soft: usize,
    hard: usize,
    fix: &'static str,
}

const FILE: Limit = Limit { what: "file", soft: 500, hard: 1000, fix: "split it along its responsibilities" };
const FUNCTION: Limit = Limit { what: "function", soft: 40, hard: 70, fix: "keep the control flow, move leaves out" };

/// Something with a size: `key` is `path` for files and `path::name` for functions.
struct Sized<'a> {
    limit: &'a Limit,
    path: &'a str,
    line: usize,
    key: String,
    lines: usize,
}

pub fn check(tree: &Tree, report: &mut Report) {
    let Some(mut ratchet) = Ratchet::of("budgets", tree, report) else { return };
    for item in tree.sources.iter().flat_map(measure) {
        judge(&item, &mut ratchet, report);
    }
    ratchet.finish(report);
}

fn judge(item: &Sized, ratchet: &mut Ratchet, report: &mut Report) {
    let Sized { limit, path, line, key, lines } = item;
    let what = format!("{} `{key}` has {lines} lines", limit.what);
    match ratchet.verdict(key, *lines, limit.hard, report) {
        Verdict::Grown(listed) => {
            report.find(path, *line, format!("{what}, {listed} when it was listed"), "listed sizes may only shrink");
        }
        Verdict::New => report.find(path, *line, format!("{what}, over {}", limit.hard), limit.fix),
        Verdict::Fine if *lines > limit.soft => {
            report.note(path, *line, format!("{what}, over {}", limit.soft), limit.fix);
        }
        Verdict::Fine | Verdict::Shrunk => {}
    }
}

/// The sizes in one source; nothing for test code.
fn measure(source: &Source) -> Vec<Sized<'_>> {
    let Ok(ast) = &source.ast else { return Vec::new() };
    if is_test_path(&source.path) {
        return Vec::new();
    }
    let tests: usize = test_spans(ast).iter().map(|(first, last)| last + 1 - first).sum();
    let lines = source.text.lines().count() - tests;
    let mut all = vec![Sized { limit: &FILE, path: &source.path, line: 1, key: source.path.clone(), lines }];
    for function in functions(ast).iter().filter(|function| !function.in_test) {
        all.push(Sized {
            limit: &FUNCTION,
            path: &source.path,
            line: function.first,
            key: format!("{}::{}", source.path, function.qualified),
            lines: function.last + 1 - function.first,
        });
    }
    all
}

#[cfg(test)]
mod tests {
    use super::super::ratchet;
    use super::super::tests::{assert_fires, assert_silent};
    use super::*;

    const PATH: &str = "crates/base/src/big.rs";

    fn function_of(lines: usize) -> String {
        format!("fn long() {{\n{}}}\n", "    step();\n".repeat(lines - 2))
    }

    #[test]
    fn functions_and_files_over_the_hard_limit_are_findings() {
        assert_silent(check, &[(PATH, &function_of(70))]);
        assert_fires(check, &[(PATH, &function_of(71))], "`crates/base/src/big.rs::long` has 71 lines, over 70");
        assert_silent(check, &[(PATH, &"struct A;\n".repeat(1000))]);
        assert_fires(check, &[(PATH, &"struct A;\n".repeat(1001))], "has 1001 lines");
    }

    #[test]
    fn tests_do_not_count() {
        let body = function_of(1100);
        assert_silent(check, &[(PATH, &format!("#[cfg(test)]\nmod tests {{\n{body}}}\n"))]);
        assert_silent(check, &[("crates/base/src/tests.rs", &body), ("crates/it/tests/a.rs", &body)]);
    }

    #[test]
    fn over_the_soft_limit_is_a_note() {
        let mut report = Report::default();
        check(&Tree::of(&[(PATH, &function_of(41))]), &mut report);
        assert_eq!((report.findings.len(), report.notes.len()), (0, 1));
    }

    #[test]
    fn a_listed_size_may_only_shrink() {
        let listed = |size: usize| format!("[budgets]\n\"{PATH}::long\" = {size}\n");
        assert_silent(check, &[(PATH, &function_of(80)), (ratchet::PATH, &listed(80))]);
        assert_fires(check, &[(PATH, &function_of(81)), (ratchet::PATH, &listed(80))], "81 lines, 80 when");
        assert_fires(check, &[(PATH, &function_of(79)), (ratchet::PATH, &listed(80))], "stands at 80 in [budgets]");
        assert_fires(check, &[(PATH, &function_of(70)), (ratchet::PATH, &listed(70))], "stands at 70 in [budgets]");
        assert_fires(check, &[(ratchet::PATH, &listed(80))], "nothing left to list");
    }
}
