//! `host`: a file system that passes each call through to a directory of this machine.
//!
//! An inode is a descriptor of `O_PATH`, so the kernel keeps the inode as long as it is pinned, also without a name. In
//! front of the limit of descriptors a handle stands for it, as long as it has a name.
//! Bytes are reached by opening that descriptor again through `/proc/self/fd`. Names are opened one component at a time
//! and beneath their directory. No link is followed, and no mount inside the directory is entered (`EXDEV`).
//!
//! What differs from file systems of ours:
//! - Times are those of the kernel's clock, and so is [`Attr::version`]: two changes of one tick share it.
//! - An inode is made with the owner of this process, and then given to its own. New attributes that are set in one
//!   call are set one after the other.
//! - A reader of what others change behind its back is not told.
//!
//! Calls on names and attributes are made in place. What may wait for a device is made on worker threads, unless the
//! directory lies in memory.

mod about;
mod attributes;
mod bytes;
mod held;
mod inodes;
mod names;
#[cfg(test)]
mod tests;

use std::cell::{Cell, RefCell};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

use esker_base::{ByteRange, Errno, Nanos};
use esker_block::{Buf, Stat, Step};
use esker_rt::Rt;
use esker_rt::mem::Pool;
use esker_vfs::claims::{Claims, Mode};
use esker_vfs::{
    About, Allocate, Answer, At, Attr, Call, Cookie, Copying, Entry, FileSystem, Ino, Listing, Name, New, Remove,
    Rename, Seek, SetAttr, Space, Sync, Write, Written, Xattr, refuse,
};
use rustix::fs::OFlags;

use crate::words::errno;
use held::Keeper;
use inodes::Inodes;

/// Why a directory cannot be passed through.
#[derive(Debug, thiserror::Error)]
pub enum HostFsError {
    /// It does not open.
    #[error("{0}: {1}")]
    Unusable(String, std::io::Error),
    /// The kernel's view of this process's descriptors is missing.
    #[error("/proc/self/fd: {0}; files are opened through it: mount proc on /proc")]
    NoProc(std::io::Error),
}

/// A file system that passes each call through to a directory. A value is a handle: clones are the same file system.
#[derive(Clone)]
pub struct HostFs {
    about: Rc<About>,
    rt: Rt,
    pool: Pool,
    inodes: Rc<RefCell<Inodes>>,
    /// Files whose bytes threads change: shared. Attributes are set behind them, as they were asked for.
    claims: Claims,
    /// The root directory, opened for calls on everything.
    whole: Arc<OwnedFd>,
    /// Whether nothing below waits for a device.
    is_memory: bool,
    /// Whether something could not be made durable.
    is_lost: Rc<Cell<bool>>,
}

impl HostFs {
    /// The file system of a directory. While it is used, nothing else may change what is in the directory.
    ///
    /// # Errors
    /// [`HostFsError`].
    pub fn open(rt: &Rt, pool: &Pool, directory: &Path) -> Result<HostFs, HostFsError> {
        HostFs::open_with(rt, pool, directory, None)
    }

    /// The same with a descriptor for at most `kept` inodes.
    fn open_with(rt: &Rt, pool: &Pool, directory: &Path, kept: Option<usize>) -> Result<HostFs, HostFsError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let told = |error: rustix::io::Errno| HostFsError::Unusable(directory.display().to_string(), error.into());
        let whole = Arc::new(rustix::fs::open(directory, flags, rustix::fs::Mode::empty()).map_err(told)?);
        let found = about::about(&whole).map_err(told)?;
        let path =
            rustix::fs::openat(&whole, ".", OFlags::PATH | OFlags::CLOEXEC, rustix::fs::Mode::empty()).map_err(told)?;
        let stat = inodes::statx(&path).map_err(told)?;
        Ok(HostFs {
            about: Rc::new(found.about),
            rt: rt.clone(),
            pool: pool.clone(),
            inodes: Rc::new(RefCell::new(Inodes::new(path, &stat, Keeper::new(&whole, kept))?)),
            claims: Claims::default(),
            whole,
            is_memory: found.is_memory,
            is_lost: Rc::default(),
        })
    }

    /// Makes a call that may wait for a device.
    fn waiting<T: Send + 'static>(&self, call: impl FnOnce() -> Result<T, Errno> + Send + 'static) -> Answer<T> {
        if self.is_memory {
            return Step::Now(call());
        }
        let rt = self.rt.clone();
        Step::later(async move { rt.worker(Nanos::ZERO, call).await })
    }

    /// Changes bytes of files, which may wait for a device. Until then none of their attributes is set: the kernel that
    /// mounts us sends both without a wait, and what comes last counts.
    fn changing<T: Send + 'static>(
        &self,
        files: [Ino; 2],
        call: impl FnOnce() -> Result<T, Errno> + Send + 'static,
    ) -> Answer<T> {
        if self.is_memory {
            return Step::Now(call());
        }
        let (rt, claims, files) = (self.rt.clone(), self.claims.clone(), files.map(|ino| (ino, Mode::Shared)));
        let claimed = claims.try_claim(&files);
        Step::later(async move {
            let _ticket = match claimed {
                Some(ticket) => ticket,
                None => claims.claim(&files).await,
            };
            rt.worker(Nanos::ZERO, call).await
        })
    }

    /// A call that fails before it is made, or waits.
    fn begun<T>(begun: Result<Answer<T>, Errno>) -> Answer<T> {
        begun.unwrap_or_else(refuse)
    }
}

