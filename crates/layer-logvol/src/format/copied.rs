//! The head of a segment of copies.

use super::{checksum, get, put};

/// Not that of a segment of the log: recovery must never look for records there.
const MAGIC: u64 = u32::from_le_bytes(*b"EsCp") as u64;
/// Bytes that say something.
const USED: usize = 48;

/// The first block of a segment that holds moved blocks. Nothing depends on it: what it says is for policies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CopyHead {
    /// The volume's number.
    pub volume: u128,
    /// Its own number.
    pub segment: u64,
    /// Number of the first record of the segment that the first copies come from: the age of its data.
    pub born: u64,
    /// What its data have in common: a number of `esker_cleaning::Class`.
    pub class: u8,
}

impl CopyHead {
    /// Its bytes, in a block of `block` bytes.
    pub fn encode(&self, block: usize) -> Vec<u8> {
        let mut bytes = vec![0; block];
        put(&mut bytes, 0, 4, MAGIC);
        bytes[8..24].copy_from_slice(&self.volume.to_le_bytes());
        put(&mut bytes, 24, 8, self.segment);
        put(&mut bytes, 32, 8, self.born);
        put(&mut bytes, 40, 1, self.class.into());
        let sum = checksum(&bytes[..USED], 4);
        put(&mut bytes, 4, 4, u64::from(sum));
        bytes
    }

    /// Reads a head; none if the bytes are no head of this volume and segment.
    pub fn decode(bytes: &[u8], volume: u128, segment: u64) -> Option<CopyHead> {
        let used = bytes.get(..USED)?;
        let is_whole = get(used, 0, 4) == MAGIC && get(used, 4, 4) == u64::from(checksum(used, 4));
        let head = CopyHead {
            volume: u128::from_le_bytes(used[8..24].try_into().expect("16 bytes")),
            segment: get(used, 24, 8),
            born: get(used, 32, 8),
            class: used[40],
        };
        (is_whole && head.volume == volume && head.segment == segment).then_some(head)
    }
}
