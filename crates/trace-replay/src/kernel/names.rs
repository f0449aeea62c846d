//! Opening, making, renaming and removing names.

use std::ffi::{CString, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use esker_trace_calls::words::{FileKind, OpenFlags, RenameFlags};
use esker_trace_calls::{At, Call, Object, PathBytes};
use esker_trace_order::compiled::Notes;
use rustix::fs::{AtFlags, FileType, FlockOperation, Mode, OFlags};
use rustix::io::Errno;

use super::slots::Handle;
use super::{CallExecutor, Fail, Nature, Reply, Skip, Turn, base, done, flags};
use crate::root::proc_path;
use crate::special::Specials;

const EXCLUSIVE: &str = "O_EXCL was left out where it had succeeded although the name was there";
const INDIRECT: &str = "O_DIRECT was left out: the file system has none";

impl CallExecutor<'_> {
    pub(super) fn names(&mut self, turn: &Turn<'_>) -> Reply {
        match &turn.step.call {
            Call::Open { at, flags, mode, .. } => self.open(turn, at, *flags, *mode),
            Call::Mkdir { at, mode } => {
                let place = self.place(at)?;
                Ok(done(rustix::fs::mkdirat(&place.dir, &place.leaf, self.mode(*mode))?))
            }
            Call::Mknod { at, kind, mode, .. } => self.mknod(at, *kind, *mode),
            Call::Bind { at, mode, .. } => self.bind(at, *mode),
            Call::Symlink { target, at } => self.symlink(target, at),
            Call::Link { from, to } => self.link(from, to),
            Call::Unlink { at } => self.unlink(at, AtFlags::empty()),
            Call::Rmdir { at } => self.unlink(at, AtFlags::REMOVEDIR),
            Call::Rename { from, to, flags } => self.rename(from, to, *flags),
            Call::ShmOpen { name, flags, mode } => self.shm_open(turn, name, *flags, *mode),
            Call::ShmUnlink { name } => {
                Ok(done(rustix::fs::unlinkat(&self.kernel.shm, shm_name(name)?, AtFlags::empty())?))
            }
            _ => unreachable!("calls come to their family"),
        }
    }

    fn open(&mut self, turn: &Turn<'_>, at: &At, traced: OpenFlags, mode: u16) -> Reply {
        let mut flags = flags::open(traced);
        if turn.step.notes.contains(Notes::EXCLUSIVE_DROPPED) {
            flags.remove(OFlags::EXCL);
            self.kernel.tally.add(EXCLUSIVE);
        }
        if let Some(device) = self.kernel.specials.find(&at.path) {
            let device = self.kernel.slots.handle(Specials::open(device, flags)?, Nature::File);
            return Ok(self.keep(turn, device));
        }
        let makes = flags.contains(OFlags::CREATE) || flags.contains(OFlags::TMPFILE);
        let mode = if makes { self.mode(mode) } else { Mode::empty() };
        let fd = match self.open_at(at, flags, mode) {
            Err(Fail::Errno(Errno::INVAL)) if flags.contains(OFlags::DIRECT) => {
                self.kernel.tally.add(INDIRECT);
                self.open_at(at, flags - OFlags::DIRECT, mode)?
            }
            other => other?,
        };
        self.lock(&fd, traced)?;
        let may_be_fifo = self.kernel.pipes.named || at.descriptor().is_some();
        let nature = if may_be_fifo && is_fifo(&fd, flags) { Nature::Pipe } else { Nature::File };
        let handle = self.kernel.slots.handle(fd, nature);
        Ok(self.keep(turn, handle))
    }

    /// Devices are not made: they could not be opened here.
    fn mknod(&mut self, at: &At, kind: FileKind, mode: u16) -> Reply {
        let place = self.place(at)?;
        let mode = self.mode(mode);
        match flags::file_type(kind) {
            Some(kind) => Ok(done(rustix::fs::mknodat(&place.dir, &place.leaf, kind, mode, 0)?)),
            None => Ok(done(rustix::fs::symlinkat(c"/dev/null", &place.dir, &place.leaf)?)),
        }
    }

    /// The name of a socket: that no socket listens behind it matters to no call on files.
    fn bind(&mut self, at: &At, mode: u16) -> Reply {
        let (place, mode) = (self.place(at)?, self.mode(mode));
        match rustix::fs::mknodat(&place.dir, &place.leaf, FileType::Socket, mode, 0) {
            Err(Errno::EXIST) => Err(Fail::Errno(Errno::ADDRINUSE)),
            made => Ok(done(made?)),
        }
    }

    fn symlink(&mut self, target: &PathBytes, at: &At) -> Reply {
        let place = self.place(at)?;
        Ok(done(rustix::fs::symlinkat(target.as_bytes(), &place.dir, &place.leaf)?))
    }

    fn link(&mut self, from: &Object, to: &At) -> Reply {
        let to = self.place(to)?;
        match from {
            Object::Path { at, follow: false } if !at.path.is_empty() => {
                let from = self.place(at)?;
                Ok(done(rustix::fs::linkat(&from.dir, &from.leaf, &to.dir, &to.leaf, AtFlags::empty())?))
            }
            // A descriptor's file, or what a link leads to, has the name of its handle.
            other => {
                let from = self.target(other)?;
                let handle = proc_path(&from);
                let linked = rustix::fs::linkat(rustix::fs::CWD, handle, &to.dir, &to.leaf, AtFlags::SYMLINK_FOLLOW);
                Ok(done(linked?))
            }
        }
    }

    fn unlink(&mut self, at: &At, flags: AtFlags) -> Reply {
        let place = self.place(at)?;
        let removed = rustix::fs::unlinkat(&place.dir, &place.leaf, flags);
        self.kernel.root.shift();
        Ok(done(removed?))
    }

    fn rename(&mut self, from: &At, to: &At, flags: RenameFlags) -> Reply {
        let (from, to) = (self.place(from)?, self.place(to)?);
        let flags = flags::rename(flags);
        let renamed = match flags.is_empty() {
            true => rustix::fs::renameat(&from.dir, &from.leaf, &to.dir, &to.leaf),
            false => rustix::fs::renameat_with(&from.dir, &from.leaf, &to.dir, &to.leaf, flags),
        };
        self.kernel.root.shift();
        Ok(done(renamed?))
    }

    /// A Mac locks while it opens.
    fn lock(&self, fd: &std::os::fd::OwnedFd, flags: OpenFlags) -> Result<(), Fail> {
        let operation = match () {
            () if flags.contains(OpenFlags::O_EXLOCK) => FlockOperation::NonBlockingLockExclusive,
            () if flags.contains(OpenFlags::O_SHLOCK) => FlockOperation::NonBlockingLockShared,
            () => return Ok(()),
        };
        match rustix::fs::flock(fd, operation) {
            Err(Errno::WOULDBLOCK) => {
                self.kernel.tally.add(Skip::Contended.text());
                Ok(())
            }
            other => Ok(other?),
        }
    }

    fn shm_open(&mut self, turn: &Turn<'_>, name: &PathBytes, traced: OpenFlags, mode: u16) -> Reply {
        let flags = flags::open(traced) | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = rustix::fs::openat(&self.kernel.shm, shm_name(name)?, flags, self.mode(mode))?;
        let handle = self.kernel.slots.handle(fd, Nature::File);
        Ok(self.keep(turn, handle))
    }

    /// Opens what was open before the first action.
    pub(super) fn open_before(&self, path: &PathBytes, traced: OpenFlags, offset: u64) -> Result<Arc<Handle>, Fail> {
        let flags = flags::open(traced) - OFlags::CREATE - OFlags::EXCL - OFlags::TRUNC - OFlags::TMPFILE;
        let fd = match self.kernel.specials.find(path) {
            Some(device) => Specials::open(device, flags)?,
            None => self.kernel.root.open_at(base(None), path, flags, Mode::empty())?,
        };
        if offset > 0 && !flags.contains(OFlags::PATH) {
            rustix::fs::seek(&fd, rustix::fs::SeekFrom::Start(offset))?;
        }
        Ok(self.kernel.slots.handle(fd, Nature::File))
    }
}

fn is_fifo(fd: &std::os::fd::OwnedFd, flags: OFlags) -> bool {
    // Files that are made or read as directories are none, which spares most opens the look.
    let cannot = flags.intersects(OFlags::CREATE | OFlags::DIRECTORY | OFlags::TMPFILE | OFlags::PATH);
    !cannot && rustix::fs::fstat(fd).is_ok_and(|stat| flags::kind(stat.st_mode) == FileKind::Fifo)
}

/// The name of shared memory as a single component.
fn shm_name(name: &PathBytes) -> Result<CString, Errno> {
    let bytes = name.as_bytes();
    let bytes = bytes.strip_prefix(b"/").unwrap_or(bytes);
    let one = OsStr::from_bytes(bytes);
    let single = !bytes.is_empty() && !bytes.contains(&b'/') && one != "." && one != "..";
    CString::new(bytes).ok().filter(|_| single).ok_or(Errno::INVAL)
}
