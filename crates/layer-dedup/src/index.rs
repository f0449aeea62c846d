//! The index: which data blocks may hold bytes with a fingerprint. A bucket is the payload of one cell.
//!
//! It is a hint. Each answer is checked against the block's own entry, so a slot that is wrong or lost costs space and
//! never data; it needs no record in the journal of its own.

#![cfg_attr(not(test), deny(clippy::cast_possible_truncation))]

use crate::journal::Fingerprint;
use crate::layout::{SLOT, SLOTS};

/// The part of a fingerprint that a slot holds.
pub fn tag(fingerprint: &Fingerprint) -> u32 {
    u32::from_le_bytes(fingerprint[8..12].try_into().expect("four bytes"))
}

/// The data blocks in slots with this tag.
pub fn blocks(bucket: &[u8], tag: u32) -> impl Iterator<Item = u32> {
    slots(bucket).filter(move |(_, found, _)| *found == tag).filter_map(|(_, _, block)| block)
}

/// The slots of a bucket in use: tag and block.
pub fn used(bucket: &[u8]) -> impl Iterator<Item = (u32, u32)> {
    slots(bucket).filter_map(|(_, tag, block)| block.map(|block| (tag, block)))
}

/// Where a block goes, and the bytes to put there; none if it is there. A full bucket gives up one slot, which the tag
/// chooses.
pub fn insert(bucket: &[u8], tag: u32, block: u32) -> Option<(usize, [u8; SLOT])> {
    if blocks(bucket, tag).any(|found| found == block) {
        return None;
    }
    let free = slots(bucket).find(|(_, _, block)| block.is_none()).map(|(number, ..)| number);
    let number = free.unwrap_or(tag as usize % SLOTS);
    let bytes = u64::from(tag) | u64::from(block + 1) << 32;
    Some((number * SLOT, bytes.to_le_bytes()))
}

/// Where the slot of a block lies.
pub fn find(bucket: &[u8], tag: u32, block: u32) -> Option<usize> {
    slots(bucket).find(|slot| (slot.1, slot.2) == (tag, Some(block))).map(|(number, ..)| number * SLOT)
}

fn slots(bucket: &[u8]) -> impl Iterator<Item = (usize, u32, Option<u32>)> {
    bucket.chunks_exact(SLOT).take(SLOTS).enumerate().map(|(number, bytes)| {
        let (tag, block) = bytes.split_at(4);
        let half = |bytes: &[u8]| u32::from_le_bytes(bytes.try_into().expect("four bytes"));
        (number, half(tag), half(block).checked_sub(1))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use esker_framing::cell::PAYLOAD;

    fn put(bucket: &mut [u8], tag: u32, block: u32) {
        if let Some((at, bytes)) = insert(bucket, tag, block) {
            bucket[at..at + SLOT].copy_from_slice(&bytes);
        }
    }

    #[test]
    fn blocks_are_found_by_tag_until_they_are_removed() {
        let mut bucket = [0; PAYLOAD];
        [(5, 1), (6, 2), (5, 3), (5, 1), (0, 0)].into_iter().for_each(|(tag, block)| put(&mut bucket, tag, block));
        assert_eq!(blocks(&bucket, 5).collect::<Vec<_>>(), [1, 3]);
        assert_eq!((blocks(&bucket, 0).collect::<Vec<_>>(), used(&bucket).count()), (vec![0], 4));
        let at = find(&bucket, 5, 1).unwrap();
        bucket[at..at + SLOT].fill(0);
        assert_eq!(blocks(&bucket, 5).collect::<Vec<_>>(), [3]);
        assert_eq!(find(&bucket, 5, 1), None);
        put(&mut bucket, 7, 9);
        assert_eq!(find(&bucket, 7, 9), Some(at), "the free slot is used again");
    }

    #[test]
    fn a_full_bucket_gives_up_one_slot() {
        let mut bucket = [0; PAYLOAD];
        (0..SLOTS as u32).for_each(|block| put(&mut bucket, block, block));
        put(&mut bucket, 100, 77);
        assert_eq!(blocks(&bucket, 100).collect::<Vec<_>>(), [77]);
        assert_eq!(used(&bucket).count(), SLOTS);
        assert_eq!(blocks(&bucket, 100 % SLOTS as u32).count(), 0);
    }
}
