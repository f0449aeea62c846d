//! The run directory: the only part of the file system that a replay reaches.
//!
//! Every path of a trace is resolved by the kernel with the run's tree as its root (`openat2` with `RESOLVE_IN_ROOT`),
//! so an absolute path, an absolute symbolic link and any number of `..` stay inside, also while another thread renames
//! directories. Targets of links therefore need no rewriting: a link shows the text that was traced.
//!
//! Only `openat2` can confine a whole path. All other calls get the directory that holds the last component, resolved
//! that way, and one component that is not followed. That directory is kept by each thread in a [`Cache`] until any
//! directory or link may have moved ([`Root::shift`]), so that a call by path stays one system call.

use std::ffi::CString;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, ResolveFlags, Stat, StatxFlags, statx};
use rustix::io::Errno;

use crate::init::{SHM, TREE};
use crate::rundir::{Identity, RunDir};

/// A tree that is left neither by name nor by link.
pub struct Root {
    run: RunDir,
    dir: OwnedFd,
    at: RootPath,
}

/// Where a tree is, without a descriptor of it.
#[derive(Clone)]
pub struct RootPath {
    path: PathBuf,
    run: PathBuf,
    /// The run directory and the tree that are meant: the path may have come to lead elsewhere.
    meant: (Identity, Identity),
    /// Grows whenever a name may lead elsewhere than before, for all that have the tree open.
    epoch: Arc<AtomicU64>,
}

/// Where a path begins.
#[derive(Clone, Copy)]
pub enum Base<'a> {
    /// At the root.
    Root,
    /// In an open directory of the run, if the path is relative; the number tells directories apart.
    Dir(BorrowedFd<'a>, u64),
}

/// The directory that holds the last component of a path, and that component.
pub struct ParentDir {
    /// The directory.
    pub dir: Rc<OwnedFd>,
    /// One component; `.` if the path names the directory itself.
    pub leaf: CString,
}

/// Directories that a thread resolved lately.
pub struct Cache {
    epoch: u64,
    kept: Vec<(u64, Vec<u8>, Rc<OwnedFd>)>,
    next: usize,
}

/// Directories that a thread keeps open: the working set of most programs, and few descriptors.
const KEPT: usize = 8;
/// Tries while other threads rename: the kernel gives up a lookup through `..` when anything moved meanwhile.
const TRIES: u32 = 1000;
/// Longest path that the kernel takes, in bytes.
const PATH_MAX: usize = 4095;
const CONFINED: ResolveFlags = ResolveFlags::IN_ROOT.union(ResolveFlags::NO_MAGICLINKS);

/// The number of the root among directories.
const ROOT_NUMBER: u64 = 0;

impl Root {
    /// The tree of a run directory.
    ///
    /// # Errors
    /// The kernel's; `NOSYS` before Linux 5.6, which cannot confine a path; `LOOP` or `NOTDIR` if the tree is a link or
    /// a file.
    pub fn of(run: RunDir) -> Result<Root, Errno> {
        Root::open(run, Arc::new(AtomicU64::new(1)))
    }

    fn open(run: RunDir, epoch: Arc<AtomicU64>) -> Result<Root, Errno> {
        let dir = run.directory(TREE)?;
        let meant = (run.identity()?, Identity::of(&dir)?);
        let at = RootPath { path: run.path().join(TREE), run: run.path().to_path_buf(), meant, epoch };
        Ok(Root { run, dir, at })
    }

    /// The run directory.
    pub fn run(&self) -> &RunDir {
        &self.run
    }

    /// Shared memory by name, for names only.
    ///
    /// # Errors
    /// The kernel's.
    pub fn shm(&self) -> Result<OwnedFd, Errno> {
        self.run.directory(SHM)
    }

    /// Where the tree is.
    pub fn path(&self) -> &Path {
        &self.at.path
    }

    /// The same for a thread that has other descriptors, and opens it again.
    pub fn unopened(&self) -> RootPath {
        self.at.clone()
    }

