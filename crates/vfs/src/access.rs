//! Permissions: pure functions of the rights of a caller and of attributes.
//!
//! The rules are those of Linux 6 on ext4 (`fs/namei.c`, `fs/attr.c`, `fs/inode.c`) with `protected_hardlinks` set and
//! without access control lists. All capabilities are one word, [`Cred::privileged`]. File systems call none of these:
//! front ends do, before they call a file system.

mod set;
#[cfg(test)]
mod tests;

use esker_base::Errno;

use crate::attr::{Attr, FileFlags, FileType, mode};
use crate::word::Cred;

pub use set::{loses_privileges, may_set, may_touch};

/// What a caller wants to do with an inode.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Wanted(u16);

impl Wanted {
    /// Read bytes or entries.
    pub const READ: Wanted = Wanted(0o4);
    /// Change bytes or entries.
    pub const WRITE: Wanted = Wanted(0o2);
    /// Run a file; search a directory.
    pub const EXECUTE: Wanted = Wanted(0o1);
    /// Change the entries of a directory.
    pub const CHANGE_ENTRIES: Wanted = Wanted::WRITE.and(Wanted::EXECUTE);

    /// Both.
    #[must_use]
    pub const fn and(self, other: Wanted) -> Wanted {
        Wanted(self.0 | other.0)
    }

    /// Whether it includes all of `other`.
    pub const fn has(self, other: Wanted) -> bool {
        self.0 & other.0 == other.0
    }
}

/// Whether the mode and the flags of an inode permit this. Owners are judged by the owner's bits alone, members of the
/// group by the group's bits alone.
///
/// # Errors
/// `EPERM` to write what is immutable; `EACCES`.
pub fn may(cred: &Cred, attr: &Attr, wanted: Wanted) -> Result<(), Errno> {
    if wanted.has(Wanted::WRITE) && attr.flags.has(FileFlags::IMMUTABLE) {
        return Err(Errno::EPERM);
    }
    let bits = if cred.uid == attr.uid {
        attr.mode >> 6
    } else if cred.is_in(attr.gid) {
        attr.mode >> 3
    } else {
        attr.mode
    };
    // Privileges replace every bit, but a file without any bit to execute is no program.
    let is_above = || !wanted.has(Wanted::EXECUTE) || attr.kind == FileType::Directory || attr.mode & 0o111 != 0;
    permit(wanted.0 & !bits == 0 || cred.privileged && is_above(), Errno::EACCES)
}

/// Whether a walk may look up a name here.
///
/// # Errors
/// `ENOTDIR`, `EACCES`.
pub fn may_search(cred: &Cred, attr: &Attr) -> Result<(), Errno> {
    permit(attr.kind == FileType::Directory, Errno::ENOTDIR)?;
    may(cred, attr, Wanted::EXECUTE)
}

/// Whether the caller may remove the name of `victim` from `dir`, or rename it away. In a sticky directory only the
/// owners of both, and privileged callers.
///
/// # Errors
/// `EACCES`; `EPERM` for a sticky directory and for flags.
pub fn may_remove(cred: &Cred, dir: &Attr, victim: &Attr) -> Result<(), Errno> {
    may(cred, dir, Wanted::CHANGE_ENTRIES)?;
    permit(!dir.flags.has(FileFlags::APPEND), Errno::EPERM)?;
    let is_owner = cred.uid == victim.uid || cred.uid == dir.uid || cred.privileged;
    permit(dir.mode & mode::STICKY == 0 || is_owner, Errno::EPERM)?;
    permit(!is_fixed(victim), Errno::EPERM)
}

/// Whether the caller may move this inode to another directory. A directory changes by it, because its ".." does.
/// [`may_remove`] judges the old name and [`may`] the new directory.
///
/// # Errors
/// `EACCES`, `EPERM` for flags.
pub fn may_move(cred: &Cred, moved: &Attr) -> Result<(), Errno> {
    match moved.kind {
        FileType::Directory => may(cred, moved, Wanted::WRITE),
        FileType::File
        | FileType::Symlink
        | FileType::CharDevice
        | FileType::BlockDevice
        | FileType::Fifo
        | FileType::Socket => Ok(()),
    }
}

