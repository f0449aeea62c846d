//! The journal: changes since the images were written, with absolute values. So a replay in order gives the same state,
//! whatever part of it an image holds already.
//!
//! A half of the journal belongs to an epoch. Its sectors of 512 bytes, which a power cut leaves whole, are log records
//! of `framing`. Their numbers go on from one half to the next, so the first sector of a half says where the half
//! before it ended. Invariant: the records of a group lie in one sector, so they count together or not at all.

#![cfg_attr(not(test), deny(clippy::cast_possible_truncation))]

use std::collections::VecDeque;

use esker_framing::{Epochs, LogCursor, Next, RECORD_HEADER};
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::MapError;
use super::entry::SlotEntry;
use super::layout::SlotLayout;

/// Bytes of a sector.
pub(super) const SECTOR: usize = 512;
/// Records of a sector, and of a group.
pub(super) const PER_SECTOR: usize = (SECTOR - RECORD_HEADER) / size_of::<RawRecord>();
/// What the payload of a sector is.
const KIND: u16 = 1;

/// One change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Record {
    /// A slot holds this now.
    Set { slot: u32, entry: Option<SlotEntry> },
    /// These pages of a quarter of a slot are there.
    Mask { slot: u32, quarter: u8, pages: u64 },
    /// Entries of a zone may become doubtful.
    Touch { zone: u32 },
    /// They may not any more.
    Quiet { zone: u32 },
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Clone, Copy)]
#[repr(C)]
struct RawRecord {
    what: u8,
    quarter: u8,
    reserved: U16,
    number: U32,
    value: U64,
}

impl RawRecord {
    fn of(record: &Record) -> RawRecord {
        let (what, quarter, number, value) = match *record {
            Record::Set { slot, entry } => (1, 0, slot, SlotEntry::encode(entry)),
            Record::Mask { slot, quarter, pages } => (2, quarter, slot, pages),
            Record::Touch { zone } => (3, 0, zone, 0),
            Record::Quiet { zone } => (4, 0, zone, 0),
        };
        RawRecord { what, quarter, reserved: 0.into(), number: number.into(), value: value.into() }
    }

    /// None if a number is out of range.
    fn record(&self, layout: &SlotLayout) -> Option<Record> {
        let (quarter, number, value) = (self.quarter, self.number.get(), self.value.get());
        let (slot, zone) = (number < layout.slots, number < layout.zones);
        match self.what {
            1 if slot => SlotEntry::decode(value, layout.keys).map(|entry| Record::Set { slot: number, entry }),
            2 if slot && quarter < layout.quarters() => Some(Record::Mask { slot: number, quarter, pages: value }),
            3 if zone => Some(Record::Touch { zone: number }),
            4 if zone => Some(Record::Quiet { zone: number }),
            _ => None,
        }
    }
}

/// Groups that wait for a commit, in the order in which they came.
#[derive(Default)]
pub(super) struct Waiting {
    records: VecDeque<Record>,
    /// Records of each group.
    groups: VecDeque<u8>,
}

impl Waiting {
    /// Adds a group.
    ///
    /// # Panics
    /// If it is larger than a sector.
    pub(super) fn push(&mut self, group: &[Record]) {
        assert!(group.len() <= PER_SECTOR, "a group of {} records is larger than a sector", group.len());
        self.records.extend(group);
        self.groups.push_back(u8::try_from(group.len()).expect("a sector holds few records"));
    }

    pub(super) fn records(&self) -> usize {
        self.records.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// Takes the first groups, `groups_max` of them at most, packed into `sectors_max` sectors at most.
    pub(super) fn take(&mut self, sectors_max: u64, groups_max: usize) -> Packed {
        let mut packed = Packed::default();
        while let Some(len) = self.groups.front().copied().map(usize::from) {
            let fits = packed.sectors.last().is_some_and(|sector| sector.len() + len <= PER_SECTOR);
            if packed.groups.len() == groups_max || !fits && packed.sectors.len() as u64 == sectors_max {
                break;
            }
            if !fits {
                packed.sectors.push(Vec::with_capacity(PER_SECTOR));
            }
            let sector = packed.sectors.last_mut().expect("one was made");
            sector.extend(self.records.drain(..len));
            packed.groups.extend(self.groups.pop_front());
        }
        packed
    }

    /// Puts groups that were taken back to the front.
    pub(super) fn put_back(&mut self, packed: Packed) {
        let records: Vec<Record> = packed.sectors.into_iter().flatten().collect();
        records.into_iter().rev().for_each(|record| self.records.push_front(record));
        packed.groups.into_iter().rev().for_each(|len| self.groups.push_front(len));
    }
}

/// Groups in sectors.
#[derive(Default)]
pub(super) struct Packed {
    pub(super) sectors: Vec<Vec<Record>>,
    pub(super) groups: Vec<u8>,
}

/// Where sectors go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Location {
    pub(super) set: u128,
    pub(super) epoch: u64,
    /// Number of the first sector.
    pub(super) number: u64,
    /// Its first byte on the lower device.
    pub(super) at: u64,
}

