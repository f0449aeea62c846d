//! Reads, writes, copies, and what concerns a file's data.

use std::rc::Rc;

use esker_base::Errno;
use esker_fs_posix::{Follow, Spot};
use esker_trace_calls::words::{ReadWriteFlags, SyncKind, SyncRangeFlags};
use esker_trace_calls::{Call, Fd, Object, Outcome};

use super::slots::{Harmless, OpenFile, OpenSlot, What};
use super::{Fail, FilesExecutor, Reply, words};
use crate::answer::Skip;
use crate::kernel::Turn;

/// The most that one call transfers, as the kernel has it: a traced length above it stands for no more.
const TRANSFER_MAX: u64 = 0x7fff_f000;
/// Bytes that one step of a copy moves.
const PIECE: u64 = 1 << 20;
const COPIED_BY_HAND: &str = "copies were made by reads and writes: the file system makes none, or two lie on two";
const NOT_RANGES: &str = "sync_file_range wrote nothing back: file systems of ours know no ranges";

/// Which way bytes go.
#[derive(Clone, Copy)]
enum Way {
    Read,
    Write,
}

/// A transfer at a place of a file, or at its descriptor's offset.
#[derive(Clone, Copy)]
struct Moved {
    at: Option<u64>,
    len: u64,
    flags: ReadWriteFlags,
}

impl FilesExecutor {
    pub(super) async fn data(&mut self, turn: &Turn<'_>) -> Reply {
        let plain = ReadWriteFlags::empty();
        match turn.step.call {
            Call::Read { fd, len, .. } => self.read(turn, fd, Moved { at: None, len, flags: plain }).await,
            Call::Write { fd, len, .. } => self.write(turn, fd, Moved { at: None, len, flags: plain }).await,
            Call::Pread { fd, offset, len, flags, .. } => {
                self.read(turn, fd, Moved { at: position(offset)?, len, flags }).await
            }
            Call::Pwrite { fd, offset, len, flags, .. } => {
                self.write(turn, fd, Moved { at: position(offset)?, len, flags }).await
            }
            Call::Seek { fd, offset, whence } => match &self.inside(fd)?.what {
                What::File(file) => Ok(file.process().seek(file.fd(), offset, words::whence(whence)).await? as i64),
                What::Device(_) => Ok(0),
                What::Pipe(_) | What::Outside => Err(Errno::ESPIPE.into()),
            },
            Call::Truncate { ref file, len } => self.truncate(file, len).await,
            Call::Allocate { fd, flags, offset, len } => {
                let slot = self.inside(fd)?;
                let file = slot.file()?;
                file.process().fallocate(file.fd(), words::allocate(flags), offset, len).await?;
                Ok(0)
            }
            _ => self.copy_or_sync(turn).await,
        }
    }

    async fn copy_or_sync(&mut self, turn: &Turn<'_>) -> Reply {
        match turn.step.call {
            Call::SendFile { to, from, offset, len } => self.send_file(turn, (from, offset), to, len).await,
            Call::CopyRange { from, from_offset, to, to_offset, len } => {
                self.copy_range(turn, (from, from_offset), (to, to_offset), len).await
            }
            Call::Splice { from, from_offset, to, to_offset, len } => {
                self.splice(turn, (from, from_offset), (to, to_offset), len).await
            }
            Call::Tee { from, to, len } => {
                let (from, to) = (self.inside(from)?, self.inside(to)?);
                let (What::Pipe(from), What::Pipe(to)) = (&from.what, &to.what) else {
                    return Err(Errno::EINVAL.into());
                };
                Ok(to.write(from.look(len).await).await? as i64)
            }
            Call::CloneRange { from, to, from_offset, to_offset, len } => {
                self.clone_range(turn, (from, from_offset), (to, to_offset), len).await
            }
            Call::Advise { fd, offset, len, .. } => self.advise(fd, offset, len),
            Call::ReadAhead { fd, .. } => self.advise(fd, 0, 0),
            Call::Sync { fd, kind } => self.sync(fd, kind).await,
            Call::SyncRange { fd, offset, len, flags } => {
                self.advise(fd, offset, len)?;
                // All that the call can do comes close to durable data; less of it has no counterpart.
                if flags == SyncRangeFlags::all() {
                    return self.sync(fd, SyncKind::Data).await;
                }
                self.files.tally.add(NOT_RANGES);
                Ok(0)
            }
            // The whole machine's disks are not the trace's business: its own file system is.
            _ => Ok(self.files.shared.process.sync().await.map(|()| 0)?),
        }
    }

