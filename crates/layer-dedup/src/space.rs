//! Which data blocks may be taken.
//!
//! Invariant: a block that something durable may still point to is never given out. A block whose last reference went
//! is free in the tables at once, and is *resting* here until the record that says so is durable. A block that was
//! given out is *reserved* until its entry says that it is used.

use std::collections::{BTreeMap, BTreeSet};

use esker_framing::cell::PAYLOAD;

use crate::layout::BITS_PER_PAGE;

const PER_PAGE: u32 = BITS_PER_PAGE as u32;

/// Free blocks, and those among them that must not be taken.
#[derive(Default)]
pub struct Space {
    /// Clear bits of each page of the free map.
    free: Vec<u32>,
    /// The block with which the search goes on.
    next: u32,
    reserved: BTreeSet<u32>,
    /// Resting blocks, with the number of the commit that ends their rest.
    resting: BTreeMap<u32, u64>,
}

impl Space {
    /// With so many clear bits in each page of the free map.
    pub fn new(free: Vec<u32>) -> Space {
        Space { free, ..Space::default() }
    }

    /// Blocks without references.
    pub fn free(&self) -> u64 {
        self.free.iter().map(|free| u64::from(*free)).sum()
    }

    /// Whether something rests.
    pub fn has_resting(&self) -> bool {
        !self.resting.is_empty()
    }

    /// Whether something is reserved.
    pub fn has_reserved(&self) -> bool {
        !self.reserved.is_empty()
    }

    /// Where to search: pages of the free map that are not full, each with the block to begin with. The page in which
    /// the search goes on comes again at the end, from its first block.
    pub fn order(&self) -> Vec<(u32, u32)> {
        let pages = self.free.len() as u32;
        let first = (self.next / PER_PAGE).min(pages.saturating_sub(1));
        let begun = std::iter::once((first, self.next));
        let others = (1..=pages).map(|step| (first + step) % pages).map(|page| (page, page * PER_PAGE));
        begun.chain(others).filter(|(page, _)| self.free.get(*page as usize).is_some_and(|free| *free > 0)).collect()
    }

    /// The first block from `from` on, below `end`, that may be taken. `bits` are those of a cell of the free map,
    /// which covers blocks from `base` on.
    pub fn find(&self, bits: &[u8; PAYLOAD], base: u32, from: u32, end: u32) -> Option<u32> {
        let mut at = from.saturating_sub(base);
        let stop = end.saturating_sub(base).min((PAYLOAD * 8) as u32);
        while at < stop {
            let (byte, block) = (bits[(at / 8) as usize], base + at);
            if byte == 0xff {
                at = (at / 8 + 1) * 8;
                continue;
            }
            let is_free = byte >> (at % 8) & 1 == 0;
            if is_free && !self.reserved.contains(&block) && !self.resting.contains_key(&block) {
                return Some(block);
            }
            at += 1;
        }
        None
    }

    /// Gives a block out; the search goes on behind it.
    pub fn reserve(&mut self, block: u32) {
        self.reserved.insert(block);
        self.next = block + 1;
    }

    /// A block that was given out is used now, or was not needed.
    pub fn release_reservation(&mut self, block: u32) {
        self.reserved.remove(&block);
    }

    /// A block is used in the tables now.
    pub fn used(&mut self, block: u32) {
        let free = &mut self.free[(block / PER_PAGE) as usize];
        *free = free.saturating_sub(1);
    }

    /// A block is free in the tables now, and may be taken once commit `commit` is durable.
    pub fn freed(&mut self, block: u32, commit: u64) {
        self.free[(block / PER_PAGE) as usize] += 1;
        self.resting.insert(block, commit);
    }

    /// Commits up to `commit` are durable.
    pub fn rested(&mut self, commit: u64) {
        self.resting.retain(|_, needed| *needed > commit);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resting_and_reserved_blocks_are_passed_over() {
        let mut space = Space::new(vec![100]);
        let mut bits = [0; PAYLOAD];
        bits[0] = 0b1011;
        bits[1] = 0xff;
        let find = |space: &Space, from| space.find(&bits, 1000, from, 1100);
        assert_eq!(find(&space, 0), Some(1002));
        space.reserve(1002);
        space.freed(1004, 7);
        assert_eq!((find(&space, 0), find(&space, 1008), space.free()), (Some(1005), Some(1016), 101));
        space.rested(6);
        assert_eq!(find(&space, 1003), Some(1005));
        space.rested(7);
        assert_eq!(find(&space, 1003), Some(1004));
        space.release_reservation(1002);
        assert_eq!((find(&space, 0), space.has_resting(), space.has_reserved()), (Some(1002), false, false));
        assert_eq!(find(&space, 1100), None);
    }

    #[test]
    fn the_search_goes_round_and_leaves_full_pages_out() {
        let mut space = Space::new(vec![5, 0, 3]);
        assert_eq!(space.order(), [(0, 0), (2, 2 * PER_PAGE), (0, 0)]);
        space.reserve(2 * PER_PAGE + 10);
        assert_eq!(space.order(), [(2, 2 * PER_PAGE + 11), (0, 0), (2, 2 * PER_PAGE)]);
        assert_eq!(Space::default().order(), []);
    }
}
