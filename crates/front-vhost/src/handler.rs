//! The messages of a virtual machine's monitor, read on a thread that may wait. It maps memory and translates
//! addresses. Messages about rings go to the reactor, which answers when it has obeyed.

#![allow(clippy::disallowed_types, reason = "the protocol hands over descriptors as files, through a Unix socket")]

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex};

use rustix::fs::{MemfdFlags, SealFlags};
use vhost::VhostUserMemoryRegionBase;
use vhost::vhost_user::message::{
    VhostTransferStateDirection, VhostTransferStatePhase, VhostUserConfigFlags, VhostUserInflight, VhostUserLog,
    VhostUserMemoryRegion, VhostUserProtocolFeatures, VhostUserShMemConfig, VhostUserSharedMsg,
    VhostUserSingleMemoryRegion, VhostUserVringAddrFlags, VhostUserVringState,
};
use vhost::vhost_user::{BackendReqHandler, Error, GpuBackend, Result, VhostUserBackendReqHandlerMut};
use vm_memory::{FileOffset, GuestAddress, GuestRegionMmap, MmapRegion};

use crate::Memory;
use crate::disk::{Disk, SECTOR, feature};
use crate::guest::{Guest, MonitorMemory};
use crate::inflight::area_bytes;
use crate::mailbox::Asker;
use crate::ring::{Addresses, RING_LEN_MAX, RingError};

/// Pieces of guest memory.
const REGIONS_MAX: usize = 64;
/// Bytes of the configuration space that may be asked for; what is not ours reads as zero.
const SPACE_BYTES_MAX: usize = 256;
/// The file system of huge pages (statfs(2)).
const HUGETLBFS_MAGIC: i64 = 0x9584_58f6;

/// What the reactor is asked to do.
pub(crate) enum Command {
    Features {
        by_index: bool,
        flushes: bool,
        enable: bool,
    },
    Memory(Arc<Guest>),
    Track {
        region: Arc<MonitorMemory>,
        len: u16,
    },
    Len {
        ring: u16,
        len: u32,
    },
    Addresses {
        ring: u16,
        at: Addresses,
    },
    Base {
        ring: u16,
        index: u16,
    },
    Start {
        ring: u16,
        kick: OwnedFd,
    },
    Call {
        ring: u16,
        call: Option<OwnedFd>,
    },
    Enable {
        ring: u16,
        enabled: bool,
    },
    Stop {
        ring: u16,
    },
    /// Tells the size of the disk in bytes, which may have changed.
    Size,
    Reset,
}

/// What the reactor answers: for a stop the next index, for the size bytes, else 0.
pub(crate) type Answer = std::result::Result<u64, RingError>;

/// Reads messages from `socket` until the monitor goes away.
///
/// # Errors
/// What the monitor did wrong.
pub(crate) fn serve(socket: OwnedFd, handler: Handler) -> Result<()> {
    let mut link = BackendReqHandler::from_stream(UnixStream::from(socket), Arc::new(Mutex::new(handler)));
    loop {
        match link.handle_request() {
            Ok(()) => {}
            Err(Error::Disconnected | Error::SocketBroken(_)) => return Ok(()),
            Err(error) => return Err(error),
        }
    }
}

/// Where a piece of guest memory lies in the monitor's address space and in the guest's.
#[derive(Clone, Copy)]
struct Mapping {
    monitor: u64,
    guest: u64,
    len: u64,
}

/// One monitor's connection.
pub(crate) struct Handler {
    reactor: Asker<Command, Answer>,
    offered: u64,
    agreed: u64,
    space: Vec<u8>,
    rings: u16,
    memory: Memory,
    mappings: Vec<Mapping>,
}

impl Handler {
    pub(crate) fn new(disk: &Disk, reactor: Asker<Command, Answer>) -> Handler {
        Handler {
            reactor,
            offered: disk.features() | feature::PROTOCOL,
            agreed: 0,
            space: disk.space(),
            rings: disk.config.queues_max,
            memory: Memory::new(),
            mappings: Vec::new(),
        }
    }

    fn ask(&self, command: Command) -> Result<u64> {
        let gone = || other("the server has stopped");
        self.reactor.ask(command).ok_or_else(gone)?.map_err(other)
    }

    fn ring(&self, index: u32) -> Result<u16> {
        u16::try_from(index).ok().filter(|ring| *ring < self.rings).ok_or(Error::InvalidParam)
    }

    fn guest_address(&self, monitor: u64) -> Result<u64> {
        let inside = |map: &&Mapping| monitor.checked_sub(map.monitor).is_some_and(|at| at < map.len);
        let map = self.mappings.iter().find(inside).ok_or(Error::InvalidParam)?;
        Ok(monitor - map.monitor + map.guest)
    }

    fn publish(&self) -> Result<()> {
        let guest = Guest::new(self.memory.clone()).map_err(Error::ReqHandlerError)?;
        self.ask(Command::Memory(Arc::new(guest))).map(drop)
    }

