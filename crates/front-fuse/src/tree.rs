//! One directory, and in it a file for each export. Nothing but sizes changes while it is mounted.

use std::cell::Cell;

use crate::proto::abi::{Attr, AttrOut, EntryOut, ROOT, Statfs};

/// How long the kernel may remember what does not change, in seconds.
const VALID_S: u64 = 1 << 20;

/// The node of the first file.
const FIRST: u64 = ROOT + 1;

const DIRECTORY: u32 = 0o040_700;
const FILE: u32 = 0o100_600;
const FILE_READ_ONLY: u32 = 0o100_400;

/// What the directory tells about a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    pub name: String,
    /// In bytes.
    pub size: Cell<u64>,
    pub read_only: bool,
}

pub(crate) struct Tree {
    entries: Vec<Entry>,
    /// Granularity of discards in bytes, which a loop device takes from the size of the file system's blocks.
    discard: u32,
}

impl Tree {
    pub(crate) fn new(entries: Vec<Entry>, discard: u32) -> Tree {
        Tree { entries, discard }
    }

    /// The file behind a node, by its place.
    pub(crate) fn file(&self, node: u64) -> Option<usize> {
        let index = usize::try_from(node.checked_sub(FIRST)?).ok()?;
        (index < self.entries.len()).then_some(index)
    }

    /// A file, by its place, has so many bytes now. The kernel learns it when it asks again.
    pub(crate) fn resize(&self, file: usize, bytes: u64) {
        self.entries[file].size.set(bytes);
    }

    pub(crate) fn lookup(&self, name: &[u8]) -> Option<EntryOut> {
        let index = self.entries.iter().position(|entry| entry.name.as_bytes() == name)?;
        let node = FIRST + index as u64;
        Some(EntryOut { node, entry_valid: VALID_S, attr_valid: VALID_S, attr: self.attr(node)?, ..EntryOut::zero() })
    }

    pub(crate) fn attributes(&self, node: u64) -> Option<AttrOut> {
        Some(AttrOut { valid: VALID_S, attr: self.attr(node)?, ..AttrOut::zero() })
    }

    fn attr(&self, node: u64) -> Option<Attr> {
        let common = Attr { ino: node, blksize: self.discard, ..Attr::zero() };
        if node == ROOT {
            return Some(Attr { mode: DIRECTORY, nlink: 2, ..common });
        }
        let entry = &self.entries[self.file(node)?];
        let mode = if entry.read_only { FILE_READ_ONLY } else { FILE };
        Some(Attr { mode, nlink: 1, size: entry.size.get(), blocks: entry.size.get() / 512, ..common })
    }

    /// All names with their attributes, in the order of a listing.
    pub(crate) fn list(&self) -> impl Iterator<Item = (&str, Attr)> {
        let nodes = [ROOT, ROOT].into_iter().chain(FIRST..);
        let names = [".", ".."].into_iter().chain(self.entries.iter().map(|entry| entry.name.as_str()));
        names.zip(nodes).filter_map(|(name, node)| Some((name, self.attr(node)?)))
    }

    pub(crate) fn statfs(&self) -> Statfs {
        let bytes: u64 = self.entries.iter().map(|entry| entry.size.get()).sum();
        let (bsize, files) = (self.discard, self.entries.len() as u64);
        Statfs { blocks: bytes / u64::from(bsize), files, bsize, frsize: bsize, namelen: 255, ..Statfs::zero() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_found_by_name_and_node_and_nothing_else_is() {
        let entry = |name: &str, read_only| Entry { name: name.to_string(), size: Cell::new(8192), read_only };
        let tree = Tree::new(vec![entry("vol", false), entry("old", true)], 4096);
        let found = tree.lookup(b"old").unwrap();
        assert_eq!((tree.file(found.node), found.attr.mode, found.attr.size), (Some(1), FILE_READ_ONLY, 8192));
        assert!(tree.lookup(b"vol2").is_none() && tree.file(ROOT).is_none() && tree.file(0).is_none());
        assert!(tree.file(FIRST + 2).is_none() && tree.attributes(u64::MAX).is_none());
        let names: Vec<_> = tree.list().map(|(name, attr)| (name, attr.ino)).collect();
        assert_eq!(names, [(".", 1), ("..", 1), ("vol", 2), ("old", 3)]);
        assert_eq!(tree.statfs().blocks, 4);
        tree.resize(1, 16384);
        assert_eq!((tree.lookup(b"old").unwrap().attr.size, tree.statfs().blocks), (16384, 6));
    }
}
