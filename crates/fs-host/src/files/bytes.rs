//! Bytes of files, their room, and what makes them durable.

use std::io::{IoSlice, IoSliceMut};
use std::os::fd::OwnedFd;
use std::sync::Arc;

use esker_base::{ByteRange, Errno};
use esker_block::{Buf, Step};
use esker_vfs::{Allocate, AllocateKind, Answer, At, Copying, FileType, Ino, Seek, Sync, Write, Written};
use rustix::fs::{self, FallocateFlags, OFlags, SeekFrom};
use rustix::io::{self, ReadWriteFlags};

use super::HostFs;
use super::inodes::{Use, stat};
use crate::words::errno;

/// Reads up to this length take memory without a look at the size of the file.
const READ_USUAL: usize = 1 << 20;

/// Most bytes that one call copies.
const COPY_MAX: u64 = 1 << 30;

/// Offsets of the kernel have a sign.
const OFFSET_MAX: u64 = i64::MAX.cast_unsigned();

impl HostFs {
    /// An open file, or the error for what is none.
    fn file(&self, ino: Ino, way: Use, other: Errno) -> Result<Arc<OwnedFd>, Errno> {
        let kind = self.inodes.borrow().kind(ino)?;
        match kind {
            FileType::File => self.inodes.borrow_mut().open_file(ino, way),
            FileType::Directory => Err(Errno::EISDIR),
            _ => Err(other),
        }
    }

    /// Reads what the kernel has at hand. None: the rest waits for a device.
    pub(super) fn read_at_once(&self, ino: Ino, at: u64, out: &mut [u8]) -> Result<Option<usize>, Errno> {
        let file = self.file(ino, Use::Read, Errno::EINVAL)?;
        self.read_cached(&file, at, out)
    }

    fn read_cached(&self, file: &OwnedFd, at: u64, out: &mut [u8]) -> Result<Option<usize>, Errno> {
        if out.is_empty() || at > OFFSET_MAX {
            return Ok(Some(0));
        }
        if self.is_memory {
            return fill(file, at, out).map(Some);
        }
        let found = io::preadv2(file, &mut [IoSliceMut::new(out)], at, ReadWriteFlags::NOWAIT);
        match found {
            Ok(read) if read == out.len() || at + read as u64 >= stat(file)?.stx_size => Ok(Some(read)),
            Ok(_) | Err(io::Errno::AGAIN | io::Errno::OPNOTSUPP) => Ok(None),
            Err(error) => Err(errno(error)),
        }
    }

    pub(super) fn begin_read(&self, ino: Ino, at: u64, len: usize) -> Result<Answer<Buf>, Errno> {
        let file = self.file(ino, Use::Read, Errno::EINVAL)?;
        let left = if len > READ_USUAL { stat(&*file)?.stx_size.saturating_sub(at) } else { u64::MAX };
        let len = usize::try_from(left).map_or(len, |left| left.min(len));
        let mut buf = Buf::unique(&self.pool, len);
        let Some(out) = buf.bytes_mut() else { return Err(Errno::EIO) };
        if let Some(read) = self.read_cached(&file, at, out)? {
            return Ok(Step::Now(Ok(shortened(buf, read))));
        }
        Ok(self.waiting(move || {
            let read = fill(&file, at, buf.bytes_mut().ok_or(Errno::EIO)?)?;
            Ok(shortened(buf, read))
        }))
    }

    pub(super) fn begin_write(&self, ino: Ino, at: At, data: Buf, how: Write) -> Result<Answer<Written>, Errno> {
        let file = self.file(ino, Use::Change, Errno::EINVAL)?;
        let start = match at {
            At::Offset(start) => start,
            At::End => stat(&*file)?.stx_size,
        };
        if data.is_empty() {
            return Ok(Step::Now(Ok(Written { bytes: 0, end: start })));
        }
        if start >= OFFSET_MAX {
            return Err(Errno::EFBIG);
        }
        if how.kill_privileges {
            self.kill(ino)?;
        }
        let flags = if how.durable { ReadWriteFlags::DSYNC } else { ReadWriteFlags::empty() };
        if at == At::End {
            // The offset behind what is appended is that of an open file of its own.
            let own = self.inodes.borrow().reopen(ino, OFlags::WRONLY | OFlags::APPEND).map_err(errno)?;
            return Ok(self.changing([ino; 2], move || {
                let bytes = put(&own, None, &data, flags)?;
                Ok(Written { bytes, end: fs::tell(&own).map_err(errno)? })
            }));
        }
        Ok(self.changing([ino; 2], move || {
            let bytes = put(&file, Some(start), &data, flags)?;
            Ok(Written { bytes, end: start + bytes })
        }))
    }

    pub(super) fn begin_allocation(&self, ino: Ino, range: ByteRange, how: Allocate) -> Result<Answer<()>, Errno> {
        if range.is_empty() {
            return Err(Errno::EINVAL);
        }
        let file = self.file(ino, Use::Change, Errno::ENODEV)?;
        if range.end() > OFFSET_MAX {
            return Err(Errno::EFBIG);
        }
        let kind = match how.kind {
            AllocateKind::Reserve => FallocateFlags::empty(),
            AllocateKind::Punch => FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE,
            AllocateKind::Zero => FallocateFlags::ZERO_RANGE,
        };
        let size = if how.keep_size { FallocateFlags::KEEP_SIZE } else { FallocateFlags::empty() };
        Ok(self.changing([ino; 2], move || fs::fallocate(file, kind | size, range.start(), range.len()).map_err(errno)))
    }

