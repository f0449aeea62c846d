//! How the tree after a replay differs from the one that the program left: by names, types, sizes, permissions and
//! links. A recorder tells that tree as far as it could look ([`FinalTree`]).

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::CString;
use std::os::fd::OwnedFd;

use esker_trace_calls::{Entry, EntryKind, FinalTree, PathBytes};
use rustix::fs::{FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

use crate::init::scan;
use crate::privilege::SET_ID;
use crate::report::{LISTED_MAX, TreeDifference, TreeDifferences};
use crate::root::Root;
use crate::special;

/// What is there now.
pub(crate) struct SeenEntry {
    pub(crate) entry: Entry,
    /// Device and inode.
    pub(crate) file: (u64, u64),
    /// Whether it is the link that stands here for the device of the trace.
    pub(crate) is_device: bool,
}

/// What is there now, by path.
pub(crate) type Names = BTreeMap<PathBytes, SeenEntry>;

/// Compares the tree with the one that the program left. A replay that does not keep modes has no set-id bits.
///
/// # Errors
/// The kernel's, where it does not show the tree.
pub(crate) fn differences(root: &Root, after: &FinalTree, keep_modes: bool) -> Result<TreeDifferences, Errno> {
    let mut walk = Walk { after, names: Names::new() };
    after.roots.iter().try_for_each(|path| walk.root(root, path))?;
    let mask = if keep_modes { 0o7777 } else { 0o7777 & !SET_ID };
    Ok(compare(&walk.names, after, mask))
}

/// Compares what was found with what the program left, in the bits of modes that count.
pub(crate) fn compare(found: &Names, after: &FinalTree, mask: u16) -> TreeDifferences {
    let linked = Linked::of(&after.tree.entries, found);
    let paths: BTreeSet<&PathBytes> = found.keys().chain(after.tree.entries.keys()).collect();
    let mut all = TreeDifferences { count: 0, compared: paths.len() as u64, listed: Vec::new(), not_compared: None };
    for path in paths {
        let (expected, seen) = (after.tree.entries.get(path), found.get(path));
        let told = [expected, seen.map(|seen| &seen.entry)].map(|entry| told(entry, mask));
        let told = match expected.zip(seen) {
            Some((_, seen)) if seen.is_device => continue,
            Some(_) if told[0] == told[1] => linked.difference(path),
            _ => Some(told),
        };
        let Some([expected, actual]) = told else { continue };
        all.count += 1;
        if all.listed.len() < LISTED_MAX {
            all.listed.push(TreeDifference { path: path.to_string(), expected, actual });
        }
    }
    all
}

/// An entry for people; what does not count is not told.
fn told(entry: Option<&Entry>, mask: u16) -> String {
    let Some(entry) = entry else { return "nothing".to_string() };
    let mode = entry.mode & mask;
    match &entry.kind {
        EntryKind::File { size } => format!("a file of {size} bytes, mode {mode:04o}"),
        EntryKind::Directory => format!("a directory, mode {mode:04o}"),
        EntryKind::Symlink { target } => format!("a link to {target}"),
        EntryKind::Fifo => format!("a FIFO, mode {mode:04o}"),
        EntryKind::Socket => format!("a socket, mode {mode:04o}"),
        EntryKind::Device { .. } => format!("a device, mode {mode:04o}"),
    }
}

/// For each name of a file with several ones, the first of them, there and here.
struct Linked<'a> {
    expected: BTreeMap<&'a PathBytes, &'a PathBytes>,
    actual: BTreeMap<&'a PathBytes, &'a PathBytes>,
}

impl<'a> Linked<'a> {
    fn of(expected: &'a BTreeMap<PathBytes, Entry>, found: &'a Names) -> Linked<'a> {
        let groups = expected.iter().filter(|(_, entry)| entry.group > 0).map(|(path, entry)| (path, entry.group));
        let files = found.iter().filter(|(_, seen)| seen.entry.group > 0).map(|(path, seen)| (path, seen.file));
        Linked { expected: firsts(groups), actual: firsts(files) }
    }

    /// Of which other name each of two equal entries is a name, if that differs.
    fn difference(&self, path: &PathBytes) -> Option<[String; 2]> {
        let firsts = [&self.expected, &self.actual].map(|firsts| firsts.get(path).copied().unwrap_or(path));
        (firsts[0] != firsts[1]).then(|| firsts.map(|first| format!("a name of {first}")))
    }
}

