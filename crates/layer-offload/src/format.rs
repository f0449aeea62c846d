//! The head of the log and the records in it. Byte rows and trust: the format's page.
//!
//! What counts of both lies in one sector, which a power cut leaves whole: a head that is neither zero nor sound is damage. A
//! record's payload follows its header in the same write and may be torn; its checksum tells. Positions rise for ever;
//! a position modulo the area is a place in it, and a record never wraps around.

use esker_base::ByteRange;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Bytes for each of the two heads.
pub const SLOT: u64 = 4096;
/// First byte of the area of records.
pub const AREA_START: u64 = 2 * SLOT;
/// Bytes of a head and of a record's header that say something; the rest of their block is zero.
pub const HEADER: usize = 128;

/// Bytes of the largest volume.
pub const HOME_MAX: u64 = 1 << 63;
/// Bytes of the largest area of records. Positions go round it and rise for ever.
pub const AREA_MAX: u64 = 1 << 60;

const HEAD_MAGIC: [u8; 8] = esker_layer_kit::media::OFFLOAD;
const RECORD_MAGIC: [u8; 8] = *b"\x89EskRec\n";
const VERSION: u16 = 1;
const NO_UNMAP: u16 = 1;

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Clone)]
#[repr(C)]
struct HeadBytes {
    magic: [u8; 8],
    version: U16,
    reserved: U16,
    features: U32,
    log: [u8; 16],
    home: U64,
    area: U64,
    block: U32,
    reserved2: U32,
    sequence: U64,
    first: U64,
    number: U64,
    epoch: U64,
    since: U64,
    durable: U64,
    reserved3: [u8; 20],
    checksum: U32,
}

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

/// Where the log begins and what is in force.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Head {
    /// The log, drawn when it was made.
    pub log: u128,
    /// Bytes of the volume that is off-loaded.
    pub home: u64,
    /// Bytes of the area of records.
    pub area: u64,
    /// Logical block in bytes: of headers and of all ranges.
    pub block: u32,
    /// Rises with each head.
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

/// Why a slot holds no head.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum HeadError {
    /// Only zeroes.
    #[error("is blank")]
    Blank,
    /// Something else.
    #[error("holds no log of off-loaded writes; if nothing there is needed, `esker init` makes a new one")]
    Foreign,
    /// Damaged: a head is never torn.
    #[error("holds a head whose checksum is wrong; restore it from a copy, or give up what was off-loaded")]
    Checksum,
    /// From a later esker.
    #[error("has version {0} and features {1:#x}, which this esker does not know; use a newer one")]
    Newer(u16, u32),
    /// A sound head in the slot of the other one.
    #[error(
        "holds a head 4096 bytes from where it was written, so it begins at another byte than it did; give it the `offset` that \
         it had"
    )]
    Shifted,
    /// Numbers that no esker writes, under a right checksum.
    #[error("holds a head whose {0} is out of range")]
    Range(&'static str),
}

fn checksum(bytes: &[u8]) -> u32 {
    crc32fast::hash(&bytes[..HEADER - size_of::<U32>()])
}

impl Head {
    /// The first head of a log.
    pub fn new(log: u128, home: u64, area: u64, block: u32) -> Head {
        Head { log, home, area, block, sequence: 0, first: 0, number: 0, epoch: 0, since: 0, durable: 0 }
    }

    /// Whether this head, once it was written, could be read again.
    ///
    /// # Errors
    /// Why not.
    pub fn check_new(&self) -> Result<(), HeadError> {
        Head { sequence: self.sequence.max(1), ..self.clone() }.check()
    }

    /// Where the head of this sequence lies.
    pub fn slot(&self) -> u64 {
        self.sequence % 2 * SLOT
    }

