//! `fcntl` locks of a process and of an open description, and `flock`.

use esker_base::{ByteRange, Errno};
use esker_vfs::{Lock, LockCall, LockKind};

use crate::bytes::Whence;
use crate::file::{Fd, File, description};
use crate::process::Process;

/// Whom a lock of bytes belongs to.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum LockOwner {
    /// The process (`F_SETLK`): it ends when the process closes any descriptor of the file.
    Process,
    /// The open description (`F_OFD_SETLK`): it ends with the last descriptor that shares it.
    Description,
}

/// `struct flock` of `fcntl(2)`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LockRequest {
    /// What is done.
    pub call: LockCall,
    /// Kind.
    pub kind: LockKind,
    /// Owner.
    pub owner: LockOwner,
    /// What `start` counts from: the beginning, the offset, or the end.
    pub whence: Whence,
    /// First byte.
    pub start: i64,
    /// Bytes: 0 for all that follow; negative for those before `start`.
    pub len: i64,
}

/// Locks.
impl Process {
    /// Takes, tests or ends a lock of bytes. A test answers the lock that is in the way.
    ///
    /// # Errors
    /// `EBADF`, also if the descriptor is not opened for what the lock guards; `EAGAIN`; `EDEADLK` for a wait of a
    /// process that could never end; `EINVAL`, `EOVERFLOW` for ranges that are none.
    pub async fn lock(&self, fd: Fd, request: LockRequest) -> Result<Option<Lock>, Errno> {
        let file = self.file(fd)?;
        let range = self.range(&file, request).await?;
        if request.call != LockCall::Test {
            match request.kind {
                LockKind::Shared => file.readable()?,
                LockKind::Exclusive => file.writable()?,
                LockKind::Unlock => {}
            }
        }
        let of_process = request.owner == LockOwner::Process;
        let owner = if of_process { u64::from(self.pid()) } else { description(file.id) };
        let lock = Lock { call: request.call, kind: request.kind, range, owner, pid: self.pid() };
        let world = &self.0.world.0;
        if world.files.about().can.locks {
            return world.files.lock(self.call(), file.ino(), lock).await;
        }
        let answer = world.locks.lock(file.ino(), lock, of_process).await?;
        // Another thread may have closed the descriptor while this one waited: then nothing would end the lock.
        let is_open = self.place(fd).is_ok_and(|now| now.id == file.id);
        if !is_open && of_process && lock.call == LockCall::Wait {
            world.locks.release(file.ino(), owner);
            return Err(Errno::EBADF);
        }
        Ok(answer)
    }

    async fn range(&self, file: &File, request: LockRequest) -> Result<ByteRange, Errno> {
        const OFFSET_MAX: i64 = i64::MAX;
        let base = match request.whence {
            Whence::Set => 0,
            Whence::Current => file.offset.get(),
            Whence::End => self.0.world.0.files.attr(self.call(), file.ino()).await?.size,
            Whence::Data | Whence::Hole => return Err(Errno::EINVAL),
        };
        let base = i64::try_from(base).map_err(|_| Errno::EOVERFLOW)?;
        let start = base.checked_add(request.start).ok_or(Errno::EOVERFLOW)?;
        let (first, last) = match request.len {
            0 => (start, OFFSET_MAX),
            len if len > 0 => (start, start.checked_add(len - 1).ok_or(Errno::EOVERFLOW)?),
            len => (start.checked_add(len).ok_or(Errno::EINVAL)?, start - 1),
        };
        if start < 0 || first < 0 {
            return Err(Errno::EINVAL);
        }
        ByteRange::new(first as u64, (last - first) as u64 + 1).ok_or(Errno::EOVERFLOW)
    }

    /// `flock`. A lock of another kind that the description holds ends first, also if the new one is not to be had.
    ///
    /// # Errors
    /// `EBADF`, `EAGAIN`; `EINVAL` for a test.
    pub async fn flock(&self, fd: Fd, kind: LockKind, call: LockCall) -> Result<(), Errno> {
        let file = self.file(fd)?;
        if call == LockCall::Test {
            return Err(Errno::EINVAL);
        }
        self.0.world.0.locks.flock(file.ino(), file.id, kind, call).await
    }
}
