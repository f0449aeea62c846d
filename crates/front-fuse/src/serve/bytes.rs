//! Bytes of files, and what makes them durable.

use esker_base::{ByteRange, Errno};
use esker_block::Buf;
use esker_rt::mem::{Parts, Slice};
use esker_vfs::{Allocate, AllocateKind, Answer, At, Copying, Seek, Sync, Write};

use super::attributes::refused;
use super::{CacheMode, PAGE, Session, done};
use crate::proto::abi::{
    CopyOut, KEEP_SIZE, LseekOut, PUNCH_HOLE, Statfs, WRITE_CACHE, WRITE_KILL_SUIDGID, WriteOut, ZERO_RANGE,
};
use crate::proto::{Op, Request, reply};

/// `open` flags of a write.
const O_DSYNC: u32 = 0o10_000;
const O_DIRECT: u32 = 0o40_000;

const SEEK_DATA: u32 = 3;
const SEEK_HOLE: u32 = 4;

/// Most bytes of files that are copied by one request.
const COPY_MAX: u64 = 64 << 20;

/// Most bytes of a name, as `statfs` tells it.
const NAME_MAX: u32 = esker_vfs::word::NAME_BYTES_MAX as u32;

impl Session {
    pub(super) fn read(&self, request: &Request<'_>, offset: u64, size: u32) -> Answer<Parts> {
        let (unique, pool) = (request.unique, self.pool.clone());
        let size = size.min(self.config.transfer_max) as usize;
        self.fs.read(self.call(request), self.ino(request), offset, size).map(move |answer| {
            let mut bytes = answer?;
            if bytes.is_described() {
                // Bytes that a simulated device only described are made here, for the first time.
                bytes = bytes.into_unique(&pool);
            }
            let head = Slice::heap(reply::head(unique, bytes.len()));
            Ok(std::iter::once(head).chain(bytes.into_parts()).collect())
        })
    }

    pub(super) fn write(
        &self,
        request: &Request<'_>,
        offset: u64,
        how: u32,
        flags: u32,
        payload: Parts,
    ) -> Answer<Parts> {
        // Pages that the kernel writes back were written by any file, and it synchronises them itself.
        let is_callers = how & WRITE_CACHE == 0;
        let is_direct = matches!(self.config.cache, CacheMode::None | CacheMode::Devices);
        let how = Write {
            durable: is_callers && is_direct && flags & O_DSYNC != 0,
            direct: is_callers && flags & O_DIRECT != 0,
            kill_privileges: how & WRITE_KILL_SUIDGID != 0,
        };
        let unique = request.unique;
        let written =
            self.fs.write(self.call(request), self.ino(request), At::Offset(offset), Buf::from_parts(payload), how);
        written.map(move |answer| {
            let size = answer?.bytes as u32;
            Ok(Slice::heap(reply::with(unique, &WriteOut { size, padding: 0 })).into())
        })
    }

    pub(super) fn sync(&self, request: &Request<'_>) -> Answer<Parts> {
        let ino = self.ino(request);
        let what = match request.op {
            Op::Sync(true) => Sync::Data(ino),
            Op::Sync(_) => Sync::File(ino),
            // The kernel sends no SYNCFS to plain mounts, so a synchronised directory stands for everything.
            _ => Sync::All,
        };
        let unique = request.unique;
        self.fs.sync(self.call(request), what).map(move |answer| answer.map(|()| done(unique)))
    }

    pub(super) fn allocate(&self, request: &Request<'_>, offset: u64, len: u64, mode: u32) -> Answer<Parts> {
        let kind = match mode & !KEEP_SIZE {
            0 => AllocateKind::Reserve,
            PUNCH_HOLE => AllocateKind::Punch,
            ZERO_RANGE => AllocateKind::Zero,
            _ => return refused(Errno::EOPNOTSUPP),
        };
        let Some(range) = ByteRange::new(offset, len) else { return refused(Errno::EFBIG) };
        let how = Allocate { kind, keep_size: mode & KEEP_SIZE != 0 };
        let unique = request.unique;
        let allocated = self.fs.allocate(self.call(request), self.ino(request), range, how);
        allocated.map(move |answer| answer.map(|()| done(unique)))
    }

    pub(super) fn seek(&self, request: &Request<'_>, offset: u64, whence: u32) -> Answer<Parts> {
        // Pages that wait to be written are data, which only the kernel knows: it then takes all for data.
        if !self.fs.about().can.holes || self.config.cache == CacheMode::WriteBack {
            return refused(Errno::ENOSYS);
        }
        let what = match whence {
            SEEK_DATA => Seek::Data,
            SEEK_HOLE => Seek::Hole,
            _ => return refused(Errno::EINVAL),
        };
        let unique = request.unique;
        self.fs
            .seek(self.call(request), self.ino(request), offset, what)
            .map(move |answer| Ok(Slice::heap(reply::with(unique, &LseekOut { offset: answer? })).into()))
    }

    pub(super) fn copy(
        &self,
        request: &Request<'_>,
        from: u64,
        (node, to): (u64, u64),
        len: u64,
        wide: bool,
    ) -> Answer<Parts> {
        // An answer of 32 bits holds no more. Files are copied in parts, so that other requests have their turn.
        let len = if wide { len } else { len.min(u64::from(u32::MAX / PAGE * PAGE)) };
        let len = if self.config.cache == CacheMode::Devices { len } else { len.min(COPY_MAX) };
        let target = (self.numbers.ino(node), to);
        let unique = request.unique;
        self.fs.copy(self.call(request), (self.ino(request), from), target, len, Copying::Any).map(move |answer| {
            let bytes = answer?;
            let message = match wide {
                true => reply::with(unique, &CopyOut { bytes }),
                false => reply::with(unique, &WriteOut { size: bytes as u32, padding: 0 }),
            };
            Ok(Slice::heap(message).into())
        })
    }

    pub(super) fn space(&self, request: &Request<'_>) -> Answer<Parts> {
        let (unique, block) = (request.unique, self.fs.about().block);
        self.fs.space(self.call(request)).map(move |answer| {
            let space = answer?;
            let free = space.bytes_free / u64::from(block);
            let told = Statfs {
                blocks: space.bytes / u64::from(block),
                bfree: free,
                bavail: free,
                files: space.inodes,
                ffree: space.inodes_free,
                bsize: block,
                frsize: block,
                namelen: NAME_MAX,
                ..Statfs::zero()
            };
            Ok(Slice::heap(reply::with(unique, &told)).into())
        })
    }
}
