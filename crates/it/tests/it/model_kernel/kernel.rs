//! Calls on the kernel.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use esker_trace_calls::Errno;
use esker_trace_calls::call::{At, Call, Fd, Object};
use esker_trace_calls::words::{FallocFlags, FileKind, OpenFlags, RenameFlags, Whence};
use rustix::fs::{self, AtFlags, FileType, Mode, OFlags};
use rustix::io;

use super::fd_of;

/// What a call told.
#[derive(Debug, PartialEq, Eq)]
pub struct Seen {
    pub value: i64,
    pub status: Option<Status>,
}

/// Type, and what of size and names means the same everywhere.
#[derive(Debug, PartialEq, Eq)]
pub struct Status {
    kind: FileKind,
    size: u64,
    links: u32,
}

/// Sizes of directories and the like, and names of directories, are the file system's own business.
pub fn comparable(kind: FileKind, size: u64, links: u32) -> Status {
    let sized = matches!(kind, FileKind::Regular | FileKind::Symlink);
    Status { kind, size: if sized { size } else { 0 }, links: if kind == FileKind::Directory { 0 } else { links } }
}

/// Descriptors that this process has open.
pub fn open_now() -> Vec<i32> {
    let listed = std::fs::read_dir("/proc/self/fd").expect("the list of descriptors");
    let mut numbers: Vec<i32> = listed.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect();
    // One of them was the list itself, which is closed by now.
    numbers.retain(|fd| std::fs::read_link(format!("/proc/self/fd/{fd}")).is_ok());
    numbers
}

/// The descriptors that calls have opened.
#[derive(Default)]
pub struct Kernel {
    open: BTreeMap<i32, OwnedFd>,
}

type Answer = Result<i64, rustix::io::Errno>;

impl Kernel {
    /// Every open descriptor's number.
    pub fn numbers(&self) -> Vec<Fd> {
        self.open.keys().map(|number| Fd(*number)).collect()
    }

    /// Makes a call.
    pub fn call(&mut self, call: &Call) -> Result<Seen, Errno> {
        let errno = |e: rustix::io::Errno| Errno(e.raw_os_error() as u16);
        if let Call::Stat { file, .. } = call {
            let status = self.stat(file).map_err(errno)?;
            return Ok(Seen { value: 0, status: Some(status) });
        }
        let value = match call {
            Call::Open { .. } | Call::Close { .. } | Call::Dup { .. } | Call::DupTo { .. } => self.descriptors(call),
            Call::Chdir { .. } | Call::Access { .. } | Call::ReadLink { .. } => self.looks(call),
            Call::Read { .. } | Call::Write { .. } | Call::Pread { .. } | Call::Pwrite { .. } | Call::Seek { .. } => {
                self.moves(call)
            }
            Call::Truncate { .. } | Call::Allocate { .. } => self.sizes(call),
            _ => self.names(call),
        };
        Ok(Seen { value: value.map_err(errno)?, status: None })
    }

