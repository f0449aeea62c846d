//! The records of the log. Byte rows and trust: the format's page.
//!
//! A record's header lies in one sector, which a power cut leaves whole. Its payload follows in the same write and may
//! be torn; its checksum tells. Positions rise for ever; a position modulo the area is a place in it, and a record
//! never wraps around.

use esker_base::ByteRange;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::superblock::Superblock;

/// Bytes for each of the two slots of superblocks.
pub const SLOT: u64 = esker_framing::SLOT as u64;
/// First byte of the area of records.
pub const AREA_START: u64 = 2 * SLOT;
/// Bytes of a record's header that say something; the rest of its block is zero.
pub const HEADER: usize = 128;

const RECORD_MAGIC: [u8; 8] = *b"\x89EskRec\n";
const NO_UNMAP: u16 = 1;

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Clone)]
#[repr(C)]
struct RecordBytes {
    magic: [u8; 8],
    kind: U16,
    flags: U16,
    payload: U32,
    log: [u8; 16],
    number: U64,
    epoch: U64,
    position: U64,
    start: U64,
    len: U64,
    durable: U64,
    reserved: [u8; 44],
    checksum: U32,
}

fn checksum(bytes: &[u8]) -> u32 {
    crc32fast::hash(&bytes[..HEADER - size_of::<U32>()])
}

/// What a record says about its range.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Content {
    /// It holds the payload, which follows the header and has this CRC-32.
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
        let (kind, flags, payload) = match self.content {
            Content::Data(sum) => (1, 0, sum),
            Content::Zeroes { no_unmap } => (2, if no_unmap { NO_UNMAP } else { 0 }, 0),
            Content::Skip => (3, 0, 0),
        };
        let mut bytes = RecordBytes {
            magic: RECORD_MAGIC,
            kind: kind.into(),
            flags: flags.into(),
            payload: payload.into(),
            log: superblock.log.to_le_bytes(),
            number: self.number.into(),
            epoch: self.epoch.into(),
            position: self.position.into(),
            start: self.range.start().into(),
            len: self.range.len().into(),
            durable: self.durable.into(),
            reserved: [0; 44],
            checksum: 0.into(),
        };
        bytes.checksum = checksum(bytes.as_bytes()).into();
        padded(bytes.as_bytes(), superblock.block)
    }

    /// The record of `number` at `position`, if these bytes are its header.
    pub fn decode(bytes: &[u8], superblock: &Superblock, number: u64, position: u64) -> Option<Record> {
        let (bytes, _) = RecordBytes::read_from_prefix(bytes).ok()?;
        let is_it = bytes.magic == RECORD_MAGIC
            && bytes.checksum.get() == checksum(bytes.as_bytes())
            && bytes.log == superblock.log.to_le_bytes()
            && (bytes.number.get(), bytes.position.get()) == (number, position);
        let content = match (bytes.kind.get(), bytes.flags.get()) {
            (1, 0) => Content::Data(bytes.payload.get()),
            (2, flags) if flags & !NO_UNMAP == 0 => Content::Zeroes { no_unmap: flags == NO_UNMAP },
            (3, 0) => Content::Skip,
            _ => return None,
        };
        let range = ByteRange::new(bytes.start.get(), bytes.len.get())?;
        let (epoch, durable) = (bytes.epoch.get(), bytes.durable.get());
        let record = Record { number, epoch, position, range, content, durable };
        (is_it && record.is_sound(superblock)).then_some(record)
    }

    fn is_sound(&self, superblock: &Superblock) -> bool {
        let is_of_epoch = match self.number >= superblock.since {
            true => self.epoch == superblock.epoch,
            false => self.epoch < superblock.epoch,
        };
        let fits = match self.content {
            Content::Skip => self.range.is_empty(),
            _ => {
                let is_inside =
                    self.range.end() <= superblock.home && self.range.is_aligned(u64::from(superblock.block));
                !self.range.is_empty()
                    && is_inside
                    && self.position % superblock.area + self.len(superblock) <= superblock.area
            }
        };
        is_of_epoch && fits && self.durable <= self.number
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
