//! Heads of segments: a log record begins a segment of the log, and a sealed page one of copies.
//!
//! The kinds differ from each other and from those of a [catalogue](esker_layer_thin::catalogue), so that recovery
//! looks for batches in segments of the log only.

use esker_cleaning::Class;
use esker_framing::{Page, PageId, Record};
use zerocopy::little_endian::U64;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::Geometry;
use crate::number::SegmentNo;

const LOG: u16 = 1;
const COPIES: u16 = 2;

/// The payload of a head of the log.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(super) struct RawHead {
    pub previous: U64,
    pub generation: U64,
    pub class: u8,
    pub begins_with_data: u8,
    pub reserved: [u8; 6],
}

/// The payload of a head of copies.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(super) struct RawCopyHead {
    pub born: U64,
    pub class: u8,
    pub reserved: [u8; 7],
}

/// The first block of a segment in the log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SegmentHeader {
    /// The volume's number.
    pub volume: u128,
    /// Its own number.
    pub segment: SegmentNo,
    /// Number of the first record in it.
    pub seq: u64,
    /// The opening in which it was begun.
    pub epoch: u64,
    /// The segment before it in the log: for a reader, no code depends on it.
    pub previous: u64,
    /// Generation of the newest checkpoint when it was begun.
    pub generation: u64,
    /// All records before this number were durable when it was begun.
    pub durable: u64,
    /// The class of its data: one of [`Class::NEW`].
    pub class: Class,
    /// Whether data of a batch that lies elsewhere comes first: then no batch begins at block 1.
    pub begins_with_data: bool,
}

impl SegmentHeader {
    /// Its block.
    pub fn encode(&self, g: &Geometry) -> Vec<u8> {
        let raw = RawHead {
            previous: self.previous.into(),
            generation: self.generation.into(),
            class: number_of(self.class),
            begins_with_data: u8::from(self.begins_with_data),
            reserved: [0; 6],
        };
        let SegmentHeader { volume: log, epoch, seq: number, durable, .. } = *self;
        let position = g.first_of(self.segment);
        Record { log, epoch, number, position, durable, kind: LOG, payload: raw.as_bytes() }.seal(g.block as usize)
    }

    /// Reads a head; none if the bytes are no head of this volume and segment.
    pub fn decode(bytes: &[u8], volume: u128, segment: SegmentNo, g: &Geometry) -> Option<SegmentHeader> {
        let record = Record::unseal(bytes)?;
        let raw = RawHead::ref_from_bytes(record.payload).ok()?;
        let head = SegmentHeader {
            volume: record.log,
            segment,
            seq: record.number,
            epoch: record.epoch,
            previous: raw.previous.get(),
            generation: raw.generation.get(),
            durable: record.durable,
            class: Class::numbered(raw.class).filter(|class| class.is_new())?,
            begins_with_data: raw.begins_with_data != 0,
        };
        let is_it = (record.kind, record.log, record.position) == (LOG, volume, g.first_of(segment));
        is_it.then_some(head)
    }
}

/// The first block of a segment that holds moved blocks. Nothing depends on it: what it says is for policies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CopyHeader {
    /// The volume's number.
    pub volume: u128,
    /// Its own number.
    pub segment: SegmentNo,
    /// Number of the first record of the segment that the first copies come from: the age of its data.
    pub born: u64,
    /// What its data have in common: a number of [`Class`].
    pub class: u8,
}

/// The number of a class on the medium.
pub fn number_of(class: Class) -> u8 {
    u8::try_from(class.index()).expect("there are seven")
}

impl CopyHeader {
    /// Its block.
    pub fn encode(&self, g: &Geometry) -> Vec<u8> {
        let raw = RawCopyHead { born: self.born.into(), class: self.class, reserved: [0; 7] };
        let (id, place, payload) = (self.volume, g.first_of(self.segment), raw.as_bytes());
        let mut bytes = vec![0; g.block as usize];
        Page { id, place, generation: 0, kind: COPIES, payload }.seal(&mut bytes);
        bytes
    }

    /// Reads a head; none if the bytes are no head of this volume and segment.
    pub fn decode(bytes: &[u8], volume: u128, segment: SegmentNo, g: &Geometry) -> Option<CopyHeader> {
        let wanted = PageId { id: volume, place: g.first_of(segment), generations: 0..=0, kind: COPIES };
        let page = Page::unseal(bytes, &wanted).ok()?;
        let raw = RawCopyHead::ref_from_bytes(page.payload).ok()?;
        Some(CopyHeader { volume, segment, born: raw.born.get(), class: raw.class })
    }
}
