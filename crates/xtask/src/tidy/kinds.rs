//! Each kind in the list of kinds has its page in `docs/reference/kinds`, and each page there describes a kind.
//!
//! The list is read from the source of crate `kinds`: every array of paths in it, where `layers::delay::KIND` is the
//! kind `delay` and `dev::MEMORY` the kind `memory`. Without that crate there is nothing to compare.

use std::collections::BTreeMap;

use syn::visit::{self, Visit};
use syn::{Expr, ExprArray, ItemMod};

use super::Report;
use super::tree::Tree;

const SOURCES: &str = "crates/kinds/src/";
const PAGES: &str = "docs/reference/kinds/";
/// The index of the pages.
const INDEX: &str = "README";

pub fn check(tree: &Tree, report: &mut Report) {
    if !tree.has_crate("kinds") {
        return;
    }
    let kinds = kinds(tree);
    for (kind, (file, line)) in &kinds {
        if !tree.exists(&format!("{PAGES}{kind}.md")) {
            report.find(file, *line, format!("kind `{kind}` has no page"), format!("write {PAGES}{kind}.md"));
        }
    }
    let pages = tree.paths.iter().filter_map(|path| path.strip_prefix(PAGES)?.strip_suffix(".md"));
    for page in pages.filter(|page| *page != INDEX && !kinds.contains_key(*page)) {
        let fix = "add the kind to crate `kinds`, or remove the page";
        report.find(&format!("{PAGES}{page}.md"), 1, format!("there is no kind `{page}`"), fix);
    }
}

/// Kinds by name, with the place that lists them.
fn kinds(tree: &Tree) -> BTreeMap<String, (&str, usize)> {
    let mut all = BTreeMap::new();
    for source in tree.sources.iter().filter(|source| source.path.starts_with(SOURCES)) {
        let Ok(ast) = &source.ast else { continue };
        let mut lists = Lists::default();
        lists.visit_file(ast);
        all.extend(lists.kinds.into_iter().map(|(kind, line)| (kind, (source.path.as_str(), line))));
    }
    all
}

#[derive(Default)]
struct Lists {
    kinds: Vec<(String, usize)>,
}

impl<'ast> Visit<'ast> for Lists {
    fn visit_expr_array(&mut self, array: &'ast ExprArray) {
        self.kinds.extend(array.elems.iter().filter_map(kind_of));
        visit::visit_expr_array(self, array);
    }

    /// Modules inside the list's source are tests.
    fn visit_item_mod(&mut self, _: &'ast ItemMod) {}
}

/// The kind that an element of the list names, and its line.
fn kind_of(element: &Expr) -> Option<(String, usize)> {
    match element {
        Expr::Reference(inner) => kind_of(&inner.expr),
        Expr::Call(call) => kind_of(&call.func),
        Expr::Path(path) => {
            let mut names = path.path.segments.iter().rev().map(|segment| segment.ident.to_string().to_lowercase());
            let last = names.next().filter(|last| last != "kind").or_else(|| names.next())?;
            let name = last.strip_suffix("_kind").unwrap_or(&last);
            let name = name.strip_prefix("esker_").unwrap_or(name);
            let name = name.strip_prefix("layer_").unwrap_or(name).replace('_', "-");
            let line = path.path.segments.first()?.ident.span().start().line;
            Some((name, line))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{assert_fires, assert_silent};
    use super::*;

    const LIST: &str = "pub const ALL: &[&Kind] = &[\n    &layers::delay::KIND,\n    &dev::MEM_DEFERRED,\n    esker_layer_mirror::kind(),\n];";
    const ROOT: &str = "crates/kinds/src/lib.rs";

    fn page(kind: &str) -> String {
        format!("{PAGES}{kind}.md")
    }

    #[test]
    fn kinds_and_pages_match() {
        let pages = ["delay", "mem-deferred", "mirror", INDEX].map(page);
        let mut files = vec![(ROOT, LIST)];
        files.extend(pages.iter().map(|page| (page.as_str(), "")));
        assert_silent(check, &files);
        files.remove(1);
        assert_fires(check, &files, "crates/kinds/src/lib.rs:2 kind `delay` has no page");
    }

    #[test]
    fn a_page_without_kind_is_a_finding() {
        assert_fires(check, &[(ROOT, ""), (&page("gone"), "")], "no kind `gone`");
        assert_silent(check, &[(&page("gone"), "")]);
    }
}
