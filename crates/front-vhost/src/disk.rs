//! What a guest sees of an export: features, configuration space, serial; and what all its rings share.

use std::cell::Cell;
use std::rc::Rc;

use esker_block::{Device, Limits, OpKind, Support};
use esker_rt::Rt;
use esker_rt::mem::Pool;
use esker_rt::sync::Credits;

use crate::server::Config;

/// Bytes of a sector, in which virtio counts whatever the block size is.
pub const SECTOR: u64 = 512;
/// Data descriptors of a request that the guest is told to keep to.
pub const SEGMENTS_MAX: u32 = 126;
/// Ranges of one discard or write-zeroes request.
pub const RANGES_MAX: u32 = 64;
/// Sectors of one such range: 1 GiB.
pub const RANGE_SECTORS_MAX: u32 = 1 << 21;
/// Bytes of the serial.
pub const SERIAL_BYTES: usize = 20;

/// Feature bits of virtio and of its block device, as the specification (version 1.2) numbers them.
pub mod feature {
    /// The greatest number of segments is told.
    pub const SEG_MAX: u64 = 1 << 2;
    /// Read-only.
    pub const RO: u64 = 1 << 5;
    /// The block size is told.
    pub const BLK_SIZE: u64 = 1 << 6;
    /// Writes may be volatile until a flush.
    pub const FLUSH: u64 = 1 << 9;
    /// Physical block and preferred sizes are told.
    pub const TOPOLOGY: u64 = 1 << 10;
    /// Several queues.
    pub const MQ: u64 = 1 << 12;
    /// Discard.
    pub const DISCARD: u64 = 1 << 13;
    /// Write zeroes.
    pub const WRITE_ZEROES: u64 = 1 << 14;
    /// Tables of descriptors in memory.
    pub const INDIRECT_DESC: u64 = 1 << 28;
    /// Notifications by index.
    pub const EVENT_IDX: u64 = 1 << 29;
    /// vhost-user: features of the protocol.
    pub const PROTOCOL: u64 = 1 << 30;
    /// Not the legacy device.
    pub const VERSION_1: u64 = 1 << 32;
}

/// What was done for guests of one export so far.
#[derive(Debug, Default)]
pub struct Counters {
    /// Requests that were answered.
    pub requests: Cell<u64>,
    /// Chains and headers that made no sense.
    pub malformed: Cell<u64>,
    /// Payload bytes copied between guest memory and buffers.
    pub copied_bytes: Cell<u64>,
    /// Requests that a server had begun before it died, and that this one carried out.
    pub resumed: Cell<u64>,
}

/// Adds to a counter.
pub(crate) fn count(counter: &Cell<u64>, by: u64) {
    counter.set(counter.get() + by);
}

/// An export as a virtio disk.
pub struct Disk {
    pub(crate) rt: Rt,
    pub(crate) pool: Pool,
    pub(crate) device: Rc<dyn Device>,
    pub(crate) config: Config,
    /// What was done so far.
    pub counters: Counters,
    /// Bytes of payload that may be under way, over all rings.
    pub(crate) payload: Credits,
    name: String,
}

impl Disk {
    /// A disk of all of `device`, called `name`.
    pub fn new(rt: &Rt, pool: &Pool, name: &str, device: Rc<dyn Device>, config: Config) -> Disk {
        Disk {
            rt: rt.clone(),
            pool: pool.clone(),
            device,
            config,
            counters: Counters::default(),
            payload: Credits::new(config.payload_bytes_max),
            name: name.to_string(),
        }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Bytes of a logical block as the guest sees it: sectors are the least that virtio can say.
    pub fn block(&self) -> u64 {
        u64::from(self.device.limits().block).max(SECTOR)
    }

    /// What can be offered.
    pub fn features(&self) -> u64 {
        let limits = self.device.limits();
        let when = |kind, bit| if limits.support(kind) == Support::No { 0 } else { bit };
        let writable = when(OpKind::Discard, feature::DISCARD) | when(OpKind::Zero, feature::WRITE_ZEROES);
        let read_only = limits.support(OpKind::Write) == Support::No;
        (if read_only { feature::RO } else { writable })
            | feature::SEG_MAX
            | feature::BLK_SIZE
            | feature::FLUSH
            | feature::TOPOLOGY
            | feature::MQ
            | feature::INDIRECT_DESC
            | feature::EVENT_IDX
            | feature::VERSION_1
    }

    /// The configuration space (`struct virtio_blk_config`).
    pub fn space(&self) -> Vec<u8> {
        let (limits, block) = (self.device.limits(), self.block());
        let physical = u64::from(limits.atomic).clamp(block, block.max(4096));
        let blocks = |bytes: u64| u32::try_from(bytes / block).unwrap_or(u32::MAX);
        let range_sectors = RANGE_SECTORS_MAX.to_le_bytes();
        let ranges = RANGES_MAX.to_le_bytes();
        let alignment = sectors_of(block.max(u64::from(limits.discard))).to_le_bytes();
        let mut space = Vec::with_capacity(60);
        let mut put = |bytes: &[u8]| space.extend_from_slice(bytes);
        put(&(self.device.size() / SECTOR).to_le_bytes());
        put(&u32::MAX.to_le_bytes()); // size_max, not offered
        put(&SEGMENTS_MAX.to_le_bytes());
        put(&[0; 4]); // geometry, not offered
        put(&(block as u32).to_le_bytes());
        put(&[(physical / block).ilog2() as u8, 0]);
        put(&u16::try_from(physical / block).unwrap_or(1).to_le_bytes());
        put(&blocks(u64::from(limits.preferred)).to_le_bytes());
        put(&[1, 0]); // writeback
        put(&self.config.queues_max.to_le_bytes());
        [range_sectors, ranges, alignment].iter().for_each(|word| put(word));
        [range_sectors, ranges].iter().for_each(|word| put(word));
        put(&[1, 0, 0, 0]); // write-zeroes may unmap
        space
    }

    /// The serial: the name, cut and padded with zeroes.
    pub fn serial(&self) -> [u8; SERIAL_BYTES] {
        let mut serial = [0; SERIAL_BYTES];
        let name = self.name.as_bytes();
        let len = name.len().min(SERIAL_BYTES);
        serial[..len].copy_from_slice(&name[..len]);
        serial
    }

    pub(crate) fn limits(&self) -> &Limits {
        self.device.limits()
    }
}

fn sectors_of(bytes: u64) -> u32 {
    (bytes / SECTOR) as u32
}
