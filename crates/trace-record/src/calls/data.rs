//! Calls that move data, or change how it is kept, through descriptors.

use esker_trace_calls::words::*;
use esker_trace_calls::{Call, Object, Word};

use super::*;

/// Bytes of an element of an array of buffers.
const IOVEC: u16 = 16;

/// See [`super::all`].
pub(super) const CALLS: &[Spec] = &[
    row!(SYS_read, [], |c| Ok(Call::Read { fd: c.fd(0), len: c.arg(2), parts: 0 })),
    row!(SYS_write, [], |c| Ok(Call::Write { fd: c.fd(0), len: c.arg(2), parts: 0 })),
    row!(SYS_readv, [array(1, IOVEC, 2)], |c| {
        Ok(Call::Read { fd: c.fd(0), len: buffers(c, 1), parts: c.arg(2) as u32 })
    }),
    row!(SYS_writev, [array(1, IOVEC, 2)], |c| {
        Ok(Call::Write { fd: c.fd(0), len: buffers(c, 1), parts: c.arg(2) as u32 })
    }),
    // Memory goes into a pipe, as by a write.
    row!(SYS_vmsplice, [array(1, IOVEC, 2)], |c| {
        Ok(Call::Write { fd: c.fd(0), len: buffers(c, 1), parts: c.arg(2) as u32 })
    }),
    row!(SYS_pread64, [], |c| {
        let flags = ReadWriteFlags::empty();
        Ok(Call::Pread { fd: c.fd(0), offset: c.arg(3) as i64, len: c.arg(2), parts: 0, flags })
    }),
    row!(SYS_pwrite64, [], |c| {
        let flags = ReadWriteFlags::empty();
        Ok(Call::Pwrite { fd: c.fd(0), offset: c.arg(3) as i64, len: c.arg(2), parts: 0, flags })
    }),
    row!(SYS_preadv, [array(1, IOVEC, 2)], |c| positioned_read(c, 0)),
    row!(SYS_pwritev, [array(1, IOVEC, 2)], |c| positioned_write(c, 0)),
    row!(SYS_preadv2, [array(1, IOVEC, 2)], |c| positioned_read(c, c.arg(5))),
    row!(SYS_pwritev2, [array(1, IOVEC, 2)], |c| positioned_write(c, c.arg(5))),
    row!(SYS_lseek, [], |c| {
        let whence = whence(c.int(2)).ok_or(WarningKind::BadArguments)?;
        Ok(Call::Seek { fd: c.fd(0), offset: c.arg(1) as i64, whence })
    }),
    row!(SYS_ftruncate, [], |c| Ok(Call::Truncate { file: Object::Fd(c.fd(0)), len: c.arg(1) as i64 })),
    row!(SYS_fallocate, [], |c| {
        let flags = bits::falloc_flags(c.arg(1));
        Ok(Call::Allocate { fd: c.fd(0), flags, offset: c.arg(2) as i64, len: c.arg(3) as i64 })
    }),
    row!(SYS_fadvise64, [], |c| {
        let advice = advice(c.int(3)).ok_or(WarningKind::BadArguments)?;
        Ok(Call::Advise { fd: c.fd(0), offset: c.arg(1) as i64, len: c.arg(2) as i64, advice })
    }),
    row!(SYS_readahead, [], |c| Ok(Call::ReadAhead { fd: c.fd(0), offset: c.arg(1) as i64, len: c.arg(2) })),
    row!(SYS_fsync, [], |c| Ok(Call::Sync { fd: c.fd(0), kind: SyncKind::Full })),
    row!(SYS_fdatasync, [], |c| Ok(Call::Sync { fd: c.fd(0), kind: SyncKind::Data })),
    row!(SYS_syncfs, [], |c| Ok(Call::Sync { fd: c.fd(0), kind: SyncKind::FileSystem })),
    row!(SYS_sync_file_range, [], |c| {
        let flags = bits::sync_range_flags(c.arg(3));
        Ok(Call::SyncRange { fd: c.fd(0), offset: c.arg(1) as i64, len: c.arg(2) as i64, flags })
    }),
    row!(SYS_sync, [], |_| Ok(Call::SyncAll {})),
    row!(SYS_sendfile, [bytes(2, 8)], |c| {
        Ok(Call::SendFile { to: c.fd(0), from: c.fd(1), offset: offset(c, 2)?, len: c.arg(3) })
    }),
    row!(SYS_copy_file_range, [bytes(1, 8), bytes(3, 8)], |c| {
        let (from_offset, to_offset) = (offset(c, 1)?, offset(c, 3)?);
        Ok(Call::CopyRange { from: c.fd(0), from_offset, to: c.fd(2), to_offset, len: c.arg(4) })
    }),
    row!(SYS_splice, [bytes(1, 8), bytes(3, 8)], |c| {
        let (from_offset, to_offset) = (offset(c, 1)?, offset(c, 3)?);
        Ok(Call::Splice { from: c.fd(0), from_offset, to: c.fd(2), to_offset, len: c.arg(4) })
    }),
    row!(SYS_tee, [], |c| Ok(Call::Tee { from: c.fd(0), to: c.fd(1), len: c.arg(2) })),
    row!(SYS_getdents, [], |c| Ok(Call::ReadDir { fd: c.fd(0), len: c.arg(2) })),
    row!(SYS_getdents64, [], |c| Ok(Call::ReadDir { fd: c.fd(0), len: c.arg(2) })),
    row!(SYS_flock, [], flock),
    row!(SYS_ioctl, [bytes(2, 32)], ioctl),
];

