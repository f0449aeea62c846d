//! Calls on attributes of inodes, and on the whole file system.

use esker_base::Errno;
use esker_vfs::{About, Attr, FileFlags, FileType, Ino, SetAttr, Space, Stamp, Xattr, XattrSet, mode};

use crate::flags::Access;
use crate::paths::{Follow, Reached, Where};
use crate::process::Process;

/// What `stat` tells.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Status {
    /// Number of the inode.
    pub ino: Ino,
    /// Its attributes.
    pub attr: Attr,
}

/// A time that `utimensat` sets.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum SetTime {
    /// `UTIME_OMIT`: it stays.
    Keep,
    /// `UTIME_NOW`.
    Now,
    /// This one.
    To(Stamp),
}

/// Attributes.
impl Process {
    /// `stat`; with [`Follow::Nothing`] `lstat`, with [`Where::Itself`] `fstat`.
    ///
    /// # Errors
    /// Those of a walk.
    pub async fn stat(&self, at: impl Into<Where<'_>>, follow: Follow) -> Result<Status, Errno> {
        let reached = self.reach(at.into().of_places(), follow).await?;
        Ok(Status { ino: reached.node.ino(), attr: reached.attr })
    }

    /// `access`. An empty set asks whether the file is there.
    ///
    /// # Errors
    /// Those of a walk; `EACCES`.
    pub async fn access(&self, at: impl Into<Where<'_>>, wanted: Access, follow: Follow) -> Result<(), Errno> {
        let reached = self.reach(at.into().of_places(), follow).await?;
        self.may(&reached.attr, wanted)
    }

    /// `chmod` and `fchmod`, of the twelve bits of [`mode`].
    ///
    /// # Errors
    /// Those of a walk; `EPERM` for what the caller does not own; `EOPNOTSUPP` for a symbolic link.
    pub async fn chmod(&self, at: impl Into<Where<'_>>, mode: u16, follow: Follow) -> Result<(), Errno> {
        let reached = self.reach(at.into(), follow).await?;
        if reached.attr.kind == FileType::Symlink {
            return Err(Errno::EOPNOTSUPP);
        }
        let set = SetAttr { mode: Some(mode & mode::ALL), ..SetAttr::default() };
        self.set(&reached, set).await
    }

    /// `chown`, `lchown` and `fchown`. `None` leaves one as it is.
    ///
    /// # Errors
    /// Those of a walk; `EPERM`.
    pub async fn chown(
        &self,
        at: impl Into<Where<'_>>,
        uid: Option<u32>,
        gid: Option<u32>,
        follow: Follow,
    ) -> Result<(), Errno> {
        let reached = self.reach(at.into(), follow).await?;
        // The superuser's change takes set-user-ID away as well.
        let kill_privileges = reached.attr.kind != FileType::Directory;
        self.set(&reached, SetAttr { uid, gid, kill_privileges, ..SetAttr::default() }).await
    }

    /// `utimensat` and `futimens`: time of access, and that of the last change of bytes.
    ///
    /// # Errors
    /// Those of a walk; `EPERM`, and `EACCES` if both are [`SetTime::Now`].
    pub async fn set_times(
        &self,
        at: impl Into<Where<'_>>,
        accessed: SetTime,
        modified: SetTime,
        follow: Follow,
    ) -> Result<(), Errno> {
        if [accessed, modified] == [SetTime::Keep; 2] {
            return Ok(());
        }
        let reached = self.reach(at.into(), follow).await?;
        if reached.attr.flags.has(FileFlags::IMMUTABLE) {
            return Err(Errno::EPERM);
        }
        if [accessed, modified] == [SetTime::Now; 2] {
            if !self.owns(&reached.attr) {
                self.may(&reached.attr, Access::WRITE)?;
            }
        } else if !self.owns(&reached.attr) || reached.attr.flags.has(FileFlags::APPEND) {
            return Err(Errno::EPERM);
        }
        let call = self.call();
        let stamp = |time| match time {
            SetTime::Keep => None,
            SetTime::Now => Some(call.now),
            SetTime::To(stamp) => Some(stamp),
        };
        let set = SetAttr { accessed: stamp(accessed), modified: stamp(modified), ..SetAttr::default() };
        self.0.world.0.files.set_attr(call, reached.node.ino(), set).await.map(drop)
    }

    /// `FS_IOC_SETFLAGS`.
    ///
    /// # Errors
    /// `EPERM` for what the caller does not own, and for changes of `IMMUTABLE` and `APPEND` by an unprivileged caller;
    /// `EOPNOTSUPP`.
    pub async fn set_flags(&self, at: impl Into<Where<'_>>, flags: FileFlags) -> Result<(), Errno> {
        let reached = self.reach(at.into(), Follow::Links).await?;
        let guarded = FileFlags::IMMUTABLE.0 | FileFlags::APPEND.0;
        let changed = (reached.attr.flags.0 ^ flags.0) & guarded;
        if !self.owns(&reached.attr) || changed != 0 && !self.cred().privileged {
            return Err(Errno::EPERM);
        }
        let set = SetAttr { flags: Some(flags), ..SetAttr::default() };
        self.0.world.0.files.set_attr(self.call(), reached.node.ino(), set).await.map(drop)
    }