    /// The root directory, for names only.
    pub fn dir(&self) -> BorrowedFd<'_> {
        self.dir.as_fd()
    }

    /// Type of the file system of the run, as the kernel's list of mounts calls it; `unknown` before Linux 5.8.
    pub fn file_system(&self) -> String {
        let looked = statx(&self.dir, c"", AtFlags::EMPTY_PATH, StatxFlags::MNT_ID);
        let mount = looked.ok().filter(|look| look.stx_mask & StatxFlags::MNT_ID.bits() != 0);
        let mounts = mount.and_then(|look| Some((look.stx_mnt_id, read_mounts().ok()?)));
        mounts.and_then(|(mount, mounts)| file_system_of(mount, &mounts)).unwrap_or("unknown".to_string())
    }

    /// A name may lead elsewhere from now on: what threads keep is forgotten.
    pub fn shift(&self) {
        self.at.epoch.fetch_add(1, Ordering::SeqCst);
    }

    /// Opens `path` inside the tree.
    ///
    /// # Errors
    /// The kernel's.
    pub fn open_at(&self, base: Base<'_>, path: &[u8], flags: OFlags, mode: Mode) -> Result<OwnedFd, Errno> {
        if path.len() > PATH_MAX {
            return self.open_long(base, path, flags, mode);
        }
        let flags = flags | OFlags::CLOEXEC;
        // The kernel's openat ignores permission bits where nothing is made, its openat2 refuses them.
        let makes = flags.contains(OFlags::CREATE) || flags.contains(OFlags::TMPFILE);
        let mode = if makes { mode } else { Mode::empty() };
        match base {
            Base::Dir(dir, _) if !path.starts_with(b"/") => {
                let beneath = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
                match persist(|| rustix::fs::openat2(dir, path, flags, mode, beneath)) {
                    Err(Errno::XDEV) => self.open_at(Base::Root, &self.absolute(dir, path)?, flags, mode),
                    other => other,
                }
            }
            _ => persist(|| rustix::fs::openat2(&self.dir, path, flags, mode, CONFINED)),
        }
    }

    /// A path that is longer than the kernel takes, in pieces: of programs that went there step by step.
    fn open_long(&self, base: Base<'_>, path: &[u8], flags: OFlags, mode: Mode) -> Result<OwnedFd, Errno> {
        let cut = path[..=PATH_MAX].iter().rposition(|byte| *byte == b'/').ok_or(Errno::NAMETOOLONG)?;
        let (head, tail) = (&path[..cut.max(1)], &path[cut..]);
        let start = tail.iter().position(|byte| *byte != b'/').unwrap_or(tail.len());
        let tail = if start < tail.len() { &tail[start..] } else { b"." };
        let dir = self.open_at(base, head, OFlags::PATH | OFlags::DIRECTORY, Mode::empty())?;
        self.open_at(Base::Dir(dir.as_fd(), ROOT_NUMBER), tail, flags, mode)
    }

    /// A handle on what `path` names, for calls that take a descriptor; at a symbolic link it is the link itself unless
    /// `follow`.
    ///
    /// # Errors
    /// The kernel's.
    pub fn handle(&self, base: Base<'_>, path: &[u8], follow: bool) -> Result<OwnedFd, Errno> {
        let flags = if follow { OFlags::PATH } else { OFlags::PATH | OFlags::NOFOLLOW };
        self.open_at(base, path, flags, Mode::empty())
    }

    /// The directory and the last component of `path`.
    ///
    /// # Errors
    /// The kernel's; `NOENT` for an empty path, `NOTDIR` for a slash behind a file.
    pub fn place(&self, cache: &mut Cache, base: Base<'_>, path: &[u8]) -> Result<ParentDir, Errno> {
        if path.is_empty() {
            return Err(Errno::NOENT);
        }
        let (parent, leaf, slash) = split(path);
        if leaf.is_empty() || leaf == b"." || leaf == b".." {
            let dir = Rc::new(self.open_at(base, path, OFlags::PATH | OFlags::DIRECTORY, Mode::empty())?);
            return Ok(ParentDir { dir, leaf: c".".to_owned() });
        }
        let dir = self.parent(cache, base, parent)?;
        let name = CString::new(leaf).map_err(|_| Errno::INVAL)?;
        if slash {
            return self.directory_place(base, path, dir, name);
        }
        Ok(ParentDir { dir, leaf: name })
    }

    /// A name with a slash behind it stands for a directory, and goes through a link: the kernel would follow it out of
    /// the tree, so it is resolved here.
    fn directory_place(
        &self,
        base: Base<'_>,
        path: &[u8],
        dir: Rc<OwnedFd>,
        leaf: CString,
    ) -> Result<ParentDir, Errno> {
        match rustix::fs::statat(&dir, &leaf, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) if is(&stat, FileType::Symlink) => {
                let dir = Rc::new(self.open_at(base, path, OFlags::PATH | OFlags::DIRECTORY, Mode::empty())?);
                Ok(ParentDir { dir, leaf: c".".to_owned() })
            }
            Ok(stat) if !is(&stat, FileType::Directory) => Err(Errno::NOTDIR),
            _ => Ok(ParentDir { dir, leaf }),
        }
    }

    /// The directory `path`, from the cache if nothing moved since it came there.
    fn parent(&self, cache: &mut Cache, base: Base<'_>, path: &[u8]) -> Result<Rc<OwnedFd>, Errno> {
        let number = match base {
            Base::Dir(_, number) if !path.starts_with(b"/") => number,
            _ => ROOT_NUMBER,
        };
        let epoch = self.at.epoch.load(Ordering::SeqCst);
        if let Some(dir) = cache.find(epoch, number, path) {
            return Ok(dir);
        }
        let named = if path.is_empty() { b".".as_slice() } else { path };
        let dir = Rc::new(self.open_at(base, named, OFlags::PATH | OFlags::DIRECTORY, Mode::empty())?);
        cache.keep(number, path, &dir);
        Ok(dir)
    }

    /// A relative path that climbs or meets an absolute link, from the root: the kernel knows where the directory is
    /// now.
    fn absolute(&self, dir: BorrowedFd<'_>, path: &[u8]) -> Result<Vec<u8>, Errno> {
        let here = rustix::fs::readlink(proc_path(&dir), Vec::new())?.into_bytes();
        let root = rustix::fs::readlink(proc_path(&self.dir), Vec::new())?.into_bytes();
        let inside = here.strip_prefix(root.as_slice()).ok_or(Errno::XDEV)?;
        Ok([inside, b"/", path].concat())
    }
}

