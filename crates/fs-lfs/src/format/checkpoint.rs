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
    /// Where the scan of the DAT goes on that tells counters of snapshots. It lies behind the header of the CPFILE, in
    /// the rest of the header's entry: drivers that do not know it leave it as it is.
    pub struct ScanRecord: 40 {
        /// [`ScanRecord::MAGIC`].
        magic: u64,
        /// The checkpoint that wrote it. If it is not the latest, a driver that keeps no marks came behind.
        cno: u64,
        /// The entry of the DAT that is next.
        next: u64,
        /// In its last lap the scan ends at this entry.
        stop: u64,
        /// How often it still has to reach the end of the DAT: 0 or 1.
        laps: u32,
        /// 1: marks of blocks that died do not count, because a driver may have ended them without a mark.
        adopts: u32,
    }
}

impl ScanRecord {
    /// The magic number.
    pub const MAGIC: u64 = u64::from_le_bytes(*b"LFS-scan");
    /// Its offset in the first block of the CPFILE.
    pub const OFFSET: usize = CpfileHeader::BYTES;

    /// A scan that is over.
    pub fn over(cno: u64) -> ScanRecord {
        ScanRecord { magic: ScanRecord::MAGIC, cno, next: 0, stop: 0, laps: 0, adopts: 0 }
    }

    /// Reads it from the first block of the CPFILE. `None` if there is none, or a driver came behind it that keeps no
    /// marks.
    pub fn of(block: &[u8], latest: u64) -> Option<ScanRecord> {
        let record = ScanRecord::read(block.get(ScanRecord::OFFSET..)?).ok()?;
        (record.magic == ScanRecord::MAGIC && record.cno == latest && record.laps <= 1).then_some(record)
    }

    /// Whether nothing is left to scan.
    pub fn is_over(&self) -> bool {
        self.laps == 0 && self.next >= self.stop
    }

    /// The same scan, if it must look at each entry once from now on.
    pub fn asked(self) -> ScanRecord {
        ScanRecord { stop: self.next, laps: 1, ..self }
    }

    /// The same scan at the end of the DAT.
    pub fn wrapped(self) -> ScanRecord {
        let stop = if self.laps == 0 { 0 } else { self.stop };
        ScanRecord { next: 0, stop, laps: 0, ..self }
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
