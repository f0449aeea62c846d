//! `ram`: a file system of B-trees in memory.
//!
//! It is the oracle of other file systems: each call is one change that is done at once, and nothing survives. What it
//! charges for is exact. A page of a file costs 4 KiB, also if other files share it, so that a write finds the room
//! that [`FileSystem::space`] told. Entries, long targets and extended attributes of an inode cost whole pages too.
//!
//! Times follow ext4 with `relatime`, and are kept to the nanosecond.

mod attrs;
mod bytes;
mod dir;
mod image;
mod kind;
mod names;
mod pages;
mod rename;
mod state;
mod table;
#[cfg(test)]
mod tests;
mod walk;
mod xattrs;

use std::cell::RefCell;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use esker_base::{ByteRange, Errno, Nanos};
use esker_block::{Buf, Stat, Step};
use esker_rt::mem::Pool;

use crate::about::{Abilities, About, Promise, Space};
use crate::attr::{Attr, Entry, New, SetAttr};
use crate::change::{Allocate, At, Copying, Last, Remove, Rename, Seek, Sync, Write, Written, Xattr};
use crate::digest::tree_digest;
use crate::listing::Listing;
use crate::system::{Answer, FileSystem};
use crate::word::{Call, Cookie, Cred, Ino, Name, Stamp};

use state::{ROOT, State};

pub use image::RamImageError;
pub use kind::open;

/// Limits of a [`Ram`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RamConfig {
    /// Bytes of files, entries, targets and extended attributes.
    pub bytes: u64,
    /// Inodes, with the root.
    pub inodes: u64,
    /// See [`About::links_max`].
    pub links_max: u32,
    /// See [`About::size_max`].
    pub size_max: u64,
}

impl RamConfig {
    /// So many bytes, an inode for each page, and the limits of ext4 and of Linux.
    pub fn sized(bytes: u64) -> RamConfig {
        let inodes = bytes / pages::PAGE as u64 + 1;
        RamConfig { bytes, inodes, links_max: 65_000, size_max: i64::MAX as u64 }
    }

    /// Limits that tests reach.
    pub fn tiny() -> RamConfig {
        RamConfig { bytes: 128 << 10, inodes: 24, links_max: 6, size_max: 1 << 20 }
    }
}

/// A file system in memory. A value is a handle: clones are the same file system.
#[derive(Clone)]
pub struct Ram {
    about: Rc<About>,
    pool: Pool,
    state: Rc<RefCell<State>>,
}

impl Ram {
    /// An empty file system. Answers to reads take memory from `pool`.
    pub fn new(config: RamConfig, pool: Pool) -> Ram {
        Ram { about: Rc::new(about(config)), pool, state: Rc::new(RefCell::new(State::new(config))) }
    }

    /// Another file system of the same state, pins included. It costs a step for each inode. Bytes and entries stay
    /// common until one of both changes them.
    pub fn fork(&self) -> Ram {
        let state = self.state.borrow().clone();
        Ram { about: self.about.clone(), pool: self.pool.clone(), state: Rc::new(RefCell::new(state)) }
    }

    /// [`tree_digest`], which leaves this file system as it is.
    ///
    /// # Errors
    /// `EIO` behind [`FileSystem::close`].
    pub fn digest(&self) -> Result<u64, Errno> {
        let fork = self.fork();
        fork.state.borrow_mut().is_still = true;
        let call = Call::at(Stamp(0));
        match pin!(tree_digest(&fork, call)).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(digest) => digest,
            Poll::Pending => unreachable!("each call is answered at once"),
        }
    }

    /// Whether both have the same state, pins and times included.
    #[cfg(test)]
    pub(crate) fn is_equal(&self, other: &Ram) -> bool {
        *self.state.borrow() == *other.state.borrow()
    }

    fn change<T>(&self, change: impl FnOnce(&mut State) -> Result<T, Errno>) -> Answer<T> {
        Step::Now(change(&mut self.state.borrow_mut()))
    }
}

fn about(config: RamConfig) -> About {
    About {
        kind: "ram",
        id: 0,
        block: pages::PAGE as u32,
        grain: Nanos(1),
        times: Stamp(i64::MIN)..=Stamp(i64::MAX),
        links_max: config.links_max,
        size_max: config.size_max,
        promise: Promise::None,
        can: Abilities {
            xattrs: true,
            hard_links: true,
            symlinks: true,
            nodes: true,
            access_times: true,
            exchange: true,
            reserve: true,
            punch: true,
            holes: true,
            share: true,
            locks: false,
            flags: true,
        },
    }
}

impl FileSystem for Ram {
    fn about(&self) -> &About {
        &self.about
    }

    fn root(&self) -> Ino {
        ROOT
    }

    fn lookup(&self, _: Call, dir: Ino, name: Name<'_>) -> Answer<Entry> {
        self.change(|state| state.lookup(dir, name))
    }

    fn parent(&self, _: Call, dir: Ino) -> Answer<Entry> {
        self.change(|state| state.parent(dir))
    }

