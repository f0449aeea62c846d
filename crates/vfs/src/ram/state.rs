//! All inodes, and the room that they take.
//!
//! Invariants: `bytes_used` is the sum of `allocated`, and at most the limit. An inode without names and pins is not
//! there. Nodes and pages are shared with forks and copied before they change.

use std::rc::Rc;

use esker_base::Errno;

use super::RamConfig;
use super::dir::Dir;
use super::pages::{PAGE, Pages};
use super::table::Table;
use super::xattrs::Xattrs;
use crate::about::Space;
use crate::attr::{Attr, Entry, FileFlags, FileType};
use crate::word::{Ino, Stamp};

/// FUSE gives the root the same number.
pub(super) const ROOT: Ino = Ino(1);
/// A time of access that is older is set anew, as `relatime` does.
const RELATIME_NS: i64 = 24 * 3_600_000_000_000;

/// The state of a file system.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct State {
    pub config: RamConfig,
    /// Numbers are never given twice, so that generations are not needed.
    table: Table,
    bytes_used: u64,
    pub is_closed: bool,
    /// Whether reads leave times of access as they are.
    pub is_still: bool,
}

/// An inode.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Node {
    pub attr: Attr,
    pub xattrs: Xattrs,
    pub body: Body,
    /// Whether it was made without a name and never had one, so that it may get its first.
    pub is_nameless: bool,
}

/// What only some kinds have.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Body {
    File(Pages),
    Directory(Dir),
    Symlink(Rc<[u8]>),
    Other,
}

impl Node {
    /// An inode of the given attributes; `allocated` and sizes follow from the body.
    pub(super) fn new(attr: Attr, body: Body) -> Node {
        let mut node = Node { attr, xattrs: Xattrs::default(), body, is_nameless: false };
        node.measure();
        node
    }

    /// Sets what follows from body and extended attributes. The size of a file does not.
    pub(super) fn measure(&mut self) {
        let body = match &self.body {
            Body::File(pages) => pages.bytes(),
            Body::Directory(dir) => {
                self.attr.size = dir.bytes();
                rounded(dir.bytes())
            }
            Body::Symlink(target) => {
                self.attr.size = target.len() as u64;
                target_bytes(target)
            }
            Body::Other => 0,
        };
        self.attr.allocated = body + rounded(self.xattrs.bytes());
    }

    /// Notes a change of anything but bytes or entries.
    pub(super) fn change(&mut self, now: Stamp) {
        self.attr.changed = now;
    }

    /// Notes a change of bytes or entries.
    pub(super) fn modify(&mut self, now: Stamp) {
        self.change(now);
        self.attr.modified = now;
        self.attr.version += 1;
    }
}

/// Bytes in whole pages.
pub(super) fn rounded(bytes: u64) -> u64 {
    bytes.next_multiple_of(PAGE as u64)
}

/// Room for the target of a symbolic link: short ones lie in the inode, as in ext4.
fn target_bytes(target: &[u8]) -> u64 {
    if target.len() < 60 { 0 } else { PAGE as u64 }
}

impl State {
    /// A root of mode 755 that the superuser owns.
    pub(super) fn new(config: RamConfig) -> State {
        let mut state = State { config, table: Table::default(), bytes_used: 0, is_closed: false, is_still: false };
        let root = state.add(root());
        assert_eq!(root, ROOT, "the first number");
        state.pin(root);
        state
    }

    /// The state of a table whose rules hold, with the sum of its room.
    pub(super) fn of(config: RamConfig, table: Table, bytes_used: u64) -> State {
        State { config, table, bytes_used, is_closed: false, is_still: false }
    }

    /// Inodes by number.
    pub(super) fn table(&self) -> &Table {
        &self.table
    }

    /// A pinned inode.
    pub(super) fn node(&self, ino: Ino) -> Result<&Rc<Node>, Errno> {
        match self.table.get(ino) {
            _ if self.is_closed => Err(Errno::EIO),
            Some(slot) if slot.pins > 0 => Ok(&slot.node),
            Some(_) | None => Err(Errno::ENOENT),
        }
    }

    /// A pinned directory.
    pub(super) fn dir(&self, ino: Ino) -> Result<&Dir, Errno> {
        match &self.node(ino)?.body {
            Body::Directory(dir) => Ok(dir),
            Body::File(_) | Body::Symlink(_) | Body::Other => Err(Errno::ENOTDIR),
        }
    }

    /// A pinned directory that was not removed.
    pub(super) fn live_dir(&self, ino: Ino) -> Result<&Dir, Errno> {
        let dir = self.dir(ino)?;
        if self.node(ino)?.attr.links == 0 { Err(Errno::ENOENT) } else { Ok(dir) }
    }

    /// The directory above a directory, if it is there.
    pub(super) fn above(&self, dir: Ino) -> Option<Ino> {
        match &self.table.get(dir)?.node.body {
            Body::Directory(dir) => Some(dir.parent),
            Body::File(_) | Body::Symlink(_) | Body::Other => None,
        }
    }

    /// Bytes of a pinned file. `other` is the error for kinds that are neither file nor directory.
    pub(super) fn pages(&self, ino: Ino, other: Errno) -> Result<&Pages, Errno> {
        match &self.node(ino)?.body {
            Body::File(pages) => Ok(pages),
            Body::Directory(_) => Err(Errno::EISDIR),
            Body::Symlink(_) | Body::Other => Err(other),
        }
    }

    /// An inode that a directory names or a caller has pinned.
    ///
    /// # Panics
    /// If it is not there.
    pub(super) fn known(&self, ino: Ino) -> &Rc<Node> {
        &self.table.get(ino).expect("an inode with names or pins is there").node
    }

