//! A guest's side of a ring, and a disk to put behind it.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use esker_base::Nanos;
use esker_block::{Bio, BioError, Device, Done, Limits, Op, Step};
use esker_dev::{Defer, MemoryDevice};
use esker_rt::mem::Pool;
use esker_rt::{Rt, Sim, SimConfig};
use virtio_queue::desc::RawDescriptor;
use virtio_queue::desc::split::Descriptor;
use virtio_queue::mock::MockSplitQueue;
use vm_memory::{Bytes, GuestAddress};

use crate::disk::Disk;
use crate::ring::{Addresses, Ring};
use crate::{Config, Guest, Memory};

pub(super) const RING_LEN: u16 = 16;
pub(super) const DISK_BYTES: u64 = 1 << 20;
/// Where requests put their header, status and data.
pub(super) const HEADER: u64 = 0x10_000;
pub(super) const STATUS: u64 = 0x11_000;
pub(super) const DATA: u64 = 0x20_000;
pub(super) const MEMORY_BYTES: usize = 4 << 20;

/// Flags of descriptors.
pub(super) const NEXT: u16 = 1;
pub(super) const WRITE: u16 = 2;
pub(super) const INDIRECT: u16 = 4;

/// A device that notes what it is asked.
pub(super) struct Spy {
    inner: MemoryDevice,
    limits: Limits,
    pub seen: RefCell<Vec<(Op, bool)>>,
    /// Requests that are never answered.
    pub stuck: std::cell::Cell<bool>,
}

impl Device for Spy {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn submit(&self, bio: Bio) -> Step<Done> {
        self.seen.borrow_mut().push((bio.op.clone(), bio.flags.fua));
        if self.stuck.get() {
            return Step::later(std::future::pending());
        }
        if bio.range.start() == FAILS_AT && matches!(bio.op, Op::Read | Op::Write) {
            return Step::Now(bio.fail(BioError::io("a bad block")));
        }
        self.inner.submit(bio)
    }
}

/// Transfers that begin here fail.
pub(super) const FAILS_AT: u64 = 512 << 10;

pub(super) fn spy(rt: &Rt, block: u32) -> Rc<Spy> {
    let media = esker_dev::Media::new(DISK_BYTES);
    let inner = MemoryDevice::over(rt, media, block, Defer::Always(Nanos::micros(3)));
    // As ports of `thin`: what is written whole and discarded can be larger than a sector.
    let limits = Limits { atomic: 64 << 10, discard: 4096, ..inner.limits().clone() };
    Rc::new(Spy { inner, limits, seen: RefCell::default(), stuck: std::cell::Cell::new(false) })
}

/// What a scenario works with.
pub(super) struct Bed {
    pub disk: Rc<Disk>,
    pub device: Rc<Spy>,
    pub ring: Rc<Ring>,
    pub memory: Arc<Guest>,
}

impl Bed {
    pub(super) fn new(rt: &Rt, block: u32, config: Config) -> Bed {
        let device = spy(rt, block);
        Bed::over(rt, device.clone(), device, config)
    }

    /// The same with a disk over `served` instead of the spy.
    pub(super) fn over(rt: &Rt, served: Rc<dyn Device>, device: Rc<Spy>, config: Config) -> Bed {
        let disk = Rc::new(Disk::new(rt, &Pool::default(), "vol", served, config));
        let memory = Memory::from_ranges(&[(GuestAddress(0), MEMORY_BYTES)]).unwrap();
        let memory = Arc::new(Guest::new(memory).unwrap());
        let ring = Ring::new(&disk, 0);
        Bed { disk, device, ring, memory }
    }

    /// The guest's side of the ring, set up and in use.
    pub(super) fn start(&self) -> Driver<'_> {
        let driver = Driver::new(&self.memory);
        self.set_up(&driver, true);
        self.ring.start(None).unwrap();
        driver
    }

    /// All but the start.
    pub(super) fn set_up(&self, driver: &Driver<'_>, flushes: bool) {
        self.ring.set_features(false, flushes);
        self.ring.set_memory(self.memory.clone());
        self.ring.set_len(u32::from(RING_LEN)).unwrap();
        self.ring.set_addresses(driver.addresses()).unwrap();
        self.ring.enable(true);
    }

    /// Lets the ring take what is available, and waits until all of it is answered.
    pub(super) async fn wait_idle(&self) {
        self.ring.drain();
        self.ring.idle().await;
    }
}

