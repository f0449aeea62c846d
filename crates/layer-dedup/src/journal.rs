//! The journal: changes since the tables were last written, as records of whole transitions with absolute values. So a
//! replay in order gives the same state, whatever part of them the tables hold already.
//!
//! Records lie in sectors of 512 bytes, which a power cut leaves whole: each is a log record of `framing`, whose number
//! is that of the sector. A commit writes whole sectors behind those of the commit before and is durable before the
//! next one begins. Invariant: a sector counts only in the epoch and at the place for which it was sealed, and only if
//! all sectors before it count.

#![cfg_attr(not(test), deny(clippy::cast_possible_truncation))]

use esker_framing::{Epochs, LogCursor, Next, RECORD_HEADER};
use zerocopy::little_endian::U32;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::layout::Layout;

/// What a block's bytes hash to.
pub type Fingerprint = [u8; 32];

/// Bytes of a sector.
pub const SECTOR: usize = 512;
/// Records of a sector.
pub const PER_SECTOR: usize = (SECTOR - RECORD_HEADER) / size_of::<RawRecord>();
/// What the payload of a sector is.
const KIND: u16 = 1;

/// The data block that a volume block leaves, and the references that stay.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Left {
    /// Data block.
    pub block: u32,
    /// References afterwards; with 0 the block is free.
    pub refs: u32,
}

/// The data block that a volume block takes, and its references with that one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Taken {
    /// Data block.
    pub block: u32,
    /// References afterwards; with 1 the block was free before.
    pub refs: u32,
    /// What its bytes hash to.
    pub fingerprint: Fingerprint,
}

/// A volume block changes its data block. Neither `left` nor `taken`: nothing changes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Record {
    /// Block of the volume.
    pub logical: u32,
    /// What it had.
    pub left: Option<Left>,
    /// What it has now; without it, the block reads as zeroes.
    pub taken: Option<Taken>,
}

/// The bytes of a record. Data blocks are counted from 1; 0 stands for none.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Clone, Copy)]
#[repr(C)]
struct RawRecord {
    logical: U32,
    left: U32,
    left_refs: U32,
    taken: U32,
    taken_refs: U32,
    reserved: [u8; 12],
    fingerprint: [u8; 32],
}

/// Why a journal cannot be replayed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum JournalError {
    /// A sector is damaged, and later commits are there: it was durable once.
    #[error("sector {0} of the journal is damaged, and later ones are not; restore the lower device from a copy")]
    Damaged(u64),
    /// It goes on where the superblock does not.
    #[error("sector {0} of the journal is newer than the superblock; restore the lower device from a copy")]
    Newer(u64),
    /// Numbers that no esker writes, under a right checksum.
    #[error("sector {0} of the journal has a record that is out of range; restore the lower device from a copy")]
    Range(u64),
}

/// Sectors that `records` records take, in whole units of `unit` sectors.
pub fn sectors_for(records: usize, unit: u64) -> u64 {
    (records.div_ceil(PER_SECTOR) as u64).next_multiple_of(unit)
}

/// The bytes of a commit whose first sector is number `first` of the journal.
pub fn encode(set: u128, epoch: u64, first: u64, unit: u64, records: &[Record]) -> Vec<u8> {
    let mut rest = records;
    let sectors = (first..first + sectors_for(records.len(), unit)).flat_map(|number| {
        let (now, later) = rest.split_at(rest.len().min(PER_SECTOR));
        rest = later;
        let raw: Vec<RawRecord> = now.iter().map(RawRecord::of).collect();
        let position = number * SECTOR as u64;
        // The commits before this one were durable when it began.
        let (log, durable) = (set, first);
        esker_framing::Record { log, epoch, number, position, durable, kind: KIND, payload: raw.as_bytes() }
            .seal(SECTOR)
    });
    sectors.collect()
}

/// The records of `epoch` in a journal, in their order: all that were ever promised, and perhaps some of the commit
/// that a crash cut short.
///
/// # Errors
/// [`JournalError`].
pub fn replay(set: u128, epoch: u64, layout: &Layout, bytes: &[u8]) -> Result<Vec<Record>, JournalError> {
    let mut records = Vec::new();
    let mut cursor = LogCursor::new(set, Epochs { now: epoch, since: 0, rise: true }, 0, 0, 0);
    for (number, at) in (0u64..).zip((0..=bytes.len()).step_by(SECTOR)) {
        match cursor.next(&bytes[at..], SECTOR) {
            Next::Record(sector) => {
                let changes = changes(&sector, layout).ok_or(JournalError::Range(number))?;
                records.extend(changes);
                cursor.advance(number + 1, (at + SECTOR) as u64);
            }
            Next::End => break,
            Next::Damaged { at } => return Err(JournalError::Damaged(at / SECTOR as u64)),
            Next::Stale { at } => return Err(JournalError::Newer(at / SECTOR as u64)),
        }
    }
    Ok(records)
}

