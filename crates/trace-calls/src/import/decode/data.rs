//! Calls that move data, and make it durable.

use super::args::{Args, after, field, int_of, words_of};
use super::files::open_words;
use super::{Bad, Known, call};
use crate::call::{Call, Fd, Object};
use crate::import::lex::Arg;
use crate::name::Word;
use crate::words::*;

pub(super) const CALLS: &[Known] = &[
    call("read", |a| Ok(Call::Read { fd: a.fd(0)?, len: a.u64(2)?, parts: 0 })),
    call("write", |a| Ok(Call::Write { fd: a.fd(0)?, len: a.u64(2)?, parts: 0 })),
    call("readv", |a| Ok(Call::Read { fd: a.fd(0)?, len: vector(a, 1).0, parts: vector(a, 1).1 })),
    call("writev", |a| Ok(Call::Write { fd: a.fd(0)?, len: vector(a, 1).0, parts: vector(a, 1).1 })),
    // Memory goes into a pipe, as by a write.
    call("vmsplice", |a| Ok(Call::Write { fd: a.fd(0)?, len: vector(a, 1).0, parts: vector(a, 1).1 })),
    call("pread64", |a| pread(a, false)),
    call("pread", |a| pread(a, false)),
    call("pwrite64", |a| pwrite(a, false)),
    call("pwrite", |a| pwrite(a, false)),
    call("preadv", |a| pread(a, true)),
    call("pwritev", |a| pwrite(a, true)),
    call("preadv2", |a| pread(a, true)),
    call("pwritev2", |a| pwrite(a, true)),
    call("lseek", |a| Ok(Call::Seek { fd: a.fd(0)?, offset: a.i64(1)?, whence: word(a, 2, Whence::from_name)? })),
    call("_llseek", |a| {
        Ok(Call::Seek {
            fd: a.fd(0)?,
            offset: a.i64(1)?,
            whence: word(a, a.count().saturating_sub(1), Whence::from_name)?,
        })
    }),
    call("truncate", |a| Ok(Call::Truncate { file: a.object(0, true)?, len: a.i64(1)? })),
    call("ftruncate", |a| Ok(Call::Truncate { file: Object::Fd(a.fd(0)?), len: a.i64(1)? })),
    call("fallocate", |a| Ok(Call::Allocate { fd: a.fd(0)?, flags: a.flags(1), offset: a.i64(2)?, len: a.i64(3)? })),
    call("fadvise64", |a| {
        Ok(Call::Advise { fd: a.fd(0)?, offset: a.i64(1)?, len: a.i64(2)?, advice: word(a, 3, Advice::from_name)? })
    }),
    call("readahead", |a| Ok(Call::ReadAhead { fd: a.fd(0)?, offset: a.i64(1)?, len: a.u64(2)? })),
    call("fsync", |a| Ok(Call::Sync { fd: a.fd(0)?, kind: SyncKind::Full })),
    call("fdatasync", |a| Ok(Call::Sync { fd: a.fd(0)?, kind: SyncKind::Data })),
    call("syncfs", |a| Ok(Call::Sync { fd: a.fd(0)?, kind: SyncKind::FileSystem })),
    call("sync", |_| Ok(Call::SyncAll {})),
    call("sync_file_range", |a| {
        Ok(Call::SyncRange { fd: a.fd(0)?, offset: a.i64(1)?, len: a.i64(2)?, flags: a.flags(3) })
    }),
    call("sendfile", sendfile),
    call("sendfile64", sendfile),
    call("copy_file_range", |a| {
        let (from, to, len) = two_ends(a)?;
        Ok(Call::CopyRange { from: from.fd, from_offset: from.offset, to: to.fd, to_offset: to.offset, len })
    }),
    call("splice", |a| {
        let (from, to, len) = two_ends(a)?;
        Ok(Call::Splice { from: from.fd, from_offset: from.offset, to: to.fd, to_offset: to.offset, len })
    }),
    call("tee", |a| Ok(Call::Tee { from: a.fd(0)?, to: a.fd(1)?, len: a.u64(2)? })),
    call("fcntl", fcntl),
    call("fcntl64", fcntl),
    call("flock", |a| {
        let kind = a.words(1).into_iter().find_map(LockKind::from_name);
        let kind = kind.ok_or(Bad::Argument { place: 1, wanted: "a lock" })?;
        Ok(Call::Flock { fd: a.fd(0)?, kind, wait: !a.has(1, "LOCK_NB") })
    }),
    call("ioctl", ioctl),
];

/// The value of an argument's one word.
pub(super) fn word<T>(a: &Args<'_>, place: usize, from_name: fn(&str) -> Option<T>) -> Result<T, Bad> {
    let found = a.words(place).into_iter().find_map(from_name);
    found.ok_or(Bad::Argument { place, wanted: "a known word" })
}

/// Bytes and parts of a vector of buffers: `[{iov_base=…, iov_len=3}, …]`. Where strace cut the list, the result tells
/// at least how many bytes moved.
fn vector(a: &Args<'_>, place: usize) -> (u64, u32) {
    let parts = a.list(place).unwrap_or_default();
    let lengths = parts.iter().filter_map(|part| field(part, "iov_len").and_then(int_of));
    let len = lengths.fold(0u64, |sum, len| sum.saturating_add(len as u64));
    let count = a.int(place + 1).unwrap_or(0).clamp(1, 1024) as u32;
    (len.max(u64::try_from(a.result()).unwrap_or(0)), count)
}

