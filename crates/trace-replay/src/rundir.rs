//! The directory of a run: opened once, and left by no name.
//!
//! A replay often runs as root, so no other user may steer it. The directory belongs to the user that replays, other
//! users cannot write in it, and every name below it is opened relative to the one descriptor. A symbolic link is
//! refused, and no path climbs out (`openat2` with `RESOLVE_BENEATH` and `RESOLVE_NO_SYMLINKS`).

use std::ffi::CString;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, ResolveFlags, Stat};
use rustix::io::Errno;

use crate::init::scan;
use crate::root::is;

/// Permissions of the directory: no other user may run or fill what a trace leaves.
const PRIVATE: Mode = Mode::RWXU;
/// Permissions of what lies in it directly.
const INSIDE: u32 = 0o755;
/// Rights of other users that let them plant names.
const WRITABLE: u32 = 0o022;
const BENEATH: ResolveFlags = ResolveFlags::BENEATH.union(ResolveFlags::NO_SYMLINKS).union(ResolveFlags::NO_MAGICLINKS);

/// An open run directory.
pub struct RunDir {
    dir: OwnedFd,
    path: PathBuf,
}

/// A directory among all of this machine, as long as it is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    device: u64,
    inode: u64,
}

/// Why a directory cannot be one of a run.
#[derive(Debug, thiserror::Error)]
pub enum Unfit {
    /// It is a link.
    #[error("is a symbolic link: name the directory itself")]
    Link,
    /// It belongs to another user.
    #[error("belongs to user {owner}, and this program runs as user {user}: choose a directory of that user")]
    Owner {
        /// The owner of the directory.
        owner: u32,
        /// The user of this program.
        user: u32,
    },
    /// Other users may write in it.
    #[error(
        "other users may write in it (mode {mode:04o}): take that right away with `chmod go-w`, or choose another directory"
    )]
    Writable {
        /// Its permissions.
        mode: u32,
    },
    /// The kernel refuses.
    #[error("{what}: {source}")]
    Kernel {
        /// What was tried.
        what: &'static str,
        /// The kernel's answer.
        source: Errno,
    },
}

impl Unfit {
    /// The nearest error of the kernel.
    pub fn errno(&self) -> Errno {
        match self {
            Unfit::Link => Errno::LOOP,
            Unfit::Owner { .. } | Unfit::Writable { .. } => Errno::PERM,
            Unfit::Kernel { source, .. } => *source,
        }
    }
}

impl Identity {
    /// Of an open directory.
    ///
    /// # Errors
    /// The kernel's.
    pub fn of(dir: &impl AsFd) -> Result<Identity, Errno> {
        rustix::fs::fstat(dir).map(|stat| Identity { device: stat.st_dev, inode: stat.st_ino })
    }

    /// Its number within its file system.
    pub fn inode(self) -> u64 {
        self.inode
    }
}

impl RunDir {
    /// Opens the directory, which is made if it is absent.
    ///
    /// # Errors
    /// [`Unfit`].
    pub fn make(path: &Path) -> Result<RunDir, Unfit> {
        match rustix::fs::mkdir(plain(path), PRIVATE) {
            Ok(()) | Err(Errno::EXIST) => RunDir::open(path),
            Err(source) => Err(Unfit::Kernel { what: "making the run directory", source }),
        }
    }

    /// Opens the directory.
    ///
    /// # Errors
    /// [`Unfit`].
    pub fn open(path: &Path) -> Result<RunDir, Unfit> {
        let path = plain(path);
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let dir = match rustix::fs::open(&path, flags, Mode::empty()) {
            Err(Errno::LOOP | Errno::NOTDIR) if is_link(&path) => return Err(Unfit::Link),
            other => other.map_err(|source| Unfit::Kernel { what: "opening the run directory", source })?,
        };
        let stat = rustix::fs::fstat(&dir);
        check(&stat.map_err(|source| Unfit::Kernel { what: "looking at the run directory", source })?)?;
        Ok(RunDir { dir, path })
    }

    /// The path by which it was opened.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Which directory it is.
    ///
    /// # Errors
    /// The kernel's.
    pub fn identity(&self) -> Result<Identity, Errno> {
        Identity::of(&self.dir)
    }

