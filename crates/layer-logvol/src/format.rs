//! What lies on the medium: slots of the superblock, heads of segments, batches of records, pages of the map.
//!
//! Byte rows and trust: see the format's page. Invariants: all that a slot says fits in 512 bytes, which a power cut
//! leaves whole; what was written before this opening of the volume, or by another volume, is told by its epoch.

mod batch;
mod head;
mod page;
mod slot;
#[cfg(test)]
mod tests;

pub use batch::{BATCH_HEAD, Batch, BatchError, RECORD, Record, records_per};
pub use head::{CopyHeader, SegmentHeader};
pub use page::{PAGE_HEAD, Page, PageError, PageId};
pub use slot::{Position, SLOT, SLOTS, Slot};

use std::ops::Range;

use esker_base::units::size_text;
pub(crate) use esker_framing::checksum;

use crate::map::Fanout;

/// Where things are. Fixed when the volume is made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Geometry {
    /// Bytes of a block, the unit of mapping: a power of two.
    pub block: u32,
    /// Bytes of a page of the map: a power of two, at least a block.
    pub page: u32,
    /// Blocks of a segment: a power of two.
    pub segment: u64,
    /// Segments.
    pub segments: u64,
    /// First byte of segment 0.
    pub start: u64,
}

/// The front and the back of the medium hold copies of both slots, in this many bytes each.
pub const SLOTS_BYTES: u64 = SLOTS * SLOT as u64;
/// The largest segment in bytes.
pub const SEGMENT_MAX: u64 = 1 << 30;
/// Segments at least: a head, two in reserve, two for the map, three for data.
pub const SEGMENTS_MIN: u64 = 8;
/// Segments at most. The table of segments is in memory, with less than 64 bytes for each.
pub const SEGMENTS_MAX: u64 = 1 << 22;
/// Segments of at least this size begin at multiples of it on the medium.
const ALIGNED: u64 = 1 << 20;

impl Geometry {
    /// As many segments as fit on a medium of `bytes`.
    ///
    /// # Errors
    /// Which number is wrong, and what would be right.
    pub fn fit(bytes: u64, block: u32, page: u32, segment_bytes: u64) -> Result<Geometry, String> {
        if !matches!(block, 512 | 4096) {
            return Err(format!("a block of {block} bytes; it is 512 or 4096"));
        }
        if !page.is_power_of_two() || page < block || page > 65_536 {
            return Err(format!("a page of {page} bytes; it is a power of two from {block} to 65536"));
        }
        let least = 16 * u64::from(page);
        if !segment_bytes.is_power_of_two() || !(least..=SEGMENT_MAX).contains(&segment_bytes) {
            return Err(format!(
                "a segment of {segment_bytes} bytes; it is a power of two from {least} to {SEGMENT_MAX}"
            ));
        }
        let start = if segment_bytes >= ALIGNED { ALIGNED } else { SLOTS_BYTES.next_multiple_of(u64::from(page)) };
        let usable = bytes / SLOT as u64 * SLOT as u64;
        let segments = usable.saturating_sub(start + SLOTS_BYTES) / segment_bytes;
        if segments < SEGMENTS_MIN {
            let needed = start + SLOTS_BYTES + SEGMENTS_MIN * segment_bytes;
            return Err(format!(
                "{bytes} bytes have room for {segments} segments of {segment_bytes}; {SEGMENTS_MIN} are needed: make \
                 it {needed} bytes, or segments smaller"
            ));
        }
        if segments > SEGMENTS_MAX {
            return Err(too_many(bytes, segments, usable.saturating_sub(start + SLOTS_BYTES)));
        }
        Ok(Geometry { block, page, segment: segment_bytes / u64::from(block), segments, start })
    }

