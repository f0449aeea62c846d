//! Calls on bytes and attributes of files.

use std::ops::Range;
use std::rc::Rc;

use esker_base::{ByteRange, Errno};
use esker_block::Buf;
use esker_block::step::LocalFuture;
use esker_fs_pages::{Backing, Prepared};
use esker_vfs::access::kill_privileges;
use esker_vfs::attr::mode;
use esker_vfs::claims::Mode;
use esker_vfs::{
    Allocate, AllocateKind, At, Attr, Call, Copying, FileFlags, FileType, Ino, Seek, SetAttr, Stamp, Write, Written,
};

use super::Inner;
use super::table::{Inode, InodeState};
use crate::answer::told;
use crate::error::LfsError;
use crate::read::SIZE_MAX;

/// Flags that are kept.
const FLAGS: u32 =
    FileFlags::SYNC.0 | FileFlags::IMMUTABLE.0 | FileFlags::APPEND.0 | FileFlags::NODUMP.0 | FileFlags::NOATIME.0;
/// Bytes of a write that become visible at once, and are durable together.
const PIECE_BYTES_MAX: u64 = 8 << 20;
/// A time of access that is older is set anew, as `relatime` does.
const RELATIME_NS: i64 = 24 * 3_600_000_000_000;

impl Backing for Inner {
    fn fetch(&self, _: Call, ino: Ino, frames: Range<u64>) -> LocalFuture<Result<Buf, Errno>> {
        let inner = self.handle();
        Box::pin(async move { inner.fetch_frames(ino, frames).await.map_err(told) })
    }
}

/// Blocks that follow each other in a file and on the medium.
struct Run {
    /// Offset in the frames that are fetched.
    at: usize,
    place: u64,
    blocks: usize,
}

impl Inode {
    /// Notes an access.
    pub(super) fn touch(&self, now: Stamp) {
        let attr = self.attr();
        let is_due = attr.modified >= attr.accessed
            || attr.changed >= attr.accessed
            || now.0.saturating_sub(attr.accessed.0) >= RELATIME_NS;
        if is_due && !attr.flags.has(FileFlags::NOATIME) {
            self.state.borrow_mut().accessed = now;
        }
    }
}

impl InodeState {
    fn kill_privileges(&mut self) {
        let bits = kill_privileges(self.record.mode & mode::ALL);
        self.record.mode = self.record.mode & !mode::ALL | bits;
    }
}

impl Inner {
    async fn fetch_frames(&self, ino: Ino, frames: Range<u64>) -> Result<Buf, LfsError> {
        let (block, frame) = (self.core.geometry.block_bytes, self.cache.frame_len());
        // What is read ahead may be gone meanwhile.
        let inode = self.table.borrow().get(&ino.0).cloned().ok_or(LfsError::Unknown(ino.0))?;
        let mut out = Buf::zeroed(self.core.medium.pool(), (frames.end - frames.start) as usize * frame);
        let first = frames.start * (frame / block) as u64;
        let _reading = self.core.reads.begin();
        for run in self.runs(&inode, first, out.len() / block).await? {
            let bytes = self.core.blocks_at(run.place, run.blocks).await?;
            out.fill(run.at, &bytes);
        }
        Ok(out)
    }

    /// Where blocks of a file lie, holes left out.
    async fn runs(&self, inode: &Inode, first: u64, blocks: usize) -> Result<Vec<Run>, LfsError> {
        let (core, mut runs) = (&self.core, Vec::<Run>::new());
        for number in 0..blocks {
            let index = first + number as u64;
            if inode.is_removed(index) {
                continue;
            }
            let address = core.with_map(&inode.map, false, |map| map.find(index)).await?;
            if address == 0 {
                continue;
            }
            let (place, at) = (core.place(false, address).await?, number * core.geometry.block_bytes);
            match runs.last_mut() {
                Some(run)
                    if run.place + run.blocks as u64 == place
                        && run.at + run.blocks * core.geometry.block_bytes == at =>
                {
                    run.blocks += 1;
                }
                _ => runs.push(Run { at, place, blocks: 1 }),
            }
        }
        Ok(runs)
    }

    fn held_file(&self, number: Ino, other: Errno) -> Result<Rc<Inode>, Errno> {
        let inode = self.held(number)?;
        match inode.kind() {
            FileType::File => Ok(inode),
            FileType::Directory => Err(Errno::EISDIR),
            FileType::Symlink | FileType::CharDevice | FileType::BlockDevice | FileType::Fifo | FileType::Socket => {
                Err(other)
            }
        }
    }

