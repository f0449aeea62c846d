//! Memory maps of files: there is no safe way to map, so a map is a range of addresses that leads to a file.

use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use esker_rt::real::WriteBack;
use esker_trace::words::{MapAdvice, MapFlags, MapSyncFlags};
use esker_trace::{Call, Fd};
use rustix::fs::Advice;

use super::slots::Handle;
use super::{Fail, Hand, Reply, Skip, Turn, data::unsigned, done};

/// What is mapped, by process and first address.
#[derive(Default)]
pub struct Maps(Mutex<BTreeMap<(u32, u64), Map>>);

/// A part of a file in memory.
#[derive(Clone)]
struct Map {
    len: u64,
    offset: u64,
    file: Arc<Handle>,
}

/// Writeback is begun, and nobody waits.
const BEGIN: WriteBack = WriteBack { wait_before: false, start: true, wait_after: false };

impl Maps {
    fn all(&self) -> MutexGuard<'_, BTreeMap<(u32, u64), Map>> {
        // Each change is one insertion or removal: a panic elsewhere cannot leave half of one.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The file behind an address, and the address's offset in it.
    fn find(&self, process: u32, address: u64) -> Option<(Arc<Handle>, u64)> {
        let maps = self.all();
        let (at, map) = maps.range((process, 0)..=(process, address)).next_back()?;
        let into = address - at.1;
        (into < map.len).then(|| (map.file.clone(), map.offset + into))
    }

    /// Files stay open while they are mapped.
    pub fn forget_all(&self) {
        self.all().clear();
    }
}

impl Hand<'_> {
    pub(super) fn maps(&mut self, turn: &Turn<'_>) -> Reply {
        match turn.step.call {
            Call::Map { fd, len, offset, flags, .. } => self.map(turn, fd, (offset, len), flags),
            Call::Unmap { address, .. } => {
                self.kernel.maps.all().remove(&(turn.process, address));
                Err(Fail::Skip(Skip::NotFiles))
            }
            Call::Remap { address, new_len, .. } => self.remap(turn, address, new_len),
            Call::MapSync { address, len, flags } => self.map_sync(turn, address, len, flags),
            Call::MapAdvise { address, len, advice } => self.map_advise(turn, address, len, advice),
            Call::MapTouch { fd, offset, len, write } => self.map_touch(fd, offset, len, write),
            _ => unreachable!("calls come to their family"),
        }
    }

    fn map(&mut self, turn: &Turn<'_>, fd: Fd, (offset, len): (u64, u64), flags: MapFlags) -> Reply {
        if fd.0 < 0 || flags.contains(MapFlags::MAP_ANONYMOUS) {
            return Err(Fail::Skip(Skip::NotFiles));
        }
        let file = self.inside(fd)?;
        // The least that tells whether the descriptor is open.
        rustix::fs::fcntl_getfl(&*file)?;
        if flags.contains(MapFlags::MAP_POPULATE) {
            rustix::fs::fadvise(&*file, offset, NonZeroU64::new(len), Advice::WillNeed)?;
        }
        if let Some(address) = turn.step.outcome.value() {
            let map = Map { len, offset, file };
            self.kernel.maps.all().insert((turn.process, address as u64), map);
        }
        Ok(0)
    }

    fn remap(&mut self, turn: &Turn<'_>, address: u64, len: u64) -> Reply {
        let mut maps = self.kernel.maps.all();
        if let (Some(map), Some(to)) = (maps.remove(&(turn.process, address)), turn.step.outcome.value()) {
            maps.insert((turn.process, to as u64), Map { len, ..map });
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

    /// An access through a map as the read or write that it causes.
    fn map_touch(&mut self, fd: Fd, offset: u64, len: u64, write: bool) -> Reply {
        let file = self.inside(fd)?;
        unsigned(offset as i64)?;
        if write {
            rustix::io::pwrite(&*file, self.buffers.bytes_to_write(len), offset)?;
        } else {
            rustix::io::pread(&*file, self.buffers.room_to_read(len), offset)?;
        }
        Ok(0)
    }
}