    fn fd(&self, fd: Fd) -> BorrowedFd<'_> {
        if fd == Fd::CWD { fs::CWD } else { self.open[&fd.0].as_fd() }
    }

    fn dir(&self, at: &At) -> BorrowedFd<'_> {
        self.fd(at.dir)
    }

    fn keep(&mut self, fd: OwnedFd) -> i64 {
        let number = fd.as_raw_fd();
        self.open.insert(number, fd);
        i64::from(number)
    }

    fn descriptors(&mut self, call: &Call) -> Answer {
        match call {
            Call::Open { at, flags, .. } => {
                let fd = fs::openat(self.dir(at), &at.path[..], open_flags(*flags), Mode::from_raw_mode(0o644))?;
                Ok(self.keep(fd))
            }
            Call::Close { fd } => {
                drop(self.open.remove(&fd.0));
                Ok(0)
            }
            Call::Dup { fd, min, .. } => {
                let fd = io::fcntl_dupfd_cloexec(self.fd(*fd), *min)?;
                Ok(self.keep(fd))
            }
            Call::DupTo { fd, to, .. } => {
                // The same number twice cannot be borrowed for both.
                let from = io::fcntl_dupfd_cloexec(self.fd(*fd), 900)?;
                let target = self.open.get_mut(&to.0).expect("the generator takes open ones");
                io::dup2(&from, target)?;
                Ok(i64::from(to.0))
            }
            other => panic!("{} is not generated", other.name()),
        }
    }

    fn stat(&self, file: &Object) -> Result<Status, rustix::io::Errno> {
        let status = match file {
            Object::Fd(fd) => fs::fstat(self.fd(*fd))?,
            Object::Path { at, follow } => fs::statat(self.dir(at), &at.path[..], no_follow(*follow))?,
        };
        let kind = match FileType::from_raw_mode(status.st_mode) {
            FileType::RegularFile => FileKind::Regular,
            FileType::Directory => FileKind::Directory,
            FileType::Symlink => FileKind::Symlink,
            FileType::Fifo => FileKind::Fifo,
            FileType::Socket => FileKind::Socket,
            other => panic!("{other:?} is not made"),
        };
        Ok(comparable(kind, status.st_size as u64, status.st_nlink as u32))
    }

    fn looks(&self, call: &Call) -> Answer {
        match call {
            Call::Chdir { file: Object::Path { at, .. } } => rustix::process::chdir(&at.path[..]).map(|()| 0),
            Call::Chdir { file } => rustix::process::fchdir(self.fd(fd_of(file).expect("no path"))).map(|()| 0),
            Call::Access { file: Object::Path { at, .. }, .. } => {
                fs::accessat(self.dir(at), &at.path[..], fs::Access::EXISTS, AtFlags::empty()).map(|()| 0)
            }
            Call::ReadLink { at, .. } => {
                fs::readlinkat(self.dir(at), &at.path[..], Vec::new()).map(|target| target.to_bytes().len() as i64)
            }
            other => panic!("{} is not generated", other.name()),
        }
    }

    fn moves(&self, call: &Call) -> Answer {
        let count = |n: usize| n as i64;
        let mut buffer = vec![7; 8192];
        match call {
            Call::Read { fd, len, .. } => io::read(self.fd(*fd), &mut buffer[..*len as usize]).map(count),
            Call::Write { fd, len, .. } => io::write(self.fd(*fd), &buffer[..*len as usize]).map(count),
            Call::Pread { fd, offset, len, .. } => {
                io::pread(self.fd(*fd), &mut buffer[..*len as usize], *offset as u64).map(count)
            }
            Call::Pwrite { fd, offset, len, .. } => {
                io::pwrite(self.fd(*fd), &buffer[..*len as usize], *offset as u64).map(count)
            }
            Call::Seek { fd, offset, whence } => {
                let to = match whence {
                    Whence::Set => fs::SeekFrom::Start(*offset as u64),
                    Whence::Current => fs::SeekFrom::Current(*offset),
                    _ => fs::SeekFrom::End(*offset),
                };
                fs::seek(self.fd(*fd), to).map(|at| at as i64)
            }
            other => panic!("{} is not generated", other.name()),
        }
    }

    fn sizes(&self, call: &Call) -> Answer {
        match call {
            Call::Truncate { file, len } => {
                fs::ftruncate(self.fd(fd_of(file).expect("no path")), *len as u64).map(|()| 0)
            }
            Call::Allocate { fd, flags, offset, len } => {
                let keep = flags.contains(FallocFlags::FALLOC_FL_KEEP_SIZE);
                let flags = if keep { fs::FallocateFlags::KEEP_SIZE } else { fs::FallocateFlags::empty() };
                fs::fallocate(self.fd(*fd), flags, *offset as u64, *len as u64).map(|()| 0)
            }
            other => panic!("{} is not generated", other.name()),
        }
    }

    fn names(&self, call: &Call) -> Answer {
        let mode = Mode::from_raw_mode(0o755);
        let done = match call {
            Call::Mkdir { at, .. } => fs::mkdirat(self.dir(at), &at.path[..], mode),
            Call::Mknod { at, kind, .. } => {
                let kind = match kind {
                    FileKind::Fifo => FileType::Fifo,
                    FileKind::Socket => FileType::Socket,
                    _ => FileType::RegularFile,
                };
                fs::mknodat(self.dir(at), &at.path[..], kind, mode, 0)
            }
            Call::Symlink { target, at } => fs::symlinkat(&target[..], self.dir(at), &at.path[..]),
            Call::Link { from: Object::Path { at, follow }, to } => {
                let flags = if *follow { AtFlags::SYMLINK_FOLLOW } else { AtFlags::empty() };
                fs::linkat(self.dir(at), &at.path[..], self.dir(to), &to.path[..], flags)
            }
            Call::Unlink { at } => fs::unlinkat(self.dir(at), &at.path[..], AtFlags::empty()),
            Call::Rmdir { at } => fs::unlinkat(self.dir(at), &at.path[..], AtFlags::REMOVEDIR),
            Call::Rename { from, to, flags } => {
                let mut how = fs::RenameFlags::empty();
                how.set(fs::RenameFlags::NOREPLACE, flags.contains(RenameFlags::RENAME_NOREPLACE));
                how.set(fs::RenameFlags::EXCHANGE, flags.contains(RenameFlags::RENAME_EXCHANGE));
                fs::renameat_with(self.dir(from), &from.path[..], self.dir(to), &to.path[..], how)
            }
            other => panic!("{} is not generated", other.name()),
        };
        done.map(|()| 0)
    }
}

fn no_follow(follow: bool) -> AtFlags {
    if follow { AtFlags::empty() } else { AtFlags::SYMLINK_NOFOLLOW }
}

fn open_flags(flags: OpenFlags) -> OFlags {
    let access = match (flags.contains(OpenFlags::READ), flags.contains(OpenFlags::WRITE)) {
        (true, true) => OFlags::RDWR,
        (false, true) => OFlags::WRONLY,
        _ => OFlags::RDONLY,
    };
    let words = [
        (OpenFlags::O_APPEND, OFlags::APPEND),
        (OpenFlags::O_CREAT, OFlags::CREATE),
        (OpenFlags::O_EXCL, OFlags::EXCL),
        (OpenFlags::O_TRUNC, OFlags::TRUNC),
        (OpenFlags::O_DIRECTORY, OFlags::DIRECTORY),
        (OpenFlags::O_NOFOLLOW, OFlags::NOFOLLOW),
        (OpenFlags::O_NONBLOCK, OFlags::NONBLOCK),
        (OpenFlags::O_PATH, OFlags::PATH),
        (OpenFlags::O_TMPFILE, OFlags::TMPFILE),
        (OpenFlags::O_CLOEXEC, OFlags::CLOEXEC),
    ];
    let chosen = words.into_iter().filter(|(word, _)| flags.contains(*word));
    chosen.fold(access, |all, (_, word)| all | word)
}
