//! Memory maps of files. A map has a slot, as a descriptor has, through which its pages are touched. Calls that name a
//! map by its address find its file by that.

use std::rc::Rc;

use esker_base::Errno;
use esker_fs_posix::{Follow, OpenFlags as Ours};
use esker_trace_calls::words::{FileKind, MapAdvice, MapFlags, MapSyncFlags, SyncKind};
use esker_trace_calls::{Call, Fd};

use super::slots::{MappedPart, OpenSlot, What};
use super::{Fail, FilesExecutor, Reply, words};
use crate::answer::Skip;
use crate::kernel::Turn;

impl FilesExecutor {
    pub(super) async fn maps(&mut self, turn: &Turn<'_>) -> Reply {
        match turn.step.call {
            Call::Map { fd, len, offset, flags, .. } => self.map(turn, fd, (offset, len), flags).await,
            Call::Unmap { address, len } => {
                let gone = self.files.maps.borrow_mut().entry(turn.process).or_default().remove(address, len);
                drop(gone);
                Err(Fail::Skip(Skip::NotFiles))
            }
            Call::Remap { address, len, new_len } => self.remap(turn, (address, len), new_len),
            Call::MapSync { address, flags, .. } => self.map_sync(turn, address, flags).await,
            // What is said of memory says nothing of the file, but that it will be needed.
            Call::MapAdvise { address, advice, .. } => match self.mapped(turn, address) {
                Some(_) if advice == MapAdvice::WillNeed => Ok(0),
                _ => Err(Fail::Skip(Skip::NotFiles)),
            },
            Call::MapTouch { fd, offset, len, write } => self.map_touch(fd, offset, len, write).await,
            // A page of an unrecorded map.
            Call::PageFault { .. } | Call::PageWrite { .. } => Err(Fail::Skip(Skip::Unseen)),
            _ => unreachable!("calls come to their family"),
        }
    }

    fn mapped(&self, turn: &Turn<'_>, address: u64) -> Option<(Rc<OpenSlot>, u64)> {
        let maps = self.files.maps.borrow();
        let (slot, offset) = maps.get(&turn.process)?.find(address)?;
        Some((slot.clone(), offset))
    }

    async fn map(&mut self, turn: &Turn<'_>, fd: Fd, (offset, len): (u64, u64), flags: MapFlags) -> Reply {
        if fd.0 < 0 || flags.contains(MapFlags::MAP_ANONYMOUS) {
            return Err(Fail::Skip(Skip::NotFiles));
        }
        let slot = self.inside(fd)?;
        let is_written = flags.contains(MapFlags::MAP_SHARED | MapFlags::PROT_WRITE);
        if let What::File(file) = &slot.what {
            let status = file.process().status_flags(file.fd())?;
            let kind = words::kind(file.process().stat(file.fd(), Follow::Links).await?.attr.kind);
            let may = status.reads() && (!is_written || status.contains(Ours::RDWR));
            match kind {
                _ if status.contains(Ours::PATH) => return Err(Errno::EBADF.into()),
                _ if len == 0 || offset % 4096 != 0 => return Err(Errno::EINVAL.into()),
                _ if !may => return Err(Errno::EACCES.into()),
                FileKind::Regular => {}
                _ => return Err(Errno::ENODEV.into()),
            }
        }
        if let Some(address) = turn.step.outcome.value() {
            let map = Some(MappedPart { offset, len, is_written });
            let mapped = Rc::new(OpenSlot { map, ..slot.dup()? });
            let gone = self.files.maps.borrow_mut().entry(turn.process).or_default().add(
                address as u64,
                len,
                offset,
                mapped.clone(),
            );
            drop(gone);
            if let Some(made) = Self::made(turn).next() {
                self.files.slots.put(made, mapped);
            }
        }
        Ok(0)
    }

    fn remap(&mut self, turn: &Turn<'_>, (address, len): (u64, u64), new_len: u64) -> Reply {
        if let (Some((slot, offset)), Some(to)) = (self.mapped(turn, address), turn.step.outcome.value()) {
            let mut maps = self.files.maps.borrow_mut();
            let maps = maps.entry(turn.process).or_default();
            let mut gone = maps.remove(address, len);
            gone.extend(maps.add(to as u64, new_len, offset, slot));
        }
        Err(Fail::Skip(Skip::NotFiles))
    }

    async fn map_sync(&mut self, turn: &Turn<'_>, address: u64, flags: MapSyncFlags) -> Reply {
        let (slot, _) = self.mapped(turn, address).ok_or(Fail::Skip(Skip::NotFiles))?;
        if !flags.contains(MapSyncFlags::MS_SYNC) {
            return Ok(0);
        }
        self.sync_slot(&slot, SyncKind::Data).await
    }

    /// An access through a map: the file system reads the page, as it does for the kernel's memory. A page that becomes
    /// dirty is written back with the bytes that it has. What lies outside of what was mapped is a write of the file.
    async fn map_touch(&mut self, fd: Fd, offset: u64, len: u64, write: bool) -> Reply {
        let slot = self.inside(fd)?;
        super::data::unsigned(offset as i64)?;
        let What::File(file) = &slot.what else { return Ok(0) };
        let inside = slot.map.filter(|map| offset.checked_sub(map.offset).is_some_and(|at| at < map.len));
        self.moved = match inside {
            Some(map) if write && map.is_written => {
                let buffer = self.buffers.room_to_read(len);
                let read = file.process().pread(file.fd(), buffer, offset as i64).await?;
                file.process().pwrite(file.fd(), &buffer[..read], offset as i64).await? as u64
            }
            _ if write => self.write_file(file, Some(offset), len).await?,
            _ => self.read_file(file, Some(offset), len).await?,
        };
        Ok(0)
    }
}
