//! The superblock: all that does not change, and where the log was last. Two copies, written in place.

use super::layout::layout;
use super::{Allocator, EntryTable};

layout! {
    /// A superblock, without its reserved tail.
    pub struct LfsSuperblock: 280 {
        /// Revision.
        revision: u32,
        /// Minor revision.
        revision_minor: u16,
        /// [`LfsSuperblock::MAGIC`].
        magic: u16,
        /// Bytes that are summed.
        bytes: u16,
        /// Flags.
        flags: u16,
        /// Seed of all sums.
        seed: u32,
        /// Sum, itself as zeroes.
        sum: u32,
        /// A block has 2^(10 + this) bytes.
        block_log: u32,
        /// Segments.
        segments: u64,
        /// Bytes of the device.
        device_bytes: u64,
        /// First block of segment 0.
        first_block: u64,
        /// Blocks of a segment.
        segment_blocks: u32,
        /// Segments kept back, in percent.
        reserved_percent: u32,
        /// The last checkpoint that is known here.
        last_cno: u64,
        /// First block of its log.
        last_log: u64,
        /// Sequence number of its segment.
        last_sequence: u64,
        /// Free blocks.
        free_blocks: u64,
        /// When it was made, in seconds since 1970.
        created: u64,
        /// When it was mounted last.
        mounted: u64,
        /// When it was written last.
        written: u64,
        /// Mounts since the last check.
        mounts: u16,
        /// Mounts between checks.
        mounts_max: u16,
        /// Bits of [`state`].
        state: u16,
        /// What drivers do about errors.
        errors: u16,
        /// When it was checked last.
        checked: u64,
        /// Seconds between checks.
        check_interval: u32,
        /// The system that made it.
        creator_os: u32,
        /// User of reserved blocks.
        reserved_uid: u16,
        /// Group of reserved blocks.
        reserved_gid: u16,
        /// The first inode of users.
        first_ino: u32,
        /// Bytes of an inode.
        inode_bytes: u16,
        /// Bytes of an entry of the DAT.
        dat_bytes: u16,
        /// Bytes of a checkpoint.
        checkpoint_bytes: u16,
        /// Bytes of the usage of a segment.
        usage_bytes: u16,
        /// Identity.
        uuid: [u8; 16],
        /// Label, filled up with zeroes.
        label: [u8; 80],
        /// Seconds between checkpoints; 0: the driver's.
        commit_interval: u32,
        /// Blocks that cause a checkpoint; 0: the driver's.
        commit_blocks: u32,
        /// Features that may be ignored.
        compat: u64,
        /// Features that a writer must know.
        compat_ro: u64,
        /// Features that a reader must know.
        incompat: u64,
    }
}

/// States of a file system.
pub mod state {
    /// Unmounted cleanly.
    pub const VALID: u16 = 1;
    /// A driver found an error.
    pub const ERROR: u16 = 2;
    /// A change of its size is under way.
    pub const RESIZE: u16 = 4;
}

/// Entries of the SUFILE have counters of live blocks.
pub const COMPAT_LIVE_COUNTERS: u64 = 1;
/// Features that a writer must know, and that are known here.
pub const COMPAT_RO_KNOWN: u64 = 1;

/// Why bytes are no superblock.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SuperblockFault {
    /// The place lies behind the end of the device.
    #[error("lies behind the end of the device")]
    Missing,
    /// No magic number.
    #[error("has no magic number of NILFS2")]
    Magic,
    /// The bytes that it sums.
    #[error("sums {0} bytes, which is not within 256 to 1024")]
    Bytes(u16),
    /// The sum.
    #[error("has a wrong checksum")]
    Sum,
    /// It lies within a segment.
    #[error("lies within a segment")]
    Place,
}

/// Bytes of the reserved whole.
pub const SUPERBLOCK_BYTES: usize = 1024;
/// Offset of the first copy.
pub const FIRST_OFFSET: u64 = 1024;

/// Offset of the second copy on a device of so many bytes.
pub fn second_offset(device_bytes: u64) -> Option<u64> {
    (device_bytes >> 12).checked_sub(1).map(|page| page << 12)
}

const SUM: std::ops::Range<usize> = 16..20;

impl LfsSuperblock {
    /// The magic number.
    pub const MAGIC: u16 = 0x3434;
    /// The one revision that is known.
    pub const REVISION: u32 = 2;
    /// Segments that are kept back at least.
    const RESERVED_MIN: u64 = 8;

    /// How many of so many segments are kept back: for logs, and never told as room.
    pub fn reserved_segments(&self, segments: u64) -> u64 {
        let percent = u64::from(self.reserved_percent.min(100));
        (segments.saturating_mul(percent) / 100).max(LfsSuperblock::RESERVED_MIN)
    }