/// The records of a sector; none if a number is out of range.
fn changes(sector: &esker_framing::Record<'_>, layout: &Layout) -> Option<Vec<Record>> {
    let raw = <[RawRecord]>::ref_from_bytes(sector.payload).ok()?;
    let is_sound = sector.kind == KIND && raw.len() <= PER_SECTOR;
    raw.iter().map(|raw| raw.record(layout)).collect::<Option<_>>().filter(|_| is_sound)
}

impl RawRecord {
    fn of(record: &Record) -> RawRecord {
        RawRecord {
            logical: record.logical.into(),
            left: record.left.map_or(0, |left| left.block + 1).into(),
            left_refs: record.left.map_or(0, |left| left.refs).into(),
            taken: record.taken.map_or(0, |taken| taken.block + 1).into(),
            taken_refs: record.taken.map_or(0, |taken| taken.refs).into(),
            reserved: [0; 12],
            fingerprint: record.taken.map_or([0; 32], |taken| taken.fingerprint),
        }
    }

    /// None if a number is out of range.
    fn record(&self, layout: &Layout) -> Option<Record> {
        let (left, taken) = (self.left.get().checked_sub(1), self.taken.get().checked_sub(1));
        let is_block = |block: Option<u32>| block.is_none_or(|block| block < layout.physical);
        let is_sound = self.logical.get() < layout.logical && is_block(left) && is_block(taken);
        let has_refs = taken.is_none() || self.taken_refs.get() > 0;
        (is_sound && has_refs && (left.is_none() || left != taken)).then(|| Record {
            logical: self.logical.get(),
            left: left.map(|block| Left { block, refs: self.left_refs.get() }),
            taken: taken.map(|block| Taken { block, refs: self.taken_refs.get(), fingerprint: self.fingerprint }),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::mem::offset_of;

    use super::*;

    const LAYOUT: Layout = Layout { block: 4096, logical: 100, physical: 100, journal: 8192 };

    fn records(range: std::ops::Range<u32>) -> Vec<Record> {
        let record = |logical| Record {
            logical,
            left: (logical % 2 == 0).then_some(Left { block: logical, refs: logical % 3 }),
            taken: (logical % 5 != 0).then_some(Taken {
                block: 99 - logical,
                refs: 1,
                fingerprint: [logical as u8; 32],
            }),
        };
        range.map(record).collect()
    }

    #[test]
    fn the_layout_is_that_of_the_page() {
        let record = [
            offset_of!(RawRecord, logical),
            offset_of!(RawRecord, left),
            offset_of!(RawRecord, left_refs),
            offset_of!(RawRecord, taken),
            offset_of!(RawRecord, taken_refs),
            offset_of!(RawRecord, fingerprint),
        ];
        assert_eq!(record, [0, 4, 8, 12, 16, 32]);
        assert_eq!((PER_SECTOR, size_of::<RawRecord>()), (7, 64));
    }

    /// Two commits, the second one in sectors 2 and 3.
    fn journal() -> Vec<u8> {
        let mut bytes = [encode(9, 3, 0, 1, &records(0..10)), encode(9, 3, 2, 1, &records(10..20))].concat();
        bytes.resize(8192, 0);
        bytes
    }

    #[test]
    fn commits_are_replayed_in_order_and_a_torn_one_up_to_its_tear() {
        let whole = journal();
        assert_eq!(replay(9, 3, &LAYOUT, &whole), Ok(records(0..20)));
        for (torn, left) in [(2, 10), (3, 17)] {
            let mut bytes = whole.clone();
            bytes[torn * SECTOR + 100] ^= 1;
            assert_eq!(replay(9, 3, &LAYOUT, &bytes), Ok(records(0..left)), "sector {torn}");
        }
        assert_eq!(replay(9, 4, &LAYOUT, &whole), Ok(vec![]), "an older epoch");
        assert_eq!(replay(8, 3, &LAYOUT, &whole), Ok(vec![]), "another volume");
    }

    #[test]
    fn what_was_durable_and_is_damaged_is_no_end() {
        for damaged in [0, 1] {
            let mut bytes = journal();
            bytes[damaged * SECTOR + 100] ^= 1;
            assert_eq!(replay(9, 3, &LAYOUT, &bytes), Err(JournalError::Damaged(damaged as u64)));
        }
        assert_eq!(replay(9, 2, &LAYOUT, &journal()), Err(JournalError::Newer(0)));
        let small = Layout { physical: 50, ..LAYOUT };
        assert_eq!(replay(9, 3, &small, &journal()), Err(JournalError::Range(0)));
    }

    #[test]
    fn a_commit_fills_whole_units() {
        let bytes = encode(9, 3, 8, 8, &records(0..10));
        assert_eq!((bytes.len(), sectors_for(0, 8), sectors_for(57, 8)), (4096, 0, 16));
        let mut all = encode(9, 3, 0, 8, &records(10..20));
        all.extend(bytes);
        let expected = [records(10..20), records(0..10)].concat();
        assert_eq!(replay(9, 3, &LAYOUT, &all), Ok(expected));
    }
}
