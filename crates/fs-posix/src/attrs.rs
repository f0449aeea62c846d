//! Calls on attributes of inodes, and on the whole file system.

use esker_base::Errno;
use esker_vfs::attr::mode;
use esker_vfs::{About, Attr, FileFlags, FileType, Ino, SetAttr, Space, Stamp, Xattr, XattrSet, access};

use crate::flags::Access;
use crate::paths::{Follow, Reached, Where, is_fixed};
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
        let mut set = SetAttr { uid, gid, ..SetAttr::default() };
        if reached.attr.kind != FileType::Directory {
            set.kill_privileges = true;
            // Set-ID bits go also if no owner is named, and by the superuser too. Only then a mode is set, which takes
            // the owner.
            let kept = self.without_privileges(&reached.attr);
            set.mode = Some(kept).filter(|kept| *kept != reached.attr.mode && [uid, gid] == [None; 2]);
        }
        self.set(&reached, set).await
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
        let call = self.call();
        let stamp = |time| match time {
            SetTime::Keep => None,
            SetTime::Now => Some(call.now),
            SetTime::To(stamp) => Some(stamp),
        };
        let set = SetAttr { accessed: stamp(accessed), modified: stamp(modified), ..SetAttr::default() };
        let set = if [accessed, modified] == [SetTime::Now; 2] {
            access::may_touch(&self.0.cred.borrow(), &reached.attr).map(|()| set)?
        } else {
            self.may_set(&reached.attr, set)?
        };
        self.0.world.0.files.set_attr(call, reached.node.ino(), set).await.map(drop)
    }

    /// `FS_IOC_SETFLAGS`.
    ///
    /// # Errors
    /// `EPERM` for what the caller does not own, and for changes of `IMMUTABLE` and `APPEND` by an unprivileged caller;
    /// `EOPNOTSUPP`.
    pub async fn set_flags(&self, at: impl Into<Where<'_>>, flags: FileFlags) -> Result<(), Errno> {
        let reached = self.reach(at.into(), Follow::Links).await?;
        self.set(&reached, SetAttr { flags: Some(flags), ..SetAttr::default() }).await
    }

    /// The mode that a change of owner leaves, and that of bytes by an unprivileged caller.
    pub(crate) fn without_privileges(&self, attr: &Attr) -> u16 {
        let cred = self.0.cred.borrow();
        let is_member = cred.privileged || cred.is_in(attr.gid);
        access::kill_privileges(if is_member { attr.mode } else { attr.mode & !mode::SET_GID })
    }

    /// Sets attributes, if the caller may.
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

/// Extended attributes. With [`Follow::Nothing`] the calls are those with `l` before their name, with [`Where::Fd`]
/// those with `f`.
impl Process {
    /// `getxattr`.
    ///
    /// # Errors
    /// Those of a walk; `ENODATA`, `EACCES`, `EOPNOTSUPP`; `ERANGE` for a name that is empty or too long.
    pub async fn xattr(&self, at: impl Into<Where<'_>>, name: &[u8], follow: Follow) -> Result<Box<[u8]>, Errno> {
        is_xattr_name(name)?;
        let reached = self.reach(at.into(), follow).await?;
        self.may_xattr(&reached.attr, name, false)?;
        self.0.world.0.files.xattr(self.call(), reached.node.ino(), Xattr::Get(name)).await
    }

    /// `listxattr`: the names, each with a NUL behind it. `trusted.` ones are for privileged callers.
    ///
    /// # Errors
    /// Those of a walk.
    pub async fn xattrs(&self, at: impl Into<Where<'_>>, follow: Follow) -> Result<Vec<u8>, Errno> {
        let reached = self.reach(at.into(), follow).await?;
        let names = self.0.world.0.files.xattr(self.call(), reached.node.ino(), Xattr::List).await?;
        let cred = self.cred();
        let shown = names.split_inclusive(|byte| *byte == 0).filter(|name| access::shows_xattr(&cred, name));
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
        self.may_xattr(&reached.attr, name, true)?;
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
        self.may_xattr(&reached.attr, name, true)?;
        self.0.world.0.files.xattr(self.call(), reached.node.ino(), Xattr::Remove(name)).await.map(drop)
    }

    fn may_xattr(&self, attr: &Attr, name: &[u8], changes: bool) -> Result<(), Errno> {
        // The kernel leaves these to the file system.
        if name.starts_with(b"system.") && !(changes && is_fixed(attr)) {
            return Ok(());
        }
        access::may_xattr(&self.0.cred.borrow(), attr, name, changes)
    }
}

fn is_xattr_name(name: &[u8]) -> Result<(), Errno> {
    if name.is_empty() || name.len() > XATTR_NAME_MAX { Err(Errno::ERANGE) } else { Ok(()) }
}
