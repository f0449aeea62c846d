//! Metadata of files and directories.

use std::ffi::CString;

use esker_trace_calls::words::{AccessMode, FileKind};
use esker_trace_calls::{At, Call, Fd, Object};
use rustix::fs::{AtFlags, FileType, Gid, RawDir, Timespec, Timestamps, UTIME_NOW, UTIME_OMIT, Uid};
use rustix::io::Errno;

use super::{CallExecutor, Fail, Reply, Skip, Target, Turn, acl, bytes, done, flags};
use crate::root::{is, proc_path};
use crate::{privilege, xattrs};

/// An owner that stays as it is.
const UNCHANGED: u32 = u32::MAX;
const SEC_NS: i64 = 1_000_000_000;
/// Room for entries of a directory in one call, at least.
const ENTRIES: usize = 32 << 10;

impl CallExecutor<'_> {
    pub(super) fn meta(&mut self, turn: &Turn<'_>) -> Reply {
        match &turn.step.call {
            Call::Stat { file, .. } => self.stat(file),
            Call::Access { file, mode } => self.access(file, *mode),
            Call::ReadLink { at, len, .. } => self.read_link(at, *len),
            Call::Chmod { file, mode } => self.chmod(file, *mode),
            Call::Chown { file, uid, gid } => self.chown(file, *uid, *gid),
            Call::SetTimes { file, accessed, modified } => self.set_times(file, *accessed, *modified),
            Call::GetXattr { file, name, len } => {
                if acl::tells_mode(name) {
                    self.ask_for_list(turn, file)?;
                }
                self.get_xattr(file, name, *len)
            }
            Call::SetXattr { file, name, len, flags } if acl::is_access_list(name) => {
                self.set_list(turn, file, (name, *len), flags::xattr(*flags))
            }
            Call::SetXattr { file, name, len, flags } => self.set_xattr(file, name, *len, flags::xattr(*flags)),
            Call::ListXattr { file, len } => self.list_xattr(file, *len),
            Call::RemoveXattr { file, name } => self.remove_xattr(file, name),
            Call::StatFs { file } => match self.target(file)? {
                Target::Open(handle) => Ok(rustix::fs::fstatfs(&*handle).map(|_| 0)?),
                Target::Named(fd) => Ok(rustix::fs::fstatfs(&fd).map(|_| 0)?),
            },
            // A handle is made from what `stat` sees; there is no safe form of the call itself.
            Call::NameToHandle { file } => self.stat(file),
            Call::Watch { queue, at, mask } => self.watch(*queue, at, *mask),
            Call::ReadDir { fd, len } => self.read_dir(*fd, *len),
            // Numbers of watches are not those of the trace.
            _ => Err(Fail::Skip(Skip::Outside)),
        }
    }

    pub(super) fn stat(&mut self, file: &Object) -> Reply {
        let stat = match file {
            Object::Fd(fd) => {
                let handle = self.inside(*fd)?;
                self.watch.time(|| rustix::fs::fstat(&*handle))?
            }
            Object::Path { at, .. } if at.path.is_empty() || at.descriptor().is_some() => {
                rustix::fs::fstat(self.target(file)?)?
            }
            Object::Path { at, follow } => {
                let place = self.place(at)?;
                let stat = rustix::fs::statat(&place.dir, &place.leaf, AtFlags::SYMLINK_NOFOLLOW)?;
                // Most names are no links: only those cost a second call.
                if *follow && is(&stat, FileType::Symlink) { rustix::fs::fstat(&self.named(at, true)?)? } else { stat }
            }
        };
        self.seen = Some((flags::kind(stat.st_mode), stat.st_size as u64));
        Ok(0)
    }

    pub(super) fn access(&mut self, file: &Object, mode: AccessMode) -> Reply {
        let target = self.target(file)?;
        Ok(done(rustix::fs::access(proc_path(&target), flags::access(mode))?))
    }

    fn read_link(&mut self, at: &At, len: u64) -> Reply {
        if at.path.is_empty() && at.dir != Fd::CWD {
            let handle = self.inside(at.dir)?;
            return bytes(rustix::fs::readlinkat_raw(&*handle, c"", self.buffers.room_to_read(len))?);
        }
        let place = self.place(at)?;
        bytes(rustix::fs::readlinkat_raw(&place.dir, &place.leaf, self.buffers.room_to_read(len))?)
    }

    pub(super) fn chmod(&mut self, file: &Object, mode: u16) -> Reply {
        let mode = self.mode(mode);
        match self.target(file)? {
            Target::Open(handle) => Ok(done(rustix::fs::fchmod(&*handle, mode)?)),
            Target::Named(fd) => Ok(done(rustix::fs::chmod(proc_path(&fd), mode)?)),
        }
    }

    fn chown(&mut self, file: &Object, uid: u32, gid: u32) -> Reply {
        let uid = (uid != UNCHANGED).then(|| Uid::from_raw(uid));
        let gid = (gid != UNCHANGED).then(|| Gid::from_raw(gid));
        match self.target(file)? {
            Target::Open(handle) => Ok(done(rustix::fs::fchown(&*handle, uid, gid)?)),
            Target::Named(fd) => Ok(done(rustix::fs::chownat(&fd, c"", uid, gid, AtFlags::EMPTY_PATH)?)),
        }
    }

    pub(super) fn set_times(&mut self, file: &Object, accessed: Option<i64>, modified: Option<i64>) -> Reply {
        let times = Timestamps { last_access: time(accessed), last_modification: time(modified) };
        match self.target(file)? {
            Target::Open(handle) => Ok(done(rustix::fs::futimens(&*handle, &times)?)),
            Target::Named(fd) => Ok(done(rustix::fs::utimensat(&fd, c"", &times, AtFlags::EMPTY_PATH)?)),
        }
    }

    pub(super) fn get_xattr(&mut self, file: &Object, name: &[u8], len: u64) -> Reply {
        let name = xattrs::c_name(self.kernel.options.platform, name)?;
        let target = self.target(file)?;
        let value = self.buffers.room_to_read(len);
        // The path of a handle leads to what it is open on, also if that is a link.
        match (target, len) {
            (Target::Open(handle), 0) => bytes(rustix::fs::fgetxattr_query(&*handle, &name)?),
            (Target::Open(handle), _) => bytes(rustix::fs::fgetxattr(&*handle, &name, value)?),
            (Target::Named(fd), 0) => bytes(rustix::fs::getxattr_query(proc_path(&fd), &name)?),
            (Target::Named(fd), _) => bytes(rustix::fs::getxattr(proc_path(&fd), &name, value)?),
        }
    }

    pub(super) fn set_xattr(&mut self, file: &Object, name: &[u8], len: u64, flags: rustix::fs::XattrFlags) -> Reply {
        let name = self.own_attribute(name)?;
        let target = self.target(file)?;
        let value = self.buffers.bytes_to_write(len);
        match target {
            Target::Open(handle) => Ok(done(rustix::fs::fsetxattr(&*handle, &name, value, flags)?)),
            Target::Named(fd) => Ok(done(rustix::fs::setxattr(proc_path(&fd), &name, value, flags)?)),
        }
    }

    fn list_xattr(&mut self, file: &Object, len: u64) -> Reply {
        let target = self.target(file)?;
        let names = self.buffers.room_to_read(len);
        match (target, len) {
            (Target::Open(handle), 0) => bytes(rustix::fs::flistxattr_query(&*handle)?),
            (Target::Open(handle), _) => bytes(rustix::fs::flistxattr(&*handle, names)?),
            (Target::Named(fd), 0) => bytes(rustix::fs::listxattr_query(proc_path(&fd))?),
            (Target::Named(fd), _) => bytes(rustix::fs::listxattr(proc_path(&fd), names)?),
        }
    }

    /// The name of an attribute that a trace may change.
    fn own_attribute(&self, name: &[u8]) -> Result<CString, Fail> {
        let options = &self.kernel.options;
        let name = xattrs::c_name(options.platform, name)?;
        let permitted = privilege::is_permitted(name.as_bytes(), options.keep_modes);
        if permitted { Ok(name) } else { Err(Fail::Skip(Skip::Privileged)) }
    }

    fn remove_xattr(&mut self, file: &Object, name: &[u8]) -> Reply {
        let name = self.own_attribute(name)?;
        match self.target(file)? {
            Target::Open(handle) => Ok(done(rustix::fs::fremovexattr(&*handle, &name)?)),
            Target::Named(fd) => Ok(done(rustix::fs::removexattr(proc_path(&fd), &name)?)),
        }
    }

    fn watch(&mut self, queue: Fd, at: &At, mask: u32) -> Reply {
        let queue = self.fd(queue)?;
        let named = self.named(at, true)?;
        let mask = rustix::fs::inotify::WatchFlags::from_bits_retain(mask);
        // A queue that is none here still had its path looked up.
        match rustix::fs::inotify::add_watch(&*queue, proc_path(&named), mask) {
            Err(Errno::INVAL) => Ok(0),
            other => Ok(other.map(i64::from)?),
        }
    }

    /// One call for entries: what they are differs between file systems, so only their end is compared.
    pub(super) fn read_dir(&mut self, fd: Fd, len: u64) -> Reply {
        let handle = self.inside(fd)?;
        let room = usize::try_from(len).map_or(ENTRIES, |len| len.clamp(512, 16 * ENTRIES));
        let mut space = std::mem::take(&mut self.scratch);
        space.clear();
        space.reserve(room);
        let mut entries = RawDir::new(&*handle, &mut space.spare_capacity_mut()[..room]);
        let mut count = 0;
        let mut failed = None;
        while let Some(entry) = entries.next() {
            match entry {
                Ok(_) => count += 1,
                Err(e) => {
                    failed = Some(e);
                    break;
                }
            }
            // The iterator would call again for more than one call gave.
            if entries.is_buffer_empty() {
                break;
            }
        }
        self.scratch = space;
        failed.map_or(Ok(count), |e| Err(e.into()))
    }

    /// Reads the metadata of a file of which only a name is left: what the trace knows of nothing else.
    pub(super) fn small_access(&mut self, file: &Object) -> Reply {
        self.stat(file)?;
        // Only calls of the `stat` family tell what they saw.
        self.seen = None::<(FileKind, u64)>;
        Ok(0)
    }
}

fn time(ns: Option<i64>) -> Timespec {
    match ns {
        None => Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
        Some(i64::MIN) => Timespec { tv_sec: 0, tv_nsec: UTIME_NOW },
        Some(ns) => Timespec { tv_sec: ns.div_euclid(SEC_NS), tv_nsec: ns.rem_euclid(SEC_NS) },
    }
}
