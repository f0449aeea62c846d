//! Calls that open, close, make, rename and remove.

use super::args::{Args, field, mode_of, words_of};
use super::{Bad, Known, call};
use crate::call::{At, Call, Fd, Object};
use crate::import::lex::Arg;
use crate::name::Word;
use crate::words::{CloseRangeFlags, FileKind, OpenFlags, RenameFlags, ResolveFlags};

pub(super) const CALLS: &[Known] = &[
    call("open", |a| Ok(Call::Open { at: a.cwd(0)?, flags: open_flags(a, 1), mode: a.mode(2), resolve: none() })),
    call("openat", |a| Ok(Call::Open { at: a.at(0)?, flags: open_flags(a, 2), mode: a.mode(3), resolve: none() })),
    call("openat2", openat2),
    call("creat", |a| Ok(Call::Open { at: a.cwd(0)?, flags: creat_flags(), mode: a.mode(1), resolve: none() })),
    call("close", |a| Ok(Call::Close { fd: a.fd(0)? })),
    call("close_range", close_range),
    call("dup", |a| Ok(Call::Dup { fd: a.fd(0)?, min: 0, cloexec: false })),
    call("dup2", |a| Ok(Call::DupTo { fd: a.fd(0)?, to: Fd(a.int(1)? as i32), cloexec: false, strict: false })),
    call("dup3", |a| {
        Ok(Call::DupTo { fd: a.fd(0)?, to: Fd(a.int(1)? as i32), cloexec: a.has(2, "O_CLOEXEC"), strict: true })
    }),
    call("mkdir", |a| Ok(Call::Mkdir { at: a.cwd(0)?, mode: a.mode(1) })),
    call("mkdirat", |a| Ok(Call::Mkdir { at: a.at(0)?, mode: a.mode(2) })),
    call("mknod", |a| {
        let at = a.cwd(0)?;
        Ok(mknod(a, at, 1))
    }),
    call("mknodat", |a| {
        let at = a.at(0)?;
        Ok(mknod(a, at, 2))
    }),
    call("symlink", |a| Ok(Call::Symlink { target: a.path(0)?, at: a.cwd(1)? })),
    call("symlinkat", |a| Ok(Call::Symlink { target: a.path(0)?, at: a.at(1)? })),
    call("link", |a| Ok(Call::Link { from: a.object(0, false)?, to: a.cwd(1)? })),
    call("linkat", |a| Ok(Call::Link { from: a.object_at(0, Some(4), false)?, to: a.at(2)? })),
    call("unlink", |a| Ok(Call::Unlink { at: a.cwd(0)? })),
    call("unlinkat", |a| {
        let at = a.at(0)?;
        Ok(if a.has(2, "AT_REMOVEDIR") { Call::Rmdir { at } } else { Call::Unlink { at } })
    }),
    call("rmdir", |a| Ok(Call::Rmdir { at: a.cwd(0)? })),
    call("rename", |a| Ok(Call::Rename { from: a.cwd(0)?, to: a.cwd(1)?, flags: RenameFlags::empty() })),
    call("renameat", |a| Ok(Call::Rename { from: a.at(0)?, to: a.at(2)?, flags: RenameFlags::empty() })),
    call("renameat2", |a| Ok(Call::Rename { from: a.at(0)?, to: a.at(2)?, flags: a.flags(4) })),
    call("chdir", |a| Ok(Call::Chdir { file: a.object(0, true)? })),
    call("fchdir", |a| Ok(Call::Chdir { file: Object::Fd(a.fd(0)?) })),
    call("chroot", |a| Ok(Call::Chroot { at: a.cwd(0)? })),
    call("umask", |a| Ok(Call::Umask { mask: a.mode(0) })),
    call("getdents", |a| Ok(Call::ReadDir { fd: a.fd(0)?, len: a.u64(2)? })),
    call("getdents64", |a| Ok(Call::ReadDir { fd: a.fd(0)?, len: a.u64(2)? })),
    call("readlink", |a| Ok(Call::ReadLink { at: a.cwd(0)?, seen_target: a.seen_path(1), len: a.u64(2)? })),
    call("readlinkat", |a| Ok(Call::ReadLink { at: a.at(0)?, seen_target: a.seen_path(2), len: a.u64(3)? })),
    call("inotify_add_watch", |a| Ok(Call::Watch { queue: a.fd(0)?, at: a.cwd(1)?, mask: 0 })),
    call("inotify_rm_watch", |a| Ok(Call::Unwatch { queue: a.fd(0)?, watch: a.int(1)? as i32 })),
    call("name_to_handle_at", |a| Ok(Call::NameToHandle { file: a.object_at(0, Some(4), false)? })),
    call("shm_open", |a| Ok(Call::ShmOpen { name: a.path(0)?, flags: open_flags(a, 1), mode: a.mode(2) })),
    call("shm_unlink", |a| Ok(Call::ShmUnlink { name: a.path(0)? })),
];

