//! The superblock: where the log begins and which records are in force. It has the common header, whose generation is
//! called the sequence here, and lies in one sector, which a power cut leaves whole. Byte rows and trust: the format's
//! page.

#![cfg_attr(not(test), deny(clippy::cast_possible_truncation))]

use std::ops::RangeInclusive;

use esker_framing::{Features, HEADER, Header, Newest, SuperblockError, newest, seal, slot, slots, unseal};
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::format::{SLOT, padded};

/// Bytes of the largest volume.
pub const HOME_MAX: u64 = 1 << 63;
/// Bytes of the largest area of records. Positions go round it and rise for ever.
pub const AREA_MAX: u64 = 1 << 60;
/// Bytes of a superblock; the rest of its block is zero.
pub const LEN: usize = 256;

/// The bytes behind the common header.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Clone)]
#[repr(C)]
struct Body {
    home: U64,
    area: U64,
    first: U64,
    number: U64,
    epoch: U64,
    since: U64,
    durable: U64,
    block: U32,
    reserved: [u8; LEN - HEADER - 60],
}

/// Where the log begins and what is in force.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Superblock {
    /// The log, drawn when it was made.
    pub log: u128,
    /// Bytes of the volume that is off-loaded.
    pub home: u64,
    /// Bytes of the area of records.
    pub area: u64,
    /// Logical block in bytes: of headers and of all ranges.
    pub block: u32,
    /// Rises with each superblock.
    pub sequence: u64,
    /// Position of the oldest record.
    pub first: u64,
    /// Its number.
    pub number: u64,
    /// Records from `since` on belong to this epoch; others with such numbers were given up.
    pub epoch: u64,
    /// First number of the epoch.
    pub since: u64,
    /// Records with lower numbers are on the medium.
    pub durable: u64,
}

impl Superblock {
    /// The first superblock of a log.
    pub fn new(log: u128, home: u64, area: u64, block: u32) -> Superblock {
        Superblock { log, home, area, block, sequence: 0, first: 0, number: 0, epoch: 0, since: 0, durable: 0 }
    }

    /// Whether this superblock, once it was written, could be read again.
    ///
    /// # Errors
    /// Why not.
    pub fn check_new(&self) -> Result<(), SuperblockError> {
        let written = Superblock { sequence: self.sequence.max(1), ..self.clone() };
        written.check().map_err(SuperblockError::Range)
    }

    /// First byte of the slot to which the superblock of this sequence goes.
    pub fn slot(&self) -> u64 {
        slot(self.sequence) as u64 * SLOT
    }

    /// Its block.
    pub fn encode(&self) -> Vec<u8> {
        padded(&seal(self), self.block)
    }

    /// Reads one slot.
    ///
    /// # Errors
    /// [`SuperblockError`].
    pub fn decode(slot: &[u8]) -> Result<Superblock, SuperblockError> {
        unseal(slot).and_then(Newest::writable)
    }

    /// The superblock of a log, given the first 8 KiB of its device.
    ///
    /// # Errors
    /// [`SuperblockError`], also if only one slot is damaged: falling back to the other one would read a log that has
    /// been overwritten.
    pub fn newest(start: &[u8]) -> Result<Superblock, SuperblockError> {
        newest(&[slots(start)]).and_then(Newest::writable)
    }

    fn check(&self) -> Result<(), &'static str> {
        let block = u64::from(self.block);
        let fits = |n: u64, most: u64| block != 0 && n > 0 && n.is_multiple_of(block) && n <= most;
        // Numbers that rise for ever leave room for a lifetime, so that sums of them never overflow.
        let rules = [
            ("block", self.block.is_power_of_two() && (512..=SLOT).contains(&block)),
            ("volume", fits(self.home, HOME_MAX)),
            ("area", fits(self.area, AREA_MAX)),
            ("first record", block != 0 && self.first.is_multiple_of(block) && self.first <= 1 << 62),
            ("sequence", (1..=1 << 62).contains(&self.sequence)),
            ("epoch", self.epoch <= 1 << 62),
            ("number", self.number <= 1 << 62 && self.since <= 1 << 62 && self.durable <= 1 << 62),
        ];
        rules.iter().find(|(_, holds)| !holds).map_or(Ok(()), |(what, _)| Err(*what))
    }
}

impl esker_framing::Superblock for Superblock {
    const MAGIC: [u8; 8] = esker_layer_kit::media::OFFLOAD;
    const VERSION: u16 = 3;
    /// No record says which superblock is the newest.
    const DETECTS_STALE: bool = false;
    const NAME: &'static str = "a log of off-loaded writes";
    const LENGTHS: RangeInclusive<usize> = LEN..=LEN;

    fn header(&self) -> Header {
        Header { id: self.log, generation: self.sequence, features: Features::NONE }
    }

    fn encode_body(&self) -> Vec<u8> {
        let body = Body {
            home: self.home.into(),
            area: self.area.into(),
            first: self.first.into(),
            number: self.number.into(),
            epoch: self.epoch.into(),
            since: self.since.into(),
            durable: self.durable.into(),
            block: self.block.into(),
            reserved: [0; LEN - HEADER - 60],
        };
        body.as_bytes().to_vec()
    }

    fn decode_body(header: &Header, body: &[u8]) -> Result<Superblock, &'static str> {
        let body = Body::read_from_bytes(body).map_err(|_| "length")?;
        let superblock = Superblock {
            log: header.id,
            home: body.home.get(),
            area: body.area.get(),
            block: body.block.get(),
            sequence: header.generation,
            first: body.first.get(),
            number: body.number.get(),
            epoch: body.epoch.get(),
            since: body.since.get(),
            durable: body.durable.get(),
        };
        superblock.check().map(|()| superblock)
    }
}

#[cfg(test)]
mod tests;