    pub(super) fn begin_copy(
        &self,
        from: (Ino, u64),
        to: (Ino, u64),
        len: u64,
        how: Copying,
    ) -> Result<Answer<u64>, Errno> {
        let source = self.file(from.0, Use::Read, Errno::EINVAL)?;
        let target = self.file(to.0, Use::Change, Errno::EINVAL)?;
        if from.1 > OFFSET_MAX || to.1 > OFFSET_MAX {
            return Err(if to.1 > OFFSET_MAX { Errno::EFBIG } else { Errno::EINVAL });
        }
        if how == Copying::Any {
            return Ok(self.changing([from.0, to.0], move || copy(&source, from.1, &target, to.1, len)));
        }
        // Of ranges the kernel shares by a call that takes unsafe code: whole files alone are shared.
        let size = stat(&*source)?.stx_size;
        if (from.1, to.1) != (0, 0) || len < size {
            return Err(Errno::EOPNOTSUPP);
        }
        let files = [from.0, to.0];
        Ok(self.changing(files, move || fs::ioctl_ficlone(target, source).map(|()| size).map_err(errno)))
    }

    pub(super) fn seek_in(&self, ino: Ino, at: u64, what: Seek) -> Result<u64, Errno> {
        if self.inodes.borrow().kind(ino)? != FileType::File {
            return Err(Errno::EINVAL);
        }
        if at > OFFSET_MAX {
            return Err(Errno::ENXIO);
        }
        let to = match what {
            Seek::Data => SeekFrom::Data(at),
            Seek::Hole => SeekFrom::Hole(at),
        };
        // All other calls say their offset, so that of the open file is free for this.
        fs::seek(self.file(ino, Use::Read, Errno::EINVAL)?, to).map_err(errno)
    }

    pub(super) fn begin_sync(&self, what: Sync) -> Result<Answer<()>, Errno> {
        self.inodes.borrow().check()?;
        if self.is_lost.get() {
            return Err(Errno::EIO);
        }
        let (ino, data_alone) = match what {
            Sync::Data(ino) => (ino, true),
            Sync::File(ino) => (ino, false),
            Sync::All => (self.inodes.borrow().root(), false),
        };
        let kind = self.inodes.borrow().kind(ino)?;
        let synced = match (what, kind) {
            (Sync::Data(_) | Sync::File(_), FileType::File) => {
                let file = self.inodes.borrow_mut().open_file(ino, Use::Read)?;
                self.waiting(move || if data_alone { fs::fdatasync(file) } else { fs::fsync(file) }.map_err(errno))
            }
            (Sync::Data(_) | Sync::File(_), FileType::Directory) => {
                let dir = self.inodes.borrow().reopen(ino, OFlags::RDONLY | OFlags::DIRECTORY).map_err(errno)?;
                self.waiting(move || fs::fsync(dir).map_err(errno))
            }
            // Links, pipes, sockets and devices are not opened.
            (Sync::Data(_) | Sync::File(_) | Sync::All, _) => {
                let whole = self.whole.clone();
                self.waiting(move || fs::syncfs(whole).map_err(errno))
            }
        };
        let is_lost = self.is_lost.clone();
        Ok(synced.map(move |answer| {
            answer.map_err(|_| {
                is_lost.set(true);
                Errno::EIO
            })
        }))
    }
}

/// A buffer of which only the first bytes are filled.
fn shortened(mut buf: Buf, len: usize) -> Buf {
    if len == buf.len() { buf } else { buf.slice(0, len) }
}

/// Reads until all is read, or the file ends.
fn fill(file: &OwnedFd, at: u64, out: &mut [u8]) -> Result<usize, Errno> {
    let mut done = 0;
    while done < out.len() {
        match io::pread(file, &mut out[done..], at + done as u64) {
            Ok(0) => break,
            Ok(read) => done += read,
            Err(io::Errno::INTR) => {}
            Err(_) if done > 0 => break,
            Err(error) => return Err(errno(error)),
        }
    }
    Ok(done)
}

/// Writes from an offset on, or at the end of a file that appends. Answers how many bytes there was room for.
fn put(file: &OwnedFd, at: Option<u64>, data: &Buf, flags: ReadWriteFlags) -> Result<u64, Errno> {
    let (mut done, mut failed) = (0, None);
    data.for_each_piece(&mut |mut piece| {
        while !piece.is_empty() && failed.is_none() {
            // This number stands for the offset of the file.
            let place = at.map_or(u64::MAX, |at| at + done);
            match io::pwritev2(file, &[IoSlice::new(piece)], place, flags) {
                Ok(0) => failed = Some(Errno::EIO),
                Ok(written) => {
                    done += written as u64;
                    piece = &piece[written..];
                }
                Err(io::Errno::INTR) => {}
                Err(error) => failed = Some(errno(error)),
            }
        }
    });
    match failed {
        Some(error) if done == 0 => Err(error),
        _ => Ok(done),
    }
}

fn copy(source: &OwnedFd, from: u64, target: &OwnedFd, to: u64, len: u64) -> Result<u64, Errno> {
    let (mut from, mut to, mut done) = (from, to, 0);
    while done < len {
        let step = (len - done).min(COPY_MAX) as usize;
        match fs::copy_file_range(source, Some(&mut from), target, Some(&mut to), step) {
            Ok(0) => break,
            Ok(copied) => done += copied as u64,
            Err(io::Errno::INTR) => {}
            Err(_) if done > 0 => break,
            Err(error) => return Err(errno(error)),
        }
    }
    Ok(done)
}