    /// Reads bytes, fewer only at the end.
    pub(super) async fn read(&self, call: Call, number: Ino, at: u64, len: usize) -> Result<Buf, Errno> {
        let _claim = self.claims.claim(&[(number, Mode::Shared)]).await;
        let inode = self.held_file(number, Errno::EINVAL)?;
        self.read_claimed(call, &inode, at, len).await
    }

    async fn read_claimed(&self, call: Call, inode: &Inode, at: u64, len: usize) -> Result<Buf, Errno> {
        let size = inode.size();
        let len = size.saturating_sub(at).min(len as u64) as usize;
        if len == 0 {
            inode.touch(call.now);
            return Ok(Buf::empty());
        }
        let read = self.cache.read(&self.handle(), call, Ino(inode.number), (at, len), size).await?;
        inode.touch(call.now);
        Ok(read)
    }

    /// The target of a symbolic link.
    pub(super) async fn target(&self, call: Call, number: Ino) -> Result<Box<[u8]>, Errno> {
        let _claim = self.claims.claim(&[(number, Mode::Shared)]).await;
        let inode = self.held(number)?;
        if inode.kind() != FileType::Symlink {
            return Err(Errno::EINVAL);
        }
        let bytes = self.read_claimed(call, &inode, 0, super::names::TARGET_BYTES_MAX).await?.to_vec();
        // A byte of zero ends a target, wherever it stands.
        let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
        Ok(bytes[..end].into())
    }

    /// Writes bytes, piece by piece, as many as there is room for.
    pub(super) async fn write(
        &self,
        call: Call,
        number: Ino,
        at: At,
        mut data: Buf,
        how: Write,
    ) -> Result<Written, Errno> {
        let _claim = self.claims.claim(&[(number, Mode::Exclusive)]).await;
        let inode = self.held_file(number, Errno::EINVAL)?;
        self.check()?;
        let start = match at {
            At::Offset(start) => start,
            At::End => inode.size(),
        };
        let end = start.saturating_add(data.len() as u64).min(SIZE_MAX);
        if data.is_empty() {
            return Ok(Written { bytes: 0, end: start });
        }
        if start >= end {
            return Err(Errno::EFBIG);
        }
        let mut done = start;
        while done < end {
            let piece = (end - done).min(PIECE_BYTES_MAX).min(self.cache.write_bytes_max() as u64);
            let piece = data.slice((done - start) as usize, piece as usize);
            match self.write_piece(call, &inode, done, piece, how).await {
                Ok(0) => break,
                Ok(bytes) => done += bytes,
                Err(_) if done > start => break,
                Err(error) => return Err(error),
            }
        }
        if how.durable {
            self.sync_data(inode.number).await?;
        }
        Ok(Written { bytes: done - start, end: done })
    }

    /// Writes one piece. Answers how many of its bytes had room.
    async fn write_piece(
        &self,
        call: Call,
        inode: &Rc<Inode>,
        at: u64,
        mut piece: Buf,
        how: Write,
    ) -> Result<u64, Errno> {
        let len = self.fitting(at, piece.len() as u64).await?;
        let prepared = self.prepare(call, inode, at..at + len).await?;
        self.check()?;
        prepared.write(&mut piece.slice(0, len as usize));
        let is_bytes_alone = inode.change(|state| {
            let before = (state.record.size, state.record.mode);
            state.record.size = state.record.size.max(at + len);
            state.stamp(call.now);
            if how.kill_privileges {
                state.kill_privileges();
            }
            before == (state.record.size, state.record.mode)
        });
        match is_bytes_alone {
            true => self.note_bytes(call.now, inode.number),
            false => self.note_change(call.now),
        }
        Ok(len)
    }

    /// How many of `len` bytes from `at` have room.
    async fn fitting(&self, at: u64, len: u64) -> Result<u64, Errno> {
        let block = self.core.geometry.block_bytes as u64;
        let blocks = |len: u64| (at + len).div_ceil(block) - at / block;
        if self.room(blocks(len) + 1).await.is_ok() {
            return Ok(len);
        }
        self.check()?;
        let spare = self.free_blocks().saturating_sub(self.owed_blocks()) / super::BLOCKS_OF_CHANGE;
        let end = (at / block + spare.saturating_sub(1)) * block;
        match end.saturating_sub(at) {
            0 => Err(Errno::ENOSPC),
            fits => Ok(fits.min(len)),
        }
    }

