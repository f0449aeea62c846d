//! Which requests of a ring are under way, written into memory that the monitor keeps. After the death of this server
//! the next one carries them out again. None is lost, although requests end in another order than they began.
//!
//! The layout is that of the vhost-user specification ("Inflight I/O tracking", split virtqueues), little-endian, one
//! area for each ring:
//!
//! | offset | bytes | field |
//! |---|---|---|
//! | 0 | 8 | features, 0 |
//! | 8 | 2 | version: 0 until the area is used, then 1 |
//! | 10 | 2 | descriptors |
//! | 12 | 2 | head of the request that is being put into the used ring |
//! | 14 | 2 | index of the used ring after the last such request |
//! | 16 + 16 n | 1 | whether the request at head n is under way |
//! | 24 + 16 n | 8 | its place in the order of beginnings |
//!
//! Trust: all of it comes from the monitor, and may lie. A head that is out of bounds cannot occur, because heads are
//! places; a wrong mark repeats or forgets requests of that monitor's own guest.

use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

use vm_memory::{Bytes, VolatileMemory};

use crate::guest::MonitorMemory;

/// Bytes before the first descriptor.
const HEADER_BYTES: usize = 16;
const ENTRY_BYTES: usize = 16;
/// Areas begin at multiples of this.
const ALIGNMENT: usize = 64;

const VERSION_AT: usize = 8;
const DESCRIPTORS_AT: usize = 10;
const HEAD_AT: usize = 12;
const USED_AT: usize = 14;
/// Of an entry.
const COUNTER_AT: usize = 8;

/// Bytes of the area of a ring of `len` descriptors.
pub fn area_bytes(len: u16) -> usize {
    (HEADER_BYTES + ENTRY_BYTES * usize::from(len)).next_multiple_of(ALIGNMENT)
}

/// The area of one ring.
#[derive(Clone, Debug)]
pub struct Area {
    region: Arc<MonitorMemory>,
    at: usize,
    len: u16,
    counter: u64,
}

impl Area {
    /// The area of ring `index` in a region for rings of `len` descriptors; none if the region is too small.
    pub fn new(region: &Arc<MonitorMemory>, index: u16, len: u16) -> Option<Area> {
        let bytes = area_bytes(len);
        let at = bytes.checked_mul(usize::from(index))?;
        (at + bytes <= region.size()).then(|| Area { region: region.clone(), at, len, counter: 0 })
    }

    /// Whether its memory is gone.
    pub fn is_lost(&self) -> bool {
        self.region.is_lost()
    }

    /// Takes the area into use, given the index of the used ring in the guest's memory: the heads that were under way
    /// when its last user died, in the order in which they began.
    pub fn recover(&mut self, used: u16) -> Vec<u16> {
        if self.get::<u16>(VERSION_AT) == 0 {
            self.put(DESCRIPTORS_AT, self.len);
            self.put(USED_AT, used);
            self.put(VERSION_AT, 1u16);
            return Vec::new();
        }
        let head = self.get::<u16>(HEAD_AT);
        if self.get::<u16>(USED_AT) != used && head < self.len {
            // It died between telling the guest and forgetting the request.
            self.put(self.entry(head), 0u8);
        }
        self.put(USED_AT, used);
        let marked = (0..self.len).filter(|head| self.get::<u8>(self.entry(*head)) == 1);
        let mut heads: Vec<(u64, u16)> = marked.map(|head| (self.get(self.entry(head) + COUNTER_AT), head)).collect();
        heads.sort_unstable();
        self.counter = heads.last().map_or(0, |(counter, _)| counter.wrapping_add(1));
        heads.into_iter().map(|(_, head)| head).collect()
    }

    /// The request at `head` begins.
    pub fn begin(&mut self, head: u16) {
        self.put(self.entry(head) + COUNTER_AT, self.counter);
        self.counter = self.counter.wrapping_add(1);
        fence(Ordering::Release);
        self.put(self.entry(head), 1u8);
    }

    /// The guest is about to be told that the request at `head` has ended.
    pub fn end(&mut self, head: u16) {
        self.put(HEAD_AT, head);
        fence(Ordering::SeqCst);
    }

    /// The guest was told; its used ring stands at `used` now.
    pub fn ended(&mut self, head: u16, used: u16) {
        fence(Ordering::SeqCst);
        self.put(self.entry(head), 0u8);
        fence(Ordering::SeqCst);
        self.put(USED_AT, used);
    }

    fn entry(&self, head: u16) -> usize {
        HEADER_BYTES + ENTRY_BYTES * usize::from(head)
    }

    fn get<T: vm_memory::ByteValued>(&self, at: usize) -> T {
        self.region.as_volatile_slice().read_obj(self.at + at).expect("the area lies in its region")
    }

    fn put<T: vm_memory::ByteValued>(&self, at: usize, value: T) {
        self.region.as_volatile_slice().write_obj(value, self.at + at).expect("the area lies in its region");
    }
}