/// The first name of each file.
fn firsts<'a, F: Ord>(names: impl Iterator<Item = (&'a PathBytes, F)>) -> BTreeMap<&'a PathBytes, &'a PathBytes> {
    let mut files = BTreeMap::new();
    names.map(|(path, file)| (path, *files.entry(file).or_insert(path))).collect()
}

struct Walk<'a> {
    after: &'a FinalTree,
    names: Names,
}

impl Walk<'_> {
    /// Takes what lies at and below a path of the tree; directories above it may be missing.
    fn root(&mut self, root: &Root, path: &PathBytes) -> Result<(), Errno> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let mut dir = rustix::fs::openat(root.dir(), c".", flags, Mode::empty())?;
        let parts: Vec<&[u8]> = path.split(|byte| *byte == b'/').filter(|part| !part.is_empty()).collect();
        let Some((last, above)) = parts.split_last() else { return self.below(&dir, b"") };
        for part in above {
            dir = match scan::enter(&dir, &name(part)?) {
                Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Ok(()),
                entered => entered?,
            };
        }
        match self.take(&dir, &name(last)?, path.clone()) {
            Err(Errno::NOENT) => Ok(()),
            taken => taken,
        }
    }

    fn below(&mut self, dir: &OwnedFd, path: &[u8]) -> Result<(), Errno> {
        for name in scan::names_of(dir)? {
            let path = PathBytes::from([path, b"/", name.as_bytes()].concat());
            self.take(dir, &name, path)?;
        }
        Ok(())
    }

    fn take(&mut self, dir: &OwnedFd, name: &CString, path: PathBytes) -> Result<(), Errno> {
        if !self.after.covers(&path) {
            return Ok(());
        }
        let stat = scan::look(dir, name)?;
        let kind = kind(dir, name, &stat)?;
        let is_directory = kind == EntryKind::Directory;
        let expected = self.after.tree.entries.get(&path);
        let is_device = expected.is_some_and(|entry| special::is_link(&entry.kind, dir, name));
        self.names
            .insert(path.clone(), SeenEntry { entry: entry(kind, &stat), file: (stat.st_dev, stat.st_ino), is_device });
        match is_directory {
            true => self.below(&scan::enter(dir, name)?, &path),
            false => Ok(()),
        }
    }
}

fn kind(dir: &OwnedFd, name: &CString, stat: &Stat) -> Result<EntryKind, Errno> {
    let device = |block| EntryKind::Device { block, major: 0, minor: 0 };
    Ok(match FileType::from_raw_mode(stat.st_mode) {
        FileType::Directory => EntryKind::Directory,
        FileType::Symlink => {
            let target = rustix::fs::readlinkat(dir, name, Vec::new())?;
            EntryKind::Symlink { target: PathBytes::from(target.as_bytes()) }
        }
        FileType::Fifo => EntryKind::Fifo,
        FileType::Socket => EntryKind::Socket,
        FileType::CharacterDevice => device(false),
        FileType::BlockDevice => device(true),
        FileType::RegularFile | FileType::Unknown => EntryKind::File { size: stat.st_size as u64 },
    })
}

/// The group only tells whether the file has several names.
fn entry(kind: EntryKind, stat: &Stat) -> Entry {
    let has_names = kind != EntryKind::Directory && stat.st_nlink > 1;
    Entry { mode: (stat.st_mode & 0o7777) as u16, group: u64::from(has_names), ..Entry::plain(kind) }
}

fn name(part: &[u8]) -> Result<CString, Errno> {
    CString::new(part).map_err(|_| Errno::INVAL)
}

#[cfg(test)]
mod tests;
