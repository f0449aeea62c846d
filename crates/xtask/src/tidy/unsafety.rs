//! Unsafe code lives in a named list of crates; every other crate forbids it in its root.

use quote::ToTokens;
use syn::AttrStyle;

use super::Report;
use super::syntax::lines_with;
use super::tree::{Source, Tree};

/// Crates whose work cannot be done without unsafe code.
const MAY_BE_UNSAFE: &[&str] = &["hugepage-preload", "rt", "sys"];

/// Single files of other crates, which deny what they cannot forbid.
const MAY_IN_ONE_FILE: &[(&str, &str)] = &[
    ("trace-replay", "crates/trace-replay/src/replay/crossing.rs"),
    ("front-vhost", "crates/front-vhost/src/guest.rs"),
];

pub fn check(tree: &Tree, report: &mut Report) {
    for krate in tree.crates.iter().filter(|krate| !MAY_BE_UNSAFE.contains(&krate.name.as_str())) {
        for root in &krate.roots {
            let source = tree.sources.iter().find(|source| source.path == *root);
            let Some(Ok(ast)) = source.map(|source| &source.ast) else { continue };
            let has_file = MAY_IN_ONE_FILE.iter().any(|(owner, _)| *owner == krate.name);
            let rules_out = |attr| rules_out_unsafe(attr, "forbid") || has_file && rules_out_unsafe(attr, "deny");
            if !ast.attrs.iter().any(rules_out) {
                let fix = "add `#![forbid(unsafe_code)]` below the documentation";
                report.find(root, 1, format!("crate `{}` does not forbid unsafe code", krate.name), fix);
            }
        }
    }
    tree.sources.iter().for_each(|source| check_words(source, report));
}

/// Tests, examples and benchmarks are crates of their own, which the crate root does not bind.
fn check_words(source: &Source, report: &mut Report) {
    let owner = source.path.strip_prefix("crates/").and_then(|rest| rest.split('/').next());
    let Ok(ast) = &source.ast else { return };
    let path = source.path.as_str();
    if owner.is_some_and(|owner| MAY_BE_UNSAFE.contains(&owner))
        || MAY_IN_ONE_FILE.iter().any(|(_, file)| *file == path)
    {
        return;
    }
    for line in lines_with(ast.to_token_stream(), "unsafe") {
        report.find(
            &source.path,
            line,
            "unsafe code outside the crates that may",
            "use or add a safe function of `sys`",
        );
    }
}

fn rules_out_unsafe(attr: &syn::Attribute, how: &str) -> bool {
    let is_inner = matches!(attr.style, AttrStyle::Inner(_));
    is_inner && attr.path().is_ident(how) && attr.meta.to_token_stream().to_string().contains("unsafe_code")
}

#[cfg(test)]
mod tests {
    use super::super::tests::{assert_fires, assert_silent};
    use super::*;

    #[test]
    fn crates_off_the_list_forbid_unsafe_code() {
        assert_silent(check, &[("crates/base/src/lib.rs", "#![forbid(unsafe_code)]\n"), ("crates/rt/src/lib.rs", "")]);
        assert_fires(check, &[("crates/base/src/lib.rs", "//! A.\n")], "does not forbid");
        assert_fires(check, &[("crates/base/src/lib.rs", "#![deny(unsafe_code)]\n")], "does not forbid");
    }

    #[test]
    fn a_crate_with_one_unsafe_file_denies_it_everywhere_else() {
        let (root, denied) = ("crates/trace-replay/src/lib.rs", "#![deny(unsafe_code)]\n");
        let text = "unsafe impl A for B {}\n";
        assert_silent(check, &[(root, denied), ("crates/trace-replay/src/replay/crossing.rs", text)]);
        assert_fires(check, &[(root, denied), ("crates/trace-replay/src/run.rs", text)], "unsafe code outside");
        assert_fires(check, &[(root, "//! A.\n")], "does not forbid");
    }

    #[test]
    fn tests_and_examples_are_bound_too() {
        let text = "fn f() {\n    m!(unsafe { g() });\n}\n";
        assert_fires(check, &[("crates/base/examples/a.rs", text)], "crates/base/examples/a.rs:2 unsafe code");
        assert_silent(
            check,
            &[("crates/rt/tests/a.rs", text), ("crates/base/src/a.rs", "// unsafe\nconst A: &str = \"unsafe\";")],
        );
    }
}
