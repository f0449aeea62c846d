//! Descriptors themselves: closing, doubling, flags, locks, pipes, and memory files.

use esker_base::Errno;
use esker_fs_posix::{LockOwner, LockRequest, OpenFlags as Ours, Whence};
use esker_trace_calls::words::{CloseRangeFlags, FcntlCmd, FdSource, LockKind, RecordLock};
use esker_trace_calls::{Call, Fd};
use esker_trace_order::compiled::SlotEffect;
use esker_vfs::LockCall;

use super::pipes::Flow;
use super::slots::{OpenFile, OpenSlot, What};
use super::{Fail, FilesExecutor, Reply, words};
use crate::answer::Skip;
use crate::kernel::Turn;

impl FilesExecutor {
    pub(super) async fn descriptors(&mut self, turn: &Turn<'_>) -> Reply {
        match &turn.step.call {
            Call::Close { fd } => Ok(self.files.slots.close(*fd).await.map(|()| 0)?),
            Call::CloseRange { flags, .. } => self.close_range(turn, *flags).await,
            Call::Dup { fd, .. } => {
                let copy = self.files.slots.get(*fd)?.dup()?;
                Ok(self.keep(turn, copy))
            }
            // The descriptor that is replaced has a slot of its own, which is closed behind the call.
            Call::DupTo { fd, to, strict, .. } => {
                let slot = self.files.slots.get(*fd)?;
                match fd == to {
                    true if *strict => Err(Errno::EINVAL.into()),
                    true => Ok(0),
                    false => Ok(self.keep(turn, slot.dup()?)),
                }
            }
            Call::Fcntl { fd, cmd, arg } => self.fcntl(*fd, *cmd, *arg),
            Call::SetFlags { fd, flags } => match &self.inside(*fd)?.what {
                What::File(file) => {
                    file.process().set_status_flags(file.fd(), words::status(*flags)).await?;
                    Ok(0)
                }
                // A replay waits where the trace was told to come again.
                What::Pipe(_) | What::Device(_) | What::Outside => Ok(0),
            },
            Call::Flock { fd, kind, wait } => self.flock(turn, *fd, *kind, *wait).await,
            Call::RangeLock { fd, cmd, kind, .. } => self.range_lock(*fd, *cmd, *kind).await,
            Call::Pipe { .. } => {
                let ends = Flow::new(self.files.pipes.early as u64).ends();
                for (slot, end) in Self::made(turn).zip(ends) {
                    self.files.slots.put(slot, std::rc::Rc::new(OpenSlot::of(What::Pipe(end))));
                }
                Ok(0)
            }
            Call::MakeFd { source: FdSource::Memory, .. } => {
                let shared = &self.files.shared;
                let fd = shared.memory.open("/", Ours::TMPFILE | Ours::RDWR, 0o600).await?;
                let file = OpenFile::new(&shared.rt, &shared.memory, fd);
                Ok(self.keep(turn, OpenSlot::of(What::File(file))))
            }
            Call::MakeFd { source: FdSource::Notify, .. } => Ok(self.keep(turn, OpenSlot::outside())),
            // What a driver would do is not known by its number; the descriptor was used.
            Call::Ioctl { fd, .. } => self.inside(*fd).and(Err(Fail::Skip(Skip::Unseen))),
            _ => Err(Fail::Skip(Skip::Outside)),
        }
    }

    /// Marking for exec changes nothing here; what is closed is known.
    async fn close_range(&mut self, turn: &Turn<'_>, flags: CloseRangeFlags) -> Reply {
        if flags.contains(CloseRangeFlags::CLOSE_RANGE_CLOEXEC) {
            return Ok(0);
        }
        for effect in &turn.step.slots {
            if let SlotEffect::Closed(slot) = effect {
                self.files.slots.close(*slot).await?;
            }
        }
        Ok(0)
    }

    fn fcntl(&mut self, fd: Fd, cmd: FcntlCmd, arg: i64) -> Reply {
        let slot = self.files.slots.get(fd)?;
        match (cmd, &slot.what) {
            // Which descriptors of the trace exec closes is known without these.
            (FcntlCmd::GetFd | FcntlCmd::SetFd | FcntlCmd::GetFl | FcntlCmd::GetPath, _) => Ok(0),
            (FcntlCmd::GetPipeSize, What::Pipe(end)) => Ok(end.room() as i64),
            (FcntlCmd::SetPipeSize, What::Pipe(end)) => {
                Ok(end.make_room(arg.max(0) as u64, self.files.pipes.early as u64) as i64)
            }
            (FcntlCmd::GetSeals | FcntlCmd::AddSeals, What::File(file)) => {
                if file.is_on(&self.files.shared.memory) {
                    Ok(0)
                } else {
                    Err(Errno::EINVAL.into())
                }
            }
            _ => Err(Fail::Skip(Skip::Outside)),
        }
    }

    /// The order of calls says which thread has a lock when. Where it does not, a replay that waited could wait for
    /// ever: others may come to the lock in another order than they did.
    async fn flock(&mut self, turn: &Turn<'_>, fd: Fd, kind: LockKind, wait: bool) -> Reply {
        let slot = self.inside(fd)?;
        let file = slot.file()?;
        match file.process().flock(file.fd(), words::lock(kind), LockCall::Try).await {
            Err(Errno::EAGAIN) if wait && turn.step.outcome.value().is_some() => Err(Fail::Skip(Skip::Contended)),
            other => Ok(other.map(|()| 0)?),
        }
    }

    /// All threads of a trace are one process here, by which record locks are owned, so theirs never meet.
    async fn range_lock(&mut self, fd: Fd, cmd: RecordLock, kind: LockKind) -> Reply {
        let slot = self.inside(fd)?;
        if matches!(cmd, RecordLock::Get | RecordLock::OfdGet) {
            return Ok(0);
        }
        let file = slot.file()?;
        let (owner, whence) = (LockOwner::Process, Whence::Set);
        let request = LockRequest { call: LockCall::Try, kind: words::lock(kind), owner, whence, start: 0, len: 0 };
        Ok(file.process().lock(file.fd(), request).await.map(|_| 0)?)
    }
}
