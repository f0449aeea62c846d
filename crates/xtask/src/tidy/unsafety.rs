//! Unsafe code lives in a named list of crates; every other crate forbids it in its root.

use quote::ToTokens;
use syn::AttrStyle;

use super::Report;
use super::tree::Tree;

/// Crates whose work cannot be done without unsafe code.
const MAY_BE_UNSAFE: &[&str] = &["rt"];

pub fn check(tree: &Tree, report: &mut Report) {
    for krate in tree.crates.iter().filter(|krate| !MAY_BE_UNSAFE.contains(&krate.name.as_str())) {
        for root in &krate.roots {
            let source = tree.sources.iter().find(|source| source.path == *root);
            let Some(Ok(ast)) = source.map(|source| &source.ast) else { continue };
            if !ast.attrs.iter().any(forbids_unsafe) {
                let fix = "add `#![forbid(unsafe_code)]` below the documentation";
                report.find(root, 1, format!("crate `{}` does not forbid unsafe code", krate.name), fix);
            }
        }
    }
}

fn forbids_unsafe(attr: &syn::Attribute) -> bool {
    let is_inner = matches!(attr.style, AttrStyle::Inner(_));
    is_inner && attr.path().is_ident("forbid") && attr.meta.to_token_stream().to_string().contains("unsafe_code")
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
}
