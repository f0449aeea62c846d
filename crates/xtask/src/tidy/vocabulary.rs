//! A type that stands at the root of a crate whose words everybody uses has one meaning: no other crate defines a
//! public type of that name.
//!
//! Elsewhere a path tells two names apart, and a private type is its file's affair.

use std::collections::{BTreeMap, BTreeSet};

use syn::visit::{self, Visit};
use syn::{Ident, ItemMod, ItemUse, Visibility};

use super::Report;
use super::ratchet::{Offence, judge};
use super::syntax::{is_cfg_test, is_test_path, names_of};
use super::tree::{Source, Tree};

/// Crates whose words everybody uses.
const SPOKEN: &[&str] = &["base", "rt", "block", "framing", "vfs"];
/// A module of a protocol has the terms of its standard.
const WIRE: &str = "proto";
const FIX: &str = "use that type, or give this one a name of its own";

pub fn check(tree: &Tree, report: &mut Report) {
    let words = words(tree);
    let mut offences = Vec::new();
    for source in &tree.sources {
        let Some(user) = crate_of(source).filter(|user| !SPOKEN.contains(user)) else { continue };
        for Type { name, line } in types_of(source) {
            if let Some(owner) = words.get(&name).filter(|owner| **owner != user) {
                offences.push(Offence {
                    path: source.path.clone(),
                    line,
                    what: format!("`{name}` is a type of `{owner}`"),
                });
            }
        }
    }
    judge("vocabulary", tree, offences, FIX, report);
}

/// The public types at the roots of the crates, each with its crate.
fn words(tree: &Tree) -> BTreeMap<String, &'static str> {
    let mut words = BTreeMap::new();
    for owner in SPOKEN {
        let sources = || tree.sources.iter().filter(|source| crate_of(source) == Some(owner));
        let defined: BTreeSet<String> = sources().flat_map(types_of).map(|item| item.name).collect();
        let Some(root) = sources().find(|source| source.path.ends_with("/src/lib.rs")) else { continue };
        let mut shown = Shown::default();
        root.ast.iter().for_each(|ast| shown.visit_file(ast));
        shown.0.extend(types_of(root).into_iter().map(|item| item.name));
        words.extend(shown.0.into_iter().filter(|name| defined.contains(name)).map(|name| (name, *owner)));
    }
    words
}

/// The names that a root hands on.
#[derive(Default)]
struct Shown(Vec<String>);

impl<'ast> Visit<'ast> for Shown {
    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        if is_public(&item.vis) {
            names_of(&item.tree, &mut self.0);
        }
    }

    fn visit_item_mod(&mut self, _: &'ast ItemMod) {}
}

fn is_public(visibility: &Visibility) -> bool {
    matches!(visibility, Visibility::Public(_))
}

fn crate_of(source: &Source) -> Option<&str> {
    source.path.strip_prefix("crates/")?.split('/').next()
}

/// The definition of a public type.
struct Type {
    name: String,
    line: usize,
}

/// The public types that a source defines outside its tests and protocols.
fn types_of(source: &Source) -> Vec<Type> {
    let is_wire = source.path.split(['/', '.']).any(|part| part == WIRE);
    let mut types = Types::default();
    match &source.ast {
        Ok(ast) if !is_wire && !is_test_path(&source.path) => types.visit_file(ast),
        _ => {}
    }
    types.0
}

#[derive(Default)]
struct Types(Vec<Type>);

impl Types {
    fn add(&mut self, name: &Ident, visibility: &Visibility) {
        if is_public(visibility) {
            self.0.push(Type { name: name.to_string(), line: name.span().start().line });
        }
    }
}

impl<'ast> Visit<'ast> for Types {
    fn visit_item_mod(&mut self, item: &'ast ItemMod) {
        if !is_cfg_test(&item.attrs) && item.ident != WIRE {
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_item_struct(&mut self, item: &'ast syn::ItemStruct) {
        self.add(&item.ident, &item.vis);
    }

    fn visit_item_enum(&mut self, item: &'ast syn::ItemEnum) {
        self.add(&item.ident, &item.vis);
    }

    fn visit_item_trait(&mut self, item: &'ast syn::ItemTrait) {
        self.add(&item.ident, &item.vis);
    }

    fn visit_item_type(&mut self, item: &'ast syn::ItemType) {
        self.add(&item.ident, &item.vis);
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{assert_fires, assert_silent};
    use super::*;

    const ROOT: (&str, &str) = ("crates/block/src/lib.rs", "pub mod bio;\npub use bio::{Bio, f};\n");
    const WORDS: (&str, &str) = ("crates/block/src/bio.rs", "pub struct Bio;\npub struct Deep;\nstruct Private;\n");

    #[test]
    fn a_word_that_is_defined_again_is_a_finding() {
        for text in ["pub struct Bio;", "pub enum Bio {}", "pub trait Bio {}", "pub type Bio = u8;"] {
            assert_fires(check, &[ROOT, WORDS, ("crates/dev/src/a.rs", text)], "a.rs:1 `Bio` is a type of `block`");
        }
        let at_root = ("crates/rt/src/lib.rs", "pub struct Rt;");
        assert_fires(check, &[at_root, ("crates/dev/src/a.rs", "pub struct Rt;")], "`Rt` is a type of `rt`");
    }

    #[test]
    fn uses_deeper_and_private_types_wire_terms_and_tests_pass() {
        for text in [
            "pub use esker_block::Bio;",
            "pub struct Deep;",
            "struct Bio;",
            "mod proto { pub struct Bio; }",
            "#[cfg(test)] mod t { pub struct Bio; }",
        ] {
            assert_silent(check, &[ROOT, WORDS, ("crates/dev/src/a.rs", text)]);
        }
        let wire = ("crates/nbd/src/proto/a.rs", "pub struct Bio;");
        assert_silent(check, &[ROOT, WORDS, wire, ("crates/a/tests/b.rs", "pub struct Bio;")]);
        assert_silent(check, &[("crates/dev/src/a.rs", "pub struct A;"), ("crates/lab/src/a.rs", "pub struct A;")]);
    }
}
