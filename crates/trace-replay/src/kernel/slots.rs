//! Descriptors of a replay. A slot stands for one *generation* of a traced descriptor, so equal numbers coexist.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use esker_sys::FileMap;
use esker_trace_calls::Fd;
use rustix::io::Errno;

/// What a descriptor is here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nature {
    /// A file of the run, or anything else on which traced calls are made as they were.
    File,
    /// An end of a pipe: reads take what was traced, however the writers cut it.
    Pipe,
    /// Something outside: a socket, a terminal, a timer. No traced call is made on it.
    Outside,
}

/// An open descriptor.
pub struct Handle {
    fd: OwnedFd,
    /// The part of the file that is mapped, and its offset, in the slot of a map.
    pub map: Option<(FileMap, u64)>,
    /// Its nature.
    pub nature: Nature,
    /// Tells it apart from all other handles of the replay.
    pub number: u64,
}

/// All slots, by the number of their resource.
pub struct Slots {
    slots: Vec<Mutex<Option<Arc<Handle>>>>,
    numbers: AtomicU64,
}

impl AsFd for Handle {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Slots {
    /// So many empty slots.
    pub fn new(count: usize) -> Slots {
        Slots { slots: (0..count).map(|_| Mutex::new(None)).collect(), numbers: AtomicU64::new(1) }
    }

    /// An open descriptor with a number of its own.
    pub fn handle(&self, fd: OwnedFd, nature: Nature) -> Arc<Handle> {
        self.add(fd, None, nature)
    }

    /// A part of a file in memory, and the file itself under a descriptor of its own.
    pub fn mapped(&self, fd: OwnedFd, map: FileMap, offset: u64) -> Arc<Handle> {
        self.add(fd, Some((map, offset)), Nature::File)
    }

    fn add(&self, fd: OwnedFd, map: Option<(FileMap, u64)>, nature: Nature) -> Arc<Handle> {
        Arc::new(Handle { fd, map, nature, number: self.numbers.fetch_add(1, Ordering::Relaxed) })
    }

    fn slot(&self, slot: Fd) -> Result<MutexGuard<'_, Option<Arc<Handle>>>, Errno> {
        let slot = usize::try_from(slot.0).ok().and_then(|slot| self.slots.get(slot)).ok_or(Errno::BADF)?;
        // A handle is moved in or out at once: a panic elsewhere cannot leave half of one.
        Ok(slot.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// What is open there.
    ///
    /// # Errors
    /// `BADF` if nothing is.
    pub fn get(&self, slot: Fd) -> Result<Arc<Handle>, Errno> {
        self.slot(slot)?.clone().ok_or(Errno::BADF)
    }

    /// Opens it. A number that is no slot closes the handle.
    pub fn put(&self, slot: Fd, handle: Arc<Handle>) {
        if let Ok(mut slot) = self.slot(slot) {
            *slot = Some(handle);
        }
    }

    /// Closes it; the descriptor itself is closed after its last use, and its errors are reported then.
    ///
    /// # Errors
    /// `BADF` if nothing is open there, and the kernel's.
    pub fn close(&self, slot: Fd) -> Result<(), Errno> {
        let handle = self.slot(slot)?.take().ok_or(Errno::BADF)?;
        match Arc::into_inner(handle) {
            Some(handle) => close(handle.fd),
            None => Ok(()),
        }
    }

    /// Closes everything, so that calls that wait for another end come back.
    pub fn close_all(&self) {
        for slot in 0..self.slots.len() {
            // Slots that are closed already are no error here.
            let _closed = self.close(Fd(slot as i32));
        }
    }
}

/// Closes a descriptor and tells what became of its last writes, which dropping it would not.
fn close(fd: OwnedFd) -> Result<(), Errno> {
    let closed = esker_sys::close(fd);
    closed.map_err(|e| Errno::from_io_error(&e).unwrap_or(Errno::IO))
}
