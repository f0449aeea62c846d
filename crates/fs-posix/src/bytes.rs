//! Calls on the bytes of open files.

use esker_base::{ByteRange, Errno};
use esker_block::{Buf, Step};
use esker_vfs::attr::mode;
use esker_vfs::{Allocate, AllocateKind, At, Attr, Copying, FileFlags, FileType, Seek, SetAttr, Sync, Write, Written};

use crate::file::{Fd, File};
use crate::flags::{Access, Fallocate, OpenFlags};
use crate::paths::{Follow, Where};
use crate::process::Process;

/// Where `lseek` counts from.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Whence {
    /// The beginning.
    Set,
    /// The offset as it is.
    Current,
    /// The end.
    End,
    /// The next byte from there on that is not in a hole.
    Data,
    /// The next byte from there on in a hole; the end is one.
    Hole,
}

/// Reading.
impl Process {
    /// `read`: fewer bytes only at the end.
    ///
    /// # Errors
    /// `EBADF`, `EISDIR`, `EIO`.
    pub async fn read(&self, fd: Fd, out: &mut [u8]) -> Result<usize, Errno> {
        let file = self.file(fd)?;
        is_read(&file)?;
        let _turn = file.turn().await;
        let read = self.read_at(&file, file.offset.get(), out).await?;
        file.offset.set(file.offset.get() + read as u64);
        Ok(read)
    }

    /// The same if nothing has to wait. `None` means *take the long way*, never *no*.
    pub fn read_now(&self, fd: Fd, out: &mut [u8]) -> Option<Result<usize, Errno>> {
        let table = self.0.table.borrow();
        let file = match table.get(fd).and_then(|file| is_read(file).map(|()| file)) {
            Ok(file) => file,
            Err(error) => return Some(Err(error)),
        };
        if out.is_empty() {
            return Some(Ok(0));
        }
        let _turn = file.turn_now()?;
        let read = self.0.world.0.files.read_now(self.call(), file.ino(), file.offset.get(), out)?;
        Some(read.inspect(|read| file.offset.set(file.offset.get() + *read as u64)))
    }

    /// `pread`.
    ///
    /// # Errors
    /// As [`Process::read`]; `EINVAL` for a negative offset.
    pub async fn pread(&self, fd: Fd, out: &mut [u8], at: i64) -> Result<usize, Errno> {
        let at = offset(at)?;
        let file = self.file(fd)?;
        is_read(&file)?;
        self.read_at(&file, at, out).await
    }

    /// `pread` into a buffer of the file system, which may share its memory.
    ///
    /// # Errors
    /// As [`Process::pread`].
    pub async fn pread_buf(&self, fd: Fd, len: usize, at: i64) -> Result<Buf, Errno> {
        let at = offset(at)?;
        let file = self.file(fd)?;
        is_read(&file)?;
        self.0.world.0.files.read(self.call(), file.ino(), at, len).await
    }

    async fn read_at(&self, file: &File, at: u64, out: &mut [u8]) -> Result<usize, Errno> {
        // As Linux has it, a read of no bytes is no access.
        if out.is_empty() {
            return Ok(0);
        }
        let files = &self.0.world.0.files;
        if let Some(read) = files.read_now(self.call(), file.ino(), at, out) {
            return read;
        }
        let bytes = files.read(self.call(), file.ino(), at, out.len()).await?;
        bytes.copy_to(&mut out[..bytes.len()]);
        Ok(bytes.len())
    }
}

/// Writing.
impl Process {
    /// `write`: at the end of a file that was opened with `APPEND`. Fewer bytes if room runs out midway.
    ///
    /// # Errors
    /// `EBADF`, `EFBIG`, `ENOSPC`, `EIO`, `EROFS`.
    pub async fn write(&self, fd: Fd, data: &[u8]) -> Result<usize, Errno> {
        let file = self.file(fd)?;
        file.writable()?;
        let _turn = file.turn().await;
        let written = self.write_at(&file, here(&file), data).await?;
        Ok(moved(&file, written))
    }

