//! Names: lookups, new inodes, links, removals, renames; and opening.

use std::rc::Rc;

use esker_base::Errno;
use esker_block::Step;
use esker_rt::mem::{Parts, Slice};
use esker_vfs::access::new_owner;
use esker_vfs::{Answer, Attr, Cred, Entry, FileType, Name, New, NewKind, Remove, Rename};
use zerocopy::IntoBytes;

use super::attributes::{VALID_S, refused};
use super::{CacheMode, Session, done, greeting};
use crate::proto::abi::{EntryOut, OpenOut, kind};
use crate::proto::request::{Made, Renamed};
use crate::proto::{Op, Request, reply};

/// Flags of RENAME2.
const NO_REPLACE: u32 = 1;
const EXCHANGE: u32 = 2;

/// Bits of `open` flags that say whether a file is written: O_RDONLY is 0 in them.
const ACCESS_MODE: u32 = 3;

/// A kind of inode that outlives its request.
enum OwnKind {
    File,
    Directory,
    Symlink(Box<[u8]>),
    Node(FileType, u64),
}

impl OwnKind {
    fn of(kind: NewKind<'_>) -> OwnKind {
        match kind {
            NewKind::File => OwnKind::File,
            NewKind::Directory => OwnKind::Directory,
            NewKind::Symlink(target) => OwnKind::Symlink(target.into()),
            NewKind::Node(kind, device) => OwnKind::Node(kind, device),
        }
    }

    fn borrowed(&self) -> NewKind<'_> {
        match self {
            OwnKind::File => NewKind::File,
            OwnKind::Directory => NewKind::Directory,
            OwnKind::Symlink(target) => NewKind::Symlink(target),
            OwnKind::Node(kind, device) => NewKind::Node(*kind, *device),
        }
    }
}

fn type_of(kind: NewKind<'_>) -> FileType {
    match kind {
        NewKind::File => FileType::File,
        NewKind::Directory => FileType::Directory,
        NewKind::Symlink(_) => FileType::Symlink,
        NewKind::Node(kind, _) => kind,
    }
}

/// Something with a name that a request bears.
fn named(bytes: &[u8], act: impl FnOnce(Name<'_>) -> Answer<Parts>) -> Answer<Parts> {
    match Name::new(bytes) {
        Ok(name) => act(name),
        Err(errno) => refused(errno),
    }
}

/// What the kernel learns of a name that is not there: it remembers that too.
fn nothing() -> EntryOut {
    EntryOut { entry_valid: VALID_S, ..EntryOut::zero() }
}

/// The inode that a caller makes in a directory. The kernel has applied the umask, and has taken set-group-ID from
/// callers outside the group, whose further groups only it knows.
fn new_inode<'a>(what: NewKind<'a>, bits: u32, (uid, gid): (u32, u32), dir: &Attr) -> New<'a> {
    let cred = Cred { uid, gid, groups: [].into(), privileged: true };
    let owner = new_owner(&cred, dir, type_of(what), bits as u16 & 0o7777);
    New { what, mode: owner.mode, uid: owner.uid, gid: owner.gid }
}

fn node_kind(mode: u32, device: u32) -> Result<NewKind<'static>, Errno> {
    let node = |kind| Ok(NewKind::Node(kind, u64::from(device)));
    match mode & kind::MASK {
        0 | kind::FILE => Ok(NewKind::File),
        kind::FIFO => node(FileType::Fifo),
        kind::CHAR => node(FileType::CharDevice),
        kind::BLOCK => node(FileType::BlockDevice),
        kind::SOCKET => node(FileType::Socket),
        _ => Err(Errno::EINVAL),
    }
}

impl Session {
    pub(super) fn lookup(self: &Rc<Self>, request: &Request<'_>, name: &[u8]) -> Answer<Parts> {
        let (session, unique) = (self.clone(), request.unique);
        named(name, |name| {
            self.fs.lookup(self.call(request), self.ino(request), name).map(move |answer| {
                let found = match answer {
                    Ok(entry) => session.given(&entry),
                    Err(Errno::ENOENT) if session.config.cache != CacheMode::Devices => nothing(),
                    Err(errno) => return Err(errno),
                };
                Ok(Slice::heap(reply::with(unique, &found)).into())
            })
        })
    }

    /// Operations that change names, and those that are refused.
    pub(super) fn change_names(self: &Rc<Self>, request: &Request<'_>) -> Answer<Parts> {
        match request.op {
            Op::Symlink { name, target } => self.make(request, name, NewKind::Symlink(target), 0o777),
            Op::Mknod(Made { name, mode }, device) => match node_kind(mode, device) {
                Ok(kind) => self.make(request, name, kind, mode),
                Err(errno) => refused(errno),
            },
            Op::Mkdir(Made { name, mode }) => self.make(request, name, NewKind::Directory, mode),
            Op::Create(Made { name, mode }, _) => match self.open_out() {
                // Without it the kernel makes the file by MKNOD and opens it by itself.
                None => refused(Errno::ENOSYS),
                Some(open) => self.make_open(request, Some(name), mode, open),
            },
            Op::TmpFile { mode, .. } => {
                let open_flags = greeting::tmpfile_flags(self.config.cache);
                self.make_open(request, None, mode, OpenOut { open_flags, ..OpenOut::zero() })
            }
            Op::Unlink(name) => self.remove(request, name, Remove::File),
            Op::Rmdir(name) => self.remove(request, name, Remove::Directory),
            Op::Rename(renamed) => self.rename(request, renamed),
            Op::Link { node, name } => self.link(request, node, name),
            // The kernel keeps locks and checks permissions by itself. It needs no FLUSH, because a close that has
            // bytes to write writes them first.
            _ => refused(Errno::ENOSYS),
        }
    }

