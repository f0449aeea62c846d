//! A player of scripts on the kernel's file systems, beside the processes of ours.

mod attributes;
mod bytes;
mod names;

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use esker_fs_posix::OpenFlags;
use esker_fs_posix::script::{HELD, Held, Object, Outcome, Player, ScriptOp, Word};
use rustix::fs::{self, Mode, OFlags};
use rustix::io;
use rustix::thread;

use crate::words::{errno, mode_bits};

/// Plays scripts in this process, of which rights, umask and working directory change with them.
#[derive(Debug)]
pub struct Host {
    root: OwnedFd,
    held: [Option<OwnedFd>; HELD],
}

type Answer = io::Result<Outcome>;

impl Player for Host {
    async fn call(&mut self, op: &ScriptOp) -> Outcome {
        self.act(op).unwrap_or_else(|error| Outcome::Failed(errno(error)))
    }
}

/// A call on a path or on a held file.
enum Target<'a> {
    Path(&'a [u8]),
    Fd(BorrowedFd<'a>),
}

fn done(result: io::Result<()>) -> Answer {
    result.map(|()| Outcome::Done)
}

impl Host {
    /// A player whose calls on everything are about the file system of a directory. Its paths begin where this process
    /// is: only a process whose root is that directory may play absolute ones ([`enter`](crate::place::enter)).
    ///
    /// # Errors
    /// Why the directory does not open.
    pub fn at(directory: &Path) -> std::io::Result<Host> {
        let root = fs::open(directory, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        Ok(Host { root, held: [const { None }; HELD] })
    }

    fn fd(&self, held: Held) -> io::Result<BorrowedFd<'_>> {
        self.place(held).and_then(Option::as_ref).map(AsFd::as_fd).ok_or(io::Errno::BADF)
    }

    fn place(&self, held: Held) -> Option<&Option<OwnedFd>> {
        self.held.get(usize::from(held.0))
    }

    fn target<'a>(&'a self, object: &'a Object) -> io::Result<Target<'a>> {
        match object {
            Object::Path(path) => Ok(Target::Path(&path.0)),
            Object::Held(held) => self.fd(*held).map(Target::Fd),
        }
    }

    fn act(&mut self, op: &ScriptOp) -> Answer {
        match op {
            ScriptOp::Open(held, path, flags, mode) => self.hold(*held, open(path, *flags, *mode)?),
            ScriptOp::Dup(from, to) => self.hold(*to, io::dup(self.fd(*from)?)?),
            ScriptOp::Close(held) => {
                let held = self.held.get_mut(usize::from(held.0)).and_then(Option::take);
                held.map(|_| Outcome::Done).ok_or(io::Errno::BADF)
            }
            ScriptOp::Read(held, len, at) => self.read(*held, *len, *at),
            ScriptOp::Write(held, len, seed, at) => self.write(*held, (*seed, *len), *at),
            ScriptOp::Seek(held, whence, by) => self.seek(*held, *whence, *by),
            ScriptOp::Truncate(object, size) => done(self.truncate(object, *size)),
            ScriptOp::Allocate(held, room, at, len) => done(self.allocate(*held, *room, (*at, *len))),
            ScriptOp::Copy(from, to, len) => self.copy(*from, *to, *len).map(|copied| Outcome::Count(copied as u64)),
            ScriptOp::Clone(from, to) => done(fs::ioctl_ficlone(self.fd(*to)?, self.fd(*from)?)),
            ScriptOp::Sync(what) => done(self.sync(*what)),
            ScriptOp::Mkdir(path, mode) => done(fs::mkdir(&path.0[..], mode_bits(*mode))),
            ScriptOp::Mknod(path, kind, mode, device) => done(names::mknod(path, *kind, *mode, *device)),
            ScriptOp::Link(old, new, follow) => done(self.link(old, new, *follow)),
            ScriptOp::Symlink(target, path) => done(fs::symlink(&target.0[..], &path.0[..])),
            ScriptOp::Readlink(path) => {
                fs::readlink(&path.0[..], Vec::new()).map(|target| Outcome::Path(target.into_bytes()))
            }
            ScriptOp::Unlink(path) => done(fs::unlink(&path.0[..])),
            ScriptOp::Rmdir(path) => done(fs::rmdir(&path.0[..])),
            ScriptOp::Rename(from, to, how) => done(names::rename(from, to, *how)),
            ScriptOp::List(object) => self.list(object),
            ScriptOp::Chdir(object) => done(self.change_directory(object)),
            ScriptOp::Stat(object, follow) => self.stat(object, *follow),
            ScriptOp::Access(path, wanted) => done(attributes::access(path, *wanted)),
            ScriptOp::Chmod(object, mode) => done(self.chmod(object, *mode)),
            ScriptOp::Chown(object, uid, gid, follow) => done(self.chown(object, *uid, *gid, *follow)),
            ScriptOp::Times(object, accessed, modified, follow) => {
                done(self.set_times(object, (*accessed, *modified), *follow))
            }
            ScriptOp::Xattr(object, op, follow) => attributes::xattr(&self.target(object)?, op, *follow),
            ScriptOp::Umask(mask) => {
                let old = rustix::process::umask(mode_bits(*mask));
                Ok(Outcome::Count(u64::from(old.as_raw_mode())))
            }
            ScriptOp::Become(user) => done(become_user(*user)),
        }
    }

    /// Holds a file; what was held there is closed.
    fn hold(&mut self, held: Held, fd: OwnedFd) -> Answer {
        *self.held.get_mut(usize::from(held.0)).ok_or(io::Errno::BADF)? = Some(fd);
        Ok(Outcome::Done)
    }
}

/// Opens a file. Pipes belong to the kernel: ours are names alone.
fn open(path: &Word, flags: OpenFlags, mode: u16) -> io::Result<OwnedFd> {
    let table = [
        (OpenFlags::TMPFILE, OFlags::TMPFILE),
        (OpenFlags::SYNC, OFlags::SYNC),
        (OpenFlags::RDWR, OFlags::RDWR),
        (OpenFlags::WRONLY, OFlags::WRONLY),
        (OpenFlags::CREAT, OFlags::CREATE),
        (OpenFlags::EXCL, OFlags::EXCL),
        (OpenFlags::TRUNC, OFlags::TRUNC),
        (OpenFlags::APPEND, OFlags::APPEND),
        (OpenFlags::DSYNC, OFlags::DSYNC),
        (OpenFlags::DIRECT, OFlags::DIRECT),
        (OpenFlags::DIRECTORY, OFlags::DIRECTORY),
        (OpenFlags::NOFOLLOW, OFlags::NOFOLLOW),
        (OpenFlags::NOATIME, OFlags::NOATIME),
        (OpenFlags::PATH, OFlags::PATH),
    ];
    let known = table.into_iter().filter(|(flag, _)| flags.contains(*flag)).map(|(_, known)| known);
    let all = known.fold(OFlags::NONBLOCK | OFlags::CLOEXEC, |all, known| all | known);
    let fd = fs::open(&path.0[..], all, mode_bits(mode))?;
    let kind = fs::FileType::from_raw_mode(fs::fstat(&fd)?.st_mode);
    if kind == fs::FileType::Fifo && !flags.contains(OpenFlags::PATH) { Err(io::Errno::NXIO) } else { Ok(fd) }
}

/// Takes the rights of a user in this thread. The real and the saved user stay, so that there is a way back.
fn become_user(user: u32) -> io::Result<()> {
    let (uid, gid) = (fs::Uid::from_raw(user), fs::Gid::from_raw(user));
    thread::set_thread_res_uid(None, fs::Uid::ROOT, None)?;
    thread::set_thread_groups(&[])?;
    thread::set_thread_res_gid(None, gid, None)?;
    thread::set_thread_res_uid(None, uid, None)
}
