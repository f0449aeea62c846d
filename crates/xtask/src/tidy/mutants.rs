//! Each mutant takes away lines that stand in the tree. A patch whose guard has moved on proves nothing, which else
//! shows only when `cargo xtask mutate` runs.

use super::Report;
use super::tree::Tree;

const FOLDER: &str = "crates/it/mutants/";

pub fn check(tree: &Tree, report: &mut Report) {
    let patches = tree.texts.iter().filter(|(path, _)| path.starts_with(FOLDER) && path.ends_with(".patch"));
    for (path, text) in patches {
        for Hunk { line, file, old } in hunks(text) {
            if !tree.texts.get(file).is_some_and(|text| holds(text, &old)) {
                report.find(path, line, format!("{file} has no such lines"), "renew the patch from the code as it is");
            }
        }
    }
}

/// What one hunk finds before it changes it.
struct Hunk<'a> {
    line: usize,
    file: &'a str,
    old: Vec<&'a str>,
}

fn hunks(patch: &str) -> Vec<Hunk<'_>> {
    let (mut file, mut hunks) = ("", Vec::<Hunk<'_>>::new());
    for (line, text) in patch.lines().enumerate() {
        if let Some(path) = text.strip_prefix("--- a/") {
            file = path;
        } else if text.starts_with("@@") {
            hunks.push(Hunk { line: line + 1, file, old: Vec::new() });
        } else if let (Some(hunk), Some(old)) = (hunks.last_mut(), text.strip_prefix([' ', '-'])) {
            hunk.old.push(old);
        }
    }
    hunks
}

fn holds(text: &str, old: &[&str]) -> bool {
    let lines: Vec<&str> = text.lines().collect();
    lines.windows(old.len().max(1)).any(|window| window == old)
}

#[cfg(test)]
mod tests {
    use super::super::tests::{assert_fires, assert_silent};
    use super::*;

    const CODE: (&str, &str) = ("crates/a/src/b.rs", "fn f() {\n    guard();\n    act();\n}\n");

    #[test]
    fn a_patch_of_lines_that_are_gone_is_a_finding() {
        let patch = |guard: &str| {
            format!(
                "test: t\nguard: g\n\n--- a/{0}\n+++ b/{0}\n@@ -1,4 +1,3 @@\n fn f() {{\n-    {guard}\n     act();\n }}\n",
                CODE.0
            )
        };
        assert_silent(check, &[CODE, ("crates/it/mutants/m.patch", &patch("guard();"))]);
        assert_fires(check, &[CODE, ("crates/it/mutants/m.patch", &patch("old_guard();"))], "no such lines");
        assert_fires(check, &[("crates/it/mutants/m.patch", &patch("guard();"))], "no such lines");
    }
}