    fn add(&mut self, region: &VhostUserMemoryRegion, file: File) -> Result<()> {
        if self.mappings.len() >= REGIONS_MAX {
            return Err(Error::InvalidParam);
        }
        hold(&file, region.mmap_offset, region.memory_size)?;
        let mapped = GuestRegionMmap::new(region.mmap_region(file)?, GuestAddress(region.guest_phys_addr));
        let mapped = mapped.ok_or(Error::InvalidParam)?;
        self.memory = self.memory.insert_region(Arc::new(mapped)).map_err(other)?;
        let (monitor, guest, len) = (region.user_addr, region.guest_phys_addr, region.memory_size);
        self.mappings.push(Mapping { monitor, guest, len });
        Ok(())
    }
}

/// Makes sure that a file has the `len` bytes from `offset` on that will be mapped, and keeps them where the kernel can
/// promise that: a memory file is sealed against shrinking.
fn hold(file: &File, offset: u64, len: u64) -> Result<()> {
    let end = offset.checked_add(len).ok_or(Error::InvalidParam)?;
    // Sealed first: a size that was read before could be another one now. Files of a file system cannot be sealed, and
    // a monitor may have forbidden it.
    let _unsealable = rustix::fs::fcntl_add_seals(file, SealFlags::SHRINK);
    let size = file.metadata().map_err(Error::ReqHandlerError)?.len();
    if size < end {
        return Err(other(format!("the memory file has {size} bytes, and {end} of it are to be mapped")));
    }
    let system = rustix::fs::fstatfs(file).map_err(|error| Error::ReqHandlerError(error.into()))?;
    // Memory that is lost is replaced, which the kernel does for whole pages of a mapping.
    let page = u64::try_from(system.f_bsize).unwrap_or(1).max(1);
    if system.f_type == HUGETLBFS_MAGIC && !(offset.is_multiple_of(page) && len.is_multiple_of(page)) {
        return Err(other(format!("memory in huge pages of {page} bytes is to be mapped in whole ones")));
    }
    Ok(())
}

fn other(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
    Error::ReqHandlerError(io::Error::other(error))
}

fn refused<T>() -> Result<T> {
    Err(Error::InvalidOperation("not offered"))
}

impl VhostUserBackendReqHandlerMut for Handler {
    fn set_owner(&mut self) -> Result<()> {
        Ok(())
    }

    fn reset_owner(&mut self) -> Result<()> {
        self.reset_device()
    }

    fn reset_device(&mut self) -> Result<()> {
        self.agreed = 0;
        self.ask(Command::Reset).map(drop)
    }

    fn get_features(&mut self) -> Result<u64> {
        Ok(self.offered)
    }

    fn set_features(&mut self, features: u64) -> Result<()> {
        if features & !self.offered != 0 {
            return Err(Error::InvalidParam);
        }
        self.agreed = features;
        let has = |bit| features & bit != 0;
        // Without the protocol's features there is no message to enable rings.
        let (by_index, enable) = (has(feature::EVENT_IDX), !has(feature::PROTOCOL));
        self.ask(Command::Features { by_index, flushes: has(feature::FLUSH), enable }).map(drop)
    }

    fn set_mem_table(
        &mut self,
        regions: &[VhostUserMemoryRegion],
        files: Vec<File>,
        _postcopy: Option<bool>,
    ) -> Result<Option<Vec<VhostUserMemoryRegionBase>>> {
        (self.memory, self.mappings) = (Memory::new(), Vec::new());
        for (region, file) in regions.iter().zip(files) {
            self.add(region, file)?;
        }
        self.publish().map(|()| None)
    }

    fn set_vring_num(&mut self, index: u32, len: u32) -> Result<()> {
        self.ask(Command::Len { ring: self.ring(index)?, len }).map(drop)
    }

    fn set_vring_addr(
        &mut self,
        index: u32,
        _flags: VhostUserVringAddrFlags,
        descriptor: u64,
        used: u64,
        available: u64,
        _log: u64,
    ) -> Result<()> {
        let at = Addresses {
            table: self.guest_address(descriptor)?,
            available: self.guest_address(available)?,
            used: self.guest_address(used)?,
        };
        self.ask(Command::Addresses { ring: self.ring(index)?, at }).map(drop)
    }

    fn set_vring_base(&mut self, index: u32, base: u32) -> Result<()> {
        let index_next = u16::try_from(base).map_err(|_| Error::InvalidParam)?;
        self.ask(Command::Base { ring: self.ring(index)?, index: index_next }).map(drop)
    }

    fn get_vring_base(&mut self, index: u32) -> Result<VhostUserVringState> {
        let next = self.ask(Command::Stop { ring: self.ring(index)? })?;
        Ok(VhostUserVringState::new(index, u32::try_from(next).map_err(other)?))
    }

    fn set_vring_kick(&mut self, index: u8, fd: Option<File>) -> Result<()> {
        let kick = fd.ok_or(Error::InvalidOperation("rings without a descriptor to wait for are not offered"))?;
        self.ask(Command::Start { ring: self.ring(index.into())?, kick: kick.into() }).map(drop)
    }

