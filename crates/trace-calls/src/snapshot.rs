//! The tree of files as it was before the trace: names, types, sizes, links and extended attributes, but no data.

use std::collections::BTreeMap;

use crate::name::{PathBytes, Word};
use crate::wire::{Decoder, Encoder, Field, Malformed, Part, PartMut, structs};

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
    /// Last change of its data, in ns since 1970; 0 if unknown.
    pub modified: i64,
    /// Its extended attributes.
    pub xattrs: Vec<Xattr>,
    /// Bytes of a file that are holes. Where they are is not kept.
    pub holes: u64,
}

impl Entry {
    /// An entry with the usual permissions, one name, and no attributes.
    pub fn plain(kind: EntryKind) -> Entry {
        let mode = match kind {
            EntryKind::Directory => 0o755,
            EntryKind::Symlink { .. } => 0o777,
            _ => 0o644,
        };
        Entry { kind, mode, group: 0, modified: 0, xattrs: Vec::new(), holes: 0 }
    }
}

structs! {
    Xattr { name, len }
}

/// Stands before the type of a file with holes, and their bytes behind it.
const HAS_HOLES: u8 = 8;

impl Field for Entry {
    fn put(&self, to: &mut Encoder<'_>) {
        if self.holes > 0 {
            to.byte(HAS_HOLES);
            self.holes.put(to);
        }
        self.kind.put(to);
        self.mode.put(to);
        self.group.put(to);
        self.modified.put(to);
        self.xattrs.put(to);
    }

    fn get(from: &mut Decoder<'_>) -> Result<Entry, Malformed> {
        let (holes, tag) = match from.byte()? {
            HAS_HOLES => (Field::get(from)?, from.byte()?),
            tag => (0, tag),
        };
        let kind = EntryKind::of_tag(tag, from)?;
        let (mode, group, modified) = (Field::get(from)?, Field::get(from)?, Field::get(from)?);
        Ok(Entry { kind, mode, group, modified, xattrs: Field::get(from)?, holes })
    }

    fn render(&self, to: &mut String) {
        to.push_str("{kind=");
        self.kind.render(to);
        to.push_str(" mode=");
        self.mode.render(to);
        to.push_str(" group=");
        self.group.render(to);
        to.push_str(" modified=");
        self.modified.render(to);
        to.push_str(" xattrs=");
        self.xattrs.render(to);
        if self.holes > 0 {
            to.push_str(" holes=");
            self.holes.render(to);
        }
        to.push('}');
    }

    fn parts<'a>(&'a self, see: &mut dyn FnMut(Part<'a>)) {
        self.kind.parts(see);
        self.xattrs.parts(see);
    }

    fn parts_mut(&mut self, change: &mut dyn FnMut(PartMut<'_>)) {
        self.kind.parts_mut(change);
        self.xattrs.parts_mut(change);
    }
}

impl EntryKind {
    /// The type of that number, of which the number itself is read.
    fn of_tag(tag: u8, from: &mut Decoder<'_>) -> Result<EntryKind, Malformed> {
        Ok(match tag {
            1 => EntryKind::File { size: Field::get(from)? },
            2 => EntryKind::Directory,
            3 => EntryKind::Symlink { target: Field::get(from)? },
            4 => EntryKind::Fifo,
            5 => EntryKind::Socket,
            tag @ 6..=7 => EntryKind::Device { block: tag == 7, major: Field::get(from)?, minor: Field::get(from)? },
            _ => return Err(from.malformed("the number of no type of file")),
        })
    }
}

impl Field for EntryKind {
    fn put(&self, to: &mut Encoder<'_>) {
        match self {
            EntryKind::File { size } => {
                to.byte(1);
                size.put(to);
            }
            EntryKind::Directory => to.byte(2),
            EntryKind::Symlink { target } => {
                to.byte(3);
                target.put(to);
            }
            EntryKind::Fifo => to.byte(4),
            EntryKind::Socket => to.byte(5),
            EntryKind::Device { block, major, minor } => {
                to.byte(6 + u8::from(*block));
                major.put(to);
                minor.put(to);
            }
        }
    }

    fn get(from: &mut Decoder<'_>) -> Result<EntryKind, Malformed> {
        let tag = from.byte()?;
        EntryKind::of_tag(tag, from)
    }

    fn render(&self, to: &mut String) {
        match self {
            EntryKind::File { size } => to.push_str(&format!("file of {size} bytes")),
            EntryKind::Directory => to.push_str("directory"),
            EntryKind::Symlink { target } => to.push_str(&format!("link to {target:?}")),
            EntryKind::Fifo => to.push_str("fifo"),
            EntryKind::Socket => to.push_str("socket"),
            EntryKind::Device { block, major, minor } => {
                to.push_str(&format!("{} device {major}:{minor}", if *block { "block" } else { "character" }));
            }
        }
    }

    fn parts<'a>(&'a self, see: &mut dyn FnMut(Part<'a>)) {
        if let EntryKind::Symlink { target } = self {
            target.parts(see);
        }
    }

    fn parts_mut(&mut self, change: &mut dyn FnMut(PartMut<'_>)) {
        if let EntryKind::Symlink { target } = self {
            target.parts_mut(change);
        }
    }
}

/// The tree, by absolute path: without `.`, `..`, doubled or trailing slashes, and through no symbolic link. The root
/// is `/` and is always there, also where it is not listed. Directories that are only implied by what is in them are,
/// too.
#[derive(Debug, Clone, PartialEq, Eq, Default, serde::Serialize)]
pub struct Snapshot {
    /// The entries. A parent comes before its children.
    pub entries: BTreeMap<PathBytes, Entry>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::NameTable;

    #[test]
    fn holes_are_kept_and_files_without_any_are_written_as_ever() {
        let bytes = |entry: &Entry| {
            let (mut bytes, mut names) = (Vec::new(), NameTable::new());
            entry.put(&mut Encoder::new(&mut bytes, &mut names));
            assert_eq!(Entry::get(&mut Decoder::new(&bytes, names.names())).as_ref(), Ok(entry));
            bytes
        };
        let full = Entry::plain(EntryKind::File { size: 300 });
        let sparse = Entry { holes: 200, ..full.clone() };
        assert_eq!(bytes(&sparse)[0], HAS_HOLES);
        assert!(bytes(&sparse).ends_with(&bytes(&full)));
    }
}
