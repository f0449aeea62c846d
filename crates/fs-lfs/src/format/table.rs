//! Entries of CPFILE and SUFILE: one behind the other, and the first ones hold a header.

use super::checkpoint::CpfileHeader;
use super::usage::SufileHeader;

/// Where entries lie in such a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EntryTable {
    /// Bytes of an entry.
    pub entry_bytes: u64,
    /// Entries of a block.
    pub per_block: u64,
    /// Entries that the header takes.
    pub first: u64,
    /// The number of the entry behind the header.
    lowest: u64,
}

impl EntryTable {
    /// The CPFILE, whose checkpoints begin with 1, with entries and blocks of so many bytes.
    pub fn of_checkpoints(entry_bytes: u64, block_bytes: u64) -> EntryTable {
        EntryTable::behind(CpfileHeader::BYTES, entry_bytes, block_bytes, 1)
    }

    /// The SUFILE, likewise. Segments begin with 0.
    pub fn of_usages(entry_bytes: u64, block_bytes: u64) -> EntryTable {
        EntryTable::behind(SufileHeader::BYTES, entry_bytes, block_bytes, 0)
    }

    fn behind(header: usize, entry_bytes: u64, block_bytes: u64, lowest: u64) -> EntryTable {
        let first = (header as u64).div_ceil(entry_bytes);
        EntryTable { entry_bytes, per_block: block_bytes / entry_bytes, first, lowest }
    }

    /// The block of an entry, and the offset there.
    pub fn place(&self, number: u64) -> (u64, usize) {
        let index = number.saturating_sub(self.lowest).saturating_add(self.first);
        (index / self.per_block, (index % self.per_block * self.entry_bytes) as usize)
    }
}
