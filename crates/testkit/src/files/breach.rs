//! A broken promise, in words.

use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;

use esker_fs_posix::script::{Actor, ScriptOp, audit};
use esker_fs_posix::{Settings, World};
use esker_vfs::{Cred, FileSystem, Stamp};

/// Differences of two trees that a report tells, at most.
const DIFFERENCES_MAX: usize = 12;

/// What a file system did that it must not do, with the script that shows it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Breach {
    /// The file system.
    pub subject: String,
    /// The script.
    pub script: Vec<ScriptOp>,
    /// The instant: a call, or a crash.
    pub when: String,
    /// What is wrong, in lines.
    pub what: Vec<String>,
}

impl fmt::Display for Breach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}: {}", self.subject, self.when)?;
        self.what.iter().try_for_each(|line| writeln!(f, "  {line}"))?;
        writeln!(f, "the script:")?;
        self.script.iter().enumerate().try_for_each(|(number, op)| writeln!(f, "  {:>2}  {op}", number + 1))
    }
}

impl std::error::Error for Breach {}

/// A process of the superuser on a file system. Its clock is later than every time of a script.
pub fn actor(files: Rc<dyn FileSystem>) -> Actor {
    const NOW: i64 = 2_000_000_000_000_000_000;
    let now = std::cell::Cell::new(NOW);
    let clock = move || {
        now.set(now.get() + 1_000_000);
        Stamp(now.get())
    };
    Actor::new(World::new(files, Settings::usual(), clock).process(Cred::root()))
}

/// What a tree holds, by path: facts without times, extended attributes, and a digest of bytes, entries or target.
pub type TreeFacts = BTreeMap<String, String>;

/// The tree of a file system.
pub async fn tree(files: Rc<dyn FileSystem>) -> TreeFacts {
    tree_of(audit(&mut actor(files)).await)
}

/// The tree that an [`audit`] tells.
pub fn tree_of(audited: Vec<String>) -> TreeFacts {
    let parts = audited.iter().filter_map(|line| line.split_once(": "));
    parts.map(|(path, facts)| (path.to_string(), without_times(facts))).collect()
}

fn without_times(facts: &str) -> String {
    let is_time = |word: &&str| word.starts_with("accessed=") || word.starts_with("modified=");
    facts.split(' ').filter(|word| !is_time(word)).collect::<Vec<_>>().join(" ")
}

/// What `found` has otherwise than `wanted`, in words.
pub fn differences(found: &TreeFacts, wanted: &TreeFacts) -> Vec<String> {
    let mut all = Vec::new();
    for (path, facts) in wanted {
        match found.get(path) {
            None => all.push(format!("{path} is missing: {facts}")),
            Some(other) if other != facts => all.push(format!("{path} is {other}, and was {facts}")),
            Some(_) => {}
        }
    }
    let more = found.iter().filter(|(path, _)| !wanted.contains_key(*path));
    all.extend(more.map(|(path, facts)| format!("{path} must not be there: {facts}")));
    all
}

/// The first differences, and how many there are.
pub fn told(differences: Vec<String>) -> Vec<String> {
    let left = differences.len().saturating_sub(DIFFERENCES_MAX);
    let mut told: Vec<_> = differences.into_iter().take(DIFFERENCES_MAX).collect();
    told.extend((left > 0).then(|| format!("and {left} more")));
    told
}
