//! Permissions to set attributes.

use esker_base::Errno;

use super::{Wanted, is_fixed, is_member, is_owner, is_set_gid, kill_privileges, may, permit};
use crate::attr::{Attr, FileFlags, FileType, SetAttr, mode};
use crate::word::Cred;

/// Whether the caller may set these attributes, and what is set then. Times count as chosen by the caller
/// ([`may_touch`] judges the time of the call). The size is not judged: that is [`may`] for a path, and the
/// descriptor otherwise.
///
/// What changes: a new mode loses set-group-ID if the caller is not in the group. A file that gets an owner or a group,
/// be it the same, loses its privileges, also by the superuser.
///
/// # Errors
/// `EPERM`.
pub fn may_set(cred: &Cred, attr: &Attr, mut set: SetAttr) -> Result<SetAttr, Errno> {
    let has_times = set.accessed.is_some() || set.modified.is_some();
    let has_owner = set.uid.is_some() || set.gid.is_some();
    permit(!(is_fixed(attr) && (set.mode.is_some() || has_owner || has_times)), Errno::EPERM)?;
    permit(is_owner(cred, attr) || !(set.mode.is_some() || has_times || set.flags.is_some()), Errno::EPERM)?;
    permit(cred.privileged || owners_are_allowed(cred, attr, &set), Errno::EPERM)?;
    permit(cred.privileged || flags_are_allowed(attr, &set), Errno::EPERM)?;
    if let Some(bits) = &mut set.mode
        && !is_member(cred, set.gid.unwrap_or(attr.gid))
    {
        *bits &= !mode::SET_GID;
    }
    if has_owner && attr.kind != FileType::Directory {
        let bits = set.mode.unwrap_or(attr.mode);
        let kept = if is_member(cred, attr.gid) { bits } else { bits & !mode::SET_GID };
        set.mode = Some(kill_privileges(kept)).filter(|left| set.mode.is_some() || *left != attr.mode);
        set.kill_privileges = true;
    }
    Ok(set)
}

/// Whether the caller may set both times to that of the call: its owner, and callers that may write it.
///
/// # Errors
/// `EPERM` for what is immutable, `EACCES`.
pub fn may_touch(cred: &Cred, attr: &Attr) -> Result<(), Errno> {
    permit(!attr.flags.has(FileFlags::IMMUTABLE), Errno::EPERM)?;
    if is_owner(cred, attr) { Ok(()) } else { may(cred, attr, Wanted::WRITE) }
}

/// Whether a change of bytes by this caller takes set-user-ID and set-group-ID from a file. Privileged callers keep
/// them. As FUSE does, and unlike file systems of the kernel, it leaves set-group-ID without execution by the group to
/// callers outside the group: only [`kill_privileges`] says what is lost.
pub fn loses_privileges(cred: &Cred, attr: &Attr) -> bool {
    let has_any = attr.mode & mode::SET_UID != 0 || is_set_gid(attr.mode);
    attr.kind == FileType::File && has_any && !cred.privileged
}

/// An owner gives a file to none but itself, and to groups of its own.
fn owners_are_allowed(cred: &Cred, attr: &Attr, set: &SetAttr) -> bool {
    let is_owner = cred.uid == attr.uid;
    let keeps_uid = set.uid.is_none_or(|uid| is_owner && uid == attr.uid);
    let keeps_gid = set.gid.is_none_or(|gid| is_owner && (gid == attr.gid || cred.is_in(gid)));
    keeps_uid && keeps_gid
}

/// Only privileged callers fix an inode or release it.
fn flags_are_allowed(attr: &Attr, set: &SetAttr) -> bool {
    let fixing = FileFlags::IMMUTABLE.0 | FileFlags::APPEND.0;
    set.flags.is_none_or(|flags| (flags.0 ^ attr.flags.0) & fixing == 0)
}
