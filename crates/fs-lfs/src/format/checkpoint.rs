//! The CPFILE: checkpoints by number, and the list of snapshots.

use super::inode::InodeRecord;
use super::layout::layout;

layout! {
    /// The first entry of the CPFILE.
    pub struct CpfileHeader: 32 {
        /// Checkpoints, snapshots included.
        checkpoints: u64,
        /// Snapshots.
        snapshots: u64,
        /// The oldest snapshot; 0 if none.
        next: u64,
        /// The newest snapshot; 0 if none.
        prev: u64,
    }
}

layout! {
    /// What lies before the inode in the entry of a checkpoint.
    pub struct CheckpointHead: 64 {
        /// Bits of [`flag`].
        flags: u32,
        /// In the first entry of a block but the first: valid entries of the block.
        in_block: u32,
        /// The next snapshot; 0 behind the newest.
        next: u64,
        /// The snapshot before; 0 at the oldest.
        prev: u64,
        /// Its number.
        cno: u64,
        /// When it was made, in seconds since 1970.
        created: u64,
        /// Blocks that were written for it.
        written: u64,
        /// Inodes in use, reserved ones aside.
        inodes: u64,
        /// Blocks of all files of users and of the IFILE, with the nodes of their maps.
        blocks: u64,
    }
}

/// Flags of checkpoints.
pub mod flag {
    /// A snapshot: the cleaner keeps it.
    pub const SNAPSHOT: u32 = 1;
    /// No checkpoint: deleted, or not there yet.
    pub const INVALID: u32 = 2;
    /// Reserved.
    pub const SKETCH: u32 = 4;
    /// Made without a change of files.
    pub const MINOR: u32 = 8;
}

/// A checkpoint: the inode of an IFILE, which holds all other inodes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CheckpointEntry {
    /// What it says of itself.
    pub head: CheckpointHead,
    /// Inode of its IFILE.
    pub ifile: InodeRecord,
}

impl CheckpointEntry {
    /// Bytes that are known of an entry.
    pub const BYTES: usize = CheckpointHead::BYTES + InodeRecord::BYTES;

    /// Reads it.
    ///
    /// # Errors
    /// The bytes are too few.
    pub fn read(bytes: &[u8]) -> Result<CheckpointEntry, esker_base::codec::Short> {
        let head = CheckpointHead::read(bytes)?;
        Ok(CheckpointEntry { head, ifile: InodeRecord::read(&bytes[CheckpointHead::BYTES..])? })
    }

    /// Writes it.
    ///
    /// # Panics
    /// If `out` is too short.
    pub fn write(&self, out: &mut [u8]) {
        self.head.write(out);
        self.ifile.write(&mut out[CheckpointHead::BYTES..]);
    }

    /// Whether it can be read.
    pub fn is_valid(&self) -> bool {
        self.head.flags & flag::INVALID == 0
    }

    /// Whether it is a snapshot.
    pub fn is_snapshot(&self) -> bool {
        self.head.flags & flag::SNAPSHOT != 0
    }
}
