//! What file systems of kernels promise: each object on its own.
//!
//! Behind a sync of a file its attributes and bytes are there, under the name by which it was opened. Behind a sync of
//! a directory its entries are there, and behind a sync of everything the whole tree is. An object that a later call
//! changes is not held to it any more, from the beginning of that call on. A rename onto a name leaves the old or the
//! new object of that name, if both were synced. No name is there that was never there.

use std::collections::{BTreeMap, BTreeSet};

use esker_fs_posix::script::{Durable, Held, ScriptOp, Word};
use esker_vfs::Rename;

use super::breach::TreeFacts;

/// The tree behind a call, and when the call was made.
#[derive(Clone, Debug)]
pub struct WeakMoment {
    /// The call; none for the beginning.
    pub op: Option<ScriptOp>,
    /// Whether it succeeded.
    pub succeeded: bool,
    /// What it was behind the call.
    pub tree: TreeFacts,
    /// Events of the device before the call.
    pub from: u64,
    /// Events of the device when the call was answered.
    pub until: u64,
}

/// What an object must be.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Wanted {
    /// Exactly this.
    Facts(String),
    /// A file of this size and these bytes.
    Bytes(String),
    /// A directory with these entries at least.
    Entries(BTreeSet<String>),
    /// One of these.
    OneOf(Vec<String>),
}

/// Facts of an object are: kind and attributes; extended attributes; content; size.
fn parts(facts: &str) -> Vec<&str> {
    facts.split("; ").collect()
}

/// Size and content of a file.
fn bytes(facts: &str) -> Option<String> {
    let parts = parts(facts);
    if facts.starts_with("file ") { Some([*parts.get(2)?, *parts.get(3)?].join("; ")) } else { None }
}

fn entries(facts: &str) -> Option<BTreeSet<String>> {
    let content = *parts(facts).get(2)?;
    if facts.starts_with("dir ") { Some(content.split(' ').skip(2).map(str::to_string).collect()) } else { None }
}

impl Wanted {
    fn holds(&self, found: Option<&String>) -> bool {
        let Some(found) = found else { return false };
        match self {
            Wanted::Facts(facts) => facts == found,
            Wanted::Bytes(wanted) => bytes(found).as_ref() == Some(wanted),
            Wanted::Entries(wanted) => entries(found).is_some_and(|found| wanted.is_subset(&found)),
            Wanted::OneOf(all) => all.contains(found),
        }
    }
}

/// What a tree that is found after a crash before event `point` breaks, in words. Paths are below one directory, whose
/// history is `moments`.
pub fn violations(moments: &[WeakMoment], point: u64, found: &TreeFacts) -> Vec<String> {
    let begun: Vec<&WeakMoment> = moments.iter().take_while(|moment| moment.from <= point).collect();
    let (mut wanted, mut held): (BTreeMap<String, Wanted>, BTreeMap<Held, String>) = Default::default();
    let mut before = &TreeFacts::new();
    for (number, moment) in begun.iter().enumerate() {
        let changed = changed(before, &moment.tree);
        let replaced = replaced(moment, &wanted);
        wanted.retain(|path, _| !changed.contains(path));
        wanted.extend(replaced);
        if let (Some(ScriptOp::Open(place, path, ..)), true) = (&moment.op, moment.succeeded) {
            held.insert(*place, absolute(path));
        }
        // The beginning is synced as a whole.
        let is_durable = moment.until <= point && moment.succeeded;
        match &moment.op {
            None if number == 0 => want_all(&moment.tree, &mut wanted),
            Some(ScriptOp::Sync(what)) if is_durable => want(*what, &held, &moment.tree, &mut wanted),
            _ => {}
        }
        before = &moment.tree;
    }
    let broken = wanted.iter().filter(|(path, wanted)| !wanted.holds(found.get(*path)));
    let mut lines: Vec<String> =
        broken.map(|(path, wanted)| format!("{path} is {:?} and must be {wanted:?}", found.get(path))).collect();
    let was_there = |path: &String| begun.iter().any(|moment| moment.tree.contains_key(path));
    lines.extend(found.keys().filter(|path| !was_there(path)).map(|path| format!("{path} was never there")));
    lines
}

/// A path below the directory, as trees name it.
fn absolute(path: &Word) -> String {
    if path.0 == b"." { "/".to_string() } else { format!("/{path}") }
}

/// The paths that differ.
fn changed(before: &TreeFacts, after: &TreeFacts) -> BTreeSet<String> {
    let all = before.keys().chain(after.keys());
    all.filter(|path| before.get(*path) != after.get(*path)).cloned().collect()
}

/// What a rename of a synced file onto a synced file leaves.
fn replaced(moment: &WeakMoment, wanted: &BTreeMap<String, Wanted>) -> Option<(String, Wanted)> {
    let Some(ScriptOp::Rename(from, to, Rename::Replace)) = &moment.op else { return None };
    let (from, to) = (absolute(from), absolute(to));
    match (wanted.get(&from), wanted.get(&to), moment.succeeded && from != to) {
        (Some(Wanted::Facts(new)), Some(Wanted::Facts(old)), true) if new.starts_with("file ") => {
            let renamed = moment.tree.get(&to).cloned();
            Some((to, Wanted::OneOf([Some(old.clone()), Some(new.clone()), renamed].into_iter().flatten().collect())))
        }
        _ => None,
    }
}

