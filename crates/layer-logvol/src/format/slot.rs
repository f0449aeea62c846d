//! The slots of the superblock, and the heads of segments.

use super::{Geometry, checksum, get, put};

/// Slots, written in turn.
pub const SLOTS: u64 = 2;
/// Bytes from one slot to the next; the first 512 say everything.
pub const SLOT: usize = 4096;

const USED: usize = 512;
const MAGIC: [u8; 8] = esker_layer_kit::media::VOLUME;
const VERSION: u16 = 1;
const HEAD_MAGIC: u64 = u32::from_le_bytes(*b"EsHd") as u64;
/// Bytes of a segment's first block that say something.
const HEAD_USED: usize = 80;

/// A place in the log.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Position {
    /// Segment.
    pub segment: u64,
    /// Block of the segment; 0 if no batch was written there yet, because the first block is its head's.
    pub block: u64,
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
    /// Where record `seq` will be, unless a new segment is opened for it.
    pub position: Position,
    /// Page of the map's root.
    pub root: u64,
    /// Levels of the map above its leaves.
    pub height: u8,
    /// Extents of the map.
    pub mappings: u64,
    /// Logical blocks that are mapped.
    pub blocks: u64,
}

/// Why bytes are no slot.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SlotError {
    /// Only zeroes.
    #[error("is blank")]
    Blank,
    /// Something else.
    #[error("holds no slot of a volume")]
    Foreign,
    /// Damaged.
    #[error("its checksum is wrong")]
    Checksum,
    /// From a later esker.
    #[error("has version {0} and features {1:#x}, which this esker does not know; use a newer one")]
    Newer(u16, u32),
    /// A sound slot in the place of the other one.
    #[error("is 4096 bytes from where it was written")]
    Shifted,
    /// Numbers that no esker writes, under a right checksum.
    #[error("its {0} is out of range")]
    Range(&'static str),
}

impl Slot {
    /// Its bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![0; SLOT];
        let g = &self.geometry;
        bytes[..8].copy_from_slice(&MAGIC);
        put(&mut bytes, 8, 2, u64::from(VERSION));
        put(&mut bytes, 10, 1, u64::from(g.block.trailing_zeros()));
        put(&mut bytes, 11, 1, u64::from(g.page.trailing_zeros()));
        bytes[16..32].copy_from_slice(&self.volume.to_le_bytes());
        let words = [
            g.segment,
            g.segments,
            g.start,
            self.generation,
            self.epoch,
            self.seq,
            self.position.segment,
            self.position.block,
            self.root,
            self.mappings,
            self.blocks,
        ];
        for (i, word) in words.into_iter().enumerate() {
            put(&mut bytes, 32 + 8 * i, 8, word);
        }
        put(&mut bytes, 120, 1, u64::from(self.height));
        let sum = checksum(&bytes[..USED], USED - 4);
        put(&mut bytes, USED - 4, 4, u64::from(sum));
        bytes
    }

    /// Reads the slot that generations like this one are written to.
    ///
    /// # Errors
    /// [`SlotError`].
    pub fn decode_of(generation: u64, bytes: &[u8]) -> Result<Slot, SlotError> {
        let slot = Slot::decode(bytes)?;
        if slot.generation % SLOTS != generation % SLOTS { Err(SlotError::Shifted) } else { Ok(slot) }
    }

    /// Reads a slot.
    ///
    /// # Errors
    /// [`SlotError`].
    pub fn decode(bytes: &[u8]) -> Result<Slot, SlotError> {
        let Some(used) = bytes.get(..USED) else { return Err(SlotError::Foreign) };
        if used[..8] != MAGIC {
            return Err(if bytes.iter().all(|byte| *byte == 0) { SlotError::Blank } else { SlotError::Foreign });
        }
        if get(used, USED - 4, 4) != u64::from(checksum(used, USED - 4)) {
            return Err(SlotError::Checksum);
        }
        let (version, features) = (get(used, 8, 2) as u16, get(used, 12, 4) as u32);
        if version != VERSION || features != 0 {
            return Err(SlotError::Newer(version, features));
        }
        let word = |i: usize| get(used, 32 + 8 * i, 8);
        let shifts = (used[10], used[11]);
        if shifts.0 > 16 || shifts.1 > 16 {
            return Err(SlotError::Range("block"));
        }
        let geometry =
            Geometry { block: 1 << shifts.0, page: 1 << shifts.1, segment: word(0), segments: word(1), start: word(2) };
        let slot = Slot {
            geometry,
            volume: u128::from_le_bytes(used[16..32].try_into().expect("16 bytes")),
            generation: word(3),
            epoch: word(4),
            seq: word(5),
            position: Position { segment: word(6), block: word(7) },
            root: word(8),
            height: used[120],
            mappings: word(9),
            blocks: word(10),
        };
        slot.check()?;
        Ok(slot)
    }

    /// Numbers that would lead astray.
    fn check(&self) -> Result<(), SlotError> {
        let g = &self.geometry;
        if !g.is_sound() {
            return Err(SlotError::Range("geometry"));
        }
        let rules = [
            ("generation", self.generation > 0 && self.generation < u64::MAX),
            ("sequence", self.seq < 1 << 62),
            ("position", self.position.segment < g.segments && self.position.block <= g.segment),
            ("root", g.segment_of_page(self.root).is_some() && self.height < 16),
        ];
        rules.iter().find(|(_, holds)| !holds).map_or(Ok(()), |(what, _)| Err(SlotError::Range(what)))
    }
}

/// The first block of a segment in the log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Head {
    /// The volume's number.
    pub volume: u128,
    /// Its own number.
    pub segment: u64,
    /// Number of the first record in it.
    pub seq: u64,
    /// The opening in which it was begun.
    pub epoch: u64,
    /// The segment before it in the log.
    pub previous: u64,
    /// Generation of the newest checkpoint when it was begun.
    pub generation: u64,
    /// All records before this number were durable when it was begun.
    pub durable: u64,
}

impl Head {
    /// Its bytes, in a block of `block` bytes.
    pub fn encode(&self, block: usize) -> Vec<u8> {
        let mut bytes = vec![0; block];
        put(&mut bytes, 0, 4, HEAD_MAGIC);
        bytes[8..24].copy_from_slice(&self.volume.to_le_bytes());
        let words = [self.segment, self.seq, self.epoch, self.previous, self.generation, self.durable];
        for (i, word) in words.into_iter().enumerate() {
            put(&mut bytes, 24 + 8 * i, 8, word);
        }
        let sum = checksum(&bytes[..HEAD_USED], 4);
        put(&mut bytes, 4, 4, u64::from(sum));
        bytes
    }

    /// Reads a head; none if the bytes are no head of this volume and segment.
    pub fn decode(bytes: &[u8], volume: u128, segment: u64) -> Option<Head> {
        let used = bytes.get(..HEAD_USED)?;
        let is_whole = get(used, 0, 4) == HEAD_MAGIC && get(used, 4, 4) == u64::from(checksum(used, 4));
        let word = |i: usize| get(used, 24 + 8 * i, 8);
        let head = Head {
            volume: u128::from_le_bytes(used[8..24].try_into().expect("16 bytes")),
            segment: word(0),
            seq: word(1),
            epoch: word(2),
            previous: word(3),
            generation: word(4),
            durable: word(5),
        };
        (is_whole && head.volume == volume && head.segment == segment).then_some(head)
    }
}
