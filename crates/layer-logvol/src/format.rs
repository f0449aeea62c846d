//! What lies on the medium: slots of the superblock, heads of segments, batches of records, pages of the map.
//!
//! Byte rows and trust: see the format's page. Invariants: all that a slot says fits in 512 bytes, which a power cut
//! leaves whole; what was written before this opening of the volume, or by another volume, is told by its epoch.

#![cfg_attr(not(test), deny(clippy::cast_possible_truncation))]

mod batch;
mod head;
mod page;
mod slot;
#[cfg(test)]
mod tests;

pub use batch::{BATCH_HEAD, Batch, BatchError, RECORD, Record, Runs, records_per};
pub use head::{CopyHeader, SegmentHeader, number_of};
pub use page::{PAGE_HEAD, Page, PageError, PageId};
pub use slot::{HEADS, Heads, Position, SLOT, SLOTS, Slot};

use std::ops::Range;

use esker_base::units::size_text;
pub(crate) use esker_framing::checksum;

use crate::map::Fanout;
use crate::number::{PageNo, SegmentNo};

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
pub const SLOTS_BYTES: u64 = SLOTS * SLOT_BYTES;
/// Bytes of one of them.
const SLOT_BYTES: u64 = SLOT as u64;
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
    pub fn fit(bytes: u64, block: u32, page: u32, segment_bytes: u64) -> Result<Geometry, GeometryError> {
        if !matches!(block, 512 | 4096) {
            return Err(GeometryError::Block(block));
        }
        if !page.is_power_of_two() || page < block || page > 65_536 {
            return Err(GeometryError::Page { page, block });
        }
        let least = 16 * u64::from(page);
        if !segment_bytes.is_power_of_two() || !(least..=SEGMENT_MAX).contains(&segment_bytes) {
            return Err(GeometryError::Segment { bytes: segment_bytes, least });
        }
        let start = if segment_bytes >= ALIGNED { ALIGNED } else { SLOTS_BYTES.next_multiple_of(u64::from(page)) };
        let usable = bytes / SLOT_BYTES * SLOT_BYTES;
        let room = usable.saturating_sub(start + SLOTS_BYTES);
        let segments = room / segment_bytes;
        if segments < SEGMENTS_MIN {
            let needed = start + SLOTS_BYTES + SEGMENTS_MIN * segment_bytes;
            return Err(GeometryError::Small { bytes, segments, segment: segment_bytes, needed });
        }
        if segments > SEGMENTS_MAX {
            return Err(GeometryError::Large { bytes, segments, advice: advice_for(room) });
        }
        Ok(Geometry { block, page, segment: segment_bytes / u64::from(block), segments, start })
    }

    /// Whether some medium could have it.
    fn is_sound(&self) -> bool {
        let bytes = self.segment.checked_mul(u64::from(self.block)).and_then(|bytes| bytes.checked_mul(self.segments));
        let end = bytes.and_then(|bytes| bytes.checked_add(self.start)).and_then(|end| end.checked_add(SLOTS_BYTES));
        // Both ends are whole slots, because segments are.
        let fits = |end: u64| Geometry::fit(end, self.block, self.page, self.segment_bytes());
        let rounded = end.and_then(|end| end.checked_next_multiple_of(SLOT_BYTES));
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
    ///
    /// # Panics
    /// If the block lies far outside of the medium.
    pub fn segment_of(&self, pba: u64) -> SegmentNo {
        SegmentNo::new(pba / self.segment).expect("a block of the medium")
    }

    /// The first physical block of a segment.
    pub fn first_of(&self, segment: SegmentNo) -> u64 {
        segment.number() * self.segment
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
    pub fn pages_of(&self, segment: SegmentNo) -> Range<PageNo> {
        let first = self.byte_of(self.first_of(segment)) / u64::from(self.page);
        PageNo(first)..PageNo(first + self.pages_per_segment())
    }

    /// The segment that holds a page.
    pub fn segment_of_page(&self, page: PageNo) -> Option<SegmentNo> {
        let at = page.0.checked_mul(u64::from(self.page))?;
        let segment = at.checked_sub(self.start)? / self.segment_bytes();
        SegmentNo::new(segment).filter(|_| segment < self.segments)
    }

    /// What fits in a page of the map.
    pub fn fanout(&self) -> Fanout {
        let room = self.page as usize - PAGE_HEAD;
        let roots = 1 << (room / page::ROOT_ENTRY - 1).ilog2();
        let index = room / page::INDEX_ENTRY;
        let changes = room / page::CHANGE_ENTRY;
        Fanout { leaf: room / page::LEAF_ENTRY, inner: room / page::INNER_ENTRY, roots, index, changes }
    }
}

/// Why no volume can lie on a medium; the text says what would do.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum GeometryError {
    /// Not a unit of mapping.
    #[error("a block of {0} bytes; it is 512 or 4096")]
    Block(u32),
    /// Not a page of the map.
    #[error("a page of {page} bytes; it is a power of two from {block} to 65536")]
    Page {
        /// Bytes of the page.
        page: u32,
        /// Bytes of a block.
        block: u32,
    },
    /// Not a unit of log space.
    #[error("a segment of {bytes} bytes; it is a power of two from {least} to {SEGMENT_MAX}")]
    Segment {
        /// Bytes of the segment.
        bytes: u64,
        /// The fewest that would do.
        least: u64,
    },
    /// Too few segments.
    #[error(
        "{bytes} bytes have room for {segments} segments of {segment}; {SEGMENTS_MIN} are needed: make it {needed} \
         bytes, or segments smaller"
    )]
    Small {
        /// Bytes of the medium.
        bytes: u64,
        /// Segments that fit.
        segments: u64,
        /// Bytes of a segment.
        segment: u64,
        /// Bytes that a medium needs for such segments.
        needed: u64,
    },
    /// Too many segments.
    #[error("{bytes} bytes are {segments} segments, and a volume has at most {SEGMENTS_MAX}: {advice}")]
    Large {
        /// Bytes of the medium.
        bytes: u64,
        /// Segments that fit.
        segments: u64,
        /// What to do.
        advice: String,
    },
}

/// What to do where `room` bytes for segments are too many of them.
fn advice_for(room: u64) -> String {
    let fits = (room / (SEGMENTS_MAX + 1) + 1).checked_next_power_of_two().filter(|least| *least <= SEGMENT_MAX);
    match fits {
        Some(least) => format!("write segment={}", size_text(least)),
        None => format!(
            "no segment is large enough for this device; give what is below a size of at most {} (a `logvol` or \
             `thin` below has 2^48 blocks unless its text gives `size`)",
            size_text(SEGMENTS_MAX * SEGMENT_MAX)
        ),
    }
}

/// Where the slots of a generation lie on a medium of `bytes`: in front and at the back.
pub fn slots_of(generation: u64, bytes: u64) -> [u64; 2] {
    let at = generation % SLOTS * SLOT_BYTES;
    [at, bytes / SLOT_BYTES * SLOT_BYTES - SLOTS_BYTES + at]
}

/// Little-endian numbers at fixed places; the caller knows that the bytes are there.
pub(crate) fn get(bytes: &[u8], at: usize, len: usize) -> u64 {
    let mut word = [0; 8];
    word[..len].copy_from_slice(&bytes[at..at + len]);
    u64::from_le_bytes(word)
}

fn get_u16(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

fn get_u32(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

pub(crate) fn put(bytes: &mut [u8], at: usize, len: usize, value: u64) {
    debug_assert!(len == 8 || value < 1 << (8 * len), "{value} in {len} bytes");
    bytes[at..at + len].copy_from_slice(&value.to_le_bytes()[..len]);
}