    async fn prepare(&self, call: Call, inode: &Inode, range: Range<u64>) -> Result<Prepared, Errno> {
        let span = (range.start, (range.end - range.start) as usize);
        self.cache.prepare(&self.handle(), call, Ino(inode.number), span, inode.size()).await
    }

    /// Sets attributes, all in one change.
    pub(super) async fn set_attr(&self, call: Call, number: Ino, set: SetAttr) -> Result<Attr, Errno> {
        let _claim = self.claims.claim(&[(number, Mode::Exclusive)]).await;
        let inode = self.held(number)?;
        if set.flags.is_some_and(|flags| flags.0 & !FLAGS != 0) {
            return Err(Errno::EOPNOTSUPP);
        }
        if set == SetAttr::default() {
            return Ok(inode.attr());
        }
        self.check()?;
        let cut = match set.size {
            None => None,
            Some(size) => {
                self.held_file(number, Errno::EINVAL)?;
                if size > SIZE_MAX {
                    return Err(Errno::EFBIG);
                }
                let edge = size..size.next_multiple_of(self.cache.frame_len() as u64).min(inode.size());
                Some((size, self.zeroes(call, &inode, [edge]).await?))
            }
        };
        self.check()?;
        if let Some((size, zeroes)) = cut {
            self.cut(&inode, size, zeroes);
        }
        inode.change(|state| {
            state.stamp_change(call.now);
            if set.size.is_some() {
                state.stamp(call.now);
            }
            let record = &mut state.record;
            record.mode = set.mode.map_or(record.mode, |bits| record.mode & !mode::ALL | bits & mode::ALL);
            record.uid = set.uid.unwrap_or(record.uid);
            record.gid = set.gid.unwrap_or(record.gid);
            record.flags = set.flags.map_or(record.flags, |flags| flags.0);
            state.accessed = set.accessed.unwrap_or(state.accessed);
            if let Some(modified) = set.modified {
                state.set_modified(modified);
            }
            if set.kill_privileges {
                state.kill_privileges();
            }
        });
        self.note_change(call.now);
        Ok(inode.attr())
    }

    /// Sets the size of a file. What lies behind it in its last frame becomes zeroes.
    fn cut(&self, inode: &Inode, size: u64, zeroes: Vec<(Range<u64>, Prepared)>) {
        write_zeroes(zeroes);
        if size < inode.size() {
            let (block, frame) = (self.core.geometry.block_bytes as u64, self.cache.frame_len() as u64);
            self.cache.discard(Ino(inode.number), size.div_ceil(frame)..u64::MAX);
            let first = size.div_ceil(block);
            inode.change(|state| drop(state.removed.add(first, u64::MAX - first, 0, ())));
        }
        inode.change(|state| state.record.size = size);
    }

    /// Prepares zeroes for parts of frames. Holes stay holes.
    async fn zeroes<const N: usize>(
        &self,
        call: Call,
        inode: &Inode,
        parts: [Range<u64>; N],
    ) -> Result<Vec<(Range<u64>, Prepared)>, Errno> {
        let (frame, mut prepared) = (self.cache.frame_len() as u64, Vec::new());
        for part in parts.into_iter().filter(|part| part.start < part.end) {
            if self.has_data(inode, part.start / frame).await? {
                let write = self.prepare(call, inode, part.clone()).await?;
                prepared.push((part, write));
            }
        }
        Ok(prepared)
    }

    /// Whether a frame of a file is no hole.
    async fn has_data(&self, inode: &Inode, nr: u64) -> Result<bool, Errno> {
        Ok(self.data_from(inode, nr).await? == Some(nr))
    }

    /// The first frame from `nr` on that is no hole.
    async fn data_from(&self, inode: &Inode, nr: u64) -> Result<Option<u64>, Errno> {
        let per_frame = (self.cache.frame_len() / self.core.geometry.block_bytes) as u64;
        let dirty = self.cache.dirty_frames(Ino(inode.number), nr..u64::MAX).first().copied();
        let frozen = inode.state.borrow().frozen.as_ref().and_then(|frozen| frozen.range(nr..).next().copied());
        let unwritten = dirty.into_iter().chain(frozen.filter(|nr| !inode.is_removed(nr * per_frame))).min();
        let mut from = nr * per_frame;
        let mapped = loop {
            let next = self.core.with_map(&inode.map, false, |map| map.next(from)).await.map_err(told)?;
            match next {
                Some((index, _)) if inode.is_removed(index) => from = index + 1,
                next => break next.map(|(index, _)| index / per_frame),
            }
        };
        Ok(unwritten.into_iter().chain(mapped).min())
    }

