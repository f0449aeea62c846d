//! A crate depends only on crates with a lower number; unnumbered crates are tools that no crate builds on.

use super::Report;
use super::architecture::{Row, crate_table};
use super::tree::{Crate, Dep, Tree};

/// The unnumbered crates that others may use, in their tests.
const TEST_HELPERS: &[&str] = &["testkit", "skip"];

pub fn check(tree: &Tree, report: &mut Report) {
    let rows = crate_table(tree);
    for krate in &tree.crates {
        for dep in &krate.deps {
            if let Some(what) = violation(&rows, krate, dep) {
                let fix = "move the shared words to a lower crate, or the user to a higher one (ARCHITECTURE.md)";
                report.find(&format!("crates/{}/Cargo.toml", krate.name), 1, what, fix);
            }
        }
    }
}

fn violation(rows: &[Row], user: &Crate, dep: &Dep) -> Option<String> {
    if dep.dev && TEST_HELPERS.contains(&dep.name.as_str()) {
        return None;
    }
    // Crates that the table does not know are the architecture rule's finding.
    let number_of = |name: &str| rows.iter().find(|row| row.name == name).map(|row| row.number);
    match (number_of(&user.name)?, number_of(&dep.name)?) {
        (None, _) => None,
        (Some(_), None) => Some(format!("`{}` depends on the unnumbered crate `{}`", user.name, dep.name)),
        (Some(above), Some(below)) if below < above => None,
        (Some(above), Some(below)) => {
            Some(format!("`{}` ({above}) depends on `{}` ({below}), which is not lower", user.name, dep.name))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::findings;
    use super::*;

    const TABLE: &str =
        "| 0 | `base` | a | b |\n| 2 | `block` | a | b |\n| 2 | `dev` | a | b |\n| – | `testkit` | a | b |\n";

    fn check_dep(user: &str, dep: &str, dev: bool) -> Vec<String> {
        let mut tree = Tree::of(&[("ARCHITECTURE.md", TABLE)]);
        let deps = vec![Dep { name: dep.into(), dev }];
        tree.crates.push(Crate { name: user.into(), roots: Vec::new(), deps });
        findings(check, &tree)
    }

    #[test]
    fn lower_crates_and_test_helpers_in_tests_are_allowed() {
        let allowed =
            [("block", "base", false), ("testkit", "dev", false), ("base", "testkit", true), ("base", "skip", true)];
        for (user, dep, dev) in allowed {
            assert!(check_dep(user, dep, dev).is_empty(), "{user} -> {dep}");
        }
    }

    #[test]
    fn equal_or_higher_numbers_are_findings_even_in_tests() {
        for (user, dep, dev) in [("base", "block", false), ("block", "dev", false), ("block", "dev", true)] {
            assert_eq!(check_dep(user, dep, dev).len(), 1, "{user} -> {dep}");
        }
    }

    #[test]
    fn nothing_numbered_builds_on_an_unnumbered_crate() {
        assert!(check_dep("base", "testkit", false)[0].contains("unnumbered"));
    }
}
