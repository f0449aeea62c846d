//! Memory of a guest as this process holds it: mapped from files of the monitor, which may shorten them. Where a file
//! cannot be sealed against that, an access behind its end finds zeroes, and the memory counts as lost from then on.

use std::io;
use std::ops::Deref;

use esker_rt::real::FaultGuard;
use vm_memory::{GuestMemoryBackend, MmapRegion};

use crate::Memory;

/// All memory of a guest.
#[derive(Debug)]
pub struct Guest {
    // Before the memory: what is watched is mapped.
    guards: Vec<FaultGuard>,
    memory: Memory,
}

impl Guest {
    /// Takes memory that was mapped for it.
    ///
    /// # Errors
    /// If too many pieces of memory are in use in this process.
    pub fn new(memory: Memory) -> io::Result<Guest> {
        let guards = memory.iter().map(|region| watch(region)).collect::<io::Result<_>>()?;
        Ok(Guest { guards, memory })
    }

    /// The memory itself.
    pub fn memory(&self) -> &Memory {
        &self.memory
    }

    /// Whether a part of it is gone. What was read since may be zeroes that the guest never wrote.
    pub fn is_lost(&self) -> bool {
        self.guards.iter().any(FaultGuard::is_lost)
    }
}

impl Deref for Guest {
    type Target = Memory;

    fn deref(&self) -> &Memory {
        &self.memory
    }
}

/// Memory that the monitor keeps beside that of the guest.
#[derive(Debug)]
pub struct MonitorMemory {
    // Before the region: what is watched is mapped.
    guard: FaultGuard,
    region: MmapRegion<()>,
}

impl MonitorMemory {
    /// Takes a region that was mapped for it.
    ///
    /// # Errors
    /// As for [`Guest::new`].
    pub fn new(region: MmapRegion<()>) -> io::Result<MonitorMemory> {
        Ok(MonitorMemory { guard: watch(&region)?, region })
    }

    /// Whether it is gone.
    pub fn is_lost(&self) -> bool {
        self.guard.is_lost()
    }
}

impl Deref for MonitorMemory {
    type Target = MmapRegion<()>;

    fn deref(&self) -> &MmapRegion<()> {
        &self.region
    }
}

/// The guard is kept beside the region, and dropped before it.
#[allow(unsafe_code, reason = "the one place that promises how guest memory is used")]
fn watch(region: &MmapRegion<()>) -> io::Result<FaultGuard> {
    // SAFETY: the range is a mapping that the region has made for itself and takes back when it is dropped, which is
    // after the guard. It is shared with another process that may write it at any time, so that `vm-memory` gives no
    // references to it and accesses it as volatile memory.
    unsafe { FaultGuard::new(region.as_ptr(), region.size()) }
}