    /// Whether some medium could have it.
    fn is_sound(&self) -> bool {
        let bytes = self.segment.checked_mul(u64::from(self.block)).and_then(|bytes| bytes.checked_mul(self.segments));
        let end = bytes.and_then(|bytes| bytes.checked_add(self.start)).and_then(|end| end.checked_add(SLOTS_BYTES));
        // Both ends are whole slots, because segments are.
        let fits = |end: u64| Geometry::fit(end, self.block, self.page, self.segment_bytes());
        let rounded = end.and_then(|end| end.checked_next_multiple_of(SLOT as u64));
        rounded.is_some_and(|end| fits(end).as_ref() == Ok(self) && self.blocks() <= 1 << 48)
    }

    /// Bytes that a medium must have.
    pub fn bytes(&self) -> u64 {
        self.start + self.segments * self.segment_bytes() + SLOTS_BYTES
    }

    /// Bytes of a segment.
    pub fn segment_bytes(&self) -> u64 {
        self.segment * u64::from(self.block)
    }

    /// Physical blocks.
    pub fn blocks(&self) -> u64 {
        self.segments * self.segment
    }

    /// The segment that holds a physical block.
    pub fn segment_of(&self, pba: u64) -> usize {
        (pba / self.segment) as usize
    }

    /// The first byte of a physical block on the medium.
    pub fn byte_of(&self, pba: u64) -> u64 {
        self.start + pba * u64::from(self.block)
    }

    /// Pages of a segment.
    pub fn pages_per_segment(&self) -> u64 {
        self.segment_bytes() / u64::from(self.page)
    }

    /// The pages of a segment. They are numbered over the whole medium from its first byte, so no page of the map is
    /// number 0.
    pub fn pages_of(&self, segment: usize) -> Range<u64> {
        let first = self.byte_of(segment as u64 * self.segment) / u64::from(self.page);
        first..first + self.pages_per_segment()
    }

    /// The segment that holds a page.
    pub fn segment_of_page(&self, page: u64) -> Option<usize> {
        let at = page.checked_mul(u64::from(self.page))?;
        let segment = at.checked_sub(self.start)? / self.segment_bytes();
        (segment < self.segments).then_some(segment as usize)
    }

    /// What fits in a page of the map.
    pub fn fanout(&self) -> Fanout {
        let room = self.page as usize - PAGE_HEAD;
        Fanout { leaf: room / page::LEAF_ENTRY, inner: room / page::INNER_ENTRY }
    }
}

/// Why a medium of `bytes` has too many segments, and what to do: `room` bytes of it are for segments.
fn too_many(bytes: u64, segments: u64, room: u64) -> String {
    let fits = (room / (SEGMENTS_MAX + 1) + 1).checked_next_power_of_two().filter(|least| *least <= SEGMENT_MAX);
    let advice = match fits {
        Some(least) => format!("write segment={}", size_text(least)),
        None => format!(
            "no segment is large enough for this device; give what is below a size of at most {} (a `logvol` or \
             `thin` below has 2^48 blocks unless its text gives `size`)",
            size_text(SEGMENTS_MAX * SEGMENT_MAX)
        ),
    };
    format!("{bytes} bytes are {segments} segments, and a volume has at most {SEGMENTS_MAX}: {advice}")
}

/// Where the slots of a generation lie on a medium of `bytes`: in front and at the back.
pub fn slots_of(generation: u64, bytes: u64) -> [u64; 2] {
    let at = generation % SLOTS * SLOT as u64;
    [at, bytes / SLOT as u64 * SLOT as u64 - SLOTS_BYTES + at]
}

/// Little-endian numbers at fixed places; the caller knows that the bytes are there.
pub(crate) fn get(bytes: &[u8], at: usize, len: usize) -> u64 {
    let mut word = [0; 8];
    word[..len].copy_from_slice(&bytes[at..at + len]);
    u64::from_le_bytes(word)
}

pub(crate) fn put(bytes: &mut [u8], at: usize, len: usize, value: u64) {
    debug_assert!(len == 8 || value < 1 << (8 * len), "{value} in {len} bytes");
    bytes[at..at + len].copy_from_slice(&value.to_le_bytes()[..len]);
}
