//! Arguments behind the head of a request.

use zerocopy::FromBytes;

use super::{Made, Malformed, Op, Renamed};
use crate::proto::abi::{
    AccessIn, BatchForgetIn, BmapIn, CopyIn, CreateIn, FSYNC_FDATASYNC, FallocateIn, ForgetIn, ForgetOne, FsyncIn,
    GetXattrIn, InitIn, InterruptIn, IoctlIn, LinkIn, LockIn, LseekIn, MkdirIn, MknodIn, OpenIn, ReadIn, Rename2In,
    RenameIn, SetAttrIn, SetXattrIn, StatxIn, WRITE_HEAD, WriteIn, init, opcode,
};

/// Nodes of a BATCH_FORGET, each with the pins that are given back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Forgets<'a>(&'a [u8]);

impl Iterator for Forgets<'_> {
    type Item = (u64, u64);

    fn next(&mut self) -> Option<(u64, u64)> {
        let (ForgetOne { node, nlookup }, rest) = take(self.0).ok()?;
        self.0 = rest;
        Some((node, nlookup))
    }
}

/// A structure in front of bytes, and the bytes behind it.
pub(super) fn take<T: FromBytes>(bytes: &[u8]) -> Result<(T, &[u8]), Malformed> {
    T::read_from_prefix(bytes).map_err(|_| Malformed::Short(bytes.len()))
}

fn only<T: FromBytes>(body: &[u8]) -> Result<T, Malformed> {
    Ok(take(body)?.0)
}

/// A structure and one name behind it.
fn named<T: FromBytes>(body: &[u8]) -> Result<(T, &[u8]), Malformed> {
    let (head, rest) = take(body)?;
    Ok((head, text(rest)?.0))
}

/// The text up to the first zero byte, and what is behind that.
fn text(bytes: &[u8]) -> Result<(&[u8], &[u8]), Malformed> {
    let end = bytes.iter().position(|byte| *byte == 0).ok_or(Malformed::Name)?;
    Ok((&bytes[..end], &bytes[end + 1..]))
}

/// So many first bytes.
fn first(bytes: &[u8], count: u32) -> Result<&[u8], Malformed> {
    bytes.get(..count as usize).ok_or(Malformed::Short(bytes.len()))
}

/// Reads the arguments of an operation. A request has `total` bytes, of which `body` may be without the payload of a
/// write.
pub(super) fn parse(number: u32, body: &[u8], total: usize) -> Result<Op<'_>, Malformed> {
    match number {
        opcode::INIT => init_op(body),
        opcode::LOOKUP => Ok(Op::Lookup(text(body)?.0)),
        opcode::FORGET => Ok(Op::Forget(only::<ForgetIn>(body)?.nlookup)),
        opcode::BATCH_FORGET => {
            let (BatchForgetIn { count, .. }, rest) = take(body)?;
            let bytes = count.checked_mul(size_of::<ForgetOne>() as u32).ok_or(Malformed::Short(total))?;
            Ok(Op::BatchForget(Forgets(first(rest, bytes)?)))
        }
        opcode::GETATTR => Ok(Op::GetAttr),
        opcode::STATX => Ok(Op::Statx(only::<StatxIn>(body)?)),
        opcode::SETATTR => Ok(Op::SetAttr(only::<SetAttrIn>(body)?)),
        opcode::STATFS => Ok(Op::StatFs),
        opcode::SYNCFS => Ok(Op::SyncFs),
        opcode::DESTROY => Ok(Op::Destroy),
        opcode::INTERRUPT => Ok(Op::Interrupt(only::<InterruptIn>(body)?.unique)),
        opcode::GETXATTR => {
            let (GetXattrIn { size, .. }, name) = named(body)?;
            Ok(Op::GetXattr(name, size))
        }
        opcode::LISTXATTR => Ok(Op::ListXattr(only::<GetXattrIn>(body)?.size)),
        opcode::SETXATTR => {
            let (SetXattrIn { size, flags }, rest) = take(body)?;
            let (name, rest) = text(rest)?;
            Ok(Op::SetXattr { name, value: first(rest, size)?, flags })
        }
        opcode::REMOVEXATTR => Ok(Op::RemoveXattr(text(body)?.0)),
        opcode::ACCESS => Ok(Op::Access(only::<AccessIn>(body)?.mask)),
        opcode::BMAP => only::<BmapIn>(body).map(|_| Op::Bmap),
        opcode::POLL => Ok(Op::Poll),
        opcode::IOCTL => {
            let (arguments, rest) = take::<IoctlIn>(body)?;
            Ok(Op::Ioctl(arguments, first(rest, arguments.in_size)?))
        }
        opcode::GETLK | opcode::SETLK | opcode::SETLKW => Ok(Op::Lock(only::<LockIn>(body)?)),
        _ => names(number, body).unwrap_or_else(|| bytes(number, body, total)),
    }
}