    /// Sets mode or owner, if the caller may.
    async fn set(&self, reached: &Reached, set: SetAttr) -> Result<(), Errno> {
        let set = self.may_set(&reached.attr, set)?;
        self.0.world.0.files.set_attr(self.call(), reached.node.ino(), set).await.map(drop)
    }

    /// `statfs`: what the file system is, and its room.
    ///
    /// # Errors
    /// `EIO`.
    pub async fn statfs(&self) -> Result<(&About, Space), Errno> {
        let files = &self.0.world.0.files;
        Ok((files.about(), files.space(self.call()).await?))
    }
}

/// Most bytes of the name of an extended attribute, and of its value.
const XATTR_NAME_MAX: usize = 255;
const XATTR_VALUE_MAX: usize = 65_536;

/// Extended attributes. With [`Follow::Nothing`] the calls are those with `l` before their name, with [`Where::Fd`] those
/// with `f`.
impl Process {
    /// `getxattr`.
    ///
    /// # Errors
    /// Those of a walk; `ENODATA`, `EACCES`, `EOPNOTSUPP`; `ERANGE` for a name that is empty or too long.
    pub async fn xattr(&self, at: impl Into<Where<'_>>, name: &[u8], follow: Follow) -> Result<Box<[u8]>, Errno> {
        is_xattr_name(name)?;
        let reached = self.reach(at.into(), follow).await?;
        self.may_xattr(&reached.attr, name, Access::READ)?;
        self.0.world.0.files.xattr(self.call(), reached.node.ino(), Xattr::Get(name)).await
    }

    /// `listxattr`: the names, each with a NUL behind it. `trusted.` ones are for privileged callers.
    ///
    /// # Errors
    /// Those of a walk.
    pub async fn xattrs(&self, at: impl Into<Where<'_>>, follow: Follow) -> Result<Vec<u8>, Errno> {
        let reached = self.reach(at.into(), follow).await?;
        let names = self.0.world.0.files.xattr(self.call(), reached.node.ino(), Xattr::List).await?;
        let privileged = self.cred().privileged;
        let shown = names.split_inclusive(|byte| *byte == 0).filter(|name| privileged || !name.starts_with(TRUSTED));
        Ok(shown.flatten().copied().collect())
    }

    /// `setxattr`.
    ///
    /// # Errors
    /// As [`Process::xattr`]; `EPERM`; `EEXIST` and `ENODATA` by `how`; `E2BIG`, `ENOSPC`.
    pub async fn set_xattr(
        &self,
        at: impl Into<Where<'_>>,
        name: &[u8],
        value: &[u8],
        how: XattrSet,
        follow: Follow,
    ) -> Result<(), Errno> {
        is_xattr_name(name)?;
        if value.len() > XATTR_VALUE_MAX {
            return Err(Errno::E2BIG);
        }
        let reached = self.reach(at.into(), follow).await?;
        self.may_xattr(&reached.attr, name, Access::WRITE)?;
        let set = Xattr::Set(name, value, how);
        self.0.world.0.files.xattr(self.call(), reached.node.ino(), set).await.map(drop)
    }

    /// `removexattr`.
    ///
    /// # Errors
    /// As [`Process::set_xattr`].
    pub async fn remove_xattr(&self, at: impl Into<Where<'_>>, name: &[u8], follow: Follow) -> Result<(), Errno> {
        is_xattr_name(name)?;
        let reached = self.reach(at.into(), follow).await?;
        self.may_xattr(&reached.attr, name, Access::WRITE)?;
        self.0.world.0.files.xattr(self.call(), reached.node.ino(), Xattr::Remove(name)).await.map(drop)
    }

    /// The rules of `xattr_permission` in Linux: `security.` is left to the file system, `trusted.` is the superuser's,
    /// and only files and directories have `user.` ones.
    fn may_xattr(&self, attr: &Attr, name: &[u8], access: Access) -> Result<(), Errno> {
        let writes = access.contains(Access::WRITE);
        if writes && (attr.flags.has(FileFlags::IMMUTABLE) || attr.flags.has(FileFlags::APPEND)) {
            return Err(Errno::EPERM);
        }
        let denied = if writes { Errno::EPERM } else { Errno::ENODATA };
        if name.starts_with(b"security.") || name.starts_with(b"system.") {
            return Ok(());
        }
        if name.starts_with(TRUSTED) {
            return if self.cred().privileged { Ok(()) } else { Err(denied) };
        }
        if name.starts_with(b"user.") {
            if !matches!(attr.kind, FileType::File | FileType::Directory) {
                return Err(denied);
            }
            let is_sticky = attr.kind == FileType::Directory && attr.mode & mode::STICKY != 0;
            if is_sticky && writes && !self.owns(attr) {
                return Err(Errno::EPERM);
            }
        }
        self.may(attr, access)
    }
}

/// Attributes of the superuser.
const TRUSTED: &[u8] = b"trusted.";

fn is_xattr_name(name: &[u8]) -> Result<(), Errno> {
    if name.is_empty() || name.len() > XATTR_NAME_MAX { Err(Errno::ERANGE) } else { Ok(()) }
}
