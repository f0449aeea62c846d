//! What calls are made of.

use crate::action::{ProcessId, ThreadId};
use crate::name::PathBytes;
use crate::wire::{Decoder, Encoder, Field, Malformed, Part, PartMut, structs, word_fields};
use crate::words::*;
use esker_base::Errno;

/// A descriptor, by its number in the traced process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
pub struct Fd(pub i32);

impl Fd {
    /// The working directory, in the place of a directory's descriptor.
    pub const CWD: Fd = Fd(-100);
}

/// A path, and where it starts unless it is absolute.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
pub struct At {
    /// The directory, or [`Fd::CWD`].
    pub dir: Fd,
    /// The path.
    pub path: PathBytes,
}

impl At {
    /// A path that starts in the working directory, unless it is absolute.
    pub fn cwd(path: impl Into<PathBytes>) -> At {
        At { dir: Fd::CWD, path: path.into() }
    }
}

/// What a call is about: a path, or an open descriptor.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Object {
    /// What a path leads to.
    Path {
        /// The path.
        at: At,
        /// Whether a symbolic link in its last component is followed.
        follow: bool,
    },
    /// What a descriptor is open on.
    Fd(Fd),
}

/// What a call of the `stat` family told.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
pub struct Status {
    /// Type.
    pub kind: FileKind,
    /// Permission bits.
    pub mode: u16,
    /// Size in bytes.
    pub size: u64,
    /// Names.
    pub links: u32,
    /// Device, as the kernel numbers it; 0 where it was not recorded.
    pub device: u64,
    /// Inode number; 0 where it was not recorded.
    pub inode: u64,
}

/// Where asynchronous requests go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum AsyncQueue {
    /// The `aio_` functions of POSIX.
    Posix,
    /// A context of the kernel's `io_submit`.
    Kernel(u64),
    /// An io_uring.
    Uring(Fd),
}

/// One asynchronous request.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
pub struct AsyncOp {
    /// The name of its control block: its address, or the user data of an io_uring request.
    pub key: u64,
    /// What it asks.
    pub kind: AsyncKind,
    /// Of this descriptor.
    pub fd: Fd,
    /// First byte.
    pub offset: u64,
    /// Bytes.
    pub len: u64,
}

structs! {
    Status { kind, mode, size, links, device, inode }
    AsyncOp { key, kind, fd, offset, len }
}

impl Field for Fd {
    fn put(&self, to: &mut Encoder<'_>) {
        self.0.put(to);
    }

    fn get(from: &mut Decoder<'_>) -> Result<Fd, Malformed> {
        Field::get(from).map(Fd)
    }

    fn render(&self, to: &mut String) {
        match *self {
            Fd::CWD => to.push_str("cwd"),
            Fd(number) => to.push_str(&number.to_string()),
        }
    }

    fn parts<'a>(&'a self, see: &mut dyn FnMut(Part<'a>)) {
        see(Part::Fd(*self));
    }

    fn parts_mut(&mut self, change: &mut dyn FnMut(PartMut<'_>)) {
        change(PartMut::Fd(self));
    }
}

impl Field for At {
    fn put(&self, to: &mut Encoder<'_>) {
        self.dir.put(to);
        self.path.put(to);
    }

    fn get(from: &mut Decoder<'_>) -> Result<At, Malformed> {
        Ok(At { dir: Field::get(from)?, path: Field::get(from)? })
    }

    fn render(&self, to: &mut String) {
        if self.dir != Fd::CWD {
            self.dir.render(to);
            to.push(':');
        }
        self.path.render(to);
    }

    fn parts<'a>(&'a self, see: &mut dyn FnMut(Part<'a>)) {
        see(Part::At(self));
    }

    fn parts_mut(&mut self, change: &mut dyn FnMut(PartMut<'_>)) {
        change(PartMut::At(self));
    }
}

impl Field for Object {
    fn put(&self, to: &mut Encoder<'_>) {
        match self {
            Object::Fd(fd) => {
                to.byte(0);
                fd.put(to);
            }
            Object::Path { at, follow } => {
                to.byte(1 + u8::from(*follow));
                at.put(to);
            }
        }
    }