    /// Advice is for the kernel's caches.
    pub(super) fn advise(&self, fd: Fd, offset: i64, len: i64) -> Reply {
        let slot = self.inside(fd)?;
        unsigned(offset)?;
        unsigned(len)?;
        if matches!(slot.what, What::Pipe(_)) { Err(Errno::ESPIPE.into()) } else { Ok(0) }
    }

    async fn read(&mut self, turn: &Turn<'_>, fd: Fd, moved: Moved) -> Reply {
        let slot = self.inside(fd)?;
        let read = match &slot.what {
            What::Pipe(end) => {
                came_again(turn)?;
                end.read(moved.len, traced(turn)).await?
            }
            What::Device(Harmless::Null) => 0,
            What::Device(Harmless::Endless | Harmless::Full) => moved.len.min(TRANSFER_MAX),
            What::File(file) => self.read_file(file, moved.at, moved.len).await?,
            What::Outside => return Err(Fail::Skip(Skip::Outside)),
        };
        self.moved = read;
        Ok(read as i64)
    }

    /// Reads up to the end, whatever is there.
    pub(super) async fn read_file(&mut self, file: &OpenFile, at: Option<u64>, len: u64) -> Result<u64, Errno> {
        self.transfer(file, Way::Read, at, len).await
    }

    /// Writes other bytes than the last time.
    pub(super) async fn write_file(&mut self, file: &OpenFile, at: Option<u64>, len: u64) -> Result<u64, Errno> {
        self.transfer(file, Way::Write, at, len).await
    }

    /// Moves bytes piece by piece, until a piece comes short.
    async fn transfer(&mut self, file: &OpenFile, way: Way, at: Option<u64>, len: u64) -> Result<u64, Errno> {
        let (process, fd, len) = (file.process(), file.fd(), len.min(TRANSFER_MAX));
        let mut sum = 0;
        loop {
            let place = at.map(|at| (at + sum) as i64);
            let (piece, moved) = match way {
                Way::Read => {
                    let buffer = self.buffers.room_to_read(len - sum);
                    let piece = buffer.len();
                    let read = match place {
                        None => process.read(fd, buffer).await?,
                        Some(at) => process.pread(fd, buffer, at).await?,
                    };
                    (piece, read)
                }
                Way::Write => {
                    let buffer = self.buffers.bytes_to_write(len - sum);
                    let written = match place {
                        None => process.write(fd, buffer).await?,
                        Some(at) => process.pwrite(fd, buffer, at).await?,
                    };
                    (buffer.len(), written)
                }
            };
            sum += moved as u64;
            if moved < piece || sum >= len {
                return Ok(sum);
            }
        }
    }

    async fn write(&mut self, turn: &Turn<'_>, fd: Fd, moved: Moved) -> Reply {
        let slot = self.inside(fd)?;
        let written = match &slot.what {
            What::Pipe(end) => {
                came_again(turn)?;
                // It may have waited for room in the trace, and there is more here.
                if turn.step.outcome == Outcome::Failed(Errno::EPIPE) {
                    end.until_no_reader().await;
                }
                // A write that was cut short by a full pipe is repeated at the length that it had.
                let len = turn.step.outcome.value().map_or(moved.len, |value| moved.len.min(value.max(0) as u64));
                end.write(len).await?
            }
            What::Device(Harmless::Full) => return Err(Errno::ENOSPC.into()),
            What::Device(Harmless::Null | Harmless::Endless) => moved.len.min(TRANSFER_MAX),
            What::File(file) => self.write_by_flags(file, moved).await?,
            What::Outside => return Err(Fail::Skip(Skip::Outside)),
        };
        self.moved = written;
        Ok(written as i64)
    }

