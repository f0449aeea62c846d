//! A directory of this machine as the target. The kernel resolves each path below it, and follows no symbolic link and
//! enters no other mount on the way.

use std::os::fd::OwnedFd;

use esker_base::{Errno, Nanos};
use rustix::fs::{self, AtFlags, FileType, Mode, OFlags, ResolveFlags, Timespec, Timestamps, UTIME_OMIT};
use rustix::io;

use crate::target::{ReplayTarget, Room};

const DIR_MODE: Mode = Mode::RWXU.union(Mode::RWXG).union(Mode::RWXO);
const FILE_MODE: Mode = Mode::from_raw_mode(0o666);
const NANOS_PER_SECOND: u64 = 1_000_000_000;
/// Tries of an open that the kernel asks to repeat. It asks again as long as another process holds a lease.
const OPEN_TRIES: u32 = 16;

/// The tree below an open directory. `Wait` waits for a span of real time.
pub struct DirectoryTarget<Wait> {
    root: OwnedFd,
    wait: Wait,
}

impl<Wait: FnMut(Nanos)> DirectoryTarget<Wait> {
    /// The tree below a directory, which waits by `wait`.
    pub fn new(root: OwnedFd, wait: Wait) -> DirectoryTarget<Wait> {
        DirectoryTarget { root, wait }
    }

    fn open(&self, path: &[u8], flags: OFlags, mode: Mode) -> io::Result<OwnedFd> {
        let inside = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
        let flags = flags | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        // A pipe that lies there would hold the replay for ever. A path is never opened for bytes, and openat2 refuses
        // the flag with it.
        let flags = if flags.contains(OFlags::PATH) { flags } else { flags | OFlags::NONBLOCK };
        let mut opened = Err(io::Errno::AGAIN);
        for _ in 0..OPEN_TRIES {
            opened = fs::openat2(&self.root, path, flags, mode, inside);
            if !matches!(opened, Err(io::Errno::INTR | io::Errno::AGAIN)) {
                break;
            }
        }
        opened
    }

    /// Does something with the directory of a path and the name there.
    fn in_dir<T>(&self, path: &[u8], work: impl FnOnce(&OwnedFd, &[u8]) -> io::Result<T>) -> Result<T, Errno> {
        let done = match path.iter().rposition(|byte| *byte == b'/') {
            None => work(&self.root, path),
            Some(at) => {
                let flags = OFlags::PATH | OFlags::DIRECTORY;
                self.open(&path[..at], flags, Mode::empty()).and_then(|dir| work(&dir, &path[at + 1..]))
            }
        };
        done.map_err(errno)
    }

    fn in_dirs(
        &self,
        [from, to]: [&[u8]; 2],
        work: impl FnOnce(&OwnedFd, &[u8], &OwnedFd, &[u8]) -> io::Result<()>,
    ) -> Result<(), Errno> {
        self.in_dir(from, |from_dir, from_name| {
            // The error of the inner call keeps its number.
            Ok(self.in_dir(to, |to_dir, to_name| work(from_dir, from_name, to_dir, to_name)))
        })?
    }

    fn with_file(&self, path: &[u8], truncate: bool, offset: u64, data: &[u8]) -> io::Result<()> {
        let flags = OFlags::WRONLY | OFlags::CREATE;
        let flags = if truncate { flags | OFlags::TRUNC } else { flags };
        let file = self.open(path, flags, FILE_MODE)?;
        if FileType::from_raw_mode(fs::fstat(&file)?.st_mode) != FileType::RegularFile {
            return Err(io::Errno::INVAL);
        }
        let mut done = 0;
        while done < data.len() {
            match io::pwrite(&file, &data[done..], offset + done as u64) {
                Ok(0) => return Err(io::Errno::IO),
                Ok(count) => done += count,
                Err(io::Errno::INTR) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

impl<Wait: FnMut(Nanos)> ReplayTarget for DirectoryTarget<Wait> {
    async fn make_dir(&mut self, path: &[u8]) -> Result<(), Errno> {
        self.in_dir(path, |dir, name| fs::mkdirat(dir, name, DIR_MODE))
    }

    async fn create(&mut self, path: &[u8], truncate: bool) -> Result<(), Errno> {
        self.with_file(path, truncate, 0, &[]).map_err(errno)
    }

    async fn write(&mut self, path: &[u8], offset: u64, data: &[u8]) -> Result<(), Errno> {
        self.with_file(path, false, offset, data).map_err(errno)
    }

    async fn remove(&mut self, path: &[u8]) -> Result<(), Errno> {
        self.in_dir(path, |dir, name| fs::unlinkat(dir, name, AtFlags::empty()))
    }

    async fn remove_dir(&mut self, path: &[u8]) -> Result<(), Errno> {
        self.in_dir(path, |dir, name| fs::unlinkat(dir, name, AtFlags::REMOVEDIR))
    }

    async fn rename(&mut self, from: &[u8], to: &[u8]) -> Result<(), Errno> {
        self.in_dirs([from, to], |from_dir, from, to_dir, to| fs::renameat(from_dir, from, to_dir, to))
    }

    async fn link(&mut self, old: &[u8], new: &[u8]) -> Result<(), Errno> {
        self.in_dirs([old, new], |old_dir, old, new_dir, new| fs::linkat(old_dir, old, new_dir, new, AtFlags::empty()))
    }

    async fn symlink(&mut self, text: &[u8], path: &[u8]) -> Result<(), Errno> {
        self.in_dir(path, |dir, name| fs::symlinkat(text, dir, name))
    }

    async fn look(&mut self, path: &[u8]) -> Result<(), Errno> {
        self.in_dir(path, |dir, name| fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW).map(drop))
    }

    async fn set_mode(&mut self, path: &[u8], mode: u16) -> Result<(), Errno> {
        let mode = Mode::from_raw_mode(u32::from(mode));
        self.open(path, OFlags::RDONLY, Mode::empty()).and_then(|file| fs::fchmod(file, mode)).map_err(errno)
    }

    async fn set_times(&mut self, path: &[u8], access: Option<Nanos>, change: Option<Nanos>) -> Result<(), Errno> {
        let time = |time: Option<Nanos>| match time {
            Some(time) => {
                Timespec { tv_sec: (time.0 / NANOS_PER_SECOND) as i64, tv_nsec: (time.0 % NANOS_PER_SECOND) as i64 }
            }
            None => Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
        };
        let times = Timestamps { last_access: time(access), last_modification: time(change) };
        self.in_dir(path, |dir, name| fs::utimensat(dir, name, &times, AtFlags::SYMLINK_NOFOLLOW))
    }

    async fn sync(&mut self) -> Result<(), Errno> {
        fs::syncfs(&self.root).map_err(errno)
    }

    async fn room(&mut self) -> Result<Room, Errno> {
        let found = fs::fstatvfs(&self.root).map_err(errno)?;
        // What only the superuser may fill counts as used.
        let bytes = (found.f_blocks - found.f_bfree + found.f_bavail).saturating_mul(found.f_frsize);
        Ok(Room { bytes, bytes_free: found.f_bavail.saturating_mul(found.f_frsize) })
    }

    async fn wait(&mut self, span: Nanos) {
        (self.wait)(span);
    }
}

fn errno(error: io::Errno) -> Errno {
    // Numbers of errors end at 4095.
    Errno(error.raw_os_error() as u16)
}
