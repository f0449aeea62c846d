//! Copies inside the kernel, and what programs do where it makes none.

use esker_trace_calls::{Call, Fd};
use rustix::io::Errno;

use super::data::unsigned;
use super::slots::Handle;
use super::{CallExecutor, Fail, Reply, Skip, Turn, bytes};

const CLONED_BY_COPY: &str = "clones were made as copies: the file system shares no extents";
const COPIED_BY_HAND: &str = "copy_file_range was made by reads and writes: the file system has none";
/// Bytes that one step of a copy moves.
const PIECE: u64 = 1 << 20;
const RANGE_MAX: u64 = i64::MAX as u64;

impl CallExecutor<'_> {
    pub(super) fn copy(&mut self, turn: &Turn<'_>) -> Reply {
        match turn.step.call {
            Call::CopyRange { from, from_offset, to, to_offset, len } => {
                let (from, to) = (self.inside(from)?, self.inside(to)?);
                let from = (&*from, from_offset.map(unsigned).transpose()?);
                self.copy_range(turn, from, (&to, to_offset.map(unsigned).transpose()?), len)
            }
            Call::Splice { from, from_offset, to, to_offset, len } => {
                let (from, to) = (self.inside(from)?, self.inside(to)?);
                let (mut from_at, mut to_at) =
                    (from_offset.map(unsigned).transpose()?, to_offset.map(unsigned).transpose()?);
                let none = rustix::pipe::SpliceFlags::empty();
                bytes(rustix::pipe::splice(&*from, from_at.as_mut(), &*to, to_at.as_mut(), len as usize, none)?)
            }
            Call::Tee { from, to, len } => {
                let (from, to) = (self.inside(from)?, self.inside(to)?);
                bytes(rustix::pipe::tee(&*from, &*to, len as usize, rustix::pipe::SpliceFlags::empty())?)
            }
            Call::CloneRange { from, to, from_offset, to_offset, len } => {
                self.clone_range(turn, (from, from_offset), (to, to_offset), len)
            }
            _ => Err(Fail::Skip(Skip::Unseen)),
        }
    }

    /// Copies as much as the source did: one file system shares whole blocks first and stops there, another goes on.
    fn copy_range(
        &mut self,
        turn: &Turn<'_>,
        (from, mut from_at): (&Handle, Option<u64>),
        (to, mut to_at): (&Handle, Option<u64>),
        len: u64,
    ) -> Reply {
        let wanted = turn.step.outcome.value().filter(|count| *count > 0).map_or(len, |count| len.min(count as u64));
        let mut copied = 0;
        loop {
            let left = wanted - copied;
            match rustix::fs::copy_file_range(from, from_at.as_mut(), to, to_at.as_mut(), left as usize) {
                Err(errno) if self.is_to_be_emulated(turn, errno) => {
                    self.kernel.tally.add(COPIED_BY_HAND);
                    let rest = self.copy_by_hand((from, from_at), (to, to_at), left)?;
                    return Ok(copied as i64 + rest);
                }
                Err(errno) if copied == 0 => return Err(errno.into()),
                Ok(count) if count > 0 && (count as u64) < left => copied += count as u64,
                ended => return bytes(copied as usize + ended.unwrap_or(0)),
            }
        }
    }

    fn clone_range(&mut self, turn: &Turn<'_>, from: (Fd, u64), to: (Fd, u64), len: u64) -> Reply {
        let (source, target) = (self.inside(from.0)?, self.inside(to.0)?);
        let is_whole = len == 0 && from.1 == 0 && to.1 == 0;
        let len = if len == 0 { RANGE_MAX } else { len };
        if is_whole {
            match rustix::fs::ioctl_ficlone(&*target, &*source) {
                Err(errno) if self.is_to_be_emulated(turn, errno) => self.kernel.tally.add(CLONED_BY_COPY),
                other => return Ok(other.map(|()| 0)?),
            }
        }
        // Sharing a range has no safe form; copying one within a file system shares where it can.
        let (mut from_at, mut to_at, mut left) = (from.1, to.1, len);
        while left > 0 {
            let piece = usize::try_from(left).unwrap_or(usize::MAX).min(RANGE_MAX as usize);
            match rustix::fs::copy_file_range(&*source, Some(&mut from_at), &*target, Some(&mut to_at), piece) {
                Ok(0) => break,
                Ok(copied) => left -= copied as u64,
                Err(errno) if self.is_to_be_emulated(turn, errno) => {
                    self.copy_by_hand((&source, Some(from_at)), (&target, Some(to_at)), left)?;
                    break;
                }
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(0)
    }

    /// Whether a copy that the source could make fails because this file system cannot.
    fn is_to_be_emulated(&self, turn: &Turn<'_>, errno: Errno) -> bool {
        let cannot = matches!(errno, Errno::OPNOTSUPP | Errno::XDEV | Errno::NOTTY | Errno::NOSYS);
        cannot && turn.step.outcome.value().is_some()
    }

    /// Reads and writes until the source ends.
    fn copy_by_hand(&mut self, from: (&Handle, Option<u64>), to: (&Handle, Option<u64>), len: u64) -> Reply {
        let mut copied = 0;
        while copied < len {
            let buffer = self.buffers.room_to_read(PIECE.min(len - copied));
            let read = match from.1 {
                Some(at) => rustix::io::pread(from.0, &mut *buffer, at + copied)?,
                None => rustix::io::read(from.0, &mut *buffer)?,
            };
            if read == 0 {
                break;
            }
            let written = match to.1 {
                Some(at) => rustix::io::pwrite(to.0, &buffer[..read], at + copied)?,
                None => rustix::io::write(to.0, &buffer[..read])?,
            };
            copied += written as u64;
        }
        Ok(copied as i64)
    }
}