/// Whether the caller may give this inode one more name: its owner may. Others may for a file that they can read and
/// write, and that carries no privileges (`protected_hardlinks`). [`may`] judges the directory.
///
/// # Errors
/// `EPERM`.
pub fn may_link(cred: &Cred, attr: &Attr) -> Result<(), Errno> {
    permit(!is_fixed(attr), Errno::EPERM)?;
    let is_harmless = attr.kind == FileType::File
        && kill_privileges(attr.mode) == attr.mode
        && may(cred, attr, Wanted::READ.and(Wanted::WRITE)).is_ok();
    permit(is_harmless || is_owner(cred, attr), Errno::EPERM)
}

/// Whether bytes that are there may change, by a write that does not append or by a cut.
///
/// # Errors
/// `EPERM` for a file that only grows.
pub fn may_overwrite(attr: &Attr) -> Result<(), Errno> {
    permit(!attr.flags.has(FileFlags::APPEND), Errno::EPERM)
}

/// Whether the caller may read an extended attribute, or change it.
///
/// # Errors
/// `EACCES`; `EPERM` to change and `ENODATA` to read what this caller never sees or this kind never has.
pub fn may_xattr(cred: &Cred, attr: &Attr, name: &[u8], changes: bool) -> Result<(), Errno> {
    permit(!changes || !is_fixed(attr), Errno::EPERM)?;
    let hidden = if changes { Errno::EPERM } else { Errno::ENODATA };
    if name.starts_with(b"trusted.") {
        return permit(cred.privileged, hidden);
    }
    if name.starts_with(b"security.") {
        return permit(cred.privileged || !changes, hidden);
    }
    if name.starts_with(b"user.") {
        let is_directory = attr.kind == FileType::Directory;
        permit(is_directory || attr.kind == FileType::File, hidden)?;
        let is_sticky = is_directory && attr.mode & mode::STICKY != 0;
        permit(!(changes && is_sticky) || is_owner(cred, attr), Errno::EPERM)?;
    }
    may(cred, attr, if changes { Wanted::WRITE } else { Wanted::READ })
}

/// Whether a list of extended attributes shows this name to the caller.
pub fn shows_xattr(cred: &Cred, name: &[u8]) -> bool {
    cred.privileged || !name.starts_with(b"trusted.")
}

/// Owner, group and mode of a new inode.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NewOwner {
    /// The twelve bits of [`mode`].
    pub mode: u16,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
}

/// Owner, group and mode of an inode that the caller makes in `dir` with this mode, after its umask. In a set-group-ID
/// directory the group is that of the directory, and new directories are set-group-ID too.
pub fn new_owner(cred: &Cred, dir: &Attr, kind: FileType, bits: u16) -> NewOwner {
    let inherits = dir.mode & mode::SET_GID != 0;
    let gid = if inherits { dir.gid } else { cred.gid };
    let mode = if kind == FileType::Directory {
        bits & (0o777 | mode::STICKY) | if inherits { mode::SET_GID } else { 0 }
    } else if inherits && is_set_gid(bits) && !is_member(cred, gid) {
        bits & !mode::SET_GID
    } else {
        bits & mode::ALL
    };
    NewOwner { mode, uid: cred.uid, gid }
}

/// The mode of a file behind a change of its bytes: without set-user-ID, and without set-group-ID if its group may
/// execute it.
pub fn kill_privileges(bits: u16) -> u16 {
    let rest = bits & !mode::SET_UID;
    if is_set_gid(bits) { rest & !mode::SET_GID } else { rest }
}

/// Set-group-ID and executable by the group. Without the latter, the bit has another meaning.
fn is_set_gid(bits: u16) -> bool {
    bits & (mode::SET_GID | 0o010) == mode::SET_GID | 0o010
}

fn is_fixed(attr: &Attr) -> bool {
    attr.flags.has(FileFlags::IMMUTABLE) || attr.flags.has(FileFlags::APPEND)
}

fn is_owner(cred: &Cred, attr: &Attr) -> bool {
    cred.privileged || cred.uid == attr.uid
}

fn is_member(cred: &Cred, gid: u32) -> bool {
    cred.privileged || cred.is_in(gid)
}

fn permit(is_permitted: bool, errno: Errno) -> Result<(), Errno> {
    if is_permitted { Ok(()) } else { Err(errno) }
}
