//! What keeps an inode: a descriptor, or where these would become too many a handle.
//!
//! A handle costs no descriptor, and each call on its inode opens it anew. The kernel frees an inode that has no name
//! and no descriptor, so an inode gets a descriptor before its last name goes.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use esker_base::Errno;
use esker_sys::file_handle::{FileHandle, file_handle, open_handle};
use rustix::fs::OFlags;
use rustix::io;
use rustix::process::{Resource, getrlimit};

use crate::words::errno;

/// One descriptor of so many that this process may have is left for all else.
const SPARE: u64 = 4;
/// Descriptors for inodes where their number is not limited.
const KEPT_MAX: u64 = 1 << 20;

/// What keeps an inode.
pub(super) enum Held {
    /// A descriptor of `O_PATH`.
    Open(OwnedFd),
    Handle(FileHandle),
}

/// A descriptor of an inode, for one call.
pub(super) enum Descriptor<'a> {
    Kept(BorrowedFd<'a>),
    Opened(OwnedFd),
}

impl AsFd for Descriptor<'_> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Descriptor::Kept(fd) => *fd,
            Descriptor::Opened(fd) => fd.as_fd(),
        }
    }
}

/// How many inodes have a descriptor, and may have one.
pub(super) struct Keeper {
    /// An open directory of the file system; `None` where the kernel opens no handles for this process.
    mounted: Option<Arc<OwnedFd>>,
    kept: usize,
    max: usize,
    handles: usize,
}

impl Keeper {
    /// For inodes of the file system of an open directory. At most `max` have a descriptor; `None`: as many as leave
    /// some for others.
    pub(super) fn new(whole: &Arc<OwnedFd>, max: Option<usize>) -> Keeper {
        let opens = file_handle(whole).and_then(|handle| open_handle(whole, &handle, flags()));
        let limit = getrlimit(Resource::Nofile).current.unwrap_or(KEPT_MAX).min(KEPT_MAX);
        let max = max.unwrap_or((limit - limit / SPARE) as usize);
        Keeper { mounted: opens.is_ok().then(|| whole.clone()), kept: 0, max, handles: 0 }
    }

    /// Keeps an inode that is open. One without a name needs its descriptor.
    pub(super) fn hold(&mut self, path: OwnedFd, has_name: bool) -> Held {
        if self.mounted.is_some()
            && has_name
            && self.kept >= self.max
            && let Ok(handle) = file_handle(&path)
        {
            self.handles += 1;
            return Held::Handle(handle);
        }
        self.kept += 1;
        Held::Open(path)
    }

    /// Gives an inode a descriptor again.
    pub(super) fn reopen(&mut self, held: &mut Held) -> Result<(), Errno> {
        if let Held::Handle(handle) = held {
            *held = Held::Open(self.open(handle)?);
            (self.kept, self.handles) = (self.kept + 1, self.handles - 1);
        }
        Ok(())
    }

    /// An inode is forgotten.
    pub(super) fn let_go(&mut self, held: &Held) {
        match held {
            Held::Open(_) => self.kept -= 1,
            Held::Handle(_) => self.handles -= 1,
        }
    }

    /// A descriptor for one call.
    pub(super) fn descriptor<'a>(&self, held: &'a Held) -> Result<Descriptor<'a>, Errno> {
        match held {
            Held::Open(fd) => Ok(Descriptor::Kept(fd.as_fd())),
            Held::Handle(handle) => self.open(handle).map(Descriptor::Opened),
        }
    }

    /// Whether the kernel opens handles for this process.
    #[cfg(test)]
    pub(super) fn opens_handles(&self) -> bool {
        self.mounted.is_some()
    }

    /// Whether an inode has a handle alone.
    pub(super) fn has_handles(&self) -> bool {
        self.handles > 0
    }

    fn open(&self, handle: &FileHandle) -> Result<OwnedFd, Errno> {
        let mounted = self.mounted.as_ref().ok_or(Errno::EIO)?;
        let told = |error| io::Errno::from_io_error(&error).map_or(Errno::EIO, errno);
        open_handle(mounted, handle, flags()).map_err(told)
    }
}

fn flags() -> i32 {
    (OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC).bits() as i32
}