    /// Lets no other user enter.
    ///
    /// # Errors
    /// The kernel's.
    pub fn close_to_others(&self) -> Result<(), Errno> {
        rustix::fs::fchmod(&self.dir, PRIVATE)
    }

    /// Names in it.
    ///
    /// # Errors
    /// The kernel's.
    pub fn names(&self) -> Result<Vec<CString>, Errno> {
        scan::names_of(&self.dir)
    }

    /// Whether `name` is a directory without entries, or absent.
    ///
    /// # Errors
    /// The kernel's.
    pub fn is_free(&self, name: &str) -> Result<bool, Errno> {
        match self.open_directory(name, OFlags::RDONLY) {
            Ok(dir) => Ok(scan::names_of(&dir)?.is_empty()),
            Err(Errno::NOENT) => Ok(true),
            Err(Errno::LOOP | Errno::NOTDIR) => Ok(false),
            Err(e) => Err(e),
        }
    }

    /// Makes the directory `name`, unless there is one already.
    ///
    /// # Errors
    /// The kernel's; `LOOP` or `NOTDIR` if the name is taken by something else.
    pub fn make_directory(&self, name: &str) -> Result<(), Errno> {
        match rustix::fs::mkdirat(&self.dir, name, Mode::from_raw_mode(INSIDE)) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(e) => return Err(e),
        }
        // What a directory has of the one above it, such as a set-group-id bit, goes, too.
        rustix::fs::fchmod(self.open_directory(name, OFlags::RDONLY)?, Mode::from_raw_mode(INSIDE))
    }

    /// A handle on the directory `name`, for names only.
    ///
    /// # Errors
    /// The kernel's; `NOSYS` before Linux 5.6, which cannot confine a path.
    pub fn directory(&self, name: &str) -> Result<OwnedFd, Errno> {
        self.open_directory(name, OFlags::PATH)
    }

    fn open_directory(&self, name: &str, how: OFlags) -> Result<OwnedFd, Errno> {
        rustix::fs::openat2(&self.dir, name, how | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty(), BENEATH)
    }

    /// The bytes of the file `name`, which must be a regular one of this user.
    ///
    /// # Errors
    /// The kernel's; `PERM` for anything else of that name.
    pub fn read(&self, name: &str) -> Result<Vec<u8>, Errno> {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let file = rustix::fs::openat2(&self.dir, name, flags, Mode::empty(), BENEATH)?;
        let stat = rustix::fs::fstat(&file)?;
        if !is(&stat, FileType::RegularFile) || stat.st_uid != user() {
            return Err(Errno::PERM);
        }
        let (mut bytes, mut chunk) = (Vec::new(), vec![0; 1 << 16]);
        loop {
            match rustix::io::retry_on_intr(|| rustix::io::read(&file, &mut chunk))? {
                0 => return Ok(bytes),
                read => bytes.extend_from_slice(&chunk[..read]),
            }
        }
    }

    /// Puts a file in place of what is called `name`, whole or not at all; meanwhile it is called `new`.
    ///
    /// # Errors
    /// The kernel's.
    pub fn replace(&self, name: &str, new: &str, mut bytes: &[u8]) -> Result<(), Errno> {
        match rustix::fs::unlinkat(&self.dir, new, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(e) => return Err(e),
        }
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::openat2(&self.dir, new, flags, Mode::RUSR | Mode::WUSR, BENEATH)?;
        while !bytes.is_empty() {
            let written = rustix::io::retry_on_intr(|| rustix::io::write(&file, bytes))?;
            bytes = &bytes[written..];
        }
        rustix::fs::renameat(&self.dir, new, &self.dir, name)
    }
}

/// Without a slash at the end, behind which a link would be followed.
fn plain(path: &Path) -> PathBuf {
    path.components().collect()
}

fn is_link(path: &Path) -> bool {
    rustix::fs::lstat(path).is_ok_and(|stat| is(&stat, FileType::Symlink))
}

fn user() -> u32 {
    rustix::process::geteuid().as_raw()
}

fn check(stat: &Stat) -> Result<(), Unfit> {
    let (owner, mode) = (stat.st_uid, stat.st_mode & 0o7777);
    if owner != user() {
        return Err(Unfit::Owner { owner, user: user() });
    }
    if mode & WRITABLE != 0 { Err(Unfit::Writable { mode }) } else { Ok(()) }
}

#[cfg(test)]
mod tests;