    async fn write_by_flags(&mut self, file: &OpenFile, moved: Moved) -> Result<u64, Errno> {
        let (process, fd) = (file.process(), file.fd());
        let at = match moved.flags.contains(ReadWriteFlags::RWF_APPEND) {
            true => Some(process.stat(fd, Follow::Links).await?.attr.size),
            false => moved.at,
        };
        let written = self.write_file(file, at, moved.len).await?;
        if moved.flags.intersects(ReadWriteFlags::RWF_DSYNC | ReadWriteFlags::RWF_SYNC) {
            process.fdatasync(fd).await?;
        }
        Ok(written)
    }

    async fn truncate(&mut self, file: &Object, len: i64) -> Reply {
        let (place, _) = self.object(file)?;
        Ok(place.process.truncate(place.at, len).await.map(|()| 0)?)
    }

    pub(super) async fn sync(&self, fd: Fd, kind: SyncKind) -> Reply {
        self.sync_slot(&*self.inside(fd)?, kind).await
    }

    pub(super) async fn sync_slot(&self, slot: &OpenSlot, kind: SyncKind) -> Reply {
        let file = slot.file()?;
        let (process, fd) = (file.process(), file.fd());
        match kind {
            SyncKind::Full | SyncKind::Device => process.fsync(fd).await?,
            // A barrier only orders: the nearest is to wait for the data.
            SyncKind::Data | SyncKind::Barrier => process.fdatasync(fd).await?,
            SyncKind::FileSystem => process.syncfs(fd).await?,
        }
        Ok(0)
    }
}

/// Copies.
impl FilesExecutor {
    /// What reaches the file system is the read, and the write if the target is a file. As much as was sent: how much a
    /// socket or pipe took is its own business.
    async fn send_file(&mut self, turn: &Turn<'_>, from: (Fd, Option<i64>), to: Fd, len: u64) -> Reply {
        let (source, target) = (self.inside(from.0)?, self.files.slots.get(to)?);
        let at = from.1.map(unsigned).transpose()?;
        let len = as_traced(turn, len);
        let read = self.read_file(source.file()?, at, len).await?;
        self.moved = read;
        Ok(self.put_into(&target, None, read).await? as i64)
    }

    /// Writes so many bytes to whatever is open.
    async fn put_into(&mut self, target: &OpenSlot, at: Option<u64>, len: u64) -> Result<u64, Errno> {
        match &target.what {
            What::File(file) if len > 0 => self.write_file(file, at, len).await,
            What::Pipe(end) => end.write(len).await,
            What::File(_) | What::Device(_) | What::Outside => Ok(len),
        }
    }

    /// Copies as much as the source did: one file system shares whole blocks first and stops there, another goes on.
    async fn copy_range(
        &mut self,
        turn: &Turn<'_>,
        (from, from_at): (Fd, Option<i64>),
        (to, to_at): (Fd, Option<i64>),
        len: u64,
    ) -> Reply {
        let (source, target) = (self.inside(from)?, self.inside(to)?);
        let (source, target) = (source.file()?, target.file()?);
        let wanted = as_traced(turn, len);
        let mut copied = 0;
        if source.is_on(target.process()) {
            loop {
                let place = |at: Option<i64>| at.map(|at| at + copied as i64);
                let (from, to) =
                    (Spot { fd: source.fd(), at: place(from_at) }, Spot { fd: target.fd(), at: place(to_at) });
                match source.process().copy_file_range(from, to, wanted - copied).await {
                    Err(Errno::EOPNOTSUPP) if turn.step.outcome.value().is_some() => break,
                    Err(errno) if copied == 0 => return Err(errno.into()),
                    Ok(count) if count > 0 && copied + count < wanted => copied += count,
                    ended => {
                        self.moved = copied + ended.unwrap_or(0);
                        return Ok(self.moved as i64);
                    }
                }
            }
        }
        self.files.tally.add(COPIED_BY_HAND);
        let place = |at: Option<i64>| at.map(|at| at as u64 + copied);
        let rest = self.copy_by_hand((source, place(from_at)), (target, place(to_at)), wanted - copied).await?;
        self.moved = copied + rest;
        Ok(self.moved as i64)
    }