fn want_all(tree: &TreeFacts, wanted: &mut BTreeMap<String, Wanted>) {
    wanted.extend(tree.iter().map(|(path, facts)| (path.clone(), Wanted::Facts(facts.clone()))));
}

fn want(what: Durable, held: &BTreeMap<Held, String>, tree: &TreeFacts, wanted: &mut BTreeMap<String, Wanted>) {
    let of = |place: &Held| held.get(place).and_then(|path| Some((path.clone(), tree.get(path)?.clone())));
    let found = match what {
        Durable::All => return want_all(tree, wanted),
        Durable::Data(place) => of(&place).and_then(|(path, facts)| Some((path, Wanted::Bytes(bytes(&facts)?)))),
        Durable::File(place) => of(&place).map(|(path, facts)| match entries(&facts) {
            Some(entries) => (path, Wanted::Entries(entries)),
            None => (path, Wanted::Facts(facts)),
        }),
    };
    if let Some((path, now)) = found {
        // What is known of it already says more than its bytes alone.
        if !(matches!(now, Wanted::Bytes(_)) && matches!(wanted.get(&path), Some(Wanted::Facts(_)))) {
            wanted.insert(path, now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A call, and the tree behind it.
    type Told<'a> = (&'a str, &'a [(&'a str, &'a str)]);

    fn moments(ops: &[Told<'_>]) -> Vec<WeakMoment> {
        let tree = |rows: &[(&str, &str)]| rows.iter().map(|(p, f)| (p.to_string(), f.to_string())).collect();
        let of = |(number, (op, rows)): (usize, &Told<'_>)| WeakMoment {
            op: (number > 0).then(|| op.parse().unwrap()),
            succeeded: true,
            tree: tree(rows),
            from: 10 * number as u64,
            until: 10 * number as u64 + 5,
        };
        ops.iter().enumerate().map(of).collect()
    }

    fn found(rows: &[(&str, &str)]) -> TreeFacts {
        rows.iter().map(|(path, facts)| (path.to_string(), facts.to_string())).collect()
    }

    const OLD: &str = "file 0644 links=1; 0 names; 4 bytes aa; 4";
    const NEW: &str = "file 0644 links=1; 0 names; 8 bytes bb; 8";

    #[test]
    fn a_synced_file_is_held_to_its_bytes_until_a_call_changes_it() {
        let history = moments(&[
            ("", &[("/f", OLD)]),
            ("open #0 f rdwr 0000", &[("/f", OLD)]),
            ("write #0 8 x1", &[("/f", NEW)]),
            ("sync file #0", &[("/f", NEW)]),
        ]);
        let of = |point, facts| violations(&history, point, &found(&[("/f", facts)])).len();
        assert_eq!((of(15, OLD), of(15, NEW)), (0, 1), "nothing has changed yet");
        assert_eq!((of(25, OLD), of(25, NEW)), (0, 0), "a write that was not synced");
        assert_eq!((of(34, OLD), of(36, OLD), of(36, NEW)), (0, 1, 0), "the sync is answered at 35");
        assert_eq!(violations(&history, 36, &TreeFacts::new()).len(), 1, "the file is gone");
        assert_eq!(violations(&history, 36, &found(&[("/f", NEW), ("/g", NEW)])).len(), 1, "a name from nowhere");
    }

    #[test]
    fn a_rename_onto_a_synced_file_leaves_one_of_both() {
        let history = moments(&[("", &[("/a", NEW), ("/b", OLD)]), ("rename a b replace", &[("/b", NEW)])]);
        let of = |rows: &[(&str, &str)]| violations(&history, 12, &found(rows)).len();
        assert_eq!(of(&[("/a", NEW), ("/b", OLD)]), 0);
        assert_eq!(of(&[("/b", NEW)]), 0);
        assert_eq!(of(&[("/a", NEW)]), 1, "the name is lost");
        assert_eq!(of(&[("/b", "file 0644 links=1; 0 names; 0 bytes; 0")]), 1, "an empty file");
    }

    #[test]
    fn a_synced_directory_is_held_to_its_entries() {
        const ONE: &str = "dir 0755 links=2; 0 names; 3 entries .:dir ..:dir x:file";
        let empty = "dir 0755 links=2; 0 names; 2 entries .:dir ..:dir";
        let history = moments(&[
            ("", &[("/d", empty)]),
            ("mknod d/x file 0644 0", &[("/d", ONE), ("/d/x", OLD)]),
            ("open #1 d directory 0000", &[("/d", ONE), ("/d/x", OLD)]),
            ("sync file #1", &[("/d", ONE), ("/d/x", OLD)]),
        ]);
        let of = |facts, point| violations(&history, point, &found(&[("/d", facts)])).len();
        assert_eq!((of(empty, 30), of(empty, 36), of(ONE, 36)), (0, 1, 0));
    }
}