    /// Its attributes, as [`State::known`].
    pub(super) fn attr(&self, ino: Ino) -> &Attr {
        &self.known(ino).attr
    }

    /// The same for a change. [`State::settle`] must follow if its room may change.
    pub(super) fn known_mut(&mut self, ino: Ino) -> &mut Node {
        Rc::make_mut(&mut self.table.get_mut(ino).expect("an inode with names or pins is there").node)
    }

    /// A directory for a change, as [`State::known_mut`].
    pub(super) fn known_dir_mut(&mut self, ino: Ino) -> &mut Dir {
        match &mut self.known_mut(ino).body {
            Body::Directory(dir) => dir,
            Body::File(_) | Body::Symlink(_) | Body::Other => unreachable!("the caller has looked at its kind"),
        }
    }

    /// Bytes of a file for a change, as [`State::known_mut`].
    pub(super) fn known_pages_mut(&mut self, ino: Ino) -> &mut Pages {
        match &mut self.known_mut(ino).body {
            Body::File(pages) => pages,
            Body::Directory(_) | Body::Symlink(_) | Body::Other => unreachable!("the caller has looked at its kind"),
        }
    }

    /// Measures an inode behind a change of its body or extended attributes.
    pub(super) fn settle(&mut self, ino: Ino) {
        let node = self.known_mut(ino);
        let before = node.attr.allocated;
        node.measure();
        let after = node.attr.allocated;
        self.bytes_used = self.bytes_used - before + after;
        debug_assert!(self.bytes_used <= self.config.bytes, "a change asks for its room first");
    }

    /// Bytes that can be allocated.
    pub(super) fn bytes_free(&self) -> u64 {
        self.config.bytes - self.bytes_used
    }

    /// Whether there is room for so many bytes more.
    pub(super) fn need(&self, bytes: u64) -> Result<(), Errno> {
        if bytes <= self.bytes_free() { Ok(()) } else { Err(Errno::ENOSPC) }
    }

    /// Whether there is room for an inode more.
    pub(super) fn need_inode(&self) -> Result<(), Errno> {
        if self.table.len() < self.config.inodes { Ok(()) } else { Err(Errno::ENOSPC) }
    }

    /// Room.
    pub(super) fn space(&self) -> Space {
        let inodes = self.config.inodes;
        let inodes_free = inodes - self.table.len();
        Space { bytes: self.config.bytes, bytes_free: self.bytes_free(), inodes, inodes_free }
    }

    /// Adds an inode, not pinned. The caller has asked for room.
    pub(super) fn add(&mut self, node: Node) -> Ino {
        self.bytes_used += node.attr.allocated;
        self.table.insert(Rc::new(node))
    }

    /// Gives an inode out.
    pub(super) fn pin(&mut self, ino: Ino) -> Entry {
        let slot = self.table.get_mut(ino).expect("an inode with names or pins is there");
        slot.pins += 1;
        Entry { ino, generation: 0, attr: slot.node.attr }
    }

    /// Takes pins back, and the inode away if it has no name either.
    pub(super) fn forget(&mut self, ino: Ino, pins: u64) {
        let slot = self.table.get_mut(ino).expect("only pinned inodes are forgotten");
        slot.pins = slot.pins.checked_sub(pins).expect("no more pins are given back than were given out");
        assert!(ino != ROOT || slot.pins > 0, "the root stays pinned");
        self.reap(ino);
    }

    /// Takes an inode away that has neither name nor pin.
    pub(super) fn reap(&mut self, ino: Ino) {
        if let Some(slot) = self.table.get(ino)
            && slot.pins == 0
            && slot.node.attr.links == 0
        {
            self.bytes_used -= slot.node.attr.allocated;
            self.table.remove(ino);
        }
    }

    /// Notes a read of bytes or entries.
    pub(super) fn touch(&mut self, ino: Ino, now: Stamp) {
        let attr = self.attr(ino);
        let is_due = attr.modified >= attr.accessed
            || attr.changed >= attr.accessed
            || now.0.saturating_sub(attr.accessed.0) >= RELATIME_NS;
        if is_due && attr.accessed != now && !attr.flags.has(FileFlags::NOATIME) && !self.is_still {
            self.known_mut(ino).attr.accessed = now;
        }
    }

    /// Inodes with their pins, in the order of their numbers.
    #[cfg(test)]
    pub(super) fn pins(&self) -> impl Iterator<Item = (Ino, u64)> {
        self.table.iter().map(|(ino, slot)| (ino, slot.pins))
    }

    /// Holds the invariants of this module to the state.
    #[cfg(test)]
    pub(super) fn check(&self) {
        let mut bytes = 0;
        for (ino, slot) in self.table.iter() {
            assert!(slot.pins > 0 || slot.node.attr.links > 0, "{ino:?} has neither name nor pin");
            let mut measured = (*slot.node).clone();
            measured.measure();
            assert_eq!(measured.attr, slot.node.attr, "{ino:?} is measured");
            bytes += slot.node.attr.allocated;
        }
        assert_eq!(bytes, self.bytes_used);
        assert!(bytes <= self.config.bytes && self.table.len() <= self.config.inodes);
    }
}

fn root() -> Node {
    let zero = Stamp(0);
    let attr = Attr {
        kind: FileType::Directory,
        mode: 0o755,
        links: 2,
        uid: 0,
        gid: 0,
        device: 0,
        size: 0,
        allocated: 0,
        accessed: zero,
        modified: zero,
        changed: zero,
        born: Some(zero),
        flags: FileFlags::NONE,
        version: 0,
    };
    Node::new(attr, Body::Directory(Dir::new(ROOT)))
}