    /// Its block.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = HeadBytes {
            magic: HEAD_MAGIC,
            version: VERSION.into(),
            reserved: 0.into(),
            features: 0.into(),
            log: self.log.to_le_bytes(),
            home: self.home.into(),
            area: self.area.into(),
            block: self.block.into(),
            reserved2: 0.into(),
            sequence: self.sequence.into(),
            first: self.first.into(),
            number: self.number.into(),
            epoch: self.epoch.into(),
            since: self.since.into(),
            durable: self.durable.into(),
            reserved3: [0; 20],
            checksum: 0.into(),
        };
        bytes.checksum = checksum(bytes.as_bytes()).into();
        padded(bytes.as_bytes(), self.block)
    }

    /// Reads one slot.
    ///
    /// # Errors
    /// [`HeadError`].
    pub fn decode(slot: &[u8]) -> Result<Head, HeadError> {
        let Ok((bytes, _)) = HeadBytes::read_from_prefix(slot) else { return Err(HeadError::Foreign) };
        if bytes.magic != HEAD_MAGIC {
            return Err(if slot.iter().all(|byte| *byte == 0) { HeadError::Blank } else { HeadError::Foreign });
        }
        if bytes.checksum.get() != checksum(bytes.as_bytes()) {
            return Err(HeadError::Checksum);
        }
        if bytes.version != VERSION || bytes.features != 0 {
            return Err(HeadError::Newer(bytes.version.get(), bytes.features.get()));
        }
        let head = Head {
            log: u128::from_le_bytes(bytes.log),
            home: bytes.home.get(),
            area: bytes.area.get(),
            block: bytes.block.get(),
            sequence: bytes.sequence.get(),
            first: bytes.first.get(),
            number: bytes.number.get(),
            epoch: bytes.epoch.get(),
            since: bytes.since.get(),
            durable: bytes.durable.get(),
        };
        head.check().map(|()| head)
    }

    fn check(&self) -> Result<(), HeadError> {
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
        rules.iter().find(|(_, holds)| !holds).map_or(Ok(()), |(what, _)| Err(HeadError::Range(what)))
    }

    /// The head of a log: of the two slots that with the higher sequence.
    ///
    /// # Errors
    /// A slot that is neither blank nor sound: falling back to the other one would read a log that has been overwritten.
    pub fn newest(slots: &[u8]) -> Result<Head, HeadError> {
        let (first, second) = slots.split_at(SLOT as usize);
        let is_shifted = |slot: &[u8], at: u64| Head::decode(slot).is_ok_and(|head| head.slot() != at);
        if is_shifted(first, 0) || is_shifted(second, SLOT) {
            return Err(HeadError::Shifted);
        }
        match (Head::decode(first), Head::decode(second)) {
            (Err(HeadError::Blank), other) | (other, Err(HeadError::Blank)) => other,
            (Ok(one), Ok(two)) => Ok(if one.sequence > two.sequence { one } else { two }),
            (Err(error), _) | (_, Err(error)) => Err(error),
        }
    }
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
    pub fn encode(&self, head: &Head) -> Vec<u8> {
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
            log: head.log.to_le_bytes(),
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
        padded(bytes.as_bytes(), head.block)
    }

    /// The record of `number` at `position`, if these bytes are its header.
    pub fn decode(bytes: &[u8], head: &Head, number: u64, position: u64) -> Option<Record> {
        let (bytes, _) = RecordBytes::read_from_prefix(bytes).ok()?;
        let is_it = bytes.magic == RECORD_MAGIC
            && bytes.checksum.get() == checksum(bytes.as_bytes())
            && bytes.log == head.log.to_le_bytes()
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
        (is_it && record.is_sound(head)).then_some(record)
    }

    fn is_sound(&self, head: &Head) -> bool {
        let is_of_epoch = match self.number >= head.since {
            true => self.epoch == head.epoch,
            false => self.epoch < head.epoch,
        };
        let fits = match self.content {
            Content::Skip => self.range.is_empty(),
            _ => {
                let is_inside = self.range.end() <= head.home && self.range.is_aligned(u64::from(head.block));
                !self.range.is_empty() && is_inside && self.position % head.area + self.len(head) <= head.area
            }
        };
        is_of_epoch && fits && self.durable <= self.number
    }

    /// Bytes of the log that it takes.
    pub fn len(&self, head: &Head) -> u64 {
        match self.content {
            Content::Data(_) => u64::from(head.block) + self.range.len(),
            Content::Zeroes { .. } => u64::from(head.block),
            Content::Skip => head.area - self.position % head.area,
        }
    }

    /// Where the next one lies.
    pub fn end(&self, head: &Head) -> u64 {
        self.position + self.len(head)
    }
}

fn padded(bytes: &[u8], block: u32) -> Vec<u8> {
    let mut out = vec![0; block as usize];
    out[..bytes.len()].copy_from_slice(bytes);
    out
}

/// The byte of the device at which a position lies.
pub fn place(head: &Head, position: u64) -> u64 {
    AREA_START + position % head.area
}

#[cfg(test)]
mod tests;
