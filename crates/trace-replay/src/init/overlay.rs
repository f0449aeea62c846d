//! One tree from several snapshots, so that several traces can be replayed on it at once.

use std::collections::BTreeMap;

use esker_trace_calls::{Entry, EntryKind, PathBytes, Snapshot};

/// Files of different sizes at one path: the larger size was taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// Where.
    pub path: PathBytes,
    /// The sizes; the second was taken.
    pub sizes: (u64, u64),
}

/// Snapshots that cannot lie over each other.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path}: is {one} in one snapshot and {other} in another: the traces cannot be replayed on one tree")]
pub struct OverlayError {
    /// Where.
    pub path: PathBytes,
    /// What it is in one.
    pub one: &'static str,
    /// What it is in another.
    pub other: &'static str,
}

/// The union of `snapshots`. Numbers of hard-link groups are kept apart between snapshots, except where their names
/// meet.
///
/// # Errors
/// [`OverlayError`] where a path is of two types.
pub fn overlay(snapshots: &[&Snapshot]) -> Result<(Snapshot, Vec<Conflict>), OverlayError> {
    let (mut union, mut conflicts) = (Snapshot::default(), Vec::new());
    let mut groups = 0;
    for snapshot in snapshots {
        let highest = snapshot.entries.values().map(|entry| entry.group).max().unwrap_or(0);
        let numbers = group_numbers(&mut union, snapshot, groups);
        for (path, entry) in &snapshot.entries {
            let mut entry = entry.clone();
            entry.group = numbers.get(&entry.group).copied().unwrap_or(0);
            match union.entries.get_mut(path) {
                None => drop(union.entries.insert(path.clone(), entry)),
                Some(there) => conflicts.extend(merge(path, there, &entry)?),
            }
        }
        groups += highest;
    }
    Ok((union, conflicts))
}

/// The number in the union of each group of `snapshot`: that of a name which both have, or a new one above `used`.
fn group_numbers(union: &mut Snapshot, snapshot: &Snapshot, used: u64) -> BTreeMap<u64, u64> {
    let mut numbers = BTreeMap::new();
    for (path, entry) in snapshot.entries.iter().filter(|(_, entry)| entry.group > 0) {
        let number = numbers.entry(entry.group).or_insert(entry.group + used);
        match union.entries.get_mut(path) {
            Some(there) if there.group > 0 => *number = there.group,
            Some(there) => there.group = *number,
            None => {}
        }
    }
    numbers
}

fn merge(path: &PathBytes, there: &mut Entry, entry: &Entry) -> Result<Option<Conflict>, OverlayError> {
    let (one, other) = (name(&there.kind), name(&entry.kind));
    if one != other {
        return Err(OverlayError { path: path.clone(), one, other });
    }
    for xattr in &entry.xattrs {
        if there.xattrs.iter().all(|known| known.name != xattr.name) {
            there.xattrs.push(xattr.clone());
        }
    }
    match (&mut there.kind, &entry.kind) {
        (EntryKind::File { size }, EntryKind::File { size: new }) if size != new => {
            let sizes = ((*size).min(*new), (*size).max(*new));
            *size = sizes.1;
            Ok(Some(Conflict { path: path.clone(), sizes }))
        }
        _ => Ok(None),
    }
}

fn name(kind: &EntryKind) -> &'static str {
    match kind {
        EntryKind::File { .. } => "a file",
        EntryKind::Directory => "a directory",
        EntryKind::Symlink { .. } => "a symbolic link",
        EntryKind::Fifo => "a FIFO",
        EntryKind::Socket => "a socket",
        EntryKind::Device { .. } => "a device",
    }
}
