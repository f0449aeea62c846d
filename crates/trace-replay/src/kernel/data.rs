//! Reads, writes, and what concerns a file's data.

use std::num::NonZeroU64;

use esker_sys::WriteBack;
use esker_trace_calls::words::{SyncKind, Whence};
use esker_trace_calls::{Call, Errno as Traced, Fd, Object, Outcome};
use rustix::event::{PollFd, PollFlags};
use rustix::fs::{Mode, OFlags, SeekFrom};
use rustix::io::{Errno, ReadWriteFlags};

use super::slots::Handle;
use super::{CallExecutor, Fail, FsyncMeans, Nature, Reply, Skip, Turn, bytes, done, flags};

/// All that `sync_file_range` can do: everything is with the device, and nothing made the device keep it.
const WITH_DEVICE: WriteBack = WriteBack { wait_before: true, start: true, wait_after: true };

/// The most that one call transfers, as the kernel has it: a traced length above it stands for no more.
const TRANSFER_MAX: u64 = 0x7fff_f000;

/// A transfer at a place of a file, or at its descriptor's offset.
#[derive(Clone, Copy)]
struct Transfer {
    at: Option<u64>,
    len: u64,
    flags: ReadWriteFlags,
}

impl CallExecutor<'_> {
    pub(super) fn data(&mut self, turn: &Turn<'_>) -> Reply {
        let plain = ReadWriteFlags::empty();
        match turn.step.call {
            Call::Read { fd, len, .. } => self.read(turn, fd, Transfer { at: None, len, flags: plain }),
            Call::Write { fd, len, .. } => self.write(turn, fd, Transfer { at: None, len, flags: plain }),
            Call::Pread { fd, offset, len, flags, .. } => {
                let at = position(offset)?;
                self.read(turn, fd, Transfer { at, len, flags: flags::read_write(flags) })
            }
            Call::Pwrite { fd, offset, len, flags, .. } => {
                let at = position(offset)?;
                self.write(turn, fd, Transfer { at, len, flags: flags::read_write(flags) })
            }
            Call::Seek { fd, offset, whence } => self.seek(fd, offset, whence),
            Call::Truncate { ref file, len } => self.truncate(file, len),
            Call::SendFile { to, from, offset, len } => self.send_file(to, from, offset, len),
            Call::CopyRange { .. } | Call::Splice { .. } | Call::Tee { .. } | Call::CloneRange { .. } => {
                self.copy(turn)
            }
            _ => self.advise_or_sync(turn),
        }
    }

    fn advise_or_sync(&mut self, turn: &Turn<'_>) -> Reply {
        match turn.step.call {
            Call::Allocate { fd, flags, offset, len } => {
                let (offset, len) = (unsigned(offset)?, unsigned(len)?);
                Ok(done(rustix::fs::fallocate(&*self.inside(fd)?, flags::allocate(flags), offset, len)?))
            }
            Call::Advise { fd, offset, len, advice } => self.advise(fd, offset, len as u64, flags::advice(advice)),
            Call::ReadAhead { fd, offset, len } => self.advise(fd, offset, len, rustix::fs::Advice::WillNeed),
            Call::Sync { fd, kind } => self.sync(fd, kind),
            Call::SyncRange { fd, offset, len, flags } => {
                let (offset, len) = (unsigned(offset)?, unsigned(len)?);
                self.write_back(&*self.inside(fd)?, offset, len, flags::write_back(flags))
            }
            // The whole machine's disks are not the trace's business: its own file system is.
            _ => {
                let dir = rustix::fs::openat(self.kernel.root.dir(), c".", OFlags::RDONLY, Mode::empty())?;
                Ok(done(rustix::fs::syncfs(&dir)?))
            }
        }
    }

    fn read(&mut self, turn: &Turn<'_>, fd: Fd, transfer: Transfer) -> Reply {
        let handle = self.inside(fd)?;
        let expected = turn.step.outcome.value().map_or(0, |value| value.max(0) as u64);
        if handle.nature == Nature::Pipe {
            came_again(turn)?;
            return self.read_pipe(&handle, transfer.len, expected);
        }
        let len = transfer.len.min(TRANSFER_MAX);
        let mut sum = 0u64;
        loop {
            let buffer = self.buffers.room_to_read(len - sum);
            let piece = buffer.len() as u64;
            let read = match transfer.at {
                None if transfer.flags.is_empty() => self.watch.time(|| rustix::io::read(&*handle, buffer))?,
                Some(at) if transfer.flags.is_empty() => {
                    self.watch.time(|| rustix::io::pread(&*handle, buffer, at + sum))?
                }
                at => {
                    let mut parts = [std::io::IoSliceMut::new(buffer)];
                    rustix::io::preadv2(&*handle, &mut parts, at.map_or(u64::MAX, |at| at + sum), transfer.flags)?
                }
            };
            sum += read as u64;
            if (read as u64) < piece || sum >= len {
                return Ok(sum as i64);
            }
        }
    }

    /// Takes as many bytes as were traced, in however many pieces the writers' calls come.
    fn read_pipe(&mut self, handle: &Handle, len: u64, expected: u64) -> Reply {
        let mut sum = 0;
        loop {
            let buffer = self.buffers.room_to_read(if expected > 0 { expected - sum } else { len });
            let read = rustix::io::read(handle, buffer)? as u64;
            sum += read;
            if read == 0 || sum >= expected {
                return Ok(sum as i64);
            }
        }
    }

    fn write(&mut self, turn: &Turn<'_>, fd: Fd, transfer: Transfer) -> Reply {
        let handle = self.inside(fd)?;
        if handle.nature == Nature::Pipe {
            came_again(turn)?;
            nobody_reads(turn, &handle)?;
        }
        // A write that was cut short (a full pipe or disk) is repeated at the length that it had.
        let len = match turn.step.outcome.value() {
            Some(value) if handle.nature == Nature::Pipe => transfer.len.min(value.max(0) as u64),
            _ => transfer.len.min(TRANSFER_MAX),
        };
        let mut sum = 0u64;
        loop {
            let buffer = self.buffers.bytes_to_write(len - sum);
            let piece = buffer.len() as u64;
            let written = match transfer.at {
                None if transfer.flags.is_empty() => self.watch.time(|| rustix::io::write(&*handle, buffer))?,
                Some(at) if transfer.flags.is_empty() => {
                    self.watch.time(|| rustix::io::pwrite(&*handle, buffer, at + sum))?
                }
                at => {
                    let parts = [std::io::IoSlice::new(buffer)];
                    rustix::io::pwritev2(&*handle, &parts, at.map_or(u64::MAX, |at| at + sum), transfer.flags)?
                }
            };
            sum += written as u64;
            if (written as u64) < piece || sum >= len {
                return Ok(sum as i64);
            }
        }
    }

    fn seek(&mut self, fd: Fd, offset: i64, whence: Whence) -> Reply {
        let to = match whence {
            Whence::Set => SeekFrom::Start(unsigned(offset)?),
            Whence::Current => SeekFrom::Current(offset),
            Whence::End => SeekFrom::End(offset),
            Whence::Data => SeekFrom::Data(unsigned(offset)?),
            Whence::Hole => SeekFrom::Hole(unsigned(offset)?),
        };
        let handle = self.inside(fd)?;
        Ok(self.watch.time(|| rustix::fs::seek(&*handle, to))? as i64)
    }

    fn truncate(&mut self, file: &Object, len: i64) -> Reply {
        let len = unsigned(len)?;
        match file {
            Object::Fd(fd) => Ok(done(rustix::fs::ftruncate(&*self.inside(*fd)?, len)?)),
            Object::Path { at, .. } => {
                let file = self.open_at(at, OFlags::WRONLY | OFlags::NONBLOCK, Mode::empty())?;
                Ok(done(rustix::fs::ftruncate(&file, len)?))
            }
        }
    }

    pub(super) fn advise(&mut self, fd: Fd, offset: i64, len: u64, advice: rustix::fs::Advice) -> Reply {
        let handle = self.inside(fd)?;
        Ok(done(rustix::fs::fadvise(&*handle, unsigned(offset)?, NonZeroU64::new(len), advice)?))
    }

    pub(super) fn sync(&mut self, fd: Fd, kind: SyncKind) -> Reply {
        let handle = self.inside(fd)?;
        let means = self.kernel.options.fsync;
        match (kind, means) {
            (SyncKind::Full | SyncKind::Data, FsyncMeans::Device) => self.write_back(&handle, 0, 0, WITH_DEVICE),
            (SyncKind::Full | SyncKind::Device, _) => Ok(done(rustix::fs::fsync(&*handle)?)),
            // A barrier only orders: the nearest is to wait for the data.
            (SyncKind::Data | SyncKind::Barrier, _) => Ok(done(rustix::fs::fdatasync(&*handle)?)),
            (SyncKind::FileSystem, _) => Ok(done(rustix::fs::syncfs(&*handle)?)),
        }
    }

    pub(super) fn write_back(&self, handle: &Handle, offset: u64, len: u64, what: WriteBack) -> Reply {
        let done = esker_sys::write_back(handle, offset, len, what);
        done.map(|()| 0).map_err(|e| Errno::from_io_error(&e).unwrap_or(Errno::IO).into())
    }

    fn send_file(&mut self, to: Fd, from: Fd, offset: Option<i64>, len: u64) -> Reply {
        let from = self.inside(from)?;
        let mut offset = offset.map(unsigned).transpose()?;
        let to = self.fd(to)?;
        if to.nature != Nature::Outside {
            return bytes(rustix::fs::sendfile(&*to, &*from, offset.as_mut(), len as usize)?);
        }
        // To a socket: what reaches the file system is the read.
        let buffer = self.buffers.room_to_read(len);
        match offset {
            Some(offset) => bytes(rustix::io::pread(&*from, buffer, offset)?),
            None => bytes(rustix::io::read(&*from, buffer)?),
        }
    }
}

/// A call that an empty or full pipe told to come again would wait here for what others do only later.
fn came_again(turn: &Turn<'_>) -> Result<(), Fail> {
    match turn.step.outcome {
        Outcome::Failed(Traced::EAGAIN) => Err(Fail::Skip(Skip::Circumstance)),
        _ => Ok(()),
    }
}

/// A write that failed because no reader was left waits until none is left: it may have waited for room in the trace,
/// and there is more here.
fn nobody_reads(turn: &Turn<'_>, handle: &Handle) -> Result<(), Errno> {
    if turn.step.outcome == Outcome::Failed(Traced::EPIPE) {
        let mut ends = [PollFd::new(handle, PollFlags::empty())];
        rustix::io::retry_on_intr(|| rustix::event::poll(&mut ends, None))?;
    }
    Ok(())
}

/// The place of a positioned transfer; -1 is the descriptor's offset.
fn position(offset: i64) -> Result<Option<u64>, Errno> {
    if offset == -1 { Ok(None) } else { unsigned(offset).map(Some) }
}

/// Negative offsets and lengths are refused as the kernel does.
pub(super) fn unsigned(value: i64) -> Result<u64, Errno> {
    u64::try_from(value).map_err(|_| Errno::INVAL)
}
