//! Attributes, and extended ones.

use esker_base::Errno;
use esker_vfs::access::kill_privileges;
use esker_vfs::{Attr, FileFlags, FileType, Ino, SetAttr, Stamp, Xattr};
use rustix::fs::{self, AtFlags, IFlags, OFlags, Timespec, Timestamps, UTIME_OMIT};
use rustix::io;

use super::HostFs;
use super::inodes::{Use, attr_of, own_path, stat};
use crate::words::{errno, timespec, xattr_flags};

/// Flags that `statx` tells, so that all of them can be read back.
const FLAGS: u32 = FileFlags::IMMUTABLE.0 | FileFlags::APPEND.0 | FileFlags::NODUMP.0;

/// Prefixes of extended attributes that pass through. Access control lists do not: nothing above judges by them.
const PREFIXES: [&[u8]; 3] = [b"user.", b"trusted.", b"security."];

/// Privileges of a program beside those of its mode.
const CAPABILITY: &str = "security.capability";

/// Most bytes of an extended attribute, and of a list of their names.
const XATTR_ROOM: usize = 64 << 10;

impl HostFs {
    pub(super) fn attributes(&self, ino: Ino) -> Result<Attr, Errno> {
        attr_of(&stat(self.inodes.borrow().path(ino)?)?)
    }

    pub(super) fn set_attributes(&self, ino: Ino, set: SetAttr) -> Result<Attr, Errno> {
        let before = self.attributes(ino)?;
        if set.flags.is_some_and(|flags| flags.0 & !FLAGS != 0) {
            return Err(Errno::EOPNOTSUPP);
        }
        if let Some(size) = set.size {
            self.set_size(ino, before.kind, size)?;
        }
        if set.uid.is_some() || set.gid.is_some() {
            let (uid, gid) = (set.uid.map(fs::Uid::from_raw), set.gid.map(fs::Gid::from_raw));
            let inodes = self.inodes.borrow();
            fs::chownat(inodes.path(ino)?, "", uid, gid, AtFlags::EMPTY_PATH).map_err(errno)?;
        }
        self.set_mode(ino, &before, set)?;
        if let Some(flags) = set.flags {
            self.set_flags(ino, flags)?;
        }
        if set.accessed.is_some() || set.modified.is_some() {
            let time = |at: Option<Stamp>| at.map_or(Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT }, timespec);
            let times = Timestamps { last_access: time(set.accessed), last_modification: time(set.modified) };
            let inodes = self.inodes.borrow();
            fs::utimensat(inodes.path(ino)?, "", &times, AtFlags::EMPTY_PATH).map_err(errno)?;
        }
        self.attributes(ino)
    }

    fn set_size(&self, ino: Ino, kind: FileType, size: u64) -> Result<(), Errno> {
        match kind {
            FileType::File if size > i64::MAX.cast_unsigned() => Err(Errno::EFBIG),
            FileType::File => {
                let file = self.inodes.borrow_mut().open_file(ino, Use::Change)?;
                fs::ftruncate(file, size).map_err(errno)
            }
            FileType::Directory => Err(Errno::EISDIR),
            _ => Err(Errno::EINVAL),
        }
    }

    /// Sets the mode. The kernel takes privileges with the owner and the size, but here the caller says what is lost.
    fn set_mode(&self, ino: Ino, before: &Attr, set: SetAttr) -> Result<(), Errno> {
        let is_touched = set.uid.is_some() || set.gid.is_some() || set.size.is_some();
        let now = if is_touched { self.attributes(ino)?.mode } else { before.mode };
        let kills = set.kill_privileges && before.kind == FileType::File;
        let mode = set.mode.unwrap_or(before.mode);
        let wanted = if kills { kill_privileges(mode) } else { mode };
        if wanted != now && before.kind != FileType::Symlink {
            self.chmod(self.inodes.borrow().path(ino)?, wanted)?;
        }
        if kills {
            let inodes = self.inodes.borrow();
            let open = inodes.path(ino)?;
            match fs::removexattr(own_path(&open), CAPABILITY) {
                Ok(()) | Err(io::Errno::NODATA | io::Errno::OPNOTSUPP) => {}
                Err(error) => return Err(errno(error)),
            }
        }
        Ok(())
    }

    fn set_flags(&self, ino: Ino, flags: FileFlags) -> Result<(), Errno> {
        let told = |error| match error {
            io::Errno::NOTTY | io::Errno::INVAL => Errno::EOPNOTSUPP,
            error => errno(error),
        };
        let file = self.inodes.borrow().reopen(ino, OFlags::RDONLY).map_err(told)?;
        let former = fs::ioctl_getflags(&file).map_err(told)?;
        let wanted = former.bits() & !FLAGS | flags.0;
        fs::ioctl_setflags(&file, IFlags::from_bits_retain(wanted)).map_err(told)
    }

    /// Takes set-user-ID and set-group-ID of a program away, whose bytes change.
    pub(super) fn kill(&self, ino: Ino) -> Result<(), Errno> {
        self.set_attributes(ino, SetAttr { kill_privileges: true, ..SetAttr::default() }).map(|_| ())
    }

    pub(super) fn extended(&self, ino: Ino, what: Xattr<'_>) -> Result<Box<[u8]>, Errno> {
        let inodes = self.inodes.borrow();
        let open = inodes.path(ino)?;
        let path = own_path(&open);
        let done = |changed: io::Result<()>| changed.map(|()| [].into()).map_err(errno);
        match what {
            Xattr::List => names(&path).map_err(errno),
            Xattr::Get(name) => {
                check_prefix(name)?;
                let mut value = vec![0; XATTR_ROOM];
                let len = fs::getxattr(path, name, &mut value).map_err(errno)?;
                value.truncate(len);
                Ok(value.into())
            }
            Xattr::Set(name, value, how) => {
                check_prefix(name)?;
                done(fs::setxattr(path, name, value, xattr_flags(how)))
            }
            Xattr::Remove(name) => {
                check_prefix(name)?;
                done(fs::removexattr(path, name))
            }
        }
    }
}

/// Names with their NULs, in byte order.
fn names(path: &str) -> io::Result<Box<[u8]>> {
    let mut list = vec![0; XATTR_ROOM];
    let len = fs::listxattr(path, &mut list)?;
    let mut names: Vec<&[u8]> = list[..len].split_inclusive(|byte| *byte == 0).collect();
    names.retain(|name| check_prefix(name).is_ok());
    names.sort_unstable();
    Ok(names.concat().into())
}

fn check_prefix(name: &[u8]) -> Result<(), Errno> {
    // The kernel has its own answers to names without a prefix.
    let passes = !name.contains(&b'.') || PREFIXES.into_iter().any(|prefix| name.starts_with(prefix));
    if passes { Ok(()) } else { Err(Errno::EOPNOTSUPP) }
}
