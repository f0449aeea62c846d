//! Calls that ask for or change what is known about a file.

use super::args::{Args, field, int_of, mode_of, words_of};
use super::files::device;
use super::{Bad, Known, call};
use crate::call::{Call, Object, Status};
use crate::import::lex::{Arg, number};
use crate::name::Word;
use crate::words::FileKind;

pub(super) const CALLS: &[Known] = &[
    call("stat", |a| Ok(Call::Stat { file: a.object(0, true)?, seen: seen(a, 1) })),
    call("stat64", |a| Ok(Call::Stat { file: a.object(0, true)?, seen: seen(a, 1) })),
    call("lstat", |a| Ok(Call::Stat { file: a.object(0, false)?, seen: seen(a, 1) })),
    call("lstat64", |a| Ok(Call::Stat { file: a.object(0, false)?, seen: seen(a, 1) })),
    call("fstat", |a| Ok(Call::Stat { file: Object::Fd(a.fd(0)?), seen: seen(a, 1) })),
    call("fstat64", |a| Ok(Call::Stat { file: Object::Fd(a.fd(0)?), seen: seen(a, 1) })),
    call("newfstatat", |a| Ok(Call::Stat { file: a.object_at(0, Some(3), true)?, seen: seen(a, 2) })),
    call("fstatat64", |a| Ok(Call::Stat { file: a.object_at(0, Some(3), true)?, seen: seen(a, 2) })),
    call("statx", |a| Ok(Call::Stat { file: a.object_at(0, Some(2), true)?, seen: seen(a, 4) })),
    call("access", |a| Ok(Call::Access { file: a.object(0, true)?, mode: access(a, 1) })),
    call("faccessat", |a| Ok(Call::Access { file: a.object_at(0, None, true)?, mode: access(a, 2) })),
    call("faccessat2", |a| Ok(Call::Access { file: a.object_at(0, Some(3), true)?, mode: access(a, 2) })),
    call("chmod", |a| Ok(Call::Chmod { file: a.object(0, true)?, mode: a.mode(1) })),
    call("fchmod", |a| Ok(Call::Chmod { file: Object::Fd(a.fd(0)?), mode: a.mode(1) })),
    call("fchmodat", |a| Ok(Call::Chmod { file: a.object_at(0, None, true)?, mode: a.mode(2) })),
    call("fchmodat2", |a| Ok(Call::Chmod { file: a.object_at(0, Some(3), true)?, mode: a.mode(2) })),
    call("chown", |a| Ok(Call::Chown { file: a.object(0, true)?, uid: a.u32(1)?, gid: a.u32(2)? })),
    call("lchown", |a| Ok(Call::Chown { file: a.object(0, false)?, uid: a.u32(1)?, gid: a.u32(2)? })),
    call("fchown", |a| Ok(Call::Chown { file: Object::Fd(a.fd(0)?), uid: a.u32(1)?, gid: a.u32(2)? })),
    call("fchownat", |a| Ok(Call::Chown { file: a.object_at(0, Some(4), true)?, uid: a.u32(2)?, gid: a.u32(3)? })),
    call("utime", |a| {
        let file = a.object(0, true)?;
        Ok(set_times(file, utime(a, "actime"), utime(a, "modtime")))
    }),
    call("utimes", |a| {
        let file = a.object(0, true)?;
        Ok(set_times(file, time(a, 1, 0), time(a, 1, 1)))
    }),
    call("futimesat", |a| {
        let file = a.object_at(0, None, true)?;
        Ok(set_times(file, time(a, 2, 0), time(a, 2, 1)))
    }),
    call("utimensat", |a| {
        let file = a.object_at(0, Some(3), true)?;
        Ok(set_times(file, time(a, 2, 0), time(a, 2, 1)))
    }),
    call("futimens", |a| {
        let file = Object::Fd(a.fd(0)?);
        Ok(set_times(file, time(a, 1, 0), time(a, 1, 1)))
    }),
    call("getxattr", |a| get_xattr(a, true)),
    call("lgetxattr", |a| get_xattr(a, false)),
    call("fgetxattr", |a| Ok(Call::GetXattr { file: Object::Fd(a.fd(0)?), name: name(a, 1)?, len: a.u64(3)? })),
    call("setxattr", |a| set_xattr(a, true)),
    call("lsetxattr", |a| set_xattr(a, false)),
    call("fsetxattr", |a| {
        Ok(Call::SetXattr { file: Object::Fd(a.fd(0)?), name: name(a, 1)?, len: a.u64(3)?, flags: a.flags(4) })
    }),
    call("listxattr", |a| Ok(Call::ListXattr { file: a.object(0, true)?, len: a.u64(2)? })),
    call("llistxattr", |a| Ok(Call::ListXattr { file: a.object(0, false)?, len: a.u64(2)? })),
    call("flistxattr", |a| Ok(Call::ListXattr { file: Object::Fd(a.fd(0)?), len: a.u64(2)? })),
    call("removexattr", |a| Ok(Call::RemoveXattr { file: a.object(0, true)?, name: name(a, 1)? })),
    call("lremovexattr", |a| Ok(Call::RemoveXattr { file: a.object(0, false)?, name: name(a, 1)? })),
    call("fremovexattr", |a| Ok(Call::RemoveXattr { file: Object::Fd(a.fd(0)?), name: name(a, 1)? })),
    call("statfs", |a| Ok(Call::StatFs { file: a.object(0, true)? })),
    call("statfs64", |a| Ok(Call::StatFs { file: a.object(0, true)? })),
    call("fstatfs", |a| Ok(Call::StatFs { file: Object::Fd(a.fd(0)?) })),
    call("fstatfs64", |a| Ok(Call::StatFs { file: Object::Fd(a.fd(0)?) })),
];