    /// The same if nothing has to wait. `None` means *take the long way*, never *no*.
    pub fn write_now(&self, fd: Fd, data: &[u8]) -> Option<Result<usize, Errno>> {
        let table = self.0.table.borrow();
        let file = match table.get(fd).and_then(|file| file.writable().map(|()| file)) {
            Ok(file) => file,
            Err(error) => return Some(Err(error)),
        };
        let _turn = file.turn_now()?;
        if self.kills_privileges() {
            let Step::Now(Ok(attr)) = self.0.world.0.files.attr(self.call(), file.ino()) else { return None };
            if attr.mode & mode::SET_GID != 0 {
                return None;
            }
        }
        let how = self.how(file);
        let written = self.0.world.0.files.write_now(self.call(), file.ino(), here(file), data, how)?;
        Some(written.map(|written| moved(file, written)))
    }

    /// `pwrite`. To a file that was opened with `APPEND` it appends, as Linux has it.
    ///
    /// # Errors
    /// As [`Process::write`]; `EINVAL` for a negative offset.
    pub async fn pwrite(&self, fd: Fd, data: &[u8], at: i64) -> Result<usize, Errno> {
        let at = offset(at)?;
        let file = self.file(fd)?;
        file.writable()?;
        let at = if file.flags().contains(OpenFlags::APPEND) { At::End } else { At::Offset(at) };
        self.write_at(&file, at, data).await.map(|written| written.bytes as usize)
    }

    /// `write` of a buffer, which may be described instead of carried.
    ///
    /// # Errors
    /// As [`Process::write`].
    pub async fn write_buf(&self, fd: Fd, data: Buf) -> Result<usize, Errno> {
        let file = self.file(fd)?;
        file.writable()?;
        let _turn = file.turn().await;
        let written = self.write_buf_at(&file, here(&file), data).await?;
        Ok(moved(&file, written))
    }

    /// `pwrite` of a buffer, which may be described instead of carried.
    ///
    /// # Errors
    /// As [`Process::pwrite`].
    pub async fn pwrite_buf(&self, fd: Fd, data: Buf, at: i64) -> Result<usize, Errno> {
        let at = offset(at)?;
        let file = self.file(fd)?;
        file.writable()?;
        let at = if file.flags().contains(OpenFlags::APPEND) { At::End } else { At::Offset(at) };
        self.write_buf_at(&file, at, data).await.map(|written| written.bytes as usize)
    }

    async fn write_at(&self, file: &File, at: At, data: &[u8]) -> Result<Written, Errno> {
        let (files, how) = (&self.0.world.0.files, self.how(file));
        match files.write_now(self.call(), file.ino(), at, data, how) {
            Some(written) => self.behind_write(file, written?).await,
            None => self.write_buf_at(file, at, Buf::from_bytes(&self.0.world.0.pool, data)).await,
        }
    }

    async fn write_buf_at(&self, file: &File, at: At, data: Buf) -> Result<Written, Errno> {
        let written = self.0.world.0.files.write(self.call(), file.ino(), at, data, self.how(file)).await?;
        self.behind_write(file, written).await
    }

    async fn behind_write(&self, file: &File, written: Written) -> Result<Written, Errno> {
        if written.bytes > 0 {
            self.strip(file).await?;
        }
        Ok(written)
    }

    fn how(&self, file: &File) -> Write {
        let flags = file.flags();
        Write {
            durable: flags.contains(OpenFlags::DSYNC),
            direct: flags.contains(OpenFlags::DIRECT),
            kill_privileges: self.kills_privileges(),
        }
    }

    /// Whether changes of bytes by this caller take set-user-ID and its like from a file.
    pub(crate) fn kills_privileges(&self) -> bool {
        !self.0.cred.borrow().privileged
    }
}