/// Runs a scenario in virtual time.
pub(super) fn check<Fut: Future<Output = ()> + 'static>(scenario: impl FnOnce(Rt) -> Fut + 'static) {
    let sim = Sim::new(SimConfig::seeded(1));
    let rt = sim.rt();
    sim.block_on(scenario(rt));
}

/// A guest's side of a ring.
pub(super) struct Driver<'a> {
    queue: MockSplitQueue<'a, Memory>,
    memory: &'a Memory,
    /// Heads made available.
    given: u16,
}

/// A piece of a request: address, bytes, and whether the device writes it.
pub(super) type Piece = (u64, u32, bool);

impl<'a> Driver<'a> {
    pub(super) fn new(memory: &'a Memory) -> Driver<'a> {
        Driver { queue: MockSplitQueue::new(memory, RING_LEN), memory, given: 0 }
    }

    pub(super) fn addresses(&self) -> Addresses {
        Addresses {
            table: self.queue.desc_table_addr().0,
            available: self.queue.avail_addr().0,
            used: self.queue.used_addr().0,
        }
    }

    pub(super) fn descriptor(&self, at: u16, addr: u64, len: u32, flags: u16, next: u16) {
        let descriptor = RawDescriptor::from(Descriptor::new(addr, len, flags, next));
        self.queue.desc_table().store(at, descriptor).unwrap();
    }

    /// Makes `head` available.
    pub(super) fn give(&mut self, head: u16) {
        self.queue.avail().ring().ref_at(usize::from(self.given % RING_LEN)).unwrap().store(head.to_le());
        self.given = self.given.wrapping_add(1);
        self.queue.avail().idx().store(self.given.to_le());
    }

    /// Says that something else is available.
    pub(super) fn claim(&mut self, given: u16) {
        self.given = given;
        self.queue.avail().idx().store(given.to_le());
    }

    /// Makes a chain of `pieces` from descriptor `head` on available.
    pub(super) fn chain(&mut self, head: u16, pieces: &[Piece]) {
        for (at, (addr, len, write)) in (head..).zip(pieces) {
            let last = usize::from(at - head) + 1 == pieces.len();
            let flags = if *write { WRITE } else { 0 } | if last { 0 } else { NEXT };
            self.descriptor(at, *addr, *len, flags, at + 1);
        }
        self.give(head);
    }

    /// A request with the header at `HEADER + 16 head` and the status at `STATUS + head`.
    pub(super) fn request(&mut self, head: u16, kind: u32, sector: u64, data: &[Piece]) {
        let (header, status) = (HEADER + 16 * u64::from(head), STATUS + u64::from(head));
        self.header(header, kind, sector);
        self.memory.write_obj(0xffu8, GuestAddress(status)).unwrap();
        let pieces = [&[(header, 16, false)], data, &[(status, 1, true)]].concat();
        self.chain(head, &pieces);
    }

    pub(super) fn header(&self, at: u64, kind: u32, sector: u64) {
        let bytes = [&kind.to_le_bytes()[..], &[0; 4], &sector.to_le_bytes()].concat();
        self.memory.write_slice(&bytes, GuestAddress(at)).unwrap();
    }

    /// The status of the request at `head`.
    pub(super) fn status(&self, head: u16) -> u8 {
        self.memory.read_obj(GuestAddress(STATUS + u64::from(head))).unwrap()
    }

    /// What was used so far: heads and bytes written, in order.
    pub(super) fn used(&self) -> Vec<(u32, u32)> {
        let count = u16::from_le(self.queue.used().idx().load());
        let element = |at: u16| {
            let element = self.queue.used().ring().ref_at(usize::from(at % RING_LEN)).unwrap().load();
            (element.id(), element.len())
        };
        (0..count).map(element).collect()
    }

    pub(super) fn put(&self, at: u64, bytes: &[u8]) {
        self.memory.write_slice(bytes, GuestAddress(at)).unwrap();
    }

    pub(super) fn get(&self, at: u64, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.memory.read_slice(&mut bytes, GuestAddress(at)).unwrap();
        bytes
    }
}