fn none() -> ResolveFlags {
    ResolveFlags::empty()
}

fn creat_flags() -> OpenFlags {
    OpenFlags::WRITE | OpenFlags::O_CREAT | OpenFlags::O_TRUNC
}

/// How a file is opened, from the words of an argument.
pub(super) fn open_flags(a: &mut Args<'_>, place: usize) -> OpenFlags {
    open_words(a, &a.words(place))
}

/// As [`open_flags`], from words. `O_RDONLY` is 0 and may be left out.
pub(super) fn open_words(a: &mut Args<'_>, words: &[&str]) -> OpenFlags {
    let mut access = None;
    let others: Vec<&str> = words
        .iter()
        .copied()
        .filter(|word| {
            let is = match *word {
                "O_RDONLY" => OpenFlags::READ,
                "O_WRONLY" => OpenFlags::WRITE,
                "O_RDWR" => OpenFlags::READ | OpenFlags::WRITE,
                "O_RSYNC" | "O_ACCMODE" => OpenFlags::empty(),
                _ => return true,
            };
            access = Some(access.unwrap_or(OpenFlags::empty()) | is);
            false
        })
        .collect();
    let flags: OpenFlags = a.flags_from(&others);
    match access {
        _ if flags.contains(OpenFlags::O_PATH) => flags,
        Some(access) => flags | access,
        None => flags | OpenFlags::READ,
    }
}

fn openat2(a: &mut Args<'_>) -> Result<Call, Bad> {
    let at = a.at(0)?;
    let Some(how @ Arg::Fields(_)) = a.get(2) else {
        return Err(Bad::Argument { place: 2, wanted: "a structure" });
    };
    let words = |name| field(how, name).map(words_of).unwrap_or_default();
    let flags = open_words(a, &words("flags"));
    let resolve = a.flags_from(&words("resolve"));
    let mode = field(how, "mode").map_or(0, mode_of);
    Ok(Call::Open { at, flags, mode, resolve })
}

fn close_range(a: &mut Args<'_>) -> Result<Call, Bad> {
    let flags: CloseRangeFlags = a.flags(2);
    Ok(Call::CloseRange { first: a.u32(0)?, last: a.u32(1)?, flags })
}

fn mknod(a: &Args<'_>, at: At, place: usize) -> Call {
    let kind = a.words(place).into_iter().find_map(FileKind::from_name).unwrap_or(FileKind::Regular);
    Call::Mknod { at, kind, mode: a.mode(place), device: device(a.get(place + 1)) }
}

/// `makedev(0x1, 0x3)`, as major in the upper and minor in the lower 32 bits.
pub(super) fn device(arg: Option<&Arg>) -> u64 {
    let Some(Arg::Words { text, .. }) = arg else { return 0 };
    let numbers = text.strip_prefix("makedev(").and_then(|rest| rest.strip_suffix(')'));
    let Some((major, minor)) = numbers.and_then(|numbers| numbers.split_once(',')) else { return 0 };
    let part = |text: &str| crate::import::lex::number(text.trim()).unwrap_or(0) as u64;
    part(major) << 32 | (part(minor) & 0xffff_ffff)
}

/// A descriptor that is no file.
pub(super) fn make_fd(source: crate::words::FdSource, cloexec: bool) -> Call {
    Call::MakeFd { source, from: Fd(-1), name: Word::default(), cloexec }
}
