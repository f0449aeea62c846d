//! Bytes of files.

use std::ops::Range;
use std::rc::Rc;

use esker_base::{ByteRange, Errno};

use super::pages::{PAGE, parts};
use super::state::{Body, State};
use crate::change::{Allocate, AllocateKind, At, Copying, Seek, Write, Written};
use crate::word::{Ino, Stamp};

const PAGE_U64: u64 = PAGE as u64;

/// Gives bytes in pieces, in order.
pub(super) type Source<'a> = &'a dyn Fn(&mut dyn FnMut(&[u8]));

impl State {
    /// How many of `len` bytes a read at `at` gets.
    pub(super) fn readable(&self, ino: Ino, at: u64, len: usize) -> Result<usize, Errno> {
        self.pages(ino, Errno::EINVAL)?;
        let left = self.attr(ino).size.saturating_sub(at);
        Ok(usize::try_from(left).map_or(len, |left| left.min(len)))
    }

    /// Fills `out`, which is [readable](State::readable).
    pub(super) fn read(&mut self, now: Stamp, ino: Ino, at: u64, out: &mut [u8]) -> Result<(), Errno> {
        self.pages(ino, Errno::EINVAL)?.read(at, out);
        self.touch(ino, now);
        Ok(())
    }

    /// Writes bytes, as many as there is room for.
    pub(super) fn write(
        &mut self,
        now: Stamp,
        ino: Ino,
        at: At,
        (len, source): (u64, Source<'_>),
        how: Write,
    ) -> Result<Written, Errno> {
        let pages = self.pages(ino, Errno::EINVAL)?;
        let start = match at {
            At::Offset(start) => start,
            At::End => self.attr(ino).size,
        };
        if len == 0 {
            return Ok(Written { bytes: 0, end: start });
        }
        let end = start.saturating_add(len).min(self.config.size_max);
        if start >= end {
            return Err(Errno::EFBIG);
        }
        let fitting = pages.fitting(start..end, self.bytes_free());
        if fitting == 0 {
            return Err(Errno::ENOSPC);
        }
        let end = start + fitting;
        let pages = self.known_pages_mut(ino);
        let mut done = start;
        source(&mut |piece| {
            let taken = piece.len().min((end - done) as usize);
            pages.write(done, &piece[..taken]);
            done += taken as u64;
        });
        self.note_bytes(now, ino, end);
        if how.kill_privileges {
            self.kill_privileges(ino);
        }
        Ok(Written { bytes: fitting, end })
    }

    /// Reserves, punches or zeroes a range.
    pub(super) fn allocate(&mut self, now: Stamp, ino: Ino, range: ByteRange, how: Allocate) -> Result<(), Errno> {
        if range.is_empty() {
            return Err(Errno::EINVAL);
        }
        let pages = self.pages(ino, Errno::ENODEV)?;
        if range.end() > self.config.size_max {
            return Err(Errno::EFBIG);
        }
        let bytes = range.start()..range.end();
        let keeps_size = match how.kind {
            AllocateKind::Reserve | AllocateKind::Zero => {
                self.need(pages.missing(bytes.clone()))?;
                how.keep_size
            }
            AllocateKind::Punch => true,
        };
        let pages = self.known_pages_mut(ino);
        match how.kind {
            AllocateKind::Reserve => pages.reserve(bytes),
            AllocateKind::Punch => pages.punch(bytes),
            AllocateKind::Zero => pages.zero(bytes),
        }
        self.note_bytes(now, ino, if keeps_size { 0 } else { range.end() });
        Ok(())
    }

    /// Copies bytes between files.
    pub(super) fn copy(
        &mut self,
        now: Stamp,
        from: (Ino, u64),
        to: (Ino, u64),
        len: u64,
        how: Copying,
    ) -> Result<u64, Errno> {
        self.pages(from.0, Errno::EINVAL)?;
        self.pages(to.0, Errno::EINVAL)?;
        let len = len.min(self.attr(from.0).size.saturating_sub(from.1));
        if from.0 == to.0 && from.1 < to.1.saturating_add(len) && to.1 < from.1.saturating_add(len) {
            return Err(Errno::EINVAL);
        }
        let end = to.1.saturating_add(len).min(self.config.size_max);
        if len == 0 {
            return Ok(0);
        }
        if to.1 >= end {
            return Err(Errno::EFBIG);
        }
        let target = to.1..end;
        if how == Copying::Share {
            self.may_share(from, to.0, &target, len)?;
        }
        let done = self.copy_parts(from, to.0, target.clone())?;
        if done == target.start {
            return Err(Errno::ENOSPC);
        }
        self.note_bytes(now, to.0, done);
        self.touch(from.0, now);
        Ok(done - target.start)
    }

    /// Whether all of a range can be shared: whole pages, or up to the ends of both files, and room for them.
    fn may_share(&self, from: (Ino, u64), to: Ino, target: &Range<u64>, len: u64) -> Result<(), Errno> {
        let reaches_end = from.1 + len == self.attr(from.0).size && target.end >= self.attr(to).size;
        let is_aligned = [from.1, target.start].iter().all(|at| at.is_multiple_of(PAGE_U64));
        if !is_aligned || !(len.is_multiple_of(PAGE_U64) || reaches_end) {
            return Err(Errno::EINVAL);
        }
        if target.end - target.start < len {
            return Err(Errno::EFBIG);
        }
        let (source, pages) = (self.pages(from.0, Errno::EINVAL)?, self.pages(to, Errno::EINVAL)?);
        let at = |page: u64| from.1 + (page * PAGE_U64 - target.start);
        self.need(parts(target.clone()).map(|part| pages.missing_for(source, at(part.0), part)).sum())
    }

    /// Copies page by page until room ends. Answers the offset behind the last byte.
    fn copy_parts(&mut self, from: (Ino, u64), to: Ino, target: Range<u64>) -> Result<u64, Errno> {
        // If both are one file, its first change copies the node, so that the source stays as it was.
        let node = Rc::clone(self.node(from.0)?);
        let Body::File(source) = &node.body else { unreachable!("the caller has looked at its kind") };
        let mut room = self.bytes_free();
        for (page, within) in parts(target.clone()) {
            let start = page * PAGE_U64 + within.start as u64;
            let at = from.1 + (start - target.start);
            let pages = self.known_pages_mut(to);
            if pages.missing_for(source, at, (page, within.clone())) > room {
                return Ok(start);
            }
            room += pages.bytes();
            pages.put(source, at, (page, within));
            room -= pages.bytes();
        }
        Ok(target.end)
    }

    /// The next offset with data, or in a hole.
    pub(super) fn seek(&self, ino: Ino, at: u64, what: Seek) -> Result<u64, Errno> {
        let pages = match self.pages(ino, Errno::EINVAL) {
            Err(Errno::EISDIR) => return Err(Errno::EINVAL),
            pages => pages?,
        };
        let size = self.attr(ino).size;
        if at >= size {
            return Err(Errno::ENXIO);
        }
        match what {
            Seek::Data => pages.next_data(at).filter(|data| *data < size).ok_or(Errno::ENXIO),
            Seek::Hole => Ok(pages.next_hole(at).min(size)),
        }
    }

    /// Notes changed bytes up to `end`.
    fn note_bytes(&mut self, now: Stamp, ino: Ino, end: u64) {
        let node = self.known_mut(ino);
        node.attr.size = node.attr.size.max(end);
        node.modify(now);
        self.settle(ino);
    }
}