/// Length and parts of a positional call, and its offset: at place 2 for one buffer, behind the vector for several.
fn extent(a: &Args<'_>, is_vector: bool) -> Result<(u64, u32, i64), Bad> {
    let (len, parts) = if is_vector { vector(a, 1) } else { (a.u64(2)?, 0) };
    Ok((len, parts, a.i64(3)?))
}

fn pread(a: &mut Args<'_>, is_vector: bool) -> Result<Call, Bad> {
    let (len, parts, offset) = extent(a, is_vector)?;
    Ok(Call::Pread { fd: a.fd(0)?, offset, len, parts, flags: a.flags(4) })
}

fn pwrite(a: &mut Args<'_>, is_vector: bool) -> Result<Call, Bad> {
    let (len, parts, offset) = extent(a, is_vector)?;
    Ok(Call::Pwrite { fd: a.fd(0)?, offset, len, parts, flags: a.flags(4) })
}

/// An offset behind a pointer: `[128]`, `[128] => [256]`, or `NULL` for the descriptor's own.
fn pointed(a: &Args<'_>, place: usize) -> Option<i64> {
    match a.get(place)? {
        Arg::List(values) => values.first().and_then(int_of).map(|offset| offset as i64),
        _ => None,
    }
}

fn sendfile(a: &mut Args<'_>) -> Result<Call, Bad> {
    Ok(Call::SendFile { to: a.fd(0)?, from: a.fd(1)?, offset: pointed(a, 2), len: a.u64(3)? })
}

/// One end of a copy.
struct End {
    fd: Fd,
    offset: Option<i64>,
}

fn two_ends(a: &mut Args<'_>) -> Result<(End, End, u64), Bad> {
    let from = End { fd: a.fd(0)?, offset: pointed(a, 1) };
    Ok((from, End { fd: a.fd(2)?, offset: pointed(a, 3) }, a.u64(4)?))
}

fn fcntl(a: &mut Args<'_>) -> Result<Call, Bad> {
    let fd = a.fd(0)?;
    let command = a.words(1).first().copied().unwrap_or("");
    if let Some(cmd) = RecordLock::from_name(&command.replace("64", "")) {
        return record_lock(a, fd, cmd);
    }
    Ok(match command {
        "F_DUPFD" | "F_DUPFD_CLOEXEC" => Call::Dup { fd, min: a.int(2)? as i32, cloexec: command.ends_with("CLOEXEC") },
        "F_SETFL" => Call::SetFlags { fd, flags: open_words(a, &a.words(2)) },
        "F_SETFD" => Call::Fcntl { fd, cmd: FcntlCmd::SetFd, arg: i64::from(a.has(2, "FD_CLOEXEC")) },
        _ => super::mac::fcntl(a, fd, command)?.unwrap_or_else(|| other_fcntl(a, fd, command)),
    })
}

fn other_fcntl(a: &mut Args<'_>, fd: Fd, command: &str) -> Call {
    let cmd = FcntlCmd::from_name(command).unwrap_or_else(|| {
        a.unknown.push(command.to_string());
        FcntlCmd::Other
    });
    Call::Fcntl { fd, cmd, arg: a.i64(2).unwrap_or(0) }
}

/// `{l_type=F_WRLCK, l_whence=SEEK_SET, l_start=0, l_len=0}`
fn record_lock(a: &Args<'_>, fd: Fd, cmd: RecordLock) -> Result<Call, Bad> {
    let lock = a.get(2).filter(|lock| matches!(lock, Arg::Fields(_)));
    let lock = lock.ok_or(Bad::Argument { place: 2, wanted: "a lock" })?;
    let first_word = |name| field(lock, name).map(words_of).and_then(|words| words.first().copied()).unwrap_or("");
    let kind = match first_word("l_type") {
        "F_RDLCK" => LockKind::Shared,
        "F_UNLCK" => LockKind::Unlock,
        _ => LockKind::Exclusive,
    };
    let number = |name| field(lock, name).and_then(int_of).unwrap_or(0) as i64;
    let whence = Whence::from_name(first_word("l_whence")).unwrap_or(Whence::Set);
    Ok(Call::RangeLock { fd, cmd, kind, whence, start: number("l_start"), len: number("l_len") })
}

fn ioctl(a: &mut Args<'_>) -> Result<Call, Bad> {
    let fd = a.fd(0)?;
    let request = match a.get(1) {
        Some(Arg::Words { text, .. }) => text.split(" or ").next().unwrap_or(text).to_string(),
        _ => format!("{:#x}", a.u64(1)?),
    };
    let structure = |name| a.get(2).map(after).and_then(|value| field(value, name)).and_then(int_of).unwrap_or(0);
    Ok(match request.as_str() {
        "FICLONE" | "BTRFS_IOC_CLONE" => {
            Call::CloneRange { from: a.fd(2)?, to: fd, from_offset: 0, to_offset: 0, len: 0 }
        }
        "FICLONERANGE" | "BTRFS_IOC_CLONE_RANGE" => Call::CloneRange {
            from: Fd(structure("src_fd") as i32),
            to: fd,
            from_offset: structure("src_offset") as u64,
            to_offset: structure("dest_offset") as u64,
            len: structure("src_length") as u64,
        },
        // These set what exec does with a descriptor.
        "FIOCLEX" => Call::Fcntl { fd, cmd: FcntlCmd::SetFd, arg: 1 },
        "FIONCLEX" => Call::Fcntl { fd, cmd: FcntlCmd::SetFd, arg: 0 },
        _ => Call::Ioctl { fd, request: Word::from(&request) },
    })
}
