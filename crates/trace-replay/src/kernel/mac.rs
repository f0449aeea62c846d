//! Calls that only a Mac has, by what comes nearest here. There are 19 kinds of emulation in all: 11 of metadata, three
//! hints, three undocumented calls, the meaning of `fsync` (in [`super::data`]), and the exchange of two files.
//!
//! | traced | made here |
//! |---|---|
//! | `getattrlist` | `stat`, and the Finder's attribute if there is room for it |
//! | `setattrlist` | times set to now |
//! | `getdirentriesattr` | entries of the directory, and `stat` of it |
//! | `searchfs` | `stat` of the volume's root |
//! | `fsctl` | `stat` of the file |
//! | `getxattr`, `setxattr` at a position | the same without position, under `user.` |
//! | `listxattr`, `removexattr` with options | the same, under `user.` |
//! | `clonefile` | shared extents; a copy where the file system has none |
//! | `getfsstat`, `fsgetpath` | `statfs` of the tree; a look at the path |
//! | `F_RDADVISE`, `F_RDAHEAD`, `F_NOCACHE` | `fadvise`: needed soon, normal or random, not needed again |
//! | `F_PREALLOCATE` | `fallocate` that keeps the size |
//! | `stat_extended`, `access_extended`, `chmod_extended` | `stat`, `access`, `stat` |
//! | `exchangedata` | a link and two renames, or one rename that exchanges |

use std::ffi::CString;
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering;

use esker_trace_calls::words::{AccessMode, Hint, Obscure};
use esker_trace_calls::{At, Call, Fd, Object};
use rustix::fs::{Advice, AtFlags, FallocateFlags, Mode, OFlags, RenameFlags};
use rustix::io::Errno;

use super::{CallExecutor, ExchangeBy, Fail, Reply, Skip, Turn, base, data::unsigned, done, flags};
use crate::root::ParentDir;

/// The attribute in which a Mac's Finder keeps what it knows of a file, and its bytes.
const FINDER: (&[u8], u64) = (b"com.apple.FinderInfo", 32);
/// What asks for nothing but a change of the time of change.
const NOW: Option<i64> = Some(i64::MIN);
/// Copied at a time, where nothing can be shared.
const COPY: usize = 1 << 30;

