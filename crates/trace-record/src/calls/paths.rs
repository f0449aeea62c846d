//! Calls that name files by their paths.

use esker_trace_calls::words::*;
use esker_trace_calls::{Call, Object, PathBytes, Word};

use super::*;

/// See [`super::all`].
pub(super) const CALLS: &[Spec] = &[
    row!(SYS_open, [text(0)], |c| opened(c, c.path(0)?, c.arg(1), c.arg(2))),
    row!(SYS_openat, [text(1)], |c| opened(c, c.at(0, 1)?, c.arg(2), c.arg(3))),
    row!(SYS_openat2, [text(1), bytes(2, 24)], openat2),
    row!(SYS_creat, [text(0)], |c| opened(
        c,
        c.path(0)?,
        (libc::O_CREAT | libc::O_WRONLY | libc::O_TRUNC) as u64,
        c.arg(1)
    )),
    row!(SYS_truncate, [text(0)], |c| Ok(Call::Truncate { file: c.object(0, true)?, len: c.arg(1) as i64 })),
    row!(SYS_stat, [text(0)], [bytes(1, STAT_BYTES)], |c| stat(c, c.object(0, true)?, 1)),
    row!(SYS_lstat, [text(0)], [bytes(1, STAT_BYTES)], |c| stat(c, c.object(0, false)?, 1)),
    row!(SYS_fstat, [], [bytes(1, STAT_BYTES)], |c| stat(c, Object::Fd(c.fd(0)), 1)),
    row!(SYS_newfstatat, [text(1)], [bytes(2, STAT_BYTES)], |c| stat(c, unless_nofollow(c, 0, 1, 3)?, 2)),
    row!(SYS_statx, [text(1)], [bytes(4, STATX_BYTES)], statx),
    row!(SYS_access, [text(0)], |c| Ok(Call::Access { file: c.object(0, true)?, mode: bits::access_mode(c.arg(1)) })),
    row!(SYS_faccessat, [text(1)], |c| {
        Ok(Call::Access { file: c.object_at(0, 1, 0, true)?, mode: bits::access_mode(c.arg(2)) })
    }),
    row!(SYS_faccessat2, [text(1)], |c| {
        Ok(Call::Access { file: unless_nofollow(c, 0, 1, 3)?, mode: bits::access_mode(c.arg(2)) })
    }),
    row!(SYS_readlink, [text(0)], [returned(1, 1)], |c| readlink(c, c.path(0)?, 1, 2)),
    row!(SYS_readlinkat, [text(1)], [returned(2, 1)], |c| readlink(c, c.at(0, 1)?, 2, 3)),
    row!(SYS_chmod, [text(0)], |c| Ok(Call::Chmod { file: c.object(0, true)?, mode: c.mode(1) })),
    row!(SYS_fchmod, [], |c| Ok(Call::Chmod { file: Object::Fd(c.fd(0)), mode: c.mode(1) })),
    row!(SYS_fchmodat, [text(1)], |c| Ok(Call::Chmod { file: c.object_at(0, 1, 0, true)?, mode: c.mode(2) })),
    row!(SYS_fchmodat2, [text(1)], |c| Ok(Call::Chmod { file: unless_nofollow(c, 0, 1, 3)?, mode: c.mode(2) })),
    row!(SYS_chown, [text(0)], |c| chown(c, c.object(0, true)?, 1)),
    row!(SYS_lchown, [text(0)], |c| chown(c, c.object(0, false)?, 1)),
    row!(SYS_fchown, [], |c| chown(c, Object::Fd(c.fd(0)), 1)),
    row!(SYS_fchownat, [text(1)], |c| chown(c, unless_nofollow(c, 0, 1, 4)?, 2)),
    row!(SYS_utime, [text(0), bytes(1, 16)], |c| times(c, c.object(0, true)?, 1, Unit::Seconds)),
    row!(SYS_utimes, [text(0), bytes(1, 32)], |c| times(c, c.object(0, true)?, 1, Unit::Micros)),
    row!(SYS_futimesat, [text(1), bytes(2, 32)], |c| times(c, named_or_fd(c, 0, 1, true)?, 2, Unit::Micros)),
    row!(SYS_utimensat, [text(1), bytes(2, 32)], |c| {
        times(c, named_or_fd(c, 0, 1, c.arg(3) & SYMLINK_NOFOLLOW == 0)?, 2, Unit::Nanos)
    }),
    row!(SYS_getxattr, [text(0), text(1)], |c| get_xattr(c, c.object(0, true)?)),
    row!(SYS_lgetxattr, [text(0), text(1)], |c| get_xattr(c, c.object(0, false)?)),
    row!(SYS_fgetxattr, [text(1)], |c| get_xattr(c, Object::Fd(c.fd(0)))),
    row!(SYS_setxattr, [text(0), text(1)], |c| set_xattr(c, c.object(0, true)?)),
    row!(SYS_lsetxattr, [text(0), text(1)], |c| set_xattr(c, c.object(0, false)?)),
    row!(SYS_fsetxattr, [text(1)], |c| set_xattr(c, Object::Fd(c.fd(0)))),
    row!(SYS_listxattr, [text(0)], |c| Ok(Call::ListXattr { file: c.object(0, true)?, len: c.arg(2) })),
    row!(SYS_llistxattr, [text(0)], |c| Ok(Call::ListXattr { file: c.object(0, false)?, len: c.arg(2) })),
    row!(SYS_flistxattr, [], |c| Ok(Call::ListXattr { file: Object::Fd(c.fd(0)), len: c.arg(2) })),
    row!(SYS_removexattr, [text(0), text(1)], |c| remove_xattr(c, c.object(0, true)?)),
    row!(SYS_lremovexattr, [text(0), text(1)], |c| remove_xattr(c, c.object(0, false)?)),
    row!(SYS_fremovexattr, [text(1)], |c| remove_xattr(c, Object::Fd(c.fd(0)))),
    row!(SYS_statfs, [text(0)], |c| Ok(Call::StatFs { file: c.object(0, true)? })),
    row!(SYS_fstatfs, [], |c| Ok(Call::StatFs { file: Object::Fd(c.fd(0)) })),
    row!(SYS_name_to_handle_at, [text(1)], |c| {
        Ok(Call::NameToHandle { file: c.object_at(0, 1, c.arg(4), c.arg(4) & SYMLINK_FOLLOW != 0)? })
    }),
    row!(SYS_inotify_add_watch, [text(1)], |c| {
        Ok(Call::Watch { queue: c.fd(0), at: c.path(1)?, mask: c.arg(2) as u32 })
    }),
    row!(SYS_chdir, [text(0)], |c| Ok(Call::Chdir { file: c.object(0, true)? })),
    row!(SYS_fchdir, [], |c| Ok(Call::Chdir { file: Object::Fd(c.fd(0)) })),
    row!(SYS_mkdir, [text(0)], |c| Ok(Call::Mkdir { at: c.path(0)?, mode: c.mode(1) })),
    row!(SYS_mkdirat, [text(1)], |c| Ok(Call::Mkdir { at: c.at(0, 1)?, mode: c.mode(2) })),
    row!(SYS_mknod, [text(0)], |c| mknod(c, c.path(0)?, 1)),
    row!(SYS_mknodat, [text(1)], |c| mknod(c, c.at(0, 1)?, 2)),
    row!(SYS_symlink, [text(0), text(1)], |c| {
        Ok(Call::Symlink { target: PathBytes::from(c.text(0)?), at: c.path(1)? })
    }),
    row!(SYS_symlinkat, [text(0), text(2)], |c| {
        Ok(Call::Symlink { target: PathBytes::from(c.text(0)?), at: c.at(1, 2)? })
    }),
    row!(SYS_link, [text(0), text(1)], |c| Ok(Call::Link { from: c.object(0, false)?, to: c.path(1)? })),
    row!(SYS_linkat, [text(1), text(3)], |c| {
        Ok(Call::Link { from: c.object_at(0, 1, c.arg(4), c.arg(4) & SYMLINK_FOLLOW != 0)?, to: c.at(2, 3)? })
    }),
    row!(SYS_unlink, [text(0)], |c| Ok(Call::Unlink { at: c.path(0)? })),
    row!(SYS_unlinkat, [text(1)], |c| {
        let at = c.at(0, 1)?;
        Ok(if c.int(2) & libc::AT_REMOVEDIR != 0 { Call::Rmdir { at } } else { Call::Unlink { at } })
    }),
    row!(SYS_rmdir, [text(0)], |c| Ok(Call::Rmdir { at: c.path(0)? })),
    row!(SYS_rename, [text(0), text(1)], |c| {
        Ok(Call::Rename { from: c.path(0)?, to: c.path(1)?, flags: RenameFlags::empty() })
    }),
    row!(SYS_renameat, [text(1), text(3)], |c| {
        Ok(Call::Rename { from: c.at(0, 1)?, to: c.at(2, 3)?, flags: RenameFlags::empty() })
    }),
    row!(SYS_renameat2, [text(1), text(3)], |c| {
        Ok(Call::Rename { from: c.at(0, 1)?, to: c.at(2, 3)?, flags: bits::rename_flags(c.arg(4)) })
    }),
    row!(SYS_chroot, [text(0)], |c| Ok(Call::Chroot { at: c.path(0)? })),
];

