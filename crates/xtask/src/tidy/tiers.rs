//! A crate depends only on crates of lower tiers, its name begins with its family, and ARCHITECTURE.md and the crate's
//! root state the same invariant.

mod table;

use std::ops::RangeInclusive;

use super::Report;
use super::tree::{Crate, Dep, Tree};
use table::{PAGE, Row};

/// The crates without a tier that others may use, in their tests.
const TEST_HELPERS: &[&str] = &["testkit", "skip"];
/// First words of names, with the tiers in which such crates stand.
const FAMILIES: &[(&str, RangeInclusive<u32>)] = &[
    ("dev", 3..=3),
    ("front", 8..=8),
    ("fs", 4..=7),
    ("hugepage", 3..=8),
    ("lab", 10..=12),
    ("layer", 4..=6),
    ("range", 6..=6),
    ("trace", 2..=8),
];

pub fn check(tree: &Tree, report: &mut Report) {
    let rows = table::rows(tree);
    check_rows(tree, &rows, report);
    for krate in &tree.crates {
        check_deps(&rows, krate, report);
        match rows.iter().find(|row| row.name == krate.name) {
            None => {
                let what = format!("crate `{}` is missing in the crate table", krate.name);
                report.find(PAGE, 1, what, "add a row: tier, name, purpose, invariant");
            }
            Some(row) => check_roots(tree, krate, row, report),
        }
    }
}

fn check_rows(tree: &Tree, rows: &[Row], report: &mut Report) {
    for (at, row) in rows.iter().enumerate() {
        let mut find = |what: String, fix: &str| report.find(PAGE, row.line, what, fix);
        if !tree.has_crate(&row.name) {
            find(format!("the table lists `{}`, which is no workspace member", row.name), "remove the row");
        }
        if rows[..at].iter().any(|earlier| earlier.name == row.name) {
            find(format!("the table lists `{}` twice", row.name), "keep one row");
        }
        if row.purpose.is_empty() || row.invariant.is_empty() {
            find(format!("`{}` lacks its purpose or its invariant", row.name), "fill both cells");
        }
        if let Some(what) = stranger(row) {
            find(what, "name the crate after its family, or add the family to crates/xtask/src/tidy/tiers.rs");
        }
    }
}

/// What is wrong with the first word of a name. Tools need no family.
fn stranger(row: &Row) -> Option<String> {
    let (tier, (first, _)) = (row.tier?, row.name.split_once('-')?);
    match FAMILIES.iter().find(|(family, _)| *family == first) {
        None => Some(format!("`{}` names a family `{first}` that there is not", row.name)),
        Some((_, tiers)) if !tiers.contains(&tier) => {
            Some(format!("`{}` stands at tier {tier}, its family at {} to {}", row.name, tiers.start(), tiers.end()))
        }
        Some(_) => None,
    }
}

fn check_deps(rows: &[Row], krate: &Crate, report: &mut Report) {
    for what in krate.deps.iter().filter_map(|dep| violation(rows, krate, dep)) {
        let fix = "move the shared words to a lower crate, or the user to a higher one (ARCHITECTURE.md)";
        report.find(&format!("crates/{}/Cargo.toml", krate.name), 1, what, fix);
    }
}

fn violation(rows: &[Row], user: &Crate, dep: &Dep) -> Option<String> {
    if dep.dev && TEST_HELPERS.contains(&dep.name.as_str()) {
        return None;
    }
    // A crate that the table lacks is a finding of its own.
    let tier_of = |name: &str| rows.iter().find(|row| row.name == name).map(|row| row.tier);
    match (tier_of(&user.name)?, tier_of(&dep.name)?) {
        (None, _) => None,
        (Some(_), None) => Some(format!("`{}` depends on `{}`, which has no tier", user.name, dep.name)),
        (Some(above), Some(below)) if below < above => None,
        (Some(above), Some(below)) => {
            Some(format!("`{}` ({above}) depends on `{}` ({below}), which is not lower", user.name, dep.name))
        }
    }
}

/// Every root says an invariant; that of the crate's first root, its library if it has one, begins with the table's.
fn check_roots(tree: &Tree, krate: &Crate, row: &Row, report: &mut Report) {
    let first = krate.roots.iter().find(|root| root.ends_with("/lib.rs")).or(krate.roots.first());
    for root in &krate.roots {
        let text = tree.texts.get(root).map_or("", String::as_str);
        let doc: Vec<&str> = text.lines().map_while(|line| line.strip_prefix("//!")).collect();
        if doc.is_empty() {
            report.find(root, 1, "the crate root does not open with `//!`", "say its purpose in one sentence");
            continue;
        }
        let Some(at) = doc.iter().position(|line| line.contains("Invariant:")) else {
            let what = "the crate's documentation has no `Invariant:` line";
            report.find(root, 1, what, "say what the crate never does");
            continue;
        };
        let paragraph: Vec<&str> =
            doc[at..].iter().map(|line| line.trim()).take_while(|line| !line.is_empty()).collect();
        if Some(root) == first && !states(&paragraph.join(" "), &row.invariant) {
            let what = format!("the root's invariant does not begin with the table's: {}", row.invariant);
            report.find(root, at + 1, what, format!("say the same here and in {PAGE}; details go into more sentences"));
        }
    }
}