/// Offsets and sizes.
impl Process {
    /// `lseek`. Answers the new offset; that of a directory is a position of [`Process::list`].
    ///
    /// # Errors
    /// `EBADF`; `EINVAL` for what lies before the beginning or beyond the largest size; `ENXIO` if no data or hole
    /// follows.
    pub async fn seek(&self, fd: Fd, by: i64, whence: Whence) -> Result<u64, Errno> {
        let file = self.file(fd)?;
        let _turn = file.turn().await;
        let base = match whence {
            Whence::Set => 0,
            Whence::Current => file.offset.get(),
            Whence::End => self.0.world.0.files.attr(self.call(), file.ino()).await?.size,
            Whence::Data => return self.seek_bytes(&file, by, Seek::Data).await,
            Whence::Hole => return self.seek_bytes(&file, by, Seek::Hole).await,
        };
        let max = if file.kind == FileType::File { self.0.world.0.files.about().size_max } else { i64::MAX as u64 };
        let to = base.checked_add_signed(by).filter(|to| *to <= max).ok_or(Errno::EINVAL)?;
        file.offset.set(to);
        Ok(to)
    }

    async fn seek_bytes(&self, file: &File, from: i64, what: Seek) -> Result<u64, Errno> {
        if file.kind != FileType::File {
            return Err(Errno::EINVAL);
        }
        let files = &self.0.world.0.files;
        let from = u64::try_from(from).map_err(|_| Errno::ENXIO)?;
        let to = if files.about().can.holes {
            files.seek(self.call(), file.ino(), from, what).await?
        } else {
            let size = files.attr(self.call(), file.ino()).await?.size;
            match what {
                _ if from >= size => return Err(Errno::ENXIO),
                Seek::Data => from,
                Seek::Hole => size,
            }
        };
        file.offset.set(to);
        Ok(to)
    }

    /// `truncate` of a path, `ftruncate` of a descriptor ([`Where::Fd`]).
    ///
    /// # Errors
    /// `EINVAL` for a negative size, for what is no file, and for a descriptor that is not written; `EISDIR`, `EACCES`,
    /// `EPERM`, `EFBIG`, `ENOSPC`.
    pub async fn truncate(&self, at: impl Into<Where<'_>>, size: i64) -> Result<(), Errno> {
        let (at, size) = (at.into(), offset(size)?);
        let reached = self.reach(at, Follow::Links).await?;
        if let Where::Fd(fd) = at {
            let file = self.file(fd)?;
            if file.kind != FileType::File || !file.flags().writes() {
                return Err(Errno::EINVAL);
            }
        } else {
            match reached.attr.kind {
                FileType::File => self.may(&reached.attr, Access::WRITE)?,
                FileType::Directory => return Err(Errno::EISDIR),
                _ => return Err(Errno::EINVAL),
            }
        }
        if reached.attr.flags.has(FileFlags::APPEND) {
            return Err(Errno::EPERM);
        }
        let set = self.cut(&reached.attr, size);
        self.0.world.0.files.set_attr(self.call(), reached.node.ino(), set).await.map(drop)
    }

