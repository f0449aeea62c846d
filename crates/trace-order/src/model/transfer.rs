//! Calls that move bytes or offsets, or change sizes.

use esker_base::Errno;
use esker_trace_calls::action::ThreadId;
use esker_trace_calls::call::{Fd, Object};
use esker_trace_calls::words::{FallocFlags, FileKind, OpenFlags, Whence};

use super::World;
use super::tree::InodeId;
use super::world::{Answer, Description};

/// Where a transfer begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TransferOffset {
    /// At the description's offset, which moves.
    Current,
    /// At a given one.
    At(u64),
}

impl TransferOffset {
    /// Of a call with an offset of its own; -1 is the description's.
    pub(super) fn of(offset: i64) -> Answer<TransferOffset> {
        match offset {
            -1 => Ok(TransferOffset::Current),
            _ => u64::try_from(offset).map(TransferOffset::At).map_err(|_| Errno::EINVAL),
        }
    }

    /// Of a call that may have an offset of its own.
    pub(super) fn optional(offset: Option<i64>) -> Answer<TransferOffset> {
        offset.map_or(Ok(TransferOffset::Current), |offset| {
            u64::try_from(offset).map(TransferOffset::At).map_err(|_| Errno::EINVAL)
        })
    }
}

fn is_seekable(kind: FileKind) -> bool {
    !matches!(kind, FileKind::Fifo | FileKind::Socket)
}

impl World {
    fn kind(&self, id: InodeId) -> FileKind {
        self.tree.inode(id).kind
    }

    /// A descriptor that may be read, or written.
    fn fd_for(&mut self, thread: ThreadId, fd: Fd, access: OpenFlags, place: TransferOffset) -> Answer<Description> {
        let description = self.fd_for_io(thread, fd)?;
        if place != TransferOffset::Current && !is_seekable(self.kind(description.inode)) {
            return Err(Errno::ESPIPE);
        }
        if description.flags.contains(access) { Ok(description) } else { Err(Errno::EBADF) }
    }

    pub(super) fn read(&mut self, thread: ThreadId, fd: Fd, place: TransferOffset, len: u64) -> Answer<i64> {
        let description = self.fd_for(thread, fd, OpenFlags::READ, place)?;
        let inode = self.tree.inode(description.inode);
        match inode.kind {
            FileKind::Directory => return Err(Errno::EISDIR),
            FileKind::Regular => (),
            _ => return Ok(self.seen.unwrap_or(len as i64)),
        }
        let from = if let TransferOffset::At(offset) = place { offset } else { description.offset };
        let count = len.min(inode.size.saturating_sub(from));
        let count = self.seen.map_or(count, |seen| seen.max(0) as u64);
        self.reach(description.inode, from, count);
        self.advance(thread, fd, place, from + count);
        Ok(count as i64)
    }

    pub(super) fn write(&mut self, thread: ThreadId, fd: Fd, place: TransferOffset, len: u64) -> Answer<i64> {
        let description = self.fd_for(thread, fd, OpenFlags::WRITE, place)?;
        let inode = self.tree.inode(description.inode);
        let count = self.seen.map_or(len, |seen| seen.max(0) as u64);
        if inode.kind != FileKind::Regular {
            return Ok(count as i64);
        }
        let from = match place {
            _ if description.flags.contains(OpenFlags::O_APPEND) => inode.size,
            TransferOffset::At(offset) => offset,
            TransferOffset::Current => description.offset,
        };
        if !self.dry && count > 0 {
            let inode = self.tree.inode_mut(description.inode);
            inode.size = inode.size.max(from + count);
            inode.implied = None;
            self.advance(thread, fd, place, from + count);
        }
        Ok(count as i64)
    }

    /// Bytes that were read must have been there.
    fn reach(&mut self, id: InodeId, from: u64, count: u64) {
        let end = from + count;
        if !self.dry && count > 0 && end > self.tree.inode(id).size {
            self.tree.inode_mut(id).size = end;
            self.grown.push(id);
        }
    }

    fn advance(&mut self, thread: ThreadId, fd: Fd, place: TransferOffset, to: u64) {
        if let Some(descriptor) = self.peek(thread, fd.0).filter(|_| place == TransferOffset::Current && !self.dry) {
            self.descriptions[descriptor.description].offset = to;
        }
    }

    pub(super) fn seek(&mut self, thread: ThreadId, fd: Fd, offset: i64, whence: Whence) -> Answer<i64> {
        let description = self.fd_for_io(thread, fd)?;
        let inode = self.tree.inode(description.inode);
        if !is_seekable(inode.kind) {
            return Err(Errno::ESPIPE);
        }
        let origin = match whence {
            Whence::Set => 0,
            Whence::Current => description.offset as i64,
            Whence::End => inode.size as i64,
            Whence::Data | Whence::Hole if offset < 0 || offset as u64 >= inode.size => return Err(Errno::ENXIO),
            Whence::Data | Whence::Hole => 0,
        };
        let told =
            self.seen.filter(|_| inode.kind != FileKind::Regular || matches!(whence, Whence::Data | Whence::Hole));
        let to = told.or(origin.checked_add(offset)).filter(|to| *to >= 0).ok_or(Errno::EINVAL)?;
        self.advance(thread, fd, TransferOffset::Current, to as u64);
        Ok(to)
    }