impl CallExecutor<'_> {
    pub(super) fn mac(&mut self, turn: &Turn<'_>) -> Reply {
        match &turn.step.call {
            Call::GetAttrList { file, len } => self.get_attributes(file, *len),
            Call::SetAttrList { file, .. } => self.set_times(file, NOW, NOW),
            Call::GetDirEntriesAttr { fd, len } => {
                let entries = self.read_dir(*fd, *len)?;
                self.small_access(&Object::Fd(*fd))?;
                Ok(entries)
            }
            Call::SearchFs { file } | Call::FsControl { file, .. } => self.small_access(file),
            Call::GetXattrAt { file, name, len, .. } => self.get_xattr(file, name, *len),
            Call::SetXattrAt { file, name, len, flags, .. } => self.set_xattr(file, name, *len, flags::xattr(*flags)),
            Call::CloneFile { from, to } => self.clone_file(from, to),
            Call::GetFsStat { .. } => Ok(rustix::fs::fstatfs(self.kernel.root.dir()).map(|_| 0)?),
            Call::FsGetPath { seen: Some(path) } => {
                self.small_access(&Object::Path { at: At::cwd(path.clone()), follow: false })
            }
            Call::FsGetPath { seen: None } => Err(Fail::Skip(Skip::Unseen)),
            Call::Hinted { fd, hint, offset, len } => self.hint(*fd, *hint, *offset, *len),
            Call::Preallocate { fd, offset, len, .. } => {
                let (offset, len) = (unsigned(*offset)?, unsigned(*len)?);
                Ok(done(rustix::fs::fallocate(&*self.inside(*fd)?, FallocateFlags::KEEP_SIZE, offset, len)?))
            }
            Call::Undocumented { file, kind: Obscure::AccessExtended } => self.access(file, AccessMode::empty()),
            Call::Undocumented { file, .. } => self.small_access(file),
            Call::ExchangeData { first, second } => self.exchange(first, second),
            _ => unreachable!("calls come to their family"),
        }
    }

    fn get_attributes(&mut self, file: &Object, len: u64) -> Reply {
        self.small_access(file)?;
        if len > FINDER.1 {
            match self.get_xattr(file, FINDER.0, FINDER.1) {
                // Most files have none.
                Ok(_) | Err(Fail::Errno(Errno::NODATA | Errno::OPNOTSUPP | Errno::RANGE)) => {}
                Err(other) => return Err(other),
            }
        }
        Ok(0)
    }

    fn hint(&mut self, fd: Fd, hint: Hint, offset: i64, len: i64) -> Reply {
        let (offset, len, advice) = match (hint, len) {
            (Hint::ReadAdvise, len) => (offset, unsigned(len)?, Advice::WillNeed),
            (Hint::ReadAhead, 0) => (0, 0, Advice::Random),
            (Hint::NoCache, 1) => (0, 0, Advice::DontNeed),
            (Hint::ReadAhead | Hint::NoCache, _) => (0, 0, Advice::Normal),
        };
        self.advise(fd, offset, len, advice)
    }

    fn clone_file(&mut self, from: &Object, to: &At) -> Reply {
        let from = self.open_data(from)?;
        let start = self.start(to)?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
        let mode = Mode::RUSR | Mode::WUSR;
        let copy = self.kernel.root.open_at(base(start.as_deref()), &to.path, flags, mode)?;
        match rustix::fs::ioctl_ficlone(&copy, &from) {
            Ok(()) => return Ok(0),
            Err(Errno::OPNOTSUPP | Errno::INVAL | Errno::NOTTY | Errno::XDEV | Errno::NOSYS) => {}
            Err(e) => return Err(e.into()),
        }
        let mut at = 0;
        while rustix::fs::copy_file_range(&from, Some(&mut at), &copy, None, COPY)? > 0 {}
        Ok(0)
    }

    /// Opens what an object is for reading, at its start.
    fn open_data(&mut self, object: &Object) -> Result<OwnedFd, Fail> {
        match object {
            Object::Fd(fd) => Ok(rustix::io::fcntl_dupfd_cloexec(&*self.inside(*fd)?, 0)?),
            Object::Path { at, .. } => {
                let start = self.start(at)?;
                Ok(self.kernel.root.open_at(base(start.as_deref()), &at.path, OFlags::RDONLY, Mode::empty())?)
            }
        }
    }

    /// Swaps names; the original swapped data and left inode numbers where they were.
    fn exchange(&mut self, first: &Object, second: &Object) -> Reply {
        let (Object::Path { at: first, .. }, Object::Path { at: second, .. }) = (first, second) else {
            return Err(Fail::Skip(Skip::Unseen));
        };
        let (a, b) = (self.place(first)?, self.place(second)?);
        let exchanged = match self.kernel.options.exchange {
            ExchangeBy::Rename => rustix::fs::renameat_with(&a.dir, &a.leaf, &b.dir, &b.leaf, RenameFlags::EXCHANGE),
            ExchangeBy::Link => self.exchange_by_link(&a, &b),
        };
        self.kernel.root.shift();
        Ok(done(exchanged?))
    }

    /// The first name is never missing; the second one is between the renames.
    fn exchange_by_link(&mut self, a: &ParentDir, b: &ParentDir) -> Result<(), Errno> {
        let number = self.kernel.temporary.fetch_add(1, Ordering::Relaxed);
        let temporary = CString::new(format!(".esker-exchange-{number}")).expect("a text without zero bytes");
        let unlink = || rustix::fs::unlinkat(&a.dir, &temporary, AtFlags::empty());
        rustix::fs::linkat(&a.dir, &a.leaf, &a.dir, &temporary, AtFlags::empty())?;
        if let Err(e) = rustix::fs::renameat(&b.dir, &b.leaf, &a.dir, &a.leaf) {
            unlink()?;
            return Err(e);
        }
        if let Err(e) = rustix::fs::renameat(&a.dir, &temporary, &b.dir, &b.leaf) {
            rustix::fs::renameat(&a.dir, &a.leaf, &b.dir, &b.leaf)?;
            rustix::fs::renameat(&a.dir, &temporary, &a.dir, &a.leaf)?;
            return Err(e);
        }
        // Two names of one file are exchanged by doing nothing, and then the temporary one is still there.
        match unlink() {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(e) => Err(e),
        }
    }
}
