//! House rules, executed: each rule is a file, each finding says where, what and how to fix it.
//!
//! Reading order: [`tree`] (what rules see), [`syntax`], [`comments`], [`markdown`] and [`prose`] (sources and
//! documents in parts), [`ratchet`] (offenders that are older than their rule), then any rule.

mod actors;
mod asserts;
mod budgets;
mod comments;
mod doctests;
mod generated;
mod glossary;
mod kinds;
mod leaks;
mod licences;
mod manifests;
mod markdown;
mod mutants;
mod names;
mod orphans;
mod os;
mod prose;
mod ratchet;
mod rivals;
mod sentences;
mod skips;
mod syntax;
mod text;
mod tiers;
mod tree;
mod unsafety;
mod vocabulary;
mod width;
mod words;

use std::fmt;
use std::path::Path;

use tree::Tree;
pub use tree::list_files;

type Check = fn(&Tree, &mut Report);

const RULES: &[(&str, Check)] = &[
    ("tiers", tiers::check),
    ("names", names::check),
    ("kinds", kinds::check),
    ("budgets", budgets::check),
    ("os", os::check),
    ("mutants", mutants::check),
    ("orphans", orphans::check),
    ("doctests", doctests::check),
    ("rivals", rivals::check),
    ("skips", skips::check),
    ("text", text::check),
    ("generated", generated::check),
    ("sentences", sentences::check),
    ("actors", actors::check),
    ("glossary", glossary::check),
    ("vocabulary", vocabulary::check),
    ("width", width::check),
    ("asserts", asserts::check),
    ("unsafety", unsafety::check),
    ("manifests", manifests::check),
    ("licences", licences::check),
    ("leaks", leaks::check),
];

/// One broken rule at one place.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    file: String,
    line: usize,
    what: String,
    fix: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}; {}", self.file, self.line, self.what, self.fix)
    }
}

/// What the rules had to say: findings fail, notes (soft limits) do not.
#[derive(Debug, Default)]
pub struct Report {
    findings: Vec<Finding>,
    notes: Vec<Finding>,
    shrunk: Vec<ratchet::Shrunk>,
}

impl Report {
    fn find(&mut self, file: &str, line: usize, what: impl Into<String>, fix: impl Into<String>) {
        self.findings.push(Finding { file: file.into(), line, what: what.into(), fix: fix.into() });
    }

    fn note(&mut self, file: &str, line: usize, what: impl Into<String>, fix: impl Into<String>) {
        self.notes.push(Finding { file: file.into(), line, what: what.into(), fix: fix.into() });
    }
}

/// The option that lowers the numbers of old offenders.
const SHRINK: &str = "--shrink";

/// `cargo xtask tidy [RULE | --shrink]`.
pub fn main(args: &[String]) -> Result<bool, String> {
    let (wanted, shrinks) = match args {
        [] => (None, false),
        [option] if option == SHRINK => (None, true),
        [rule] if RULES.iter().any(|(name, _)| name == rule) => (Some(rule.as_str()), false),
        _ => {
            let names: Vec<&str> = RULES.iter().map(|(name, _)| *name).collect();
            return Err(format!("name at most one rule of: {}; or {SHRINK}", names.join(", ")));
        }
    };
    let root = crate::root();
    let report = run(&root, wanted)?;
    if shrinks {
        return shrink(&root, &report);
    }
    // Of all rules together there are too many notes to read.
    report.notes.iter().filter(|_| wanted.is_some()).for_each(|note| println!("note: {note}"));
    report.findings.iter().for_each(|finding| println!("{finding}"));
    let advice = if wanted.is_none() { " (name a rule to see its notes)" } else { "" };
    println!("tidy: {} findings, {} notes{advice}", report.findings.len(), report.notes.len());
    Ok(report.findings.is_empty())
}

/// Writes the numbers of old offenders that are smaller now.
fn shrink(root: &Path, report: &Report) -> Result<bool, String> {
    let path = root.join(ratchet::PATH);
    let fail = |error: std::io::Error| format!("{}: {error}", ratchet::PATH);
    let text = std::fs::read_to_string(&path).map_err(fail)?;
    std::fs::write(&path, ratchet::shrink(&text, &report.shrunk)?).map_err(fail)?;
    println!("tidy: {} numbers of old offenders shrank", report.shrunk.len());
    Ok(true)
}

fn run(root: &Path, wanted: Option<&str>) -> Result<Report, String> {
    let tree = Tree::read(root).map_err(|error| error.to_string())?;
    let mut report = Report::default();
    for (name, check) in RULES {
        if wanted.is_none_or(|wanted| wanted == *name) {
            check(&tree, &mut report);
        }
    }
    report.findings.sort();
    report.notes.sort();
    Ok(report)
}

#[cfg(test)]
mod tests;