fn init_op(body: &[u8]) -> Result<Op<'_>, Malformed> {
    let (InitIn { major, minor, max_readahead, flags }, rest) = take(body)?;
    let low = u64::from(flags);
    let high = if low & init::INIT_EXT != 0 { u64::from(only::<u32>(rest)?) } else { 0 };
    Ok(Op::Init { major, minor, flags: low | high << 32, readahead: max_readahead })
}

/// Operations that change names; none for another.
fn names(number: u32, body: &[u8]) -> Option<Result<Op<'_>, Malformed>> {
    Some(match number {
        opcode::READLINK => Ok(Op::ReadLink),
        opcode::SYMLINK => text(body).and_then(|(name, rest)| Ok(Op::Symlink { name, target: text(rest)?.0 })),
        opcode::MKNOD => named(body).map(|(MknodIn { mode, rdev, .. }, name)| Op::Mknod(Made { name, mode }, rdev)),
        opcode::MKDIR => named(body).map(|(MkdirIn { mode, .. }, name)| Op::Mkdir(Made { name, mode })),
        opcode::UNLINK => text(body).map(|(name, _)| Op::Unlink(name)),
        opcode::RMDIR => text(body).map(|(name, _)| Op::Rmdir(name)),
        opcode::RENAME => take(body).and_then(|(RenameIn { new_dir }, rest)| renamed(new_dir, 0, rest)),
        opcode::RENAME2 => {
            take(body).and_then(|(Rename2In { new_dir, flags, .. }, rest)| renamed(new_dir, flags, rest))
        }
        opcode::LINK => named(body).map(|(LinkIn { old_node }, name)| Op::Link { node: old_node, name }),
        opcode::CREATE => {
            named(body).map(|(CreateIn { flags, mode, .. }, name)| Op::Create(Made { name, mode }, flags))
        }
        opcode::TMPFILE => only(body).map(|CreateIn { flags, mode, .. }| Op::TmpFile { mode, flags }),
        _ => return None,
    })
}

fn renamed(to_dir: u64, flags: u32, rest: &[u8]) -> Result<Op<'_>, Malformed> {
    let (from, rest) = text(rest)?;
    Ok(Op::Rename(Renamed { from, to_dir, to: text(rest)?.0, flags }))
}

/// Operations on bytes and entries.
fn bytes(number: u32, body: &[u8], total: usize) -> Result<Op<'_>, Malformed> {
    Ok(match number {
        opcode::OPEN => Op::Open(only::<OpenIn>(body)?.flags),
        opcode::RELEASE => Op::Release,
        opcode::FLUSH => Op::Flush,
        opcode::READ => {
            let ReadIn { offset, size, .. } = only(body)?;
            Op::Read { offset, size }
        }
        opcode::WRITE => {
            let WriteIn { offset, size, write_flags, flags, .. } = only(body)?;
            if total.checked_sub(WRITE_HEAD) != Some(size as usize) {
                return Err(Malformed::Short(total));
            }
            Op::Write { offset, size, how: write_flags, flags }
        }
        opcode::FSYNC => Op::Sync(only::<FsyncIn>(body)?.fsync_flags & FSYNC_FDATASYNC != 0),
        opcode::FSYNCDIR => Op::SyncDir,
        opcode::FALLOCATE => {
            let FallocateIn { offset, length, mode, .. } = only(body)?;
            Op::Allocate { offset, len: length, mode }
        }
        opcode::LSEEK => {
            let LseekIn { offset, whence, .. } = only(body)?;
            Op::Seek { offset, whence }
        }
        opcode::COPY_FILE_RANGE | opcode::COPY_FILE_RANGE_64 => {
            let CopyIn { offset_in, node_out, offset_out, length, .. } = only(body)?;
            let wide = number == opcode::COPY_FILE_RANGE_64;
            Op::Copy { from: offset_in, node: node_out, to: offset_out, len: length, wide }
        }
        opcode::OPENDIR => Op::OpenDir,
        opcode::READDIR | opcode::READDIRPLUS => {
            let ReadIn { offset, size, .. } = only(body)?;
            Op::ReadDir { from: offset, size, plus: number == opcode::READDIRPLUS }
        }
        opcode::RELEASEDIR => Op::ReleaseDir,
        _ => Op::Other,
    })
}
