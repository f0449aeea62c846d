//! The records of the log. Byte rows and trust: the format's page.
//!
//! The header of a record is a log record of `framing`, and lies in one sector, which a power cut leaves whole. Its
//! data follows in the same write and may be torn; its checksum tells. Positions rise for ever; a position modulo the
//! area is a place in it, and a record never wraps around.

#![cfg_attr(not(test), deny(clippy::cast_possible_truncation))]

use esker_base::ByteRange;
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::superblock::Superblock;

/// Bytes for each of the two slots of superblocks.
pub const SLOT: u64 = esker_framing::SLOT as u64;
/// First byte of the area of records.
pub const AREA_START: u64 = 2 * SLOT;

const DATA: u16 = 1;
const ZEROES: u16 = 2;
const SKIP: u16 = 3;
const NO_UNMAP: u32 = 1;

/// The payload of a header.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Clone)]
#[repr(C)]
struct Change {
    start: U64,
    len: U64,
    data: U32,
    flags: U32,
}

/// What a record says about its range.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Content {
    /// It holds the data, which follows the header and has this CRC-32.
    Data(u32),
    /// It reads as zeroes; whether it keeps its space.
    Zeroes {
        /// As in the request.
        no_unmap: bool,
    },
    /// Nothing: the rest of the area is not used, the next record lies at its beginning.
    Skip,
}

/// The header of a record.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Record {
    /// Rises by one with each record.
    pub number: u64,
    /// The epoch that was in force.
    pub epoch: u64,
    /// Where the header lies.
    pub position: u64,
    /// What was changed; empty for a skip.
    pub range: ByteRange,
    /// How.
    pub content: Content,
    /// Records with lower numbers were on the medium when this one was written.
    pub durable: u64,
}

impl Record {
    /// The header's block.
    pub fn encode(&self, superblock: &Superblock) -> Vec<u8> {
        let (kind, data, flags) = match self.content {
            Content::Data(sum) => (DATA, sum, 0),
            Content::Zeroes { no_unmap } => (ZEROES, 0, if no_unmap { NO_UNMAP } else { 0 }),
            Content::Skip => (SKIP, 0, 0),
        };
        let (start, len) = (self.range.start().into(), self.range.len().into());
        let change = Change { start, len, data: data.into(), flags: flags.into() };
        let Record { number, epoch, position, durable, .. } = *self;
        let (log, payload) = (superblock.log, change.as_bytes());
        esker_framing::Record { log, epoch, number, position, durable, kind, payload }.seal(superblock.block as usize)
    }

    /// The record of this log whose header has these fields; none if no esker writes them.
    pub fn decode(header: &esker_framing::Record<'_>, superblock: &Superblock) -> Option<Record> {
        let change = Change::ref_from_bytes(header.payload).ok()?;
        let content = match (header.kind, change.flags.get()) {
            (DATA, 0) => Content::Data(change.data.get()),
            (ZEROES, flags) if flags & !NO_UNMAP == 0 => Content::Zeroes { no_unmap: flags == NO_UNMAP },
            (SKIP, 0) => Content::Skip,
            _ => return None,
        };
        let range = ByteRange::new(change.start.get(), change.len.get())?;
        let esker_framing::Record { number, epoch, position, durable, .. } = *header;
        let record = Record { number, epoch, position, range, content, durable };
        record.fits(superblock).then_some(record)
    }

    fn fits(&self, superblock: &Superblock) -> bool {
        let is_whole = self.position % superblock.area + self.len(superblock) <= superblock.area;
        let is_of_home = self.range.end() <= superblock.home && self.range.is_aligned(u64::from(superblock.block));
        match self.content {
            Content::Skip => self.range.is_empty(),
            Content::Data(_) | Content::Zeroes { .. } => !self.range.is_empty() && is_of_home && is_whole,
        }
    }

    /// Bytes of the log that it takes.
    pub fn len(&self, superblock: &Superblock) -> u64 {
        match self.content {
            Content::Data(_) => u64::from(superblock.block) + self.range.len(),
            Content::Zeroes { .. } => u64::from(superblock.block),
            Content::Skip => superblock.area - self.position % superblock.area,
        }
    }

    /// Where the next one lies.
    pub fn end(&self, superblock: &Superblock) -> u64 {
        self.position + self.len(superblock)
    }
}

pub(crate) fn padded(bytes: &[u8], block: u32) -> Vec<u8> {
    let mut out = vec![0; block as usize];
    out[..bytes.len()].copy_from_slice(bytes);
    out
}

/// The byte of the device at which a position lies.
pub fn place(superblock: &Superblock, position: u64) -> u64 {
    AREA_START + position % superblock.area
}

#[cfg(test)]
pub(crate) mod tests;
