//! Documentation tests: a crate without code in its documentation switches them off, because the search for none takes
//! `rustdoc` seconds. A crate that has such code runs it.

use toml::{Table, Value};

use super::Report;
use super::tree::Tree;

pub fn check(tree: &Tree, report: &mut Report) {
    for krate in &tree.crates {
        let folder = format!("crates/{}/", krate.name);
        if !krate.roots.contains(&format!("{folder}src/lib.rs")) {
            continue;
        }
        let manifest = format!("{folder}Cargo.toml");
        let is_on = tree.texts.get(&manifest).is_none_or(|text| are_run(text));
        let sources = tree.sources.iter().filter(|source| source.path.starts_with(&format!("{folder}src/")));
        let code = sources.filter_map(|source| Some((&source.path, line_of_code(&source.text)?))).next();
        match code {
            Some((path, line)) if !is_on => {
                report.find(path, line, "this code is not run", "remove `doctest = false` from the manifest")
            }
            None if is_on => report.find(
                &manifest,
                1,
                "no documentation has code",
                "write `[lib]` with `doctest = false`, so that no time goes into the search",
            ),
            _ => {}
        }
    }
}

fn are_run(manifest: &str) -> bool {
    let table: Table = manifest.parse().unwrap_or_default();
    table.get("lib").and_then(|lib| lib.get("doctest")).and_then(Value::as_bool) != Some(false)
}

/// The first line of documentation that begins code in Rust, or brings a page that may.
fn line_of_code(text: &str) -> Option<usize> {
    let mut is_inside = false;
    for (at, line) in text.lines().enumerate() {
        let line = line.trim_start();
        if line.starts_with("#![doc = include_str!") {
            return Some(at + 1);
        }
        let Some(doc) = line.strip_prefix("///").or_else(|| line.strip_prefix("//!")) else { continue };
        let Some(fence) = doc.trim_start().strip_prefix("```") else { continue };
        if !is_inside && !["text", "toml", "sh", "json"].contains(&fence.trim()) {
            return Some(at + 1);
        }
        is_inside = !is_inside;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::super::tests::{assert_fires, assert_silent};
    use super::*;

    const PATH: &str = "crates/base/src/lib.rs";
    const MANIFEST: &str = "crates/base/Cargo.toml";
    const OFF: &str = "[lib]\ndoctest = false\n";
    const TEXT: &str = "//! ```text\n//! a picture\n//! ```\n";

    #[test]
    fn code_is_run_and_its_absence_is_told() {
        assert_silent(check, &[(PATH, "/// ```\n/// a();\n/// ```\nfn a() {}\n"), (MANIFEST, "[package]\n")]);
        assert_silent(check, &[(PATH, TEXT), (MANIFEST, OFF)]);
        assert_fires(check, &[(PATH, "/// ```compile_fail\n/// a();\n/// ```\n"), (MANIFEST, OFF)], "is not run");
        assert_fires(check, &[(PATH, TEXT), (MANIFEST, "[package]\n")], "no documentation has code");
    }
}