/// Lets this process hold as many descriptors as it may: pinned inodes take most of them.
pub fn raise_descriptors() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    // With fewer, a call fails earlier (`EMFILE`).
    let _kept = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
}

impl FileSystem for HostFs {
    fn about(&self) -> &About {
        &self.about
    }

    fn root(&self) -> Ino {
        self.inodes.borrow().root()
    }

    fn lookup(&self, _: Call, dir: Ino, name: Name<'_>) -> Answer<Entry> {
        Step::Now(self.find(dir, name))
    }

    fn parent(&self, _: Call, dir: Ino) -> Answer<Entry> {
        Step::Now(self.above(dir))
    }

    fn pin(&self, _: Call, ino: Ino) -> Answer<Entry> {
        Step::Now(self.inodes.borrow_mut().pin(ino))
    }

    fn forget(&self, ino: Ino, pins: u64) {
        self.inodes.borrow_mut().forget(ino, pins);
    }

    fn create(&self, _: Call, dir: Ino, name: Option<Name<'_>>, new: New<'_>) -> Answer<Entry> {
        Step::Now(match name {
            Some(name) => self.make(dir, name, new),
            None => self.make_nameless(dir, new),
        })
    }

    fn link(&self, _: Call, ino: Ino, dir: Ino, name: Name<'_>) -> Answer<Entry> {
        Step::Now(self.add_name(ino, dir, name))
    }

    fn remove(&self, _: Call, dir: Ino, name: Name<'_>, what: Remove) -> Answer<()> {
        Step::Now(self.remove_name(dir, name, what))
    }

    fn rename(&self, _: Call, from: (Ino, Name<'_>), to: (Ino, Name<'_>), how: Rename) -> Answer<()> {
        Step::Now(self.move_name(from, to, how))
    }

    fn target(&self, _: Call, ino: Ino) -> Answer<Box<[u8]>> {
        Step::Now(self.read_link(ino))
    }

    fn list(&self, _: Call, dir: Ino, from: Cookie, into: Listing) -> Answer<Listing> {
        Step::Now(self.entries(dir, from, into))
    }

    fn attr(&self, _: Call, ino: Ino) -> Answer<Attr> {
        Step::Now(self.attributes(ino))
    }

    fn set_attr(&self, _: Call, ino: Ino, set: SetAttr) -> Answer<Attr> {
        let file = [(ino, Mode::Exclusive)];
        if self.claims.is_idle() || self.claims.try_claim(&file).is_some() {
            return Step::Now(self.set_attributes(ino, set));
        }
        let fs = self.clone();
        Step::later(async move {
            let _ticket = fs.claims.claim(&file).await;
            fs.set_attributes(ino, set)
        })
    }

    fn xattr(&self, _: Call, ino: Ino, what: Xattr<'_>) -> Answer<Box<[u8]>> {
        Step::Now(self.extended(ino, what))
    }

    fn read(&self, _: Call, ino: Ino, at: u64, len: usize) -> Answer<Buf> {
        Self::begun(self.begin_read(ino, at, len))
    }

    fn read_now(&self, _: Call, ino: Ino, at: u64, out: &mut [u8]) -> Option<Result<usize, Errno>> {
        self.read_at_once(ino, at, out).transpose()
    }

    fn write(&self, _: Call, ino: Ino, at: At, data: Buf, how: Write) -> Answer<Written> {
        Self::begun(self.begin_write(ino, at, data, how))
    }

    fn allocate(&self, _: Call, ino: Ino, range: ByteRange, how: Allocate) -> Answer<()> {
        Self::begun(self.begin_allocation(ino, range, how))
    }

    fn copy(&self, _: Call, from: (Ino, u64), to: (Ino, u64), len: u64, how: Copying) -> Answer<u64> {
        Self::begun(self.begin_copy(from, to, len, how))
    }

    fn seek(&self, _: Call, ino: Ino, at: u64, what: Seek) -> Answer<u64> {
        Step::Now(self.seek_in(ino, at, what))
    }

    fn sync(&self, _: Call, what: Sync) -> Answer<()> {
        Self::begun(self.begin_sync(what))
    }

    fn space(&self, _: Call) -> Answer<Space> {
        Step::Now(self.inodes.borrow().check().and_then(|()| about::space(&self.whole).map_err(errno)))
    }

    fn close(&self) -> Answer<()> {
        let closed = self.begin_sync(Sync::All);
        self.inodes.borrow_mut().close();
        Self::begun(closed)
    }

    fn stats(&self) -> Vec<Stat> {
        let (pinned, opened) = self.inodes.borrow().counts();
        vec![Stat { name: "pinned_inodes", value: pinned as f64 }, Stat { name: "open_files", value: opened as f64 }]
    }
}
