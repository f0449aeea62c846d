//! The common header of all media, and the superblock that it begins. Byte rows and trust:
//! `docs/reference/formats/superblock.md`.
//!
//! Invariant: no field of a header is believed before the checksum is compared, but for the length that the checksum
//! covers and, in an error text, the version.

use std::mem::offset_of;
use std::ops::RangeInclusive;

use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::checksum;
use crate::newest::Newest;

/// Bytes of the common header.
pub const HEADER: usize = 64;
/// Bytes from one slot of a superblock to the next, in all formats: the largest length of a superblock.
pub const SLOT: usize = 4096;

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct RawHeader {
    magic: [u8; 8],
    version: U16,
    length: U16,
    compatible: U32,
    read_only: U32,
    incompatible: U32,
    checksum: U32,
    reserved: U32,
    id: [u8; 16],
    generation: U64,
    reserved2: U64,
}

const SUM_AT: usize = offset_of!(RawHeader, checksum);

/// Features of a medium, one bit each.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Features {
    /// A program without them may read and write the medium.
    pub compatible: u32,
    /// A program without them may read the medium, and must not write it.
    pub read_only: u32,
    /// A program without them must not open the medium.
    pub incompatible: u32,
}

impl Features {
    /// None.
    pub const NONE: Features = Features { compatible: 0, read_only: 0, incompatible: 0 };
}

/// The fields of the common header that differ between superblocks of one format.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    /// Number of the medium or set, drawn when it was made.
    pub id: u128,
    /// Rises by one with each superblock that is written, and says which slot it goes to.
    pub generation: u64,
    /// Features that the medium uses.
    pub features: Features,
}

/// A format's superblock: the common header and a body of its own.
pub trait Superblock: Sized {
    /// First bytes of the medium.
    const MAGIC: [u8; 8];
    /// Version that is written, and the only one that is read.
    const VERSION: u16;
    /// Features that this program knows.
    const KNOWN: Features = Features::NONE;
    /// Whether the format proves a superblock stale by other means: its log or its segments carry a newer generation.
    /// Only then may the older slot serve when the other one is damaged.
    const DETECTS_STALE: bool = false;
    /// Both.
    const FORMAT: ([u8; 8], u16) = (Self::MAGIC, Self::VERSION);
    /// What a user calls the medium, with its article: "a mirror".
    const NAME: &'static str;
    /// Lengths in bytes that superblocks of this version have, header included; at most [`SLOT`].
    const LENGTHS: RangeInclusive<usize>;

    /// The header of this superblock.
    fn header(&self) -> Header;

    /// The bytes behind the header; with the header, one of `LENGTHS`.
    fn encode_body(&self) -> Vec<u8>;

    /// Reads the bytes behind the header, whose checksum is right.
    ///
    /// # Errors
    /// The name of a field that is out of range.
    fn decode_body(header: &Header, body: &[u8]) -> Result<Self, &'static str>;
}

/// Why a medium has no superblock that can be used. The text goes on a sentence that begins with the name of the
/// device.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SuperblockError {
    /// Only zeroes.
    #[error("is blank; if it held data, name the device that holds it")]
    Blank,
    /// Something else than the medium of this name.
    #[error("holds no superblock of {0}; name another device, or let `esker init` make a new one")]
    Foreign(&'static str),
    /// Torn or damaged.
    #[error("holds a superblock whose checksum is wrong; restore it from a copy")]
    Checksum,
    /// An earlier version of the format, which is not read any more, or a superblock with a damaged version.
    #[error(
        "holds a superblock of format version {0}, which this esker does not read, or a damaged one; move the data with the esker \
         that wrote it and let `esker init` make a new one, or restore it from a copy"
    )]
    Older(u16),
    /// A later version, or incompatible features that this program does not know.
    #[error("has format version {0} and needs the features {1:#x}, which this esker does not have; use a newer one")]
    Newer(u16, u32),
    /// Read-only compatible features that this program does not know.
    #[error("has the features {0:#x}, without which this esker may read it only; use a newer one to write it")]
    ReadOnly(u32),
    /// A sound superblock in the slot of the other one.
    #[error(
        "holds a superblock {SLOT} bytes from where it was written, so it begins at another byte than it did; give it the `offset` \
         that it had"
    )]
    Shifted,
    /// A field that no esker writes, under a right checksum.
    #[error("holds a superblock whose {0} is out of range; restore it from a copy")]
    Range(&'static str),
    /// Two superblocks of one generation.
    #[error(
        "holds two superblocks of generation {0}, one of which was copied there; restore its first bytes from a copy"
    )]
    Duplicate(u64),
}

