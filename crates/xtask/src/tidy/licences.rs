//! Dependencies: each comes from a registry that `deny.toml` allows, under a licence that it allows.

use toml::{Table, Value};

use super::Report;
use super::tree::{Origin, Package, Tree};

/// The file that `cargo deny` reads too.
const DENY: &str = "deny.toml";

pub fn check(tree: &Tree, report: &mut Report) {
    if tree.packages.is_empty() {
        return;
    }
    let Some(Ok(deny)) = tree.texts.get(DENY).map(|text| text.parse::<Table>()) else {
        return report.find(
            DENY,
            1,
            "is missing or no TOML",
            "list `licenses.allow` and `sources.allow-registry` in it",
        );
    };
    let (licences, registries) = (list(&deny, "licenses", "allow"), list(&deny, "sources", "allow-registry"));
    for package in &tree.packages {
        let name = format!("{} {}", package.name, package.version);
        if let Some(from) = foreign_source(package, &registries) {
            let fix = "take it from a registry that `sources.allow-registry` lists, or keep it in the tree";
            report.find(DENY, 1, format!("{name} comes from {from}"), fix);
        }
        match package.licence.as_deref() {
            Some(text) if is_allowed(text, &licences) => {}
            Some(text) => {
                let fix = "replace it, or add its licence to `licenses.allow` if that is permissive";
                report.find(DENY, 1, format!("{name} is under `{text}`, which is not allowed"), fix);
            }
            None => report.find(DENY, 1, format!("{name} names no licence"), "replace it"),
        }
    }
}

/// The strings of the list `key` in the section `section`.
fn list<'a>(deny: &'a Table, section: &str, key: &str) -> Vec<&'a str> {
    let values = deny.get(section).and_then(|section| section.get(key)).and_then(Value::as_array);
    values.into_iter().flatten().filter_map(Value::as_str).collect()
}

/// Where the package comes from, if that is neither the tree nor one of `registries`.
fn foreign_source(package: &Package, registries: &[&str]) -> Option<String> {
    match &package.origin {
        Origin::Tree => None,
        Origin::Outside(path) => Some(format!("{path}, outside of the tree")),
        Origin::Source(source) => {
            let is_listed = source.strip_prefix("registry+").is_some_and(|url| registries.contains(&url));
            (!is_listed).then(|| source.clone())
        }
    }
}

/// Whether licences of `allowed` satisfy an SPDX expression, or one with the old `/` for `OR`.
fn is_allowed(expression: &str, allowed: &[&str]) -> bool {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut reader = Reader { words: &words, allowed };
    reader.any().is_some_and(|holds| holds && reader.words.is_empty())
}

/// Reads an expression from the left; `None` where it is malformed.
struct Reader<'a> {
    words: &'a [&'a str],
    allowed: &'a [&'a str],
}

impl Reader<'_> {
    /// `AND` binds closer than `OR`.
    fn any(&mut self) -> Option<bool> {
        let mut holds = self.all()?;
        while self.takes("OR") {
            holds |= self.all()?;
        }
        Some(holds)
    }

    fn all(&mut self) -> Option<bool> {
        let mut holds = self.one()?;
        while self.takes("AND") {
            holds &= self.one()?;
        }
        Some(holds)
    }

    fn one(&mut self) -> Option<bool> {
        if self.takes("(") {
            let holds = self.any()?;
            return self.takes(")").then_some(holds);
        }
        let mut licence = self.word()?.to_string();
        if self.takes("WITH") {
            licence = format!("{licence} WITH {}", self.word()?);
        }
        Some(self.allowed.contains(&licence.as_str()))
    }

    fn word(&mut self) -> Option<&str> {
        let (word, rest) = self.words.split_first()?;
        self.words = rest;
        Some(word)
    }

    fn takes(&mut self, word: &str) -> bool {
        let is_next = self.words.first() == Some(&word);
        self.words = &self.words[usize::from(is_next)..];
        is_next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "[licenses]\nallow = [\"MIT\", \"Apache-2.0 WITH LLVM-exception\"]\n\
                        [sources]\nallow-registry = [\"https://registry.example/index\"]\n";

    /// What the rule finds in a tree with one package.
    fn found(licence: Option<&str>, origin: Origin) -> Vec<String> {
        let mut tree = Tree::of(&[(DENY, TEXT)]);
        let (name, version) = ("p".to_string(), "1.0.0".to_string());
        tree.packages.push(Package { name, version, licence: licence.map(str::to_string), origin });
        let mut report = Report::default();
        check(&tree, &mut report);
        report.findings.into_iter().map(|finding| finding.what).collect()
    }

    fn assert_finds(licence: Option<&str>, origin: Origin, what: &str) {
        let found = found(licence, origin);
        assert!(matches!(&found[..], [one] if one.contains(what)), "{found:?}");
    }

    fn registry() -> Origin {
        Origin::Source("registry+https://registry.example/index".to_string())
    }

    #[test]
    fn licences_that_are_not_allowed_are_found() {
        for fine in ["MIT", "MIT OR GPL-3.0", "GPL-3.0/MIT", "(MIT OR X) AND Apache-2.0 WITH LLVM-exception"] {
            assert_eq!(found(Some(fine), registry()), [""; 0], "{fine}");
        }
        for wrong in ["GPL-3.0", "MIT AND GPL-3.0", "Apache-2.0", "MIT OR", "(MIT", "MIT MIT", ""] {
            assert_finds(Some(wrong), registry(), "which is not allowed");
        }
        assert_finds(None, registry(), "names no licence");
    }

    #[test]
    fn sources_that_are_not_allowed_are_found() {
        assert_eq!(found(Some("MIT"), Origin::Tree), [""; 0]);
        let git = "git+https://git.example/p?branch=main#0123";
        for source in [git, "registry+https://other.example/index", "sparse+https://registry.example/index"] {
            assert_finds(Some("MIT"), Origin::Source(source.to_string()), source);
        }
        assert_finds(Some("MIT"), Origin::Outside("/p".to_string()), "outside of the tree");
    }

    #[test]
    fn the_list_must_be_there() {
        let mut tree = Tree::of(&[]);
        let (name, version) = ("p".to_string(), "1.0.0".to_string());
        tree.packages.push(Package { name, version, licence: Some("MIT".to_string()), origin: registry() });
        let mut report = Report::default();
        check(&tree, &mut report);
        assert_eq!(report.findings.len(), 1);
    }
}
