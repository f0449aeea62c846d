//! The tree of files as it was before the trace: names, types, sizes, links and extended attributes, but no data.

use std::collections::BTreeMap;

use crate::name::{PathBytes, Word};

/// Type of an entry, with what only that type has.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum EntryKind {
    /// A regular file.
    File {
        /// Size in bytes.
        size: u64,
    },
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink {
        /// Where it leads.
        target: PathBytes,
    },
    /// A FIFO.
    Fifo,
    /// A socket.
    Socket,
    /// A character or block device.
    Device {
        /// Whether it is a block device.
        block: bool,
        /// Major number.
        major: u32,
        /// Minor number.
        minor: u32,
    },
}

/// An extended attribute; its value is not kept.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
pub struct Xattr {
    /// Its whole name, with the name space: `user.colour`.
    pub name: Word,
    /// Bytes of its value.
    pub len: u32,
}

/// One name in the tree.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Entry {
    /// Type, with size or target.
    pub kind: EntryKind,
    /// Permission bits.
    pub mode: u16,
    /// Entries with the same number above 0 are names of one file.
    pub group: u64,
    /// Last change of its data, in ns since 1970; 0 where nobody recorded it.
    pub modified: i64,
    /// Its extended attributes.
    pub xattrs: Vec<Xattr>,
}

impl Entry {
    /// An entry with the usual permissions, one name, and no attributes.
    pub fn plain(kind: EntryKind) -> Entry {
        let mode = match kind {
            EntryKind::Directory => 0o755,
            EntryKind::Symlink { .. } => 0o777,
            _ => 0o644,
        };
        Entry { kind, mode, group: 0, modified: 0, xattrs: Vec::new() }
    }
}

/// The tree, by absolute path: without `.`, `..`, doubled or trailing slashes, and through no symbolic link. The root is `/`
/// and is always there, also where it is not listed. Directories that are only implied by what is in them are, too.
#[derive(Debug, Clone, PartialEq, Eq, Default, serde::Serialize)]
pub struct Snapshot {
    /// The entries. A parent comes before its children.
    pub entries: BTreeMap<PathBytes, Entry>,
}