impl SuperblockError {
    /// Whether the medium is damaged: it is neither blank nor another one.
    pub fn is_damage(&self) -> bool {
        matches!(self, SuperblockError::Checksum | SuperblockError::Range(_) | SuperblockError::Duplicate(_))
    }

    /// Whether the device holds no medium of the format, sound or damaged.
    pub fn is_unmarked(&self) -> bool {
        matches!(self, SuperblockError::Blank | SuperblockError::Foreign(_))
    }
}

/// The slot to which a superblock of this generation goes.
pub fn slot(generation: u64) -> usize {
    (generation % 2) as usize
}

/// The bytes of a superblock: header and body.
///
/// # Panics
/// If the body's length is none of the format's.
pub fn seal<S: Superblock>(superblock: &S) -> Vec<u8> {
    let body = superblock.encode_body();
    let length = HEADER + body.len();
    assert!(S::LENGTHS.contains(&length) && length <= SLOT, "{length} bytes for {}", S::NAME);
    let Header { id, generation, features } = superblock.header();
    let header = RawHeader {
        magic: S::MAGIC,
        version: S::VERSION.into(),
        length: u16::try_from(length).expect("a slot is shorter than 64 KiB").into(),
        compatible: features.compatible.into(),
        read_only: features.read_only.into(),
        incompatible: features.incompatible.into(),
        checksum: 0.into(),
        reserved: 0.into(),
        id: id.to_le_bytes(),
        generation: generation.into(),
        reserved2: 0.into(),
    };
    let mut bytes = [header.as_bytes(), &body].concat();
    reseal(&mut bytes);
    bytes
}

/// Puts a right checksum on a superblock, or on changed bytes of one: tests change fields so.
pub fn reseal(superblock: &mut [u8]) {
    let sum = checksum(superblock, SUM_AT);
    superblock[SUM_AT..SUM_AT + 4].copy_from_slice(&sum.to_le_bytes());
}

/// The version that a superblock says it has, sound or damaged. `None` if the bytes begin with another magic.
pub fn version_told(bytes: &[u8], magic: &[u8; 8]) -> Option<u16> {
    let (raw, _) = RawHeader::read_from_prefix(bytes).ok()?;
    (raw.magic == *magic).then_some(raw.version.get())
}

/// Reads the superblock of one slot. `bytes` may go on behind it.
///
/// # Errors
/// [`SuperblockError`], but none that concerns both slots.
pub fn unseal<S: Superblock>(bytes: &[u8]) -> Result<Newest<S>, SuperblockError> {
    if bytes.iter().all(|byte| *byte == 0) {
        return Err(SuperblockError::Blank);
    }
    let Ok((raw, _)) = RawHeader::read_from_prefix(bytes) else { return Err(SuperblockError::Foreign(S::NAME)) };
    if raw.magic != S::MAGIC {
        return Err(SuperblockError::Foreign(S::NAME));
    }
    let (version, length) = (raw.version.get(), usize::from(raw.length.get()));
    let used = bytes.get(..length).filter(|used| used.len() >= HEADER);
    let is_whole = used.is_some_and(|used| checksum(used, SUM_AT) == raw.checksum.get());
    let Some(used) = used.filter(|_| is_whole) else {
        // Earlier versions had no common header, but their version lay at the same place.
        return Err(if version < S::VERSION { SuperblockError::Older(version) } else { SuperblockError::Checksum });
    };
    let unknown = raw.incompatible.get() & !S::KNOWN.incompatible;
    if version > S::VERSION || unknown != 0 {
        return Err(SuperblockError::Newer(version, unknown));
    }
    if version < S::VERSION {
        return Err(SuperblockError::Older(version));
    }
    if !S::LENGTHS.contains(&length) {
        return Err(SuperblockError::Range("length"));
    }
    let header = raw.header();
    let superblock = S::decode_body(&header, &used[HEADER..]).map_err(SuperblockError::Range)?;
    Ok(Newest { superblock, header, unknown_read_only: header.features.read_only & !S::KNOWN.read_only })
}

impl RawHeader {
    fn header(&self) -> Header {
        Header {
            id: u128::from_le_bytes(self.id),
            generation: self.generation.get(),
            features: Features {
                compatible: self.compatible.get(),
                read_only: self.read_only.get(),
                incompatible: self.incompatible.get(),
            },
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
