//! The bytes of NILFS2, revision 2. All integers are little-endian. Nothing here does I/O.
//!
//! Each structure is read from bytes that may be too short or wrong, and is written as it was read. Sizes of entries of
//! metadata files come from the superblock: an entry may be larger than what is known of it here.

mod layout;

pub mod alloc;
pub mod checkpoint;
pub mod dat;
pub mod dir;
pub mod inode;
pub mod node;
pub mod summary;
pub mod superblock;
pub mod table;
pub mod usage;

pub use alloc::{Allocator, EntryPlace};
pub use checkpoint::{CheckpointEntry, CpfileHeader, ScanRecord};
pub use dat::DatEntry;
pub use dir::{DirRecord, DirRecords};
pub use inode::{InodeRecord, SuperRoot};
pub use node::{DIRECT_MAX, MapRoot, ROOT_MAX, TreeNode};
pub use summary::{LogBlock, LogFile, LogHeader, Payload};
pub use superblock::{Geometry, LfsSuperblock, SuperblockFault};
pub use table::EntryTable;
pub use usage::{LiveCounters, SegmentUsage, SufileHeader};

/// The checkpoint number that stands for *not dead yet*.
pub const CNO_MAX: u64 = u64::MAX;

/// Numbers of inodes that the format fixes.
pub mod ino {
    /// The root directory.
    pub const ROOT: u64 = 2;
    /// The DAT: virtual to physical addresses.
    pub const DAT: u64 = 3;
    /// The checkpoints.
    pub const CPFILE: u64 = 4;
    /// The usage of segments.
    pub const SUFILE: u64 = 5;
    /// The inodes of a checkpoint.
    pub const IFILE: u64 = 6;
    /// The first of users.
    pub const FIRST: u64 = 11;
}

/// The word at an offset; 0 behind the end, which no caller reaches.
fn word(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..).and_then(<[u8]>::first_chunk).map_or(0, |word| u64::from_le_bytes(*word))
}

/// The checksum of the format: CRC-32 without inversion, begun with the seed of the superblock.
pub fn crc(seed: u32, bytes: &[u8]) -> u32 {
    let mut sum = crc_begin(seed);
    sum.update(bytes);
    crc_end(sum)
}

/// Begins a sum of bytes that come in pieces.
pub fn crc_begin(seed: u32) -> crc32fast::Hasher {
    crc32fast::Hasher::new_with_initial(!seed)
}

/// The sum.
pub fn crc_end(hasher: crc32fast::Hasher) -> u32 {
    !hasher.finalize()
}
