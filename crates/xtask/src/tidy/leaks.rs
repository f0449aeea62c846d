//! Nothing of the machine it was written on: no private paths, no registry hosts, no per-thread state.

use syn::visit::{self, Visit};

use super::Report;
use super::tree::Tree;

/// Absolute folders of a developer's machine; written in two halves so that this file may hold them.
const FOLDERS: &[&str] = &[concat!("/wo", "rk/"), concat!("/ro", "ot/")];
const HOSTS: &[&str] = &[concat!("artifac", "tory")];
/// A host name that begins with this is a package index.
const INDEX: &str = concat!("inde", "x.");
const DOMAINS: &[&str] = &["com", "dev", "io", "net", "org"];

pub fn check(tree: &Tree, report: &mut Report) {
    for (path, text) in &tree.texts {
        for (at, line) in text.lines().enumerate() {
            if let Some(leak) = leak_in(line) {
                let fix = "name what a reader elsewhere has too, or take it as a parameter";
                report.find(path, at + 1, format!("names a machine's own `{leak}`"), fix);
            }
        }
    }
    for source in &tree.sources {
        let Ok(ast) = &source.ast else { continue };
        let mut locals = ThreadLocals::default();
        locals.visit_file(ast);
        for line in locals.lines {
            let fix = "keep it in a value: a stack may be entered by any thread";
            report.find(&source.path, line, "per-thread state", fix);
        }
    }
}

fn leak_in(line: &str) -> Option<&'static str> {
    let folder = FOLDERS.iter().find(|folder| {
        line.match_indices(**folder)
            .any(|(at, _)| !line[..at].ends_with(|c: char| c.is_alphanumeric() || "_-.".contains(c)))
    });
    let index = || line.match_indices(INDEX).any(|(at, _)| is_index_host(&line[at + INDEX.len()..])).then_some(&INDEX);
    folder.or_else(|| HOSTS.iter().find(|host| line.contains(**host))).or_else(index).copied()
}

/// Whether `name.domain` follows.
fn is_index_host(rest: &str) -> bool {
    let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && !"-.".contains(c)).unwrap_or(rest.len());
    let mut parts = rest[..end].split('.');
    parts.next().is_some_and(|name| !name.is_empty()) && parts.next().is_some_and(|domain| DOMAINS.contains(&domain))
}

#[derive(Default)]
struct ThreadLocals {
    lines: Vec<usize>,
}

impl<'ast> Visit<'ast> for ThreadLocals {
    fn visit_macro(&mut self, mac: &'ast syn::Macro) {
        if let Some(last) = mac.path.segments.last().filter(|last| last.ident == "thread_local") {
            self.lines.push(last.ident.span().start().line);
        }
        visit::visit_macro(self, mac);
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{assert_fires, assert_silent};
    use super::*;

    #[test]
    fn private_paths_and_hosts_are_findings() {
        for leak in FOLDERS.iter().chain(HOSTS) {
            assert_fires(check, &[("a.md", &format!("one\nsee \"{leak}x\""))], "a.md:2 names");
        }
        assert_fires(check, &[("a.toml", &format!("url = \"https://{INDEX}crates.io\""))], "names");
    }

    #[test]
    fn similar_words_are_not() {
        let text = format!("net{} {INDEX}html self.{INDEX}len().min(3)", FOLDERS[0]);
        assert_silent(check, &[("a.md", &text)]);
    }

    #[test]
    fn per_thread_state_is_a_finding() {
        assert_fires(check, &[("a.rs", "fn f() {}\nstd::thread_local! { static A: u8 = 1; }")], "a.rs:2 per-thread");
    }
}