    /// Punches a hole. Room is not reserved: what is written takes other blocks anyhow.
    pub(super) async fn allocate(&self, call: Call, number: Ino, range: ByteRange, how: Allocate) -> Result<(), Errno> {
        let _claim = self.claims.claim(&[(number, Mode::Exclusive)]).await;
        if range.is_empty() {
            return Err(Errno::EINVAL);
        }
        let inode = self.held_file(number, Errno::ENODEV)?;
        if range.end() > SIZE_MAX {
            return Err(Errno::EFBIG);
        }
        if how.kind != AllocateKind::Punch {
            return Err(Errno::EOPNOTSUPP);
        }
        self.check()?;
        let (frame, end) = (self.cache.frame_len() as u64, range.end().min(inode.size()));
        let first = range.start()..range.start().next_multiple_of(frame).min(end);
        let last = (end / frame * frame).max(first.end)..end;
        let zeroes = self.zeroes(call, &inode, [first, last]).await?;
        self.check()?;
        write_zeroes(zeroes);
        let whole = range.start().div_ceil(frame)..range.end() / frame;
        if whole.start < whole.end {
            let per_frame = frame / self.core.geometry.block_bytes as u64;
            self.cache.discard(number, whole.clone());
            let (from, blocks) = (whole.start * per_frame, (whole.end - whole.start) * per_frame);
            inode.change(|state| drop(state.removed.add(from, blocks, 0, ())));
        }
        inode.change(|state| state.stamp(call.now));
        self.note_change(call.now);
        Ok(())
    }

    /// Copies bytes between files.
    pub(super) async fn copy(
        &self,
        call: Call,
        from: (Ino, u64),
        to: (Ino, u64),
        len: u64,
        how: Copying,
    ) -> Result<u64, Errno> {
        let _claim = self.claims.claim(&[(from.0, Mode::Shared), (to.0, Mode::Exclusive)]).await;
        let source = self.held_file(from.0, Errno::EINVAL)?;
        let target = self.held_file(to.0, Errno::EINVAL)?;
        let len = len.min(source.size().saturating_sub(from.1));
        if from.0 == to.0 && from.1 < to.1.saturating_add(len) && to.1 < from.1.saturating_add(len) {
            return Err(Errno::EINVAL);
        }
        if len == 0 {
            return Ok(0);
        }
        let end = to.1.saturating_add(len).min(SIZE_MAX);
        if to.1 >= end {
            return Err(Errno::EFBIG);
        }
        if how == Copying::Share {
            return Err(Errno::EOPNOTSUPP);
        }
        let mut done = 0;
        while done < end - to.1 {
            let piece = (end - to.1 - done).min(PIECE_BYTES_MAX).min(self.cache.write_bytes_max() as u64);
            let bytes = self.read_claimed(call, &source, from.1 + done, piece as usize).await?;
            match self.write_piece(call, &target, to.1 + done, bytes, Write::default()).await {
                Ok(0) => break,
                Ok(bytes) => done += bytes,
                Err(_) if done > 0 => break,
                Err(error) => return Err(error),
            }
        }
        Ok(done)
    }

    /// The next offset with data, or in a hole.
    pub(super) async fn seek(&self, number: Ino, at: u64, what: Seek) -> Result<u64, Errno> {
        let _claim = self.claims.claim(&[(number, Mode::Shared)]).await;
        let inode = match self.held_file(number, Errno::EINVAL) {
            Err(Errno::EISDIR) => return Err(Errno::EINVAL),
            inode => inode?,
        };
        let (size, frame) = (inode.size(), self.cache.frame_len() as u64);
        if at >= size {
            return Err(Errno::ENXIO);
        }
        match what {
            Seek::Data => {
                let data = self.data_from(&inode, at / frame).await?.map(|nr| (nr * frame).max(at));
                data.filter(|data| *data < size).ok_or(Errno::ENXIO)
            }
            Seek::Hole => {
                let mut nr = at / frame;
                while nr * frame < size && self.has_data(&inode, nr).await? {
                    nr += 1;
                }
                Ok((nr * frame).clamp(at, size))
            }
        }
    }
}

fn write_zeroes(edges: Vec<(Range<u64>, Prepared)>) {
    for (range, prepared) in edges {
        prepared.write_bytes(&vec![0; (range.end - range.start) as usize]);
    }
}
