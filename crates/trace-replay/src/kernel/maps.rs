//! Memory maps of files. A map has a slot, as a descriptor has, through which its pages are touched. Calls that name a
//! map by its address find its file by that.

use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use esker_base::Spans;
use esker_sys::{FileMap, WriteBack};
use esker_trace_calls::words::{MapAdvice, MapFlags, MapSyncFlags};
use esker_trace_calls::{Call, Fd};
use rustix::fs::Advice;
use rustix::io::Errno;

use super::slots::Handle;
use super::{CallExecutor, Fail, Reply, Skip, Turn, data::unsigned, done};

/// What is mapped, by process and address.
#[derive(Default)]
pub(super) struct Maps(Mutex<BTreeMap<u32, Spans<Arc<Handle>>>>);

/// Starts writeback and does not wait.
const BEGIN: WriteBack = WriteBack { wait_before: false, start: true, wait_after: false };

impl Maps {
    fn all(&self) -> MutexGuard<'_, BTreeMap<u32, Spans<Arc<Handle>>>> {
        // Each change is one of a list of ranges: a panic elsewhere cannot leave half of one.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The file behind an address, and the address's offset in it.
    fn find(&self, process: u32, address: u64) -> Option<(Arc<Handle>, u64)> {
        let maps = self.all();
        let (file, offset) = maps.get(&process)?.find(address)?;
        Some((file.clone(), offset))
    }

    /// Files stay open while they are mapped.
    pub(super) fn forget_all(&self) {
        self.all().clear();
    }
}

impl CallExecutor<'_> {
    pub(super) fn maps(&mut self, turn: &Turn<'_>) -> Reply {
        match turn.step.call {
            Call::Map { fd, len, offset, flags, .. } => self.map(turn, fd, (offset, len), flags),
            Call::Unmap { address, len } => {
                drop(self.kernel.maps.all().entry(turn.process).or_default().remove(address, len));
                Err(Fail::Skip(Skip::NotFiles))
            }
            Call::Remap { address, len, new_len } => self.remap(turn, (address, len), new_len),
            Call::MapSync { address, len, flags } => self.map_sync(turn, address, len, flags),
            Call::MapAdvise { address, len, advice } => self.map_advise(turn, address, len, advice),
            Call::MapTouch { fd, offset, len, write } => self.map_touch(fd, offset, len, write),
            // A page of an unrecorded map.
            Call::PageFault { .. } | Call::PageWrite { .. } => Err(Fail::Skip(Skip::Unseen)),
            _ => unreachable!("calls come to their family"),
        }
    }

    fn map(&mut self, turn: &Turn<'_>, fd: Fd, (offset, len): (u64, u64), flags: MapFlags) -> Reply {
        if fd.0 < 0 || flags.contains(MapFlags::MAP_ANONYMOUS) {
            return Err(Fail::Skip(Skip::NotFiles));
        }
        let file = self.inside(fd)?;
        let is_written = flags.contains(MapFlags::MAP_SHARED | MapFlags::PROT_WRITE);
        let map = FileMap::new(&*file, offset, len, is_written).map_err(errno)?;
        if flags.contains(MapFlags::MAP_POPULATE) {
            rustix::fs::fadvise(&*file, offset, NonZeroU64::new(len), Advice::WillNeed)?;
        }
        if let Some(address) = turn.step.outcome.value() {
            let mapped = self.kernel.slots.mapped(rustix::io::fcntl_dupfd_cloexec(&*file, 0)?, map, offset);
            let mut maps = self.kernel.maps.all();
            drop(maps.entry(turn.process).or_default().add(address as u64, len, offset, mapped.clone()));
            self.keep(turn, mapped);
        }
        Ok(0)
    }

    fn remap(&mut self, turn: &Turn<'_>, (address, len): (u64, u64), new_len: u64) -> Reply {
        let found = self.kernel.maps.find(turn.process, address);
        if let (Some((file, offset)), Some(to)) = (found, turn.step.outcome.value()) {
            let mut maps = self.kernel.maps.all();
            let maps = maps.entry(turn.process).or_default();
            let mut gone = maps.remove(address, len);
            gone.extend(maps.add(to as u64, new_len, offset, file));
        }
        Err(Fail::Skip(Skip::NotFiles))
    }

    fn map_sync(&mut self, turn: &Turn<'_>, address: u64, len: u64, flags: MapSyncFlags) -> Reply {
        let found = self.kernel.maps.find(turn.process, address).ok_or(Fail::Skip(Skip::NotFiles))?;
        let (file, offset) = found;
        if flags.contains(MapSyncFlags::MS_SYNC) {
            return Ok(done(rustix::fs::fdatasync(&*file)?));
        }
        self.write_back(&file, offset, len, BEGIN)
    }

    fn map_advise(&mut self, turn: &Turn<'_>, address: u64, len: u64, advice: MapAdvice) -> Reply {
        let (file, offset) = self.kernel.maps.find(turn.process, address).ok_or(Fail::Skip(Skip::NotFiles))?;
        // What is said of memory says nothing of the file, but that it will be needed.
        if advice != MapAdvice::WillNeed {
            return Err(Fail::Skip(Skip::NotFiles));
        }
        Ok(done(rustix::fs::fadvise(&*file, offset, NonZeroU64::new(len), Advice::WillNeed)?))
    }

    /// An access through a map, by which the kernel brings the page into memory as it did for the program. What lies
    /// outside of what was mapped first (a map may grow), and what is written, is a read or write of the file instead.
    fn map_touch(&mut self, fd: Fd, offset: u64, len: u64, write: bool) -> Reply {
        let file = self.inside(fd)?;
        unsigned(offset as i64)?;
        match file.map.as_ref().and_then(|(map, from)| Some((map, offset.checked_sub(*from)?))) {
            Some((map, at)) if at < map.bytes() && write && map.is_writable() => map.make_dirty(at).map_err(errno)?,
            _ if write => drop(rustix::io::pwrite(&*file, self.buffers.bytes_to_write(len), offset)?),
            Some((map, at)) if at < map.bytes() => map.touch(at).map_err(errno)?,
            _ => drop(rustix::io::pread(&*file, self.buffers.room_to_read(len), offset)?),
        }
        Ok(0)
    }
}

fn errno(error: std::io::Error) -> Errno {
    Errno::from_io_error(&error).unwrap_or(Errno::IO)
}