    fn set_vring_call(&mut self, index: u8, fd: Option<File>) -> Result<()> {
        self.ask(Command::Call { ring: self.ring(index.into())?, call: fd.map(OwnedFd::from) }).map(drop)
    }

    fn set_vring_err(&mut self, index: u8, _fd: Option<File>) -> Result<()> {
        self.ring(index.into()).map(drop)
    }

    fn get_protocol_features(&mut self) -> Result<VhostUserProtocolFeatures> {
        Ok(VhostUserProtocolFeatures::MQ
            | VhostUserProtocolFeatures::REPLY_ACK
            | VhostUserProtocolFeatures::CONFIG
            | VhostUserProtocolFeatures::INFLIGHT_SHMFD
            | VhostUserProtocolFeatures::CONFIGURE_MEM_SLOTS
            | VhostUserProtocolFeatures::RESET_DEVICE)
    }

    fn set_protocol_features(&mut self, _features: u64) -> Result<()> {
        Ok(())
    }

    fn get_queue_num(&mut self) -> Result<u64> {
        Ok(self.rings.into())
    }

    fn set_vring_enable(&mut self, index: u32, enabled: bool) -> Result<()> {
        self.ask(Command::Enable { ring: self.ring(index)?, enabled }).map(drop)
    }

    fn get_config(&mut self, offset: u32, size: u32, _flags: VhostUserConfigFlags) -> Result<Vec<u8>> {
        let (from, len) = (offset as usize, size as usize);
        if from + len > SPACE_BYTES_MAX {
            return Err(Error::InvalidParam);
        }
        // The capacity comes first in the space.
        let sectors = self.ask(Command::Size)? / SECTOR;
        self.space[..8].copy_from_slice(&sectors.to_le_bytes());
        Ok(self.space.iter().copied().chain(std::iter::repeat(0)).skip(from).take(len).collect())
    }

    fn set_config(&mut self, _offset: u32, _bytes: &[u8], _flags: VhostUserConfigFlags) -> Result<()> {
        refused()
    }

    fn set_gpu_socket(&mut self, _gpu: GpuBackend) -> Result<()> {
        refused()
    }

    fn get_shared_object(&mut self, _uuid: VhostUserSharedMsg) -> Result<File> {
        refused()
    }

    fn get_inflight_fd(&mut self, asked: &VhostUserInflight) -> Result<(VhostUserInflight, File)> {
        let (rings, len) = (asked.num_queues, asked.queue_size);
        if rings == 0 || rings > self.rings || len == 0 || len > RING_LEN_MAX {
            return Err(Error::InvalidParam);
        }
        let bytes = (area_bytes(len) * usize::from(rings)) as u64;
        let file = rustix::fs::memfd_create("esker-inflight", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)
            .map_err(io::Error::from);
        let file = file.map_err(Error::ReqHandlerError)?;
        rustix::fs::ftruncate(&file, bytes).map_err(|error| Error::ReqHandlerError(error.into()))?;
        Ok((VhostUserInflight::new(bytes, 0, rings, len), file.into()))
    }

    fn set_inflight_fd(&mut self, given: &VhostUserInflight, file: File) -> Result<()> {
        let len = usize::try_from(given.mmap_size).map_err(|_| Error::InvalidParam)?;
        hold(&file, given.mmap_offset, given.mmap_size)?;
        let region = MmapRegion::from_file(FileOffset::new(file, given.mmap_offset), len).map_err(other)?;
        let region = MonitorMemory::new(region).map_err(Error::ReqHandlerError)?;
        self.ask(Command::Track { region: Arc::new(region), len: given.queue_size }).map(drop)
    }

    fn get_max_mem_slots(&mut self) -> Result<u64> {
        Ok(REGIONS_MAX as u64)
    }

    fn add_mem_region(
        &mut self,
        region: &VhostUserSingleMemoryRegion,
        fd: File,
        _postcopy: Option<bool>,
    ) -> Result<Option<VhostUserMemoryRegionBase>> {
        self.add(region, fd)?;
        self.publish().map(|()| None)
    }

    fn remove_mem_region(&mut self, region: &VhostUserSingleMemoryRegion) -> Result<()> {
        let removed = self.memory.remove_region(GuestAddress(region.guest_phys_addr), region.memory_size);
        self.memory = removed.map_err(other)?.0;
        self.mappings.retain(|map| map.guest != region.guest_phys_addr);
        self.publish()
    }

    fn set_device_state_fd(
        &mut self,
        _direction: VhostTransferStateDirection,
        _phase: VhostTransferStatePhase,
        _fd: File,
    ) -> Result<Option<File>> {
        refused()
    }

    fn check_device_state(&mut self) -> Result<()> {
        refused()
    }

    fn get_shmem_config(&mut self) -> Result<VhostUserShMemConfig> {
        refused()
    }

    fn set_log_base(&mut self, _log: &VhostUserLog, _file: File) -> Result<()> {
        refused()
    }
}
