//! Sizes: files of at most 1000 lines and functions of at most 70, tests not counted; what exceeds them may only shrink.

use std::collections::BTreeMap;

use super::Report;
use super::syntax::{functions, is_test_path, test_spans};
use super::tree::{Source, Tree};

const RATCHET: &str = "crates/xtask/ratchet.toml";

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
    let ratchet = match read_ratchet(tree) {
        Ok(ratchet) => ratchet,
        Err(error) => {
            return report.find(RATCHET, 1, error, "write `\"path\" = lines` or `\"path::function\" = lines`");
        }
    };
    let all: Vec<Sized> = tree.sources.iter().flat_map(measure).collect();
    for item in &all {
        judge(item, ratchet.get(&item.key).copied(), report);
    }
    for key in ratchet.keys().filter(|key| !all.iter().any(|item| item.key == **key)) {
        report.find(RATCHET, 1, format!("`{key}` no longer exists"), "remove its line");
    }
}

fn read_ratchet(tree: &Tree) -> Result<BTreeMap<String, usize>, String> {
    let text = tree.texts.get(RATCHET).map_or("", String::as_str);
    toml::from_str(text).map_err(|error| format!("not a table of sizes: {}", error.message()))
}

fn judge(item: &Sized, listed: Option<usize>, report: &mut Report) {
    let Sized { limit, path, line, key, lines } = item;
    let what = format!("{} `{key}` has {lines} lines", limit.what);
    match listed {
        Some(size) if *lines > size => {
            report.find(path, *line, format!("{what}, {size} when it was listed"), "listed sizes may only shrink");
        }
        Some(size) if *lines < size || *lines <= limit.hard => {
            let fix = format!("set its line in {RATCHET} to {lines}, or remove it at {} or less", limit.hard);
            report.find(path, *line, format!("{what}, but the list says {size}"), fix);
        }
        Some(_) => {}
        None if *lines > limit.hard => report.find(path, *line, format!("{what}, over {}", limit.hard), limit.fix),
        None if *lines > limit.soft => report.note(path, *line, format!("{what}, over {}", limit.soft), limit.fix),
        None => {}
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
    fn the_ratchet_turns_one_way() {
        let listed = |size: usize| format!("\"{PATH}::long\" = {size}\n");
        assert_silent(check, &[(PATH, &function_of(80)), (RATCHET, &listed(80))]);
        assert_fires(check, &[(PATH, &function_of(81)), (RATCHET, &listed(80))], "81 lines, 80 when it was listed");
        assert_fires(check, &[(PATH, &function_of(79)), (RATCHET, &listed(80))], "but the list says 80");
        assert_fires(check, &[(PATH, &function_of(70)), (RATCHET, &listed(70))], "but the list says 70");
        assert_fires(check, &[(RATCHET, &listed(80))], "no longer exists");
        assert_fires(check, &[(RATCHET, "what = \"ever\"\n")], "not a table of sizes");
    }
}
