//! The slots of the superblock.

use std::ops::RangeInclusive;

use esker_cleaning::Class;
use esker_framing::{Features, HEADER, Header, Newest, Superblock, SuperblockError, seal, unseal};
use zerocopy::little_endian::U64;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::Geometry;
use crate::number::{PageNo, SegmentNo};

/// Slots, written in turn.
pub const SLOTS: u64 = 2;
/// Bytes from one slot to the next; the first 512 say everything.
pub const SLOT: usize = esker_framing::SLOT;

/// Bytes of a superblock.
const LEN: usize = 512;

/// The bytes behind the common header.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(super) struct Body {
    pub segment: U64,
    pub segments: U64,
    pub start: U64,
    pub epoch: U64,
    pub seq: U64,
    pub position_segment: U64,
    pub position_block: U64,
    pub root: U64,
    pub mappings: U64,
    pub blocks: U64,
    pub block_log2: u8,
    pub page_log2: u8,
    pub height: u8,
    pub gap: [u8; 5],
    pub long_segment: U64,
    pub long_block: U64,
    pub changes: U64,
    pub change_pages: U64,
    pub reserved: [u8; LEN - HEADER - 120],
}

/// Heads of the log: one for each class of new data.
pub const HEADS: usize = Class::NEW.len();

/// Where each head of the log goes on, by class.
pub type Heads = [Position; HEADS];

/// A place in the log.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Position {
    /// Segment.
    pub segment: SegmentNo,
    /// Block of the segment; 0 if no batch was written there yet, because the first block is its head's.
    pub block: u64,
}

/// Pages of changes, each of which names the one before it.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Chain {
    /// The last one that was written; [`PageNo::NONE`] if there is none.
    pub newest: PageNo,
    /// How many there are.
    pub pages: u64,
}

/// A checkpoint: the map without the log from `position` on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Slot {
    /// Where things are.
    pub geometry: Geometry,
    /// The volume's number, drawn when it was made.
    pub volume: u128,
    /// Rises with each checkpoint.
    pub generation: u64,
    /// Drawn at each opening of the volume: marks batches and heads that belong to it.
    pub epoch: u64,
    /// All records before this number are in the map.
    pub seq: u64,
    /// Record `seq` will be at one of these places, unless a new segment is opened for it.
    pub heads: Heads,
    /// Page of the root of the map's tree.
    pub root: PageNo,
    /// Levels of the tree above its leaves.
    pub height: u8,
    /// Extents of the tree.
    pub mappings: u64,
    /// Logical blocks that the tree maps.
    pub blocks: u64,
    /// What has changed since the tree was written.
    pub changes: Chain,
}

impl Slot {
    /// Its bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = seal(self);
        bytes.resize(SLOT, 0);
        bytes
    }

    /// Reads a slot.
    ///
    /// # Errors
    /// [`SuperblockError`].
    pub fn decode(bytes: &[u8]) -> Result<Slot, SuperblockError> {
        unseal(bytes).and_then(Newest::writable)
    }

    /// Whether two heads are in one segment.
    fn heads_meet(&self) -> bool {
        let [short, long] = self.heads;
        short.block > 0 && long.block > 0 && short.segment == long.segment
    }

    /// Numbers that would lead astray.
    fn check(&self) -> Result<(), &'static str> {
        let g = &self.geometry;
        if !g.is_sound() {
            return Err("geometry");
        }
        let rules = [
            ("generation", self.generation > 0 && self.generation < u64::MAX),
            ("sequence", self.seq < 1 << 62),
            ("position", self.heads.iter().all(|at| at.segment.number() < g.segments && at.block <= g.segment)),
            ("position", !self.heads_meet()),
            ("root", g.segment_of_page(self.root).is_some() && self.height < 16),
            ("changes", self.changes.newest.is_none() == (self.changes.pages == 0)),
        ];
        rules.iter().find(|(_, holds)| !holds).map_or(Ok(()), |(what, _)| Err(*what))
    }
}

/// The logarithm of a power of two.
fn log2(bytes: u32) -> u8 {
    u8::try_from(bytes.trailing_zeros()).expect("a word has 32 bits")
}

impl Superblock for Slot {
    const MAGIC: [u8; 8] = esker_layer_kit::media::VOLUME;
    const VERSION: u16 = 3;
    const KNOWN: Features = Features::NONE;
    /// A segment that was begun under a newer checkpoint has its generation. Without one, only pages were used anew.
    const DETECTS_STALE: bool = true;
    const NAME: &'static str = "a log-structured volume";
    const LENGTHS: RangeInclusive<usize> = LEN..=LEN;

    fn header(&self) -> Header {
        Header { id: self.volume, generation: self.generation, features: Features::NONE }
    }

    fn encode_body(&self) -> Vec<u8> {
        let (g, [short, long]) = (&self.geometry, self.heads);
        let body = Body {
            segment: g.segment.into(),
            segments: g.segments.into(),
            start: g.start.into(),
            epoch: self.epoch.into(),
            seq: self.seq.into(),
            position_segment: short.segment.number().into(),
            position_block: short.block.into(),
            root: self.root.0.into(),
            mappings: self.mappings.into(),
            blocks: self.blocks.into(),
            block_log2: log2(g.block),
            page_log2: log2(g.page),
            height: self.height,
            gap: [0; 5],
            long_segment: long.segment.number().into(),
            long_block: long.block.into(),
            changes: self.changes.newest.0.into(),
            change_pages: self.changes.pages.into(),
            reserved: [0; LEN - HEADER - 120],
        };
        body.as_bytes().to_vec()
    }

    fn decode_body(header: &Header, body: &[u8]) -> Result<Slot, &'static str> {
        let body = Body::ref_from_bytes(body).map_err(|_| "length")?;
        let position = |segment: &U64, block: &U64| {
            let segment = SegmentNo::new(segment.get()).ok_or("position")?;
            Ok::<_, &'static str>(Position { segment, block: block.get() })
        };
        let power = |log2: u8| 1u32.checked_shl(log2.into()).filter(|_| log2 <= 16).ok_or("block");
        let geometry = Geometry {
            block: power(body.block_log2)?,
            page: power(body.page_log2)?,
            segment: body.segment.get(),
            segments: body.segments.get(),
            start: body.start.get(),
        };
        let slot = Slot {
            geometry,
            volume: header.id,
            generation: header.generation,
            epoch: body.epoch.get(),
            seq: body.seq.get(),
            heads: [
                position(&body.position_segment, &body.position_block)?,
                position(&body.long_segment, &body.long_block)?,
            ],
            root: PageNo(body.root.get()),
            height: body.height,
            mappings: body.mappings.get(),
            blocks: body.blocks.get(),
            changes: Chain { newest: PageNo(body.changes.get()), pages: body.change_pages.get() },
        };
        slot.check().map(|()| slot)
    }
}