    /// Reads and writes until the source ends.
    async fn copy_by_hand(
        &mut self,
        (from, from_at): (&OpenFile, Option<u64>),
        (to, to_at): (&OpenFile, Option<u64>),
        len: u64,
    ) -> Result<u64, Errno> {
        let mut copied = 0;
        while copied < len {
            let piece = PIECE.min(len - copied);
            let read = self.read_file(from, from_at.map(|at| at + copied), piece).await?;
            if read == 0 {
                break;
            }
            copied += self.write_file(to, to_at.map(|at| at + copied), read).await?;
        }
        Ok(copied)
    }

    async fn splice(
        &mut self,
        turn: &Turn<'_>,
        (from, from_at): (Fd, Option<i64>),
        (to, to_at): (Fd, Option<i64>),
        len: u64,
    ) -> Reply {
        let (source, target) = (self.inside(from)?, self.inside(to)?);
        let (from_at, to_at) = (from_at.map(unsigned).transpose()?, to_at.map(unsigned).transpose()?);
        let wanted = as_traced(turn, len);
        let read = match &source.what {
            What::Pipe(end) => end.read(wanted, traced(turn)).await?,
            What::File(file) if matches!(target.what, What::Pipe(_)) => self.read_file(file, from_at, wanted).await?,
            What::File(_) | What::Device(_) | What::Outside => return Err(Errno::EINVAL.into()),
        };
        self.moved = read;
        Ok(self.put_into(&target, to_at, read).await? as i64)
    }

    async fn clone_range(&mut self, turn: &Turn<'_>, from: (Fd, u64), to: (Fd, u64), len: u64) -> Reply {
        let (source, target): (Rc<OpenSlot>, Rc<OpenSlot>) = (self.inside(from.0)?, self.inside(to.0)?);
        let (source_file, target_file) = (source.file()?, target.file()?);
        if len == 0 && from.1 == 0 && to.1 == 0 {
            match source_file.process().clone_file(source_file.fd(), target_file.fd()).await {
                Err(Errno::EOPNOTSUPP) if turn.step.outcome.value().is_some() => {}
                other => return Ok(other.map(|()| 0)?),
            }
        }
        let end = source_file.process().stat(source_file.fd(), Follow::Links).await?.attr.size;
        let len = if len == 0 { end.saturating_sub(from.1) } else { len };
        self.copy_by_hand((source_file, Some(from.1)), (target_file, Some(to.1)), len).await?;
        self.files.tally.add(COPIED_BY_HAND);
        Ok(0)
    }
}

/// A call that an empty or full pipe told to come again would wait here for what others do only later.
fn came_again(turn: &Turn<'_>) -> Result<(), Fail> {
    match turn.step.outcome {
        Outcome::Failed(Errno::EAGAIN) => Err(Fail::Skip(Skip::Circumstance)),
        _ => Ok(()),
    }
}

/// The count that the call told in the trace; 0 if it failed.
fn traced(turn: &Turn<'_>) -> u64 {
    turn.step.outcome.value().map_or(0, |value| value.max(0) as u64)
}

/// As much of a transfer as the trace moved; all of it if the call failed there.
fn as_traced(turn: &Turn<'_>, len: u64) -> u64 {
    match traced(turn) {
        0 => len,
        moved => len.min(moved),
    }
}

/// The place of a positioned transfer; -1 is the descriptor's offset.
fn position(offset: i64) -> Result<Option<u64>, Errno> {
    if offset == -1 { Ok(None) } else { unsigned(offset).map(Some) }
}

/// Negative offsets and lengths are refused as the kernel does.
pub(super) fn unsigned(value: i64) -> Result<u64, Errno> {
    u64::try_from(value).map_err(|_| Errno::EINVAL)
}
