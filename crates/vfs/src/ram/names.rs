//! Names: lookup, create, link, remove, list.
//!
//! Every change is checked as a whole, and then applied as a whole.

use std::rc::Rc;

use esker_base::Errno;

use super::dir::{Dir, cost};
use super::pages::Pages;
use super::state::{Body, Node, State, rounded};
use crate::attr::{Attr, Entry, FileFlags, FileType, New, NewKind, mode};
use crate::change::Remove;
use crate::listing::{Listing, Row};
use crate::walk::PATH_BYTES_MAX;
use crate::word::{Cookie, Ino, Name, Stamp};

impl State {
    /// The inode of a name, pinned.
    pub(super) fn lookup(&mut self, dir: Ino, name: Name<'_>) -> Result<Entry, Errno> {
        let ino = self.dir(dir)?.find(name).ok_or(Errno::ENOENT)?;
        Ok(self.pin(ino))
    }

    /// The directory above, pinned.
    pub(super) fn parent(&mut self, dir: Ino) -> Result<Entry, Errno> {
        let parent = self.live_dir(dir)?.parent;
        Ok(self.pin(parent))
    }

    /// Makes an inode.
    pub(super) fn create(
        &mut self,
        now: Stamp,
        dir: Ino,
        name: Option<Name<'_>>,
        new: New<'_>,
    ) -> Result<Entry, Errno> {
        let grown = match name {
            Some(name) => self.may_name(dir, name)?,
            None => self.live_dir(dir).map(|_| 0)?,
        };
        let body = new_body(dir, name.is_some(), new.what)?;
        let is_directory = matches!(body, Body::Directory(_));
        if is_directory && self.attr(dir).links - 2 >= self.config.links_max {
            return Err(Errno::EMLINK);
        }
        let mut node = Node::new(new_attr(now, new, name.is_some()), body);
        node.is_nameless = name.is_none();
        self.need_inode()?;
        self.need(grown + node.attr.allocated)?;
        let ino = self.add(node);
        if let Some(name) = name {
            self.known_dir_mut(dir).insert(name, ino);
            self.note_entries(dir, now, if is_directory { 1 } else { 0 });
        }
        Ok(self.pin(ino))
    }

    /// Gives an inode one more name.
    pub(super) fn link(&mut self, now: Stamp, ino: Ino, dir: Ino, name: Name<'_>) -> Result<Entry, Errno> {
        let grown = self.may_name(dir, name)?;
        let node = self.node(ino)?;
        if node.attr.kind == FileType::Directory {
            return Err(Errno::EPERM);
        }
        if node.attr.links == 0 && !node.is_nameless {
            return Err(Errno::ENOENT);
        }
        if node.attr.links >= self.config.links_max {
            return Err(Errno::EMLINK);
        }
        self.need(grown)?;
        let node = self.known_mut(ino);
        node.is_nameless = false;
        node.attr.links += 1;
        node.change(now);
        self.known_dir_mut(dir).insert(name, ino);
        self.note_entries(dir, now, 0);
        Ok(self.pin(ino))
    }

    /// Removes a name.
    pub(super) fn remove(&mut self, now: Stamp, dir: Ino, name: Name<'_>, what: Remove) -> Result<(), Errno> {
        let ino = self.dir(dir)?.find(name).ok_or(Errno::ENOENT)?;
        match (what, &self.known(ino).body) {
            (Remove::File, Body::Directory(_)) => return Err(Errno::EISDIR),
            (Remove::Directory, Body::File(_) | Body::Symlink(_) | Body::Other) => return Err(Errno::ENOTDIR),
            (Remove::Directory, Body::Directory(victim)) if !victim.is_empty() => return Err(Errno::ENOTEMPTY),
            (Remove::Directory, Body::Directory(_))
            | (Remove::File, Body::File(_) | Body::Symlink(_) | Body::Other) => {}
        }
        self.known_dir_mut(dir).remove(name);
        let subdirectories = if what == Remove::Directory { -1 } else { 0 };
        self.note_entries(dir, now, subdirectories);
        self.drop_name(now, ino);
        Ok(())
    }