fn opened(_: &Raw<'_>, at: At, flags: u64, mode: u64) -> Decoded {
    let flags = bits::open_flags(flags);
    let makes = flags.intersects(OpenFlags::O_CREAT | OpenFlags::O_TMPFILE);
    let mode = if makes { (mode & 0o7777) as u16 } else { 0 };
    Ok(Call::Open { at, flags, mode, resolve: ResolveFlags::empty() })
}

fn openat2(c: &Raw<'_>) -> Decoded {
    let how = c.bytes(2).ok_or(WarningKind::BadArguments)?;
    let word = |at| u64_at(how, at).ok_or(WarningKind::BadArguments);
    let (flags, mode) = (bits::open_flags(word(0)?), (word(8)? & 0o7777) as u16);
    Ok(Call::Open { at: c.at(0, 1)?, flags, mode, resolve: bits::resolve_flags(word(16)?) })
}

/// Directory, path and flags of a call that follows links unless told otherwise.
fn unless_nofollow(c: &Raw<'_>, dir: usize, path: usize, flags: usize) -> Result<Object, WarningKind> {
    c.object_at(dir, path, c.arg(flags), c.arg(flags) & SYMLINK_NOFOLLOW == 0)
}

/// A path, or without one the directory's descriptor.
fn named_or_fd(c: &Raw<'_>, dir: usize, path: usize, follow: bool) -> Result<Object, WarningKind> {
    if c.arg(path) == 0 {
        return Ok(Object::Fd(c.fd(dir)));
    }
    c.object_at(dir, path, 0, follow)
}

