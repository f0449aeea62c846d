//! Records of a log, and where a log ends. Byte rows: `docs/reference/formats/superblock.md`.
//!
//! A log ends where the next record is missing. The same place is damage, not the end, if it was durable once. The
//! superblock or a later record says so: each record has the number up to which all records were durable when it was
//! written.
//!
//! The cursor asks for nothing. It is given the bytes at its position, and afterwards bytes behind the end, so that a
//! log of any size is read through one window.

use std::mem::offset_of;

use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::checksum;

/// Bytes before the payload of a record.
pub const RECORD_HEADER: usize = 64;

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct RawRecord {
    checksum: U32,
    kind: U16,
    reserved: U16,
    length: U32,
    reserved2: U32,
    log: [u8; 16],
    epoch: U64,
    number: U64,
    position: U64,
    durable: U64,
}

const SUM_AT: usize = offset_of!(RawRecord, checksum);

/// One record. Data that is too large to be sealed with it may lie behind it, with a checksum in the payload.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Record<'a> {
    /// The log's number.
    pub log: u128,
    /// The epoch that was in force.
    pub epoch: u64,
    /// Its number. The next record has a higher one: by one, or by as many changes as this one holds.
    pub number: u64,
    /// Its first byte in the log.
    pub position: u64,
    /// All records with lower numbers were durable when this one was written; at most `number`.
    pub durable: u64,
    /// What the payload is: a number of the format's own.
    pub kind: u16,
    /// The format's bytes.
    pub payload: &'a [u8],
}

impl<'a> Record<'a> {
    /// The bytes of the record, filled up with zeroes to whole units of `unit` bytes.
    ///
    /// # Panics
    /// If it calls itself or a later record durable, or its payload has 4 GiB or more.
    pub fn seal(&self, unit: usize) -> Vec<u8> {
        assert!(self.durable <= self.number, "record {} calls {} durable", self.number, self.durable);
        let raw = RawRecord {
            checksum: 0.into(),
            kind: self.kind.into(),
            reserved: 0.into(),
            length: u32::try_from(self.payload.len()).expect("a record has less than 4 GiB").into(),
            reserved2: 0.into(),
            log: self.log.to_le_bytes(),
            epoch: self.epoch.into(),
            number: self.number.into(),
            position: self.position.into(),
            durable: self.durable.into(),
        };
        let mut bytes = [raw.as_bytes(), self.payload].concat();
        let sum = checksum(&bytes, SUM_AT);
        bytes[SUM_AT..SUM_AT + 4].copy_from_slice(&sum.to_le_bytes());
        bytes.resize(bytes.len().next_multiple_of(unit), 0);
        bytes
    }

    /// Bytes that must be there before [`Record::unseal`] can tell whether a record lies at the front of `bytes`. The
    /// header that says so is not checked yet, so a reader limits the number to what its log can hold.
    pub fn needs(bytes: &[u8]) -> usize {
        let header = RawRecord::read_from_prefix(bytes);
        RECORD_HEADER + header.map_or(0, |(raw, _)| raw.length.get() as usize)
    }

    /// The record at the front of `bytes`, if a whole one lies there, of whatever log.
    pub fn unseal(bytes: &'a [u8]) -> Option<Record<'a>> {
        let (raw, rest) = RawRecord::read_from_prefix(bytes).ok()?;
        let payload = rest.get(..raw.length.get() as usize)?;
        let used = &bytes[..RECORD_HEADER + payload.len()];
        let record = Record {
            log: u128::from_le_bytes(raw.log),
            epoch: raw.epoch.get(),
            number: raw.number.get(),
            position: raw.position.get(),
            durable: raw.durable.get(),
            kind: raw.kind.get(),
            payload,
        };
        let is_whole = raw.checksum.get() == checksum(used, SUM_AT);
        (is_whole && record.durable <= record.number).then_some(record)
    }
}

/// Which epochs the records of a log have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Epochs {
    /// The epoch of the superblock.
    pub now: u64,
    /// First number that belongs to it. Records with lower numbers have lower epochs.
    pub since: u64,
    /// Whether later epochs are greater, so that a greater one proves the superblock stale. False where epochs are
    /// drawn.
    pub rise: bool,
}

impl Epochs {
    fn have(&self, record: &Record<'_>) -> bool {
        match record.number >= self.since {
            true => record.epoch == self.now,
            false => record.epoch < self.now,
        }
    }
}

/// What a log holds at one place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Next<'a> {
    /// The next record.
    Record(Record<'a>),
    /// The log ends here.
    End,
    /// The record at this position is missing, and was durable once.
    Damaged {
        /// First byte in the log.
        at: u64,
    },
    /// The log has gone on under a later superblock.
    Stale {
        /// First byte in the log of a record with a later epoch.
        at: u64,
    },
}

/// A place in a log that is being read from its oldest record on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LogCursor {
    log: u128,
    epochs: Epochs,
    number: u64,
    position: u64,
    durable: u64,
    stale: Option<u64>,
}

impl LogCursor {
    /// Before record `number` at byte `position`. The superblock calls all records below `durable` durable.
    pub fn new(log: u128, epochs: Epochs, number: u64, position: u64, durable: u64) -> LogCursor {
        LogCursor { log, epochs, number, position, durable, stale: None }
    }

    /// The next record, if `bytes`, which lie at the cursor, begin with it.
    pub fn record<'a>(&self, bytes: &'a [u8]) -> Option<Record<'a>> {
        let is_next = |record: &Record<'_>| {
            (record.log, record.number, record.position) == (self.log, self.number, self.position)
        };
        Record::unseal(bytes).filter(|record| is_next(record) && self.epochs.have(record))
    }

    /// Goes on to record `number` at byte `position`.
    pub fn advance(&mut self, number: u64, position: u64) {
        assert!(number > self.number, "records have rising numbers: {number} after {}", self.number);
        (self.number, self.position) = (number, position);
    }

    /// Something else in the log, such as a superblock or a record that counts, calls all records below `durable`
    /// durable.
    pub fn claim(&mut self, durable: u64) {
        self.durable = self.durable.max(durable);
    }

    /// The highest number below which all records are known to be durable.
    pub fn durable(&self) -> u64 {
        self.durable
    }

    /// The number of the next record.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Looks at bytes behind the end, which lie at `position`, for a record that proves the end wrong.
    pub fn look(&mut self, position: u64, bytes: &[u8]) {
        let found = Record::unseal(bytes).filter(|found| (found.log, found.position) == (self.log, position));
        match found {
            Some(later) if self.epochs.rise && later.epoch > self.epochs.now => {
                self.stale.get_or_insert(position);
            }
            Some(later) if self.epochs.have(&later) => self.claim(later.durable),
            Some(_) | None => {}
        }
    }

    /// What the missing record at the cursor means, after all bytes that may hold later records were looked at.
    pub fn end(&self) -> Next<'static> {
        match self.stale {
            Some(at) => Next::Stale { at },
            None if self.durable > self.number => Next::Damaged { at: self.position },
            None => Next::End,
        }
    }

    /// The next record, or the end. `rest` is the whole log from the cursor on; records begin at multiples of `unit`
    /// bytes in it.
    pub fn next<'a>(&mut self, rest: &'a [u8], unit: usize) -> Next<'a> {
        if let Some(record) = self.record(rest) {
            return Next::Record(record);
        }
        for at in (0..rest.len()).step_by(unit) {
            self.look(self.position + at as u64, &rest[at..]);
        }
        self.end()
    }
}

#[cfg(test)]
mod tests;