/// Bytes of all buffers of an array; where not all of it was read, what the call moved.
fn buffers(c: &Raw<'_>, array: usize) -> u64 {
    let count = c.arg(array + 1);
    let moved = c.result.unwrap_or(0).max(0) as u64;
    let Some(bytes) = c.bytes(array).filter(|bytes| bytes.len() as u64 >= count.saturating_mul(16)) else {
        return moved;
    };
    bytes.chunks_exact(16).filter_map(|buffer| u64_at(buffer, 8)).fold(0, u64::saturating_add)
}

/// The kernel takes an offset in two halves, of which the lower has all bits here.
fn positioned_read(c: &Raw<'_>, flags: u64) -> Decoded {
    let flags = bits::read_write_flags(flags);
    Ok(Call::Pread { fd: c.fd(0), offset: c.arg(3) as i64, len: buffers(c, 1), parts: c.arg(2) as u32, flags })
}

fn positioned_write(c: &Raw<'_>, flags: u64) -> Decoded {
    let flags = bits::read_write_flags(flags);
    Ok(Call::Pwrite { fd: c.fd(0), offset: c.arg(3) as i64, len: buffers(c, 1), parts: c.arg(2) as u32, flags })
}

/// The number that a pointer leads to, if it leads anywhere.
fn offset(c: &Raw<'_>, arg: usize) -> Result<Option<i64>, WarningKind> {
    if c.arg(arg) == 0 {
        return Ok(None);
    }
    c.bytes(arg).and_then(|bytes| i64_at(bytes, 0)).map(Some).ok_or(WarningKind::BadArguments)
}

pub(super) fn whence(number: i32) -> Option<Whence> {
    Some(match number {
        libc::SEEK_SET => Whence::Set,
        libc::SEEK_CUR => Whence::Current,
        libc::SEEK_END => Whence::End,
        libc::SEEK_DATA => Whence::Data,
        libc::SEEK_HOLE => Whence::Hole,
        _ => return None,
    })
}

fn advice(number: i32) -> Option<Advice> {
    Some(match number {
        libc::POSIX_FADV_NORMAL => Advice::Normal,
        libc::POSIX_FADV_RANDOM => Advice::Random,
        libc::POSIX_FADV_SEQUENTIAL => Advice::Sequential,
        libc::POSIX_FADV_WILLNEED => Advice::WillNeed,
        libc::POSIX_FADV_DONTNEED => Advice::DontNeed,
        libc::POSIX_FADV_NOREUSE => Advice::NoReuse,
        _ => return None,
    })
}

fn flock(c: &Raw<'_>) -> Decoded {
    let kind = match c.int(1) & !libc::LOCK_NB {
        libc::LOCK_SH => LockKind::Shared,
        libc::LOCK_EX => LockKind::Exclusive,
        libc::LOCK_UN => LockKind::Unlock,
        _ => return Err(WarningKind::BadArguments),
    };
    Ok(Call::Flock { fd: c.fd(0), kind, wait: c.int(1) & libc::LOCK_NB == 0 })
}

/// Requests to drivers and file systems that programs use often; others are known by their numbers.
const REQUESTS: &[(u64, &str)] = &[
    (libc::TCGETS, "TCGETS"),
    (libc::TIOCGWINSZ, "TIOCGWINSZ"),
    (libc::TIOCGPGRP, "TIOCGPGRP"),
    (libc::FIONREAD, "FIONREAD"),
    (libc::FIONBIO, "FIONBIO"),
    (libc::FIOCLEX, "FIOCLEX"),
    (libc::FIONCLEX, "FIONCLEX"),
    (0x8008_1272, "BLKGETSIZE64"),
    (libc::FS_IOC_GETFLAGS, "FS_IOC_GETFLAGS"),
    (libc::FS_IOC_SETFLAGS, "FS_IOC_SETFLAGS"),
    (0xc020_660b, "FS_IOC_FIEMAP"),
    (0xc018_9436, "FIDEDUPERANGE"),
    (0x8010_5801, "FS_IOC_FSGETXATTR"),
];
const FICLONE: u64 = 0x4004_9409;
const FICLONERANGE: u64 = 0x4020_940d;

fn ioctl(c: &Raw<'_>) -> Decoded {
    let request = c.arg(1) & 0xffff_ffff;
    match request {
        FICLONE => Ok(Call::CloneRange { from: c.fd(2), to: c.fd(0), from_offset: 0, to_offset: 0, len: 0 }),
        FICLONERANGE => {
            let range = c.bytes(2).ok_or(WarningKind::BadArguments)?;
            let word = |at| u64_at(range, at).ok_or(WarningKind::BadArguments);
            let (from, from_offset, len, to_offset) = (Fd(word(0)? as i32), word(8)?, word(16)?, word(24)?);
            Ok(Call::CloneRange { from, to: c.fd(0), from_offset, to_offset, len })
        }
        _ => {
            let known = REQUESTS.iter().find(|(number, _)| *number == request);
            let name = known.map_or_else(|| format!("{request:#x}"), |(_, name)| (*name).to_string());
            Ok(Call::Ioctl { fd: c.fd(0), request: Word::from(&name) })
        }
    }
}
