//! Descriptors themselves: closing, doubling, flags, locks, pipes, and things that are no files.

use std::os::fd::AsFd;
use std::sync::Arc;

use esker_trace_calls::words::{CloseRangeFlags, FcntlCmd, FdSource, LockKind, OpenFlags, RecordLock};
use esker_trace_calls::{Call, Fd};
use esker_trace_order::compiled::SlotEffect;
use rustix::fs::{MemfdFlags, OFlags};
use rustix::io::{Errno, FdFlags};
use rustix::pipe::PipeFlags;

use super::slots::Handle;
use super::{CallExecutor, Fail, Nature, Reply, Skip, Turn, done, flags};

/// Times as much room as a pipe of the trace had. How many bytes it holds depends on how writes and reads fell on its
/// pages, which differs from run to run; a writer that waits where it did not may wait for ever.
const PIPE_ROOM: usize = 2;

impl CallExecutor<'_> {
    pub(super) fn fds(&mut self, turn: &Turn<'_>) -> Reply {
        match &turn.step.call {
            Call::Close { fd } => Ok(done(self.kernel.slots.close(*fd)?)),
            Call::CloseRange { flags, .. } => self.close_range(turn, *flags),
            Call::Dup { fd, .. } => self.dup(turn, *fd),
            Call::DupTo { fd, to, strict, .. } => self.dup_to(turn, *fd, *to, *strict),
            Call::Fcntl { fd, cmd, arg } => self.fcntl(*fd, *cmd, *arg),
            Call::SetFlags { fd, flags } => self.set_flags(*fd, *flags),
            Call::Flock { fd, kind, wait } => self.flock(turn, *fd, *kind, *wait),
            Call::RangeLock { fd, cmd, kind, .. } => self.range_lock(*fd, *cmd, *kind),
            Call::Pipe { flags, .. } => self.pipe(turn, *flags),
            Call::MakeFd { source, .. } => self.make(turn, *source),
            // What a driver would do is not known by its number; the descriptor was used.
            Call::Ioctl { fd, .. } => self.inside(*fd).and(Err(Fail::Skip(Skip::Unseen))),
            _ => Err(Fail::Skip(Skip::Outside)),
        }
    }

    /// Marking for exec changes nothing here; what is closed is known.
    fn close_range(&mut self, turn: &Turn<'_>, flags: CloseRangeFlags) -> Reply {
        if flags.contains(CloseRangeFlags::CLOSE_RANGE_CLOEXEC) {
            return Ok(0);
        }
        for effect in &turn.step.slots {
            if let SlotEffect::Closed(slot) = effect {
                self.kernel.slots.close(*slot)?;
            }
        }
        Ok(0)
    }

    fn dup(&mut self, turn: &Turn<'_>, fd: Fd) -> Reply {
        let copy = self.copy_of(&self.fd(fd)?)?;
        Ok(self.keep(turn, copy))
    }

    /// The same open file under one more descriptor.
    fn copy_of(&self, handle: &Arc<Handle>) -> Result<Arc<Handle>, Errno> {
        Ok(self.kernel.slots.handle(rustix::io::fcntl_dupfd_cloexec(&**handle, 0)?, handle.nature))
    }

    /// The descriptor that is replaced has a slot of its own, which is closed behind the call.
    fn dup_to(&mut self, turn: &Turn<'_>, fd: Fd, to: Fd, strict: bool) -> Reply {
        let handle = self.fd(fd)?;
        if fd == to {
            return if strict { Err(Errno::INVAL.into()) } else { Ok(0) };
        }
        let copy = self.copy_of(&handle)?;
        Ok(self.keep(turn, copy))
    }

    fn fcntl(&mut self, fd: Fd, cmd: FcntlCmd, arg: i64) -> Reply {
        let handle = self.fd(fd)?;
        match cmd {
            FcntlCmd::GetFd => Ok(rustix::io::fcntl_getfd(&*handle).map(|_| 0)?),
            // Every descriptor here is closed by exec; which of the trace's are is known without them.
            FcntlCmd::SetFd => Ok(done(rustix::io::fcntl_setfd(&*handle, FdFlags::CLOEXEC)?)),
            FcntlCmd::GetFl => Ok(rustix::fs::fcntl_getfl(&*handle).map(|_| 0)?),
            FcntlCmd::GetPipeSize if handle.nature == Nature::Pipe => {
                Ok(rustix::pipe::fcntl_getpipe_size(&*handle)? as i64)
            }
            FcntlCmd::SetPipeSize if handle.nature == Nature::Pipe => {
                Ok(self.make_pipe_hold(&*handle, arg.max(0) as usize)? as i64)
            }
            FcntlCmd::GetSeals => Ok(i64::from(rustix::fs::fcntl_get_seals(&*handle)?.bits())),
            FcntlCmd::AddSeals => {
                let seals = rustix::fs::SealFlags::from_bits_retain(arg as u32);
                Ok(done(rustix::fs::fcntl_add_seals(&*handle, seals)?))
            }
            FcntlCmd::GetPath => Ok(rustix::fs::readlink(crate::root::proc_path(&*handle), Vec::new()).map(|_| 0)?),
            _ => Err(Fail::Skip(Skip::Outside)),
        }
    }

    fn set_flags(&mut self, fd: Fd, flags: OpenFlags) -> Reply {
        let handle = self.inside(fd)?;
        let mut flags = flags::status(flags);
        if handle.nature == Nature::Pipe {
            // A replay waits where the trace was told to come again.
            flags.remove(OFlags::NONBLOCK);
        }
        Ok(done(rustix::fs::fcntl_setfl(&*handle, flags)?))
    }

    /// The order of calls says who has a lock when. Where it does not, a replay that waited could wait for ever: others
    /// may come to the lock in another order than they did.
    fn flock(&mut self, turn: &Turn<'_>, fd: Fd, kind: LockKind, wait: bool) -> Reply {
        let locked = rustix::fs::flock(&*self.inside(fd)?, flags::lock(kind));
        match locked {
            Err(Errno::WOULDBLOCK) if wait && turn.step.outcome.value().is_some() => Err(Fail::Skip(Skip::Contended)),
            other => Ok(done(other?)),
        }
    }

    /// All threads of a trace share a table of descriptors here, by which record locks are owned, so theirs never meet.
    fn range_lock(&mut self, fd: Fd, cmd: RecordLock, kind: LockKind) -> Reply {
        let handle = self.inside(fd)?;
        if matches!(cmd, RecordLock::Get | RecordLock::OfdGet) {
            return Ok(rustix::fs::fcntl_getfl(&*handle).map(|_| 0)?);
        }
        Ok(done(rustix::fs::fcntl_lock(&*handle, flags::lock(kind))?))
    }

    fn pipe(&mut self, turn: &Turn<'_>, flags: OpenFlags) -> Reply {
        let direct = if flags.contains(OpenFlags::O_DIRECT) { PipeFlags::DIRECT } else { PipeFlags::empty() };
        let (read, write) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC | direct)?;
        // Where the kernel gives no more room, writers may wait that did not.
        let _refused = rustix::pipe::fcntl_getpipe_size(&write).and_then(|size| self.make_pipe_hold(&write, size));
        for (slot, end) in Self::made(turn).zip([read, write]) {
            self.kernel.slots.put(slot, self.kernel.slots.handle(end, Nature::Pipe));
        }
        Ok(0)
    }

    /// Makes room for all that may be in a pipe of `size` bytes here, or else for what was there in the trace.
    fn make_pipe_hold(&self, pipe: impl AsFd, size: usize) -> Result<usize, Errno> {
        let room = PIPE_ROOM * size;
        rustix::pipe::fcntl_setpipe_size(&pipe, room + self.kernel.pipes.early)
            .or_else(|_| rustix::pipe::fcntl_setpipe_size(&pipe, room))
    }

    fn make(&mut self, turn: &Turn<'_>, source: FdSource) -> Reply {
        let handle = match source {
            FdSource::Memory => {
                let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
                self.kernel.slots.handle(rustix::fs::memfd_create(c"replay", flags)?, Nature::File)
            }
            FdSource::Notify => {
                let queue = rustix::fs::inotify::init(rustix::fs::inotify::CreateFlags::CLOEXEC)?;
                self.kernel.slots.handle(queue, Nature::Outside)
            }
            _ => return Err(Fail::Skip(Skip::Outside)),
        };
        Ok(self.keep(turn, handle))
    }
}