    fn pin(&self, _: Call, ino: Ino) -> Answer<Entry> {
        self.change(|state| {
            state.node(ino)?;
            Ok(state.pin(ino))
        })
    }

    fn forget(&self, ino: Ino, pins: u64) {
        self.state.borrow_mut().forget(ino, pins);
    }

    fn create(&self, call: Call, dir: Ino, name: Option<Name<'_>>, new: New<'_>) -> Answer<Entry> {
        self.change(|state| state.create(call.now, dir, name, new))
    }

    fn link(&self, call: Call, ino: Ino, dir: Ino, name: Name<'_>) -> Answer<Entry> {
        self.change(|state| state.link(call.now, ino, dir, name))
    }

    fn remove(&self, call: Call, dir: Ino, name: Name<'_>, what: Remove) -> Answer<()> {
        self.change(|state| state.remove(call.now, dir, name, what))
    }

    fn rename(&self, call: Call, from: (Ino, Name<'_>), to: (Ino, Name<'_>), how: Rename) -> Answer<()> {
        self.change(|state| state.rename(call.now, from, to, how))
    }

    fn target(&self, call: Call, ino: Ino) -> Answer<Box<[u8]>> {
        self.change(|state| {
            state.node(ino)?;
            Ok((*state.target(call.now, ino)?).into())
        })
    }

    fn list(&self, call: Call, dir: Ino, from: Cookie, into: Listing) -> Answer<Listing> {
        self.change(|state| state.list(call.now, dir, from, into))
    }

    fn walk_now(&self, call: Call, cred: &Cred, from: Ino, path: &[u8], last: Last) -> Option<Result<Entry, Errno>> {
        Some(self.state.borrow_mut().walk(call.now, cred, from, path, last))
    }

    fn attr(&self, _: Call, ino: Ino) -> Answer<Attr> {
        Step::Now(self.state.borrow().node(ino).map(|node| node.attr))
    }

    fn set_attr(&self, call: Call, ino: Ino, set: SetAttr) -> Answer<Attr> {
        self.change(|state| state.set_attr(call.now, ino, set))
    }

    fn xattr(&self, call: Call, ino: Ino, what: Xattr<'_>) -> Answer<Box<[u8]>> {
        self.change(|state| state.xattr(call.now, ino, what))
    }

    fn read(&self, call: Call, ino: Ino, at: u64, len: usize) -> Answer<Buf> {
        self.change(|state| {
            let len = state.readable(ino, at, len)?;
            let mut buf = Buf::unique(&self.pool, len);
            state.read(call.now, ino, at, buf.bytes_mut().expect("it was just made unique"))?;
            Ok(buf)
        })
    }

    fn read_now(&self, call: Call, ino: Ino, at: u64, out: &mut [u8]) -> Option<Result<usize, Errno>> {
        let mut state = self.state.borrow_mut();
        let read = state.readable(ino, at, out.len());
        Some(read.and_then(|len| state.read(call.now, ino, at, &mut out[..len]).map(|()| len)))
    }

    fn write(&self, call: Call, ino: Ino, at: At, data: Buf, how: Write) -> Answer<Written> {
        let source: bytes::Source<'_> = &|each| data.for_each_piece(each);
        self.change(|state| state.write(call.now, ino, at, (data.len() as u64, source), how))
    }

    fn write_now(&self, call: Call, ino: Ino, at: At, data: &[u8], how: Write) -> Option<Result<Written, Errno>> {
        let source: bytes::Source<'_> = &|each| each(data);
        Some(self.state.borrow_mut().write(call.now, ino, at, (data.len() as u64, source), how))
    }

    fn allocate(&self, call: Call, ino: Ino, range: ByteRange, how: Allocate) -> Answer<()> {
        self.change(|state| state.allocate(call.now, ino, range, how))
    }

    fn copy(&self, call: Call, from: (Ino, u64), to: (Ino, u64), len: u64, how: Copying) -> Answer<u64> {
        self.change(|state| state.copy(call.now, from, to, len, how))
    }

    fn seek(&self, _: Call, ino: Ino, at: u64, what: Seek) -> Answer<u64> {
        self.change(|state| state.seek(ino, at, what))
    }

    fn sync(&self, _: Call, what: Sync) -> Answer<()> {
        self.change(|state| match what {
            Sync::Data(ino) | Sync::File(ino) => state.node(ino).map(|_| ()),
            Sync::All => state.node(ROOT).map(|_| ()),
        })
    }

    fn space(&self, _: Call) -> Answer<Space> {
        self.change(|state| state.node(ROOT).map(|_| state.space()))
    }

    fn close(&self) -> Answer<()> {
        self.change(|state| {
            state.node(ROOT)?;
            state.is_closed = true;
            Ok(())
        })
    }

    fn stats(&self) -> Vec<Stat> {
        let space = self.state.borrow().space();
        vec![
            Stat { name: "used_bytes", value: (space.bytes - space.bytes_free) as f64 },
            Stat { name: "used_inodes", value: (space.inodes - space.inodes_free) as f64 },
        ]
    }
}