    /// Adds entries until one does not fit.
    pub(super) fn list(&mut self, now: Stamp, dir: Ino, from: Cookie, mut into: Listing) -> Result<Listing, Errno> {
        self.live_dir(dir)?;
        // Pins change while entries are read, entries do not.
        let node = Rc::clone(self.node(dir)?);
        let Body::Directory(entries) = &node.body else { unreachable!("it was looked at above") };
        for (cookie, name, ino) in entries.behind(from) {
            if !into.fits(name) {
                break;
            }
            let kind = self.attr(ino).kind;
            let entry = into.wants_entries().then(|| self.pin(ino));
            into.push(Row { ino, next: cookie, kind, name, entry });
        }
        drop(node);
        self.touch(dir, now);
        Ok(into)
    }

    /// Whether a directory may get a name. Answers the room that it takes.
    fn may_name(&self, dir: Ino, name: Name<'_>) -> Result<u64, Errno> {
        let entries = self.live_dir(dir)?;
        if entries.find(name).is_some() { Err(Errno::EEXIST) } else { Ok(growth(entries, cost(name), 0)) }
    }

    /// Notes changed entries, with as many subdirectories more.
    pub(super) fn note_entries(&mut self, dir: Ino, now: Stamp, subdirectories: i32) {
        let node = self.known_mut(dir);
        node.modify(now);
        node.attr.links = node.attr.links.checked_add_signed(subdirectories).expect("each subdirectory is counted");
        self.settle(dir);
    }

    /// Notes that an inode has lost a name; a directory its only one.
    pub(super) fn drop_name(&mut self, now: Stamp, ino: Ino) {
        let node = self.known_mut(ino);
        node.attr.links = if node.attr.kind == FileType::Directory { 0 } else { node.attr.links - 1 };
        node.change(now);
        self.reap(ino);
    }
}

/// Room that a directory takes more when entries of so many bytes come, and then others go.
pub(super) fn growth(dir: &Dir, come: u64, go: u64) -> u64 {
    rounded(dir.bytes() + come - go).saturating_sub(rounded(dir.bytes()))
}

fn new_body(dir: Ino, is_named: bool, what: NewKind<'_>) -> Result<Body, Errno> {
    match what {
        NewKind::File => Ok(Body::File(Pages::default())),
        NewKind::Directory | NewKind::Symlink(_) | NewKind::Node(..) if !is_named => Err(Errno::EINVAL),
        NewKind::Directory => Ok(Body::Directory(Dir::new(dir))),
        NewKind::Symlink([]) => Err(Errno::ENOENT),
        NewKind::Symlink(target) if target.len() > PATH_BYTES_MAX => Err(Errno::ENAMETOOLONG),
        NewKind::Symlink(target) => Ok(Body::Symlink(target.into())),
        NewKind::Node(FileType::File | FileType::Directory | FileType::Symlink, _) => Err(Errno::EINVAL),
        NewKind::Node(FileType::CharDevice | FileType::BlockDevice | FileType::Fifo | FileType::Socket, _) => {
            Ok(Body::Other)
        }
    }
}

fn new_attr(now: Stamp, new: New<'_>, is_named: bool) -> Attr {
    let (kind, device) = match new.what {
        NewKind::File => (FileType::File, 0),
        NewKind::Directory => (FileType::Directory, 0),
        NewKind::Symlink(_) => (FileType::Symlink, 0),
        NewKind::Node(kind @ (FileType::CharDevice | FileType::BlockDevice), device) => (kind, device),
        NewKind::Node(kind, _) => (kind, 0),
    };
    // The mode of a symbolic link is never looked at.
    let bits = if kind == FileType::Symlink { 0o777 } else { new.mode & mode::ALL };
    let links = if kind == FileType::Directory { 2 } else { u32::from(is_named) };
    Attr {
        kind,
        mode: bits,
        links,
        uid: new.uid,
        gid: new.gid,
        device,
        size: 0,
        allocated: 0,
        accessed: now,
        modified: now,
        changed: now,
        born: Some(now),
        flags: FileFlags::NONE,
        version: 0,
    }
}