/// Whether the text says the invariant as its first sentence.
fn states(text: &str, invariant: &str) -> bool {
    let text = text.split_once("Invariant:").map_or("", |(_, after)| after).trim_start();
    // A link to an item reads as the item.
    let text = text.replace("[`", "`").replace("`]", "`");
    text.strip_prefix(invariant.trim_end_matches('.')).is_some_and(|rest| rest == "." || rest.starts_with(". "))
}

#[cfg(test)]
mod tests {
    use super::super::tests::{assert_fires, assert_silent, findings};
    use super::*;

    const ROW: &str = "| 0 | `base` | words | no I/O |\n";
    const ROOT: (&str, &str) = ("crates/base/src/lib.rs", "//! Words.\n//!\n//! Invariant: no I/O. No clock.\n");

    #[test]
    fn a_listed_and_documented_crate_is_fine() {
        assert_silent(check, &[(PAGE, ROW), ROOT]);
        let long = ("crates/base/src/lib.rs", "//! Words.\n//!\n//! Invariant: no\n//! [`I/O`].\n//!\n//! More.\n");
        assert_silent(check, &[(PAGE, "| 0 | `base` | words | no `I/O` |\n"), long]);
    }

    #[test]
    fn both_lists_must_agree() {
        assert_fires(check, &[(PAGE, ""), ROOT], "missing in the crate table");
        assert_fires(check, &[(PAGE, ROW)], "no workspace member");
        assert_fires(check, &[(PAGE, &ROW.repeat(2)), ROOT], "twice");
    }

    #[test]
    fn purpose_and_invariant_are_required_in_both_places() {
        assert_fires(check, &[(PAGE, ROW), (ROOT.0, "//! Words.\n")], "no `Invariant:`");
        assert_fires(check, &[(PAGE, ROW), (ROOT.0, "mod a;\n")], "does not open");
        let empty = (PAGE, "| 0 | `base` | words | |\n");
        assert!(findings(check, &Tree::of(&[empty, ROOT]))[0].contains("lacks its purpose"));
    }

    #[test]
    fn the_invariants_are_one() {
        for other in ["no clock.", "no I/O in tests.", "it never does I/O."] {
            let text = format!("//! Words.\n//!\n//! Invariant: {other}\n");
            assert_fires(check, &[(PAGE, ROW), (ROOT.0, &text)], "lib.rs:3 the root's invariant does not begin");
        }
    }

    #[test]
    fn a_family_has_its_tiers() {
        let named = |tier: &str, name: &str| {
            let row = format!("| {tier} | `{name}` | words | no I/O |\n");
            findings(check, &Tree::of(&[(PAGE, &row), (&format!("crates/{name}/src/lib.rs"), ROOT.1)]))
        };
        for (tier, name) in [("5", "layer-mirror"), ("3", "dev"), ("8", "front-nbd"), ("–", "able-samples")] {
            assert_eq!(named(tier, name), Vec::<String>::new());
        }
        assert!(named("8", "layer-mirror")[0].contains("its family at 4 to 6"));
        assert!(named("5", "mirror-layer")[0].contains("a family `mirror`"));
    }

    const TABLE: &str =
        "| 0 | `base` | a | b |\n| 2 | `block` | a | b |\n| 2 | `cleaning` | a | b |\n| – | `testkit` | a | b |\n";

    fn check_dep(user: &str, dep: &str, dev: bool) -> Option<String> {
        let krate = Crate { name: user.into(), roots: Vec::new(), deps: Vec::new() };
        violation(&table::rows(&Tree::of(&[(PAGE, TABLE)])), &krate, &Dep { name: dep.into(), dev })
    }

    #[test]
    fn lower_crates_and_test_helpers_in_tests_are_allowed() {
        let allowed =
            [("block", "base", false), ("testkit", "block", false), ("base", "testkit", true), ("base", "skip", true)];
        for (user, dep, dev) in allowed {
            assert_eq!(check_dep(user, dep, dev), None, "{user} -> {dep}");
        }
    }

    #[test]
    fn equal_or_higher_tiers_are_findings_even_in_tests() {
        for (user, dep, dev) in [("base", "block", false), ("block", "cleaning", false), ("block", "cleaning", true)] {
            assert!(check_dep(user, dep, dev).is_some_and(|what| what.contains("not lower")), "{user} -> {dep}");
        }
    }

    #[test]
    fn nothing_with_a_tier_builds_on_a_crate_without_one() {
        assert!(check_dep("base", "testkit", false).is_some_and(|what| what.contains("no tier")));
    }
}