fn stat(c: &Raw<'_>, file: Object, out: usize) -> Decoded {
    Ok(Call::Stat { file, seen: c.seen(out).and_then(status_of_stat).map(Box::new) })
}

fn statx(c: &Raw<'_>) -> Decoded {
    let seen = c.seen(4).and_then(status_of_statx).map(Box::new);
    Ok(Call::Stat { file: unless_nofollow(c, 0, 1, 2)?, seen })
}

fn readlink(c: &Raw<'_>, at: At, out: usize, len: usize) -> Decoded {
    Ok(Call::ReadLink { at, len: c.arg(len), seen_target: c.seen(out).map(PathBytes::from) })
}

fn chown(c: &Raw<'_>, file: Object, uid: usize) -> Decoded {
    Ok(Call::Chown { file, uid: c.arg(uid) as u32, gid: c.arg(uid + 1) as u32 })
}

fn mknod(c: &Raw<'_>, at: At, mode: usize) -> Decoded {
    let kind = match c.arg(mode) as u32 {
        // A mode without a type is a regular file's.
        bits if bits & libc::S_IFMT == 0 => FileKind::Regular,
        bits => kind_of_mode(bits),
    };
    Ok(Call::Mknod { at, kind, mode: c.mode(mode), device: u64::from(c.arg(mode + 1) as u32) })
}

/// In what a pair of times is told.
enum Unit {
    Seconds,
    Micros,
    Nanos,
}

const UTIME_NOW: i64 = libc::UTIME_NOW;
const UTIME_OMIT: i64 = libc::UTIME_OMIT;

/// Times of last access and change; without a pair both are now.
fn times(c: &Raw<'_>, file: Object, pair: usize, unit: Unit) -> Decoded {
    let now = Some(i64::MIN);
    if c.arg(pair) == 0 {
        return Ok(Call::SetTimes { file, accessed: now, modified: now });
    }
    let bytes = c.bytes(pair).ok_or(WarningKind::BadArguments)?;
    let word = |index: usize| i64_at(bytes, index * 8).ok_or(WarningKind::BadArguments);
    let time = |index: usize| -> Result<Option<i64>, WarningKind> {
        let (seconds, rest) = match unit {
            Unit::Seconds => (word(index)?, 0),
            _ => (word(index * 2)?, word(index * 2 + 1)?),
        };
        let nanos = match unit {
            Unit::Nanos if rest == UTIME_NOW => return Ok(now),
            Unit::Nanos if rest == UTIME_OMIT => return Ok(None),
            Unit::Nanos => rest,
            _ => rest.wrapping_mul(1000),
        };
        Ok(Some(seconds.saturating_mul(1_000_000_000).saturating_add(nanos)))
    };
    Ok(Call::SetTimes { file, accessed: time(0)?, modified: time(1)? })
}

fn get_xattr(c: &Raw<'_>, file: Object) -> Decoded {
    Ok(Call::GetXattr { file, name: Word::from(c.text(1)?), len: c.arg(3) })
}

fn set_xattr(c: &Raw<'_>, file: Object) -> Decoded {
    Ok(Call::SetXattr { file, name: Word::from(c.text(1)?), len: c.arg(3), flags: bits::xattr_flags(c.arg(4)) })
}

fn remove_xattr(c: &Raw<'_>, file: Object) -> Decoded {
    Ok(Call::RemoveXattr { file, name: Word::from(c.text(1)?) })
}