    /// `fallocate`.
    ///
    /// # Errors
    /// `EBADF`; `EINVAL` for an empty or negative range; `EOPNOTSUPP` for modes that no file system here has; `EPERM`,
    /// `ENODEV`, `EFBIG`, `ENOSPC`.
    pub async fn fallocate(&self, fd: Fd, how: Fallocate, at: i64, len: i64) -> Result<(), Errno> {
        let file = self.file(fd)?;
        let (start, len) = (offset(at)?, offset(len)?);
        if len == 0 {
            return Err(Errno::EINVAL);
        }
        let kind = match how.difference(Fallocate::KEEP_SIZE) {
            rest if rest.is_empty() => AllocateKind::Reserve,
            Fallocate::PUNCH_HOLE if how.contains(Fallocate::KEEP_SIZE) => AllocateKind::Punch,
            Fallocate::ZERO_RANGE => AllocateKind::Zero,
            _ => return Err(Errno::EOPNOTSUPP),
        };
        file.writable()?;
        let files = &self.0.world.0.files;
        let attr = files.attr(self.call(), file.ino()).await?;
        if attr.flags.has(FileFlags::IMMUTABLE)
            || attr.flags.has(FileFlags::APPEND) && how.intersects(!Fallocate::KEEP_SIZE)
        {
            return Err(Errno::EPERM);
        }
        let range = ByteRange::new(start, len).filter(|range| range.end() <= files.about().size_max);
        let range = range.ok_or(Errno::EFBIG)?;
        let can = files.about().can;
        let able = if kind == AllocateKind::Reserve { can.reserve } else { can.punch };
        if !able {
            return Err(Errno::EOPNOTSUPP);
        }
        let how = Allocate { kind, keep_size: how.contains(Fallocate::KEEP_SIZE) };
        files.allocate(self.call(), file.ino(), range, how).await?;
        self.strip(&file).await
    }

    /// Takes privileges from a file whose bytes were changed, as far as the change itself has not. A write leaves the
    /// set-group-ID of a group that may not execute the file; a caller outside that group takes it too.
    async fn strip(&self, file: &File) -> Result<(), Errno> {
        if !self.kills_privileges() {
            return Ok(());
        }
        let files = &self.0.world.0.files;
        let attr = files.attr(self.call(), file.ino()).await?;
        let kept = self.without_privileges(&attr);
        if kept == attr.mode {
            return Ok(());
        }
        let set = SetAttr { mode: Some(kept), kill_privileges: true, ..SetAttr::default() };
        files.set_attr(self.call(), file.ino(), set).await.map(drop)
    }

    /// A change of the size, and of what goes with it.
    pub(crate) fn cut(&self, attr: &Attr, size: u64) -> SetAttr {
        let kill_privileges = self.kills_privileges();
        let mode = Some(self.without_privileges(attr)).filter(|kept| kill_privileges && *kept != attr.mode);
        SetAttr { size: Some(size), mode, kill_privileges, ..SetAttr::default() }
    }
}

/// A file and the place in it that a copy begins at: an offset, or that of the descriptor, which then moves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Spot {
    /// The file.
    pub fd: Fd,
    /// The offset, if it is not the descriptor's.
    pub at: Option<i64>,
}

/// Copies, and what becomes durable.
impl Process {
    /// `copy_file_range`. Answers how many bytes were copied: fewer at the end of the source.
    ///
    /// # Errors
    /// `EBADF` (a target that is appended to, too), `EISDIR`, `EPERM`; `EINVAL` for ranges of one file that overlap;
    /// `EOVERFLOW`, `EFBIG`, `ENOSPC`.
    pub async fn copy_file_range(&self, from: Spot, to: Spot, len: u64) -> Result<u64, Errno> {
        let (source, target) = (self.file(from.fd)?, self.file(to.fd)?);
        are_copied(&source, &target)?;
        let files = &self.0.world.0.files;
        if files.attr(self.call(), target.ino()).await?.flags.has(FileFlags::IMMUTABLE) {
            return Err(Errno::EPERM);
        }
        // The kernel adds without signs, so that even a negative offset first overflows.
        let place = |spot: Spot, file: &File| spot.at.unwrap_or(file.offset.get() as i64);
        let places = [place(from, &source), place(to, &target)];
        if places.iter().any(|at| (*at as u64).checked_add(len).is_none()) {
            return Err(Errno::EOVERFLOW);
        }
        let (start, goal) = (offset(places[0])?, offset(places[1])?);
        let size = files.attr(self.call(), source.ino()).await?.size;
        let len = len.min(size.saturating_sub(start));
        if source.ino() == target.ino() && goal < start.saturating_add(len) && start < goal.saturating_add(len) {
            return Err(Errno::EINVAL);
        }
        if len == 0 {
            return Ok(0);
        }
        let copied = files.copy(self.call(), (source.ino(), start), (target.ino(), goal), len, Copying::Any).await?;
        self.strip(&target).await?;
        for (spot, file, start) in [(from, source, start), (to, target, goal)] {
            if spot.at.is_none() {
                file.offset.set(start + copied);
            }
        }
        Ok(copied)
    }