impl RootPath {
    /// Where the run directory is.
    pub fn run(&self) -> &Path {
        &self.run
    }

    /// Opens the tree anew: the same one, although it is found by its path.
    ///
    /// # Errors
    /// As [`Root::of`]; `STALE` if the path leads to another directory now.
    pub fn open(self) -> Result<Root, Errno> {
        let run = RunDir::open(&self.run).map_err(|unfit| unfit.errno())?;
        let root = Root::open(run, self.epoch)?;
        if root.at.meant == self.meant { Ok(root) } else { Err(Errno::STALE) }
    }
}

impl Cache {
    /// Nothing kept yet.
    pub fn empty() -> Cache {
        Cache { epoch: 0, kept: Vec::with_capacity(KEPT), next: 0 }
    }

    /// Forgets everything, so that no descriptor stays open.
    pub fn clear(&mut self) {
        self.kept.clear();
    }

    fn find(&mut self, epoch: u64, number: u64, path: &[u8]) -> Option<Rc<OwnedFd>> {
        if self.epoch != epoch {
            self.kept.clear();
            self.epoch = epoch;
        }
        let kept = self.kept.iter().find(|(of, key, _)| *of == number && key == path);
        kept.map(|(_, _, dir)| dir.clone())
    }

    fn keep(&mut self, number: u64, path: &[u8], dir: &Rc<OwnedFd>) {
        let entry = (number, path.to_vec(), dir.clone());
        if self.kept.len() < KEPT {
            self.kept.push(entry);
        } else {
            self.kept[self.next % KEPT] = entry;
            self.next += 1;
        }
    }
}

/// The path under which the kernel shows an open descriptor of this thread, whose table need not be that of the
/// process: the same number may be another file there.
pub fn proc_path(fd: &impl AsFd) -> String {
    use std::os::fd::AsRawFd;
    format!("/proc/thread-self/fd/{}", fd.as_fd().as_raw_fd())
}

/// The path of `leaf` in an open directory, for calls that take no directory; the leaf is not followed by calls that do
/// not follow.
pub fn proc_path_in(place: &ParentDir) -> Vec<u8> {
    [proc_path(&place.dir).as_bytes(), b"/", place.leaf.as_bytes()].concat()
}

/// Whether `stat` is of that kind.
pub fn is(stat: &Stat, kind: FileType) -> bool {
    FileType::from_raw_mode(stat.st_mode) == kind
}

/// The bytes of an OS path.
pub fn bytes(path: &Path) -> &[u8] {
    path.as_os_str().as_bytes()
}

/// The parent (empty if relative and of one component), the last component and whether slashes follow it.
fn split(path: &[u8]) -> (&[u8], &[u8], bool) {
    let end = path.iter().rposition(|byte| *byte != b'/').map_or(0, |at| at + 1);
    let start = path[..end].iter().rposition(|byte| *byte == b'/').map_or(0, |at| at + 1);
    (&path[..start], &path[start..end], end < path.len())
}

fn read_mounts() -> Result<String, Errno> {
    let file = rustix::fs::open(c"/proc/self/mountinfo", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    let (mut text, mut chunk) = (Vec::new(), vec![0; 1 << 16]);
    loop {
        match rustix::io::retry_on_intr(|| rustix::io::read(&file, &mut chunk))? {
            0 => return Ok(String::from_utf8_lossy(&text).into_owned()),
            read => text.extend_from_slice(&chunk[..read]),
        }
    }
}

/// The type of a mount by its number, because files of one Btrfs have several numbers of devices: lines are
/// `number parent major:minor root dir options fields... - type source options`.
fn file_system_of(mount: u64, mounts: &str) -> Option<String> {
    let number = mount.to_string();
    let line = mounts.lines().find(|line| line.split(' ').next() == Some(&number))?;
    line.split(" - ").nth(1)?.split(' ').next().map(str::to_string)
}

fn persist<T>(mut call: impl FnMut() -> Result<T, Errno>) -> Result<T, Errno> {
    let mut left = TRIES;
    loop {
        match call() {
            Err(Errno::AGAIN | Errno::INTR) if left > 0 => left -= 1,
            other => return other,
        }
    }
}

#[cfg(test)]
mod tests;