    /// Reads it from its 1,024 bytes.
    ///
    /// # Errors
    /// [`SuperblockFault`].
    pub fn parse(bytes: &[u8]) -> Result<LfsSuperblock, SuperblockFault> {
        let superblock = LfsSuperblock::read(bytes).map_err(|_| SuperblockFault::Missing)?;
        if superblock.magic != LfsSuperblock::MAGIC {
            return Err(SuperblockFault::Magic);
        }
        let summed = usize::from(superblock.bytes);
        let summed = bytes.get(..summed).filter(|summed| (256..=SUPERBLOCK_BYTES).contains(&summed.len()));
        let mut summed = summed.ok_or(SuperblockFault::Bytes(superblock.bytes))?.to_vec();
        summed[SUM].fill(0);
        match super::crc(superblock.seed, &summed) == superblock.sum {
            true => Ok(superblock),
            false => Err(SuperblockFault::Sum),
        }
    }

    /// Its 1,024 bytes, with the right sum.
    pub fn sealed(&self) -> [u8; SUPERBLOCK_BYTES] {
        let mut out = [0; SUPERBLOCK_BYTES];
        let whole = LfsSuperblock { bytes: LfsSuperblock::BYTES as u16, sum: 0, ..*self };
        whole.write(&mut out);
        let sum = super::crc(self.seed, &out[..LfsSuperblock::BYTES]);
        out[SUM].copy_from_slice(&sum.to_le_bytes());
        out
    }

    /// The geometry that it tells.
    ///
    /// # Errors
    /// The field that makes no sense, and why.
    pub fn geometry(&self) -> Result<Geometry, String> {
        if self.revision != LfsSuperblock::REVISION {
            return Err(format!("revision {} is not known: only {} is", self.revision, LfsSuperblock::REVISION));
        }
        if self.block_log > 6 {
            return Err(format!("blocks of 2^{} bytes: at most 64 KiB are known", u64::from(self.block_log) + 10));
        }
        let block_bytes = 1024_u64 << self.block_log;
        let sizes = [
            ("an inode", self.inode_bytes, 128),
            ("an entry of the DAT", self.dat_bytes, 32),
            ("a checkpoint", self.checkpoint_bytes, 192),
            ("the usage of a segment", self.usage_bytes, 16),
        ];
        for (what, bytes, least) in sizes {
            if bytes < least || u64::from(bytes) > block_bytes || bytes % 8 != 0 {
                return Err(format!("{what} has {bytes} bytes: at least {least}, and not more than a block"));
            }
        }
        if 16 + 3 * u64::from(self.inode_bytes) > block_bytes {
            return Err(format!("inodes of {} bytes leave no room for a super root", self.inode_bytes));
        }
        if !(16..=1 << 24).contains(&self.segment_blocks) || self.first_block >= u64::from(self.segment_blocks) - 1 {
            return Err(format!("segments of {} blocks, the first from {}", self.segment_blocks, self.first_block));
        }
        let blocks = self.segments.checked_mul(u64::from(self.segment_blocks));
        let bytes = blocks.and_then(|blocks| blocks.checked_mul(block_bytes));
        match bytes {
            Some(bytes) if bytes <= self.device_bytes && self.segments > 0 => Ok(Geometry::of(self, block_bytes)),
            _ => Err(format!("{} segments do not fit in {} bytes", self.segments, self.device_bytes)),
        }
    }
}

/// Sizes and places that follow from a superblock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Geometry {
    /// Bytes of a block.
    pub block_bytes: usize,
    /// Blocks of a segment.
    pub segment_blocks: u64,
    /// Segments.
    pub segments: u64,
    /// First block of segment 0.
    pub first_block: u64,
    /// Bytes of an inode.
    pub inode_bytes: usize,
    /// Allocator of the IFILE.
    pub inodes: Allocator,
    /// Allocator of the DAT.
    pub dat: Allocator,
    /// Entries of the CPFILE.
    pub checkpoints: EntryTable,
    /// Entries of the SUFILE.
    pub usages: EntryTable,
}

impl Geometry {
    fn of(superblock: &LfsSuperblock, block_bytes: u64) -> Geometry {
        Geometry {
            block_bytes: block_bytes as usize,
            segment_blocks: u64::from(superblock.segment_blocks),
            segments: superblock.segments,
            first_block: superblock.first_block,
            inode_bytes: usize::from(superblock.inode_bytes),
            inodes: Allocator::new(u64::from(superblock.inode_bytes), block_bytes),
            dat: Allocator::new(u64::from(superblock.dat_bytes), block_bytes),
            checkpoints: EntryTable::of_checkpoints(u64::from(superblock.checkpoint_bytes), block_bytes),
            usages: EntryTable::of_usages(u64::from(superblock.usage_bytes), block_bytes),
        }
    }

    /// Blocks of all segments.
    pub fn blocks(&self) -> u64 {
        self.segments * self.segment_blocks
    }

    /// The segment of a block.
    pub fn segment_of(&self, block: u64) -> u64 {
        block / self.segment_blocks
    }

    /// First block of a segment, and the one behind its last.
    pub fn segment(&self, segment: u64) -> std::ops::Range<u64> {
        let start = segment * self.segment_blocks;
        let first = if segment == 0 { self.first_block } else { start };
        first..start + self.segment_blocks
    }

    /// Whether a block lies in a segment.
    pub fn has(&self, block: u64) -> bool {
        (self.first_block..self.blocks()).contains(&block)
    }
}