/// The name of an extended attribute.
pub(super) fn name(a: &Args<'_>, place: usize) -> Result<Word, Bad> {
    match a.get(place) {
        Some(Arg::Text { bytes, cut: false }) => Ok(Word::from(bytes.as_slice())),
        _ => Err(Bad::Argument { place, wanted: "the name of an attribute" }),
    }
}

fn access(a: &mut Args<'_>, place: usize) -> crate::words::AccessMode {
    let words = a.words(place);
    let words: Vec<&str> = words.into_iter().filter(|word| *word != "F_OK").collect();
    a.flags_from(&words)
}

fn get_xattr(a: &mut Args<'_>, follow: bool) -> Result<Call, Bad> {
    Ok(Call::GetXattr { file: a.object(0, follow)?, name: name(a, 1)?, len: a.u64(3)? })
}

fn set_xattr(a: &mut Args<'_>, follow: bool) -> Result<Call, Bad> {
    Ok(Call::SetXattr { file: a.object(0, follow)?, name: name(a, 1)?, len: a.u64(3)?, flags: a.flags(4) })
}

/// What a call of the stat family told; with or without strace's abbreviation, and in the names of `statx`.
fn seen(a: &Args<'_>, place: usize) -> Option<Box<Status>> {
    let status = a.get(place).filter(|status| matches!(status, Arg::Fields(_)) && a.succeeded())?;
    let one_of = |names: [&str; 2]| names.into_iter().find_map(|name| field(status, name));
    let number = |names| one_of(names).and_then(int_of).unwrap_or(0);
    let mode = one_of(["st_mode", "stx_mode"])?;
    let kind = words_of(mode).into_iter().find_map(FileKind::from_name)?;
    Some(Box::new(Status {
        kind,
        mode: mode_of(mode),
        size: number(["st_size", "stx_size"]) as u64,
        links: number(["st_nlink", "stx_nlink"]) as u32,
        device: seen_device(status),
        inode: number(["st_ino", "stx_ino"]) as u64,
    }))
}

fn seen_device(status: &Arg) -> u64 {
    let part = |name| field(status, name).and_then(int_of).unwrap_or(0) as u64;
    let split = part("stx_dev_major") << 32 | part("stx_dev_minor");
    if split == 0 { device(field(status, "st_dev")) } else { split }
}

fn set_times(file: Object, accessed: Option<i64>, modified: Option<i64>) -> Call {
    Call::SetTimes { file, accessed, modified }
}

/// Sets a time to that of the call.
const NOW: i64 = i64::MIN;

/// One of two times: `[{tv_sec=1, tv_nsec=2}, UTIME_OMIT]`, seconds with `tv_usec`, or `NULL` for now.
fn time(a: &Args<'_>, place: usize, which: usize) -> Option<i64> {
    let Ok(times) = a.list(place) else { return Some(NOW) };
    match times.get(which) {
        Some(Arg::Words { text, .. }) if text == "UTIME_OMIT" => None,
        Some(structure @ Arg::Fields(_)) => {
            let part = |name| field(structure, name).and_then(int_of).map(|n| n as i64);
            let nanos = part("tv_nsec").or_else(|| Some(part("tv_usec")?.saturating_mul(1000)));
            Some(part("tv_sec")?.saturating_mul(1_000_000_000).saturating_add(nanos.unwrap_or(0)))
        }
        _ => Some(NOW),
    }
}

/// `{actime=1700000000 /* 2023-… */, modtime=…}`, or `NULL` for now.
fn utime(a: &Args<'_>, name: &str) -> Option<i64> {
    let Some(structure @ Arg::Fields(_)) = a.get(1) else { return Some(NOW) };
    let seconds = match field(structure, name)? {
        Arg::Words { text, .. } => text.split_whitespace().next().and_then(number)?,
        other => int_of(other)?,
    };
    Some((seconds as i64).saturating_mul(1_000_000_000))
}
