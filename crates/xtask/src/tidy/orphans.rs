//! No dead files: each source below a crate's `src` is a target's root or is declared by a `mod` of the same crate.

use std::collections::BTreeSet;

use proc_macro2::{TokenStream, TokenTree};
use syn::visit::{self, Visit};
use syn::{ItemMod, Macro};

use super::Report;
use super::tree::{Source, Tree};

pub fn check(tree: &Tree, report: &mut Report) {
    for krate in &tree.crates {
        let folder = format!("crates/{}/src/", krate.name);
        let sources: Vec<&Source> = tree.sources.iter().filter(|source| source.path.starts_with(&folder)).collect();
        let mut declared = Declared::default();
        sources.iter().filter_map(|source| source.ast.as_ref().ok()).for_each(|ast| declared.visit_file(ast));
        for source in sources.iter().filter(|source| !krate.roots.contains(&source.path)) {
            if !declared.names.contains(module_of(&source.path)) {
                let fix = "declare it with `mod`, or delete it: git remembers";
                report.find(&source.path, 1, "no `mod` leads to this file", fix);
            }
        }
    }
}

/// The module that a file holds: its stem, or its folder for `mod.rs`.
fn module_of(path: &str) -> &str {
    let path = path.strip_suffix("/mod.rs").or_else(|| path.strip_suffix(".rs")).unwrap_or(path);
    path.rsplit('/').next().unwrap_or(path)
}

#[derive(Default)]
struct Declared {
    names: BTreeSet<String>,
}

impl Declared {
    fn search(&mut self, tokens: TokenStream) {
        let mut is_mod = false;
        for token in tokens {
            match token {
                TokenTree::Group(group) => self.search(group.stream()),
                TokenTree::Ident(word) if is_mod => {
                    self.names.insert(word.to_string());
                    is_mod = false;
                }
                token => is_mod = token.to_string() == "mod",
            }
        }
    }
}

impl<'ast> Visit<'ast> for Declared {
    fn visit_item_mod(&mut self, item: &'ast ItemMod) {
        if item.content.is_none() {
            self.names.insert(item.ident.to_string());
        }
        visit::visit_item_mod(self, item);
    }

    /// Modules of a feature stand in a macro (`cfg_if!`).
    fn visit_macro(&mut self, item: &'ast Macro) {
        self.search(item.tokens.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{assert_fires, assert_silent};
    use super::*;

    const ROOT: (&str, &str) = ("crates/base/src/lib.rs", "mod a;\nmod b;\n");

    #[test]
    fn declared_files_and_roots_are_alive() {
        assert_silent(check, &[ROOT, ("crates/base/src/a.rs", ""), ("crates/base/src/b/mod.rs", "")]);
    }

    #[test]
    fn a_file_that_nothing_declares_is_dead() {
        assert_fires(check, &[ROOT, ("crates/base/src/c.rs", "")], "no `mod` leads");
        let inline = ("crates/base/src/lib.rs", "mod c { }\n");
        assert_fires(check, &[inline, ("crates/base/src/c.rs", "")], "no `mod` leads");
    }
}
