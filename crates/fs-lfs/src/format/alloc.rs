//! The allocator of IFILE and DAT: groups of a bitmap and the entries that it stands for.
//!
//! A group is one block of bits and the blocks of its entries. A block of descriptors lies before as many groups as it
//! has counters of free entries. Then the next block of descriptors follows.

/// Where entries of a file with an allocator lie.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Allocator {
    /// Bytes of an entry.
    pub entry_bytes: u64,
    /// Entries of a block.
    pub per_block: u64,
    /// Entries of a group.
    pub per_group: u64,
    /// Blocks of a group: one of bits, the rest of entries.
    pub group_blocks: u64,
    /// Groups behind one block of descriptors.
    pub groups: u64,
}

/// Where an entry lies: numbers of blocks of the file, and offsets in them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EntryPlace {
    /// Its group.
    pub group: u64,
    /// Block of the group's counter.
    pub desc_block: u64,
    /// Offset of the counter.
    pub desc_offset: usize,
    /// Block of bits.
    pub bits_block: u64,
    /// Bit of the entry.
    pub bit: usize,
    /// Block of the entry.
    pub block: u64,
    /// Offset of the entry.
    pub offset: usize,
}

/// What a block of a file with an allocator holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AllocBlock {
    /// Counters from this group on.
    Descriptors(u64),
    /// Bits of this group.
    Bits(u64),
    /// Entries from this number on.
    Entries(u64),
}

/// Bytes of a counter.
const COUNTER: u64 = 4;

impl Allocator {
    /// With entries and blocks of so many bytes, both above 0.
    pub fn new(entry_bytes: u64, block_bytes: u64) -> Allocator {
        let (per_block, per_group) = (block_bytes / entry_bytes, block_bytes * 8);
        let group_blocks = 1 + per_group.div_ceil(per_block);
        Allocator { entry_bytes, per_block, per_group, group_blocks, groups: block_bytes / COUNTER }
    }

    /// Blocks from one block of descriptors to the next.
    fn stride(&self) -> u64 {
        1 + self.groups * self.group_blocks
    }

    /// Where entry `number` lies. `None` if no file could be so large.
    pub fn place(&self, number: u64) -> Option<EntryPlace> {
        let (group, bit) = (number / self.per_group, number % self.per_group);
        let desc_block = (group / self.groups).checked_mul(self.stride())?;
        let in_stride = group % self.groups;
        let bits_block = desc_block.checked_add(1 + in_stride * self.group_blocks)?;
        let block = bits_block.checked_add(1 + bit / self.per_block)?;
        Some(EntryPlace {
            group,
            desc_block,
            desc_offset: (in_stride * COUNTER) as usize,
            bits_block,
            bit: bit as usize,
            block,
            offset: (bit % self.per_block * self.entry_bytes) as usize,
        })
    }

    /// What a block of the file holds.
    pub fn holds(&self, block: u64) -> AllocBlock {
        let (stride, at) = (block / self.stride(), block % self.stride());
        let first_group = stride * self.groups;
        if at == 0 {
            return AllocBlock::Descriptors(first_group);
        }
        let (group, at) = (first_group + (at - 1) / self.group_blocks, (at - 1) % self.group_blocks);
        match at {
            0 => AllocBlock::Bits(group),
            // A number that does not fit stands for no entry.
            _ => AllocBlock::Entries(group.saturating_mul(self.per_group).saturating_add((at - 1) * self.per_block)),
        }
    }
}

/// Whether a bit is set in a block of bits.
pub fn has_bit(bits: &[u8], bit: usize) -> bool {
    bits.get(bit / 8).is_some_and(|byte| byte >> (bit % 8) & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_and_blocks_agree() {
        for (entry, block) in [(128, 4096), (32, 4096), (128, 1024), (192, 4096), (32, 1024)] {
            let allocator = Allocator::new(entry, block);
            for number in [0, 1, allocator.per_block, allocator.per_group - 1, allocator.per_group, 1 << 25, 1 << 40] {
                let place = allocator.place(number).unwrap();
                let first = number - place.offset as u64 / entry;
                assert_eq!(allocator.holds(place.block), AllocBlock::Entries(first), "{entry} {block} {number}");
                assert_eq!(allocator.holds(place.bits_block), AllocBlock::Bits(place.group));
                let counters = allocator.holds(place.desc_block);
                assert_eq!(counters, AllocBlock::Descriptors(place.group - place.desc_offset as u64 / 4));
            }
        }
    }

    #[test]
    fn the_geometry_is_that_of_the_specification() {
        let (inodes, dat) = (Allocator::new(128, 4096), Allocator::new(32, 4096));
        assert_eq!((inodes.per_block, dat.per_block, inodes.per_group), (32, 128, 32_768));
        assert_eq!((inodes.group_blocks, dat.group_blocks, dat.groups), (1025, 257, 1024));
        assert!(Allocator::new(32, 4096).place(u64::MAX).is_some());
    }
}