/// The bytes of a commit, which fill whole units of `unit` sectors.
pub(super) fn encode(to: &Location, unit: u64, packed: &Packed) -> Vec<u8> {
    let used = packed.sectors.len() as u64;
    let sectors = (0..used.next_multiple_of(unit)).zip(packed.sectors.iter().map(Some).chain(std::iter::repeat(None)));
    let bytes = sectors.flat_map(|(at, records)| {
        let raw: Vec<RawRecord> = records.into_iter().flatten().map(RawRecord::of).collect();
        let (number, position) = (to.number + at, to.at + at * SECTOR as u64);
        // The commits before this one were durable when it began.
        let (log, epoch, durable) = (to.set, to.epoch, to.number);
        let payload = raw.as_bytes();
        esker_framing::Record { log, epoch, number, position, durable, kind: KIND, payload }.seal(SECTOR)
    });
    bytes.collect()
}

/// A half as it is read.
pub(super) struct Half<'a> {
    pub(super) set: u128,
    pub(super) layout: &'a SlotLayout,
    pub(super) epoch: u64,
    pub(super) bytes: &'a [u8],
}

/// What a half holds.
#[derive(Default)]
pub(super) struct Replayed {
    pub(super) records: Vec<Record>,
    /// Number of the sector behind the last one.
    pub(super) next: u64,
}

impl Half<'_> {
    fn at(&self) -> u64 {
        self.layout.half_at(self.epoch)
    }

    /// The sectors of the epoch, in whatever order and number.
    fn sectors(&self) -> impl Iterator<Item = (u64, esker_framing::Record<'_>)> {
        let sectors = (0u64..).zip(self.bytes.chunks(SECTOR));
        let found = sectors.filter_map(|(place, bytes)| Some((place, esker_framing::Record::unseal(bytes)?)));
        found.filter(|(place, sector)| {
            let position = self.at() + place * SECTOR as u64;
            (sector.log, sector.epoch, sector.position) == (self.set, self.epoch, position)
        })
    }

    /// The number of its first sector, if any sector of its epoch is there: where the half before it ended.
    pub(super) fn began(&self) -> Option<u64> {
        self.sectors().find_map(|(place, sector)| sector.number.checked_sub(place))
    }

    /// The bytes on the lower device from sector `next` up to the last sector of the epoch: what a torn commit left
    /// behind its tear.
    pub(super) fn remains(&self, first: u64, next: u64) -> Option<std::ops::Range<u64>> {
        let from = next - first;
        let last = self.sectors().map(|(place, _)| place).filter(|place| *place >= from).last()?;
        Some(self.at() + from * SECTOR as u64..self.at() + (last + 1) * SECTOR as u64)
    }

    /// The records of the epoch, of which the first sector has number `first`. All sectors below `durable` were durable
    /// once; those from `end` on do not count.
    ///
    /// # Errors
    /// A sector that was durable is missing, a later epoch is there, or a record is out of range.
    pub(super) fn replay(&self, first: u64, durable: u64, end: Option<u64>) -> Result<Replayed, MapError> {
        let mut replayed = Replayed { records: Vec::new(), next: first };
        let epochs = Epochs { now: self.epoch, since: 0, rise: true };
        let mut cursor = LogCursor::new(self.set, epochs, first, self.at(), durable);
        for (number, at) in (first..).zip((0..=self.bytes.len()).step_by(SECTOR)) {
            if end == Some(number) {
                break;
            }
            let position = self.at() + at as u64;
            match cursor.next(&self.bytes[at..], SECTOR) {
                Next::Record(sector) => {
                    replayed.records.extend(self.records(&sector).ok_or(MapError::Range { at: position })?);
                    replayed.next = number + 1;
                    cursor.advance(number + 1, position + SECTOR as u64);
                }
                Next::End => break,
                Next::Damaged { at } => return Err(MapError::Damaged { what: "sector of the journal", at }),
                Next::Stale { at } => return Err(MapError::Stale { at }),
            }
        }
        Ok(replayed)
    }

    /// The records of a sector; none if a number is out of range.
    fn records(&self, sector: &esker_framing::Record<'_>) -> Option<Vec<Record>> {
        let raw = <[RawRecord]>::ref_from_bytes(sector.payload).ok()?;
        let is_sound = sector.kind == KIND && raw.len() <= PER_SECTOR;
        raw.iter().map(|raw| raw.record(self.layout)).collect::<Option<_>>().filter(|_| is_sound)
    }
}

#[cfg(test)]
mod tests {
    use std::mem::offset_of;

    use super::*;

    const LAYOUT: SlotLayout = SlotLayout { unit: 1 << 20, keys: 100, slots: 100, here: 100, journal: 8192, zones: 10 };