    fn get(from: &mut Decoder<'_>) -> Result<Object, Malformed> {
        match from.byte()? {
            0 => Field::get(from).map(Object::Fd),
            tag @ 1..=2 => Ok(Object::Path { at: Field::get(from)?, follow: tag == 2 }),
            _ => Err(from.malformed("neither path nor descriptor")),
        }
    }

    fn render(&self, to: &mut String) {
        match self {
            Object::Fd(fd) => fd.render(to),
            Object::Path { at, follow } => {
                at.render(to);
                to.push_str(if *follow { "" } else { " (not followed)" });
            }
        }
    }

    fn parts<'a>(&'a self, see: &mut dyn FnMut(Part<'a>)) {
        match self {
            Object::Fd(fd) => fd.parts(see),
            Object::Path { at, .. } => at.parts(see),
        }
    }

    fn parts_mut(&mut self, change: &mut dyn FnMut(PartMut<'_>)) {
        match self {
            Object::Fd(fd) => fd.parts_mut(change),
            Object::Path { at, .. } => at.parts_mut(change),
        }
    }
}

impl Field for AsyncQueue {
    fn put(&self, to: &mut Encoder<'_>) {
        match self {
            AsyncQueue::Posix => to.byte(0),
            AsyncQueue::Kernel(context) => {
                to.byte(1);
                context.put(to);
            }
            AsyncQueue::Uring(fd) => {
                to.byte(2);
                fd.put(to);
            }
        }
    }

    fn get(from: &mut Decoder<'_>) -> Result<AsyncQueue, Malformed> {
        match from.byte()? {
            0 => Ok(AsyncQueue::Posix),
            1 => Field::get(from).map(AsyncQueue::Kernel),
            2 => Field::get(from).map(AsyncQueue::Uring),
            _ => Err(from.malformed("no kind of queue")),
        }
    }

    fn render(&self, to: &mut String) {
        match self {
            AsyncQueue::Posix => to.push_str("posix"),
            AsyncQueue::Kernel(context) => to.push_str(&format!("aio:{context:#x}")),
            AsyncQueue::Uring(fd) => to.push_str(&format!("uring:{}", fd.0)),
        }
    }

    fn parts<'a>(&'a self, see: &mut dyn FnMut(Part<'a>)) {
        if let AsyncQueue::Uring(fd) = self {
            fd.parts(see);
        }
    }

    fn parts_mut(&mut self, change: &mut dyn FnMut(PartMut<'_>)) {
        if let AsyncQueue::Uring(fd) = self {
            fd.parts_mut(change);
        }
    }
}

impl Field for ThreadId {
    fn put(&self, to: &mut Encoder<'_>) {
        self.0.put(to);
    }

    fn get(from: &mut Decoder<'_>) -> Result<ThreadId, Malformed> {
        Field::get(from).map(ThreadId)
    }

    fn render(&self, to: &mut String) {
        to.push_str(&format!("T{}", self.0));
    }
}

impl Field for ProcessId {
    fn put(&self, to: &mut Encoder<'_>) {
        self.0.put(to);
    }

    fn get(from: &mut Decoder<'_>) -> Result<ProcessId, Malformed> {
        Field::get(from).map(ProcessId)
    }

    fn render(&self, to: &mut String) {
        to.push_str(&format!("P{}", self.0));
    }
}

impl Field for Errno {
    fn put(&self, to: &mut Encoder<'_>) {
        self.0.put(to);
    }

    fn get(from: &mut Decoder<'_>) -> Result<Errno, Malformed> {
        Field::get(from).map(Errno)
    }

    fn render(&self, to: &mut String) {
        to.push_str(&self.to_string());
    }
}

word_fields! {
    choices: FileKind, Whence, Advice, LockKind, RecordLock, FcntlCmd, FdSource, SocketOp, AsyncKind, MapAdvice, Hint,
        Obscure, SyncKind;
    flags: OpenFlags, ResolveFlags, RenameFlags, AccessMode, FallocFlags, SyncRangeFlags, ReadWriteFlags, XattrFlags,
        CloneFlags, MapFlags, MapSyncFlags, CloseRangeFlags
}