    fn make(self: &Rc<Self>, request: &Request<'_>, name: &[u8], what: NewKind<'_>, bits: u32) -> Answer<Parts> {
        let (session, unique) = (self.clone(), request.unique);
        named(name, |name| {
            self.create(request, Some(name), what, bits)
                .map(move |made| Ok(Slice::heap(reply::with(unique, &session.given(&made?))).into()))
        })
    }

    fn make_open(
        self: &Rc<Self>,
        request: &Request<'_>,
        name: Option<&[u8]>,
        bits: u32,
        open: OpenOut,
    ) -> Answer<Parts> {
        let name = match name.map(Name::new).transpose() {
            Ok(name) => name,
            Err(errno) => return refused(errno),
        };
        let (session, unique) = (self.clone(), request.unique);
        self.create(request, name, NewKind::File, bits).map(move |made| {
            let entry = session.given(&made?);
            session.opened();
            Ok(Slice::heap(reply::with_two(unique, &entry, open.as_bytes())).into())
        })
    }

    /// Makes an inode, whose owner depends on the directory.
    fn create(
        self: &Rc<Self>,
        request: &Request<'_>,
        name: Option<Name<'_>>,
        what: NewKind<'_>,
        bits: u32,
    ) -> Answer<Entry> {
        let (dir, call, caller) = (self.ino(request), self.call(request), (request.uid, request.gid));
        match self.fs.attr(call, dir) {
            Step::Now(Ok(attr)) => self.fs.create(call, dir, name, new_inode(what, bits, caller, &attr)),
            Step::Now(Err(errno)) => Step::Now(Err(errno)),
            later => {
                let (session, name, what) = (self.clone(), name.map(Name::to_buf), OwnKind::of(what));
                Step::later(async move {
                    let new = new_inode(what.borrowed(), bits, caller, &later.await?);
                    session.fs.create(call, dir, name.as_ref().map(|name| name.name()), new).await
                })
            }
        }
    }

    fn link(self: &Rc<Self>, request: &Request<'_>, node: u64, name: &[u8]) -> Answer<Parts> {
        let (session, unique) = (self.clone(), request.unique);
        named(name, |name| {
            let linked = self.fs.link(self.call(request), self.numbers.ino(node), self.ino(request), name);
            linked.map(move |entry| Ok(Slice::heap(reply::with(unique, &session.given(&entry?))).into()))
        })
    }

    fn remove(&self, request: &Request<'_>, name: &[u8], what: Remove) -> Answer<Parts> {
        let unique = request.unique;
        named(name, |name| {
            let removed = self.fs.remove(self.call(request), self.ino(request), name, what);
            removed.map(move |answer| answer.map(|()| done(unique)))
        })
    }

    fn rename(&self, request: &Request<'_>, Renamed { from, to_dir, to, flags }: Renamed<'_>) -> Answer<Parts> {
        let how = match flags {
            0 => Rename::Replace,
            NO_REPLACE => Rename::NoReplace,
            EXCHANGE if self.fs.about().can.exchange => Rename::Exchange,
            _ => return refused(Errno::EINVAL),
        };
        let (from, to) = match (Name::new(from), Name::new(to)) {
            (Ok(from), Ok(to)) => (from, to),
            (Err(errno), _) | (_, Err(errno)) => return refused(errno),
        };
        let (unique, call) = (request.unique, self.call(request));
        let renamed = self.fs.rename(call, (self.ino(request), from), (self.numbers.ino(to_dir), to), how);
        renamed.map(move |answer| answer.map(|()| done(unique)))
    }

    pub(super) fn open(self: &Rc<Self>, request: &Request<'_>, flags: u32) -> Answer<Parts> {
        let Some(open) = self.open_out() else { return refused(Errno::ENOSYS) };
        let (ino, call, unique) = (self.ino(request), self.call(request), request.unique);
        let session = self.clone();
        self.with_attr(call, ino, move |attr| {
            // A device that takes no writes has no bit for them, also for the superuser.
            let is_fixed = session.config.cache == CacheMode::Devices && attr.mode & 0o222 == 0;
            if attr.kind != FileType::File {
                return refused(Errno::EBADF);
            }
            if is_fixed && flags & ACCESS_MODE != 0 {
                return refused(Errno::EROFS);
            }
            session.opened();
            Step::Now(Ok(Slice::heap(reply::with(unique, &open)).into()))
        })
    }

    pub(super) fn open_directory(&self, request: &Request<'_>) -> Answer<Parts> {
        match self.config.cache {
            CacheMode::Through | CacheMode::WriteBack => refused(Errno::ENOSYS),
            CacheMode::None | CacheMode::Devices => {
                Step::Now(Ok(Slice::heap(reply::with(request.unique, &OpenOut::zero())).into()))
            }
        }
    }
}