    /// `FICLONE`: `to` gets the bytes of `from` by sharing.
    ///
    /// # Errors
    /// As [`Process::copy_file_range`]; `EOPNOTSUPP` if the file system does not share.
    pub async fn clone_file(&self, from: Fd, to: Fd) -> Result<(), Errno> {
        let (target, source) = (self.file(to)?, self.file(from)?);
        are_copied(&source, &target)?;
        let files = &self.0.world.0.files;
        if !files.about().can.share {
            return Err(Errno::EOPNOTSUPP);
        }
        let size = files.attr(self.call(), source.ino()).await?.size;
        if size == 0 {
            return Ok(());
        }
        if source.ino() == target.ino() {
            return Err(Errno::EINVAL);
        }
        files.copy(self.call(), (source.ino(), 0), (target.ino(), 0), size, Copying::Share).await?;
        self.strip(&target).await
    }

    /// `fsync`.
    ///
    /// # Errors
    /// `EBADF`; `EIO`.
    pub async fn fsync(&self, fd: Fd) -> Result<(), Errno> {
        let file = self.file(fd)?;
        self.0.world.0.files.sync(self.call(), Sync::File(file.ino())).await
    }

    /// `fdatasync`.
    ///
    /// # Errors
    /// As [`Process::fsync`].
    pub async fn fdatasync(&self, fd: Fd) -> Result<(), Errno> {
        let file = self.file(fd)?;
        self.0.world.0.files.sync(self.call(), Sync::Data(file.ino())).await
    }

    /// `syncfs`.
    ///
    /// # Errors
    /// As [`Process::fsync`].
    pub async fn syncfs(&self, fd: Fd) -> Result<(), Errno> {
        self.file(fd)?;
        self.sync().await
    }

    /// `sync`, which unlike the kernel's tells errors.
    ///
    /// # Errors
    /// `EIO`.
    pub async fn sync(&self) -> Result<(), Errno> {
        self.0.world.0.files.sync(self.call(), Sync::All).await
    }
}

/// An offset or a size.
///
/// # Errors
/// `EINVAL` if it is negative.
fn offset(at: i64) -> Result<u64, Errno> {
    u64::try_from(at).map_err(|_| Errno::EINVAL)
}

/// # Errors
/// `EBADF`; `EISDIR` for a directory.
fn is_read(file: &File) -> Result<(), Errno> {
    file.readable()?;
    if file.kind == FileType::Directory { Err(Errno::EISDIR) } else { Ok(()) }
}

/// The order of errors is that of `generic_file_rw_checks` in Linux.
fn are_copied(source: &File, target: &File) -> Result<(), Errno> {
    let kinds = [source.kind, target.kind];
    if kinds.contains(&FileType::Directory) {
        return Err(Errno::EISDIR);
    }
    if kinds != [FileType::File; 2] {
        return Err(Errno::EINVAL);
    }
    source.readable()?;
    target.writable()?;
    if target.flags().contains(OpenFlags::APPEND) { Err(Errno::EBADF) } else { Ok(()) }
}

/// Where a write without an offset goes.
fn here(file: &File) -> At {
    if file.flags().contains(OpenFlags::APPEND) { At::End } else { At::Offset(file.offset.get()) }
}

/// Moves the offset behind what was written, and answers its bytes.
fn moved(file: &File, written: Written) -> usize {
    if written.bytes > 0 {
        file.offset.set(written.end);
    }
    written.bytes as usize
}