    pub(super) fn truncate(&mut self, thread: ThreadId, object: &Object, len: i64) -> Answer<i64> {
        let len = u64::try_from(len).map_err(|_| Errno::EINVAL)?;
        let id = match object {
            Object::Fd(fd) => {
                let description = self.fd_for_io(thread, *fd)?;
                let regular = self.kind(description.inode) == FileKind::Regular;
                if !regular || !description.flags.contains(OpenFlags::WRITE) {
                    return Err(Errno::EINVAL);
                }
                description.inode
            }
            Object::Path { .. } => self.object(thread, object)?,
        };
        match self.kind(id) {
            FileKind::Directory => return Err(Errno::EISDIR),
            FileKind::Regular => (),
            _ => return Err(Errno::EINVAL),
        }
        if !self.dry {
            let inode = self.tree.inode_mut(id);
            (inode.size, inode.implied) = (len, None);
        }
        Ok(0)
    }

    pub(super) fn allocate(
        &mut self,
        thread: ThreadId,
        fd: Fd,
        flags: FallocFlags,
        offset: i64,
        len: i64,
    ) -> Answer<i64> {
        let description = self.fd_for_io(thread, fd)?;
        if offset < 0 || len <= 0 {
            return Err(Errno::EINVAL);
        }
        if !description.flags.contains(OpenFlags::WRITE) {
            return Err(Errno::EBADF);
        }
        match self.kind(description.inode) {
            FileKind::Fifo | FileKind::Socket => return Err(Errno::ESPIPE),
            FileKind::Directory => return Err(Errno::EISDIR),
            FileKind::Regular | FileKind::BlockDevice => (),
            _ => return Err(Errno::ENODEV),
        }
        if !self.dry {
            let inode = self.tree.inode_mut(description.inode);
            let (offset, len) = (offset as u64, len as u64);
            inode.size = match () {
                () if flags.contains(FallocFlags::FALLOC_FL_COLLAPSE_RANGE) => inode.size.saturating_sub(len),
                () if flags.contains(FallocFlags::FALLOC_FL_INSERT_RANGE) => inode.size + len,
                () if flags.contains(FallocFlags::FALLOC_FL_KEEP_SIZE) => inode.size,
                () => inode.size.max(offset.saturating_add(len)),
            };
        }
        Ok(0)
    }

    /// Copies between descriptors inside the kernel: a read and a write of the same bytes.
    pub(super) fn copy(
        &mut self,
        thread: ThreadId,
        from: (Fd, TransferOffset),
        to: (Fd, TransferOffset),
        len: u64,
    ) -> Answer<i64> {
        self.fd_for(thread, to.0, OpenFlags::WRITE, to.1)?;
        let source = self.fd_for(thread, from.0, OpenFlags::READ, from.1)?;
        if self.kind(source.inode) == FileKind::Directory {
            return Err(Errno::EINVAL);
        }
        let count = self.read(thread, from.0, from.1, len)?;
        self.write(thread, to.0, to.1, count as u64)
    }

    /// `FICLONE` and its like: `len` 0 is all that follows.
    pub(super) fn share(&mut self, thread: ThreadId, from: Fd, to: Fd, offsets: (u64, u64), len: u64) -> Answer<i64> {
        let source = self.fd_for(thread, from, OpenFlags::READ, TransferOffset::Current)?;
        let target = self.fd_for(thread, to, OpenFlags::WRITE, TransferOffset::Current)?;
        let left = self.tree.inode(source.inode).size.saturating_sub(offsets.0);
        let count = if len == 0 { left } else { len.min(left) };
        if !self.dry {
            let inode = self.tree.inode_mut(target.inode);
            inode.size = inode.size.max(offsets.1.saturating_add(count));
        }
        Ok(0)
    }

    pub(super) fn read_dir(&mut self, thread: ThreadId, fd: Fd) -> Answer<i64> {
        let description = self.fd_for_io(thread, fd)?;
        let inode = self.tree.inode(description.inode);
        if !inode.is_directory() {
            return Err(Errno::ENOTDIR);
        }
        if inode.is_dead() { Err(Errno::ENOENT) } else { Ok(self.seen.unwrap_or(0)) }
    }

    /// Writes back what is behind a descriptor.
    pub(super) fn sync(&mut self, thread: ThreadId, fd: Fd) -> Answer<i64> {
        let description = self.fd_for_io(thread, fd)?;
        match self.kind(description.inode) {
            FileKind::Fifo | FileKind::Socket | FileKind::CharDevice | FileKind::Other => Err(Errno::EINVAL),
            _ => Ok(0),
        }
    }
}