    fn groups(range: std::ops::Range<u32>) -> Vec<Vec<Record>> {
        let group = |slot: u32| {
            let entry = (!slot.is_multiple_of(3)).then_some(SlotEntry::of(u64::from(slot) / 2));
            let set = Record::Set { slot, entry };
            match slot % 4 {
                0 => vec![set, Record::Mask { slot, quarter: 3, pages: u64::MAX }],
                1 => vec![Record::Touch { zone: slot % 10 }],
                2 => vec![Record::Quiet { zone: slot % 10 }, set],
                _ => vec![set],
            }
        };
        range.map(group).collect()
    }

    fn packed(groups: &[Vec<Record>]) -> Packed {
        let mut waiting = Waiting::default();
        groups.iter().for_each(|group| waiting.push(group));
        waiting.take(u64::MAX, usize::MAX)
    }

    /// Two commits of epoch 3: sectors 100 and 101, and 102.
    fn journal() -> Vec<u8> {
        let at = LAYOUT.half_at(3);
        let to = |place: u64| Location { set: 9, epoch: 3, number: 100 + place, at: at + place * SECTOR as u64 };
        let mut bytes =
            [encode(&to(0), 1, &packed(&groups(0..30))), encode(&to(2), 1, &packed(&groups(30..35)))].concat();
        bytes.resize(LAYOUT.journal as usize, 0);
        bytes
    }

    fn replay(bytes: &[u8], epoch: u64, durable: u64, end: Option<u64>) -> Result<Replayed, MapError> {
        Half { set: 9, layout: &LAYOUT, epoch, bytes }.replay(100, durable, end)
    }

    #[test]
    fn the_layout_is_that_of_the_page() {
        let record = [offset_of!(RawRecord, what), offset_of!(RawRecord, quarter), offset_of!(RawRecord, number)];
        assert_eq!((record, offset_of!(RawRecord, value)), ([0, 1, 4], 8));
        assert_eq!((PER_SECTOR, size_of::<RawRecord>()), (28, 16));
        let raw = |record: &Record| RawRecord::of(record).as_bytes().to_vec();
        assert_eq!(
            raw(&Record::Mask { slot: 5, quarter: 2, pages: 7 }),
            [2, 2, 0, 0, 5, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0]
        );
        let whats = groups(0..3).concat().iter().map(|record| raw(record)[0]).collect::<Vec<_>>();
        assert_eq!(whats, [1, 2, 3, 4, 1]);
    }

    #[test]
    fn groups_stay_whole_and_in_order() {
        let mut waiting = Waiting::default();
        let all = groups(0..40);
        all.iter().for_each(|group| waiting.push(group));
        let first = waiting.take(1, usize::MAX);
        assert!(first.sectors.len() == 1 && first.sectors[0].len() >= PER_SECTOR - 1);
        let count = first.groups.len();
        assert_eq!(first.sectors[0], all[..count].concat());
        waiting.put_back(first);
        let again = waiting.take(u64::MAX, 3);
        assert_eq!(again.sectors, [all[..3].concat()]);
        assert_eq!(waiting.records(), all[3..].concat().len());
    }

    #[test]
    fn sectors_are_replayed_in_order_and_a_torn_commit_up_to_its_tear() {
        let whole = journal();
        let all = replay(&whole, 3, 0, None).unwrap();
        assert_eq!((&all.records, all.next), (&groups(0..35).concat(), 103));
        let half = Half { set: 9, layout: &LAYOUT, epoch: 3, bytes: &whole };
        assert_eq!((half.began(), half.remains(100, 103)), (Some(100), None));
        let mut torn = whole.clone();
        torn[2 * SECTOR + 100] ^= 1;
        assert_eq!(replay(&torn, 3, 102, None).unwrap().next, 102);
        assert_eq!(replay(&whole, 3, 0, Some(101)).unwrap().next, 101);
        assert_eq!(replay(&whole, 5, 0, None).unwrap().next, 100, "an older epoch");
        torn = whole.clone();
        torn[100] ^= 1;
        let half = Half { bytes: &torn, ..half };
        let at = LAYOUT.half_at(3);
        assert_eq!((half.began(), half.remains(100, 100)), (Some(100), Some(at..at + 3 * SECTOR as u64)));
    }

    #[test]
    fn what_was_durable_and_is_damaged_is_no_end() {
        let at = LAYOUT.half_at(3);
        for damaged in [0, 1] {
            let mut bytes = journal();
            bytes[damaged * SECTOR + 100] ^= 1;
            let error = MapError::Damaged { what: "sector of the journal", at: at + (damaged * SECTOR) as u64 };
            assert_eq!(replay(&bytes, 3, 0, None).err(), Some(error));
        }
        // The half behind it began with sector 104.
        let lost = MapError::Damaged { what: "sector of the journal", at: at + 3 * SECTOR as u64 };
        assert_eq!(replay(&journal(), 3, 104, None).err(), Some(lost));
        assert_eq!(replay(&journal(), 1, 0, None).err(), Some(MapError::Stale { at }));
        let small = SlotLayout { slots: 10, ..LAYOUT };
        let half = Half { set: 9, layout: &small, epoch: 3, bytes: &journal() };
        assert_eq!(half.replay(100, 0, None).err(), Some(MapError::Range { at }));
    }
}
