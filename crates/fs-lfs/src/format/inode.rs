//! Inodes, and the super root that holds three of them.

use esker_base::codec::Short;
use esker_vfs::FileType;

use super::layout::layout;
use super::word;

layout! {
    /// An inode.
    pub struct InodeRecord: 128 {
        /// Occupied space in units of 512 bytes, nodes of its map included. `mkfs.nilfs2` counts blocks instead.
        blocks: u64,
        /// Bytes; 0 for metadata files.
        size: u64,
        /// Last change, in seconds since 1970.
        changed: u64,
        /// Last change of bytes, in seconds since 1970.
        modified: u64,
        /// Nanoseconds of `changed`.
        changed_nanos: u32,
        /// Nanoseconds of `modified`.
        modified_nanos: u32,
        /// Owner.
        uid: u32,
        /// Group.
        gid: u32,
        /// Kind and permissions, as `st_mode`.
        mode: u16,
        /// Names.
        links: u16,
        /// Flags of `chattr`.
        flags: u32,
        /// Map of blocks ([`MapRoot`](super::MapRoot)); of a device its number in the first eight bytes.
        map: [u8; 56],
        /// Reserved for extended attributes.
        xattr: u64,
        /// Tells inodes apart that had this number one after the other.
        generation: u32,
        /// Zero.
        pad: u32,
    }
}

/// Bits of a mode that say the kind.
const KIND: u16 = 0o170_000;

impl InodeRecord {
    /// An inode of which nothing is set.
    pub const EMPTY: InodeRecord = InodeRecord {
        blocks: 0,
        size: 0,
        changed: 0,
        modified: 0,
        changed_nanos: 0,
        modified_nanos: 0,
        uid: 0,
        gid: 0,
        mode: 0,
        links: 0,
        flags: 0,
        map: [0; 56],
        xattr: 0,
        generation: 0,
        pad: 0,
    };

    /// Its kind, if the mode names one.
    pub fn kind(&self) -> Option<FileType> {
        Some(match self.mode & KIND {
            0o010_000 => FileType::Fifo,
            0o020_000 => FileType::CharDevice,
            0o040_000 => FileType::Directory,
            0o060_000 => FileType::BlockDevice,
            0o100_000 => FileType::File,
            0o120_000 => FileType::Symlink,
            0o140_000 => FileType::Socket,
            _ => return None,
        })
    }

    /// The bits of a mode that say a kind.
    pub fn kind_bits(kind: FileType) -> u16 {
        match kind {
            FileType::Fifo => 0o010_000,
            FileType::CharDevice => 0o020_000,
            FileType::Directory => 0o040_000,
            FileType::BlockDevice => 0o060_000,
            FileType::File => 0o100_000,
            FileType::Symlink => 0o120_000,
            FileType::Socket => 0o140_000,
        }
    }

    /// Whether `map` maps blocks.
    pub fn has_map(&self) -> bool {
        matches!(self.kind(), Some(FileType::File | FileType::Directory | FileType::Symlink))
    }

    /// The number of a device, as `st_rdev`.
    pub fn device(&self) -> u64 {
        match self.kind() {
            Some(FileType::CharDevice | FileType::BlockDevice) => word(&self.map, 0),
            _ => 0,
        }
    }
}

/// The last block of a log with a checkpoint: the inodes of the files from which all else is found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SuperRoot {
    /// Bytes that are used and summed.
    pub bytes: u16,
    /// Reserved.
    pub flags: u16,
    /// When the last segment that the cleaner did not write was written, in seconds since 1970.
    pub written: u64,
    /// Inode of the DAT, whose map holds physical addresses.
    pub dat: InodeRecord,
    /// Inode of the checkpoints.
    pub cpfile: InodeRecord,
    /// Inode of the usage of segments.
    pub sufile: InodeRecord,
}

/// Bytes before the inodes.
const HEAD: usize = 16;

impl SuperRoot {
    /// Bytes with inodes of this size.
    pub fn bytes_with(inode_bytes: usize) -> usize {
        HEAD + 3 * inode_bytes
    }

    /// Reads it, with the sum that it carries and the one that its bytes have.
    ///
    /// # Errors
    /// It does not fit.
    pub fn read(block: &[u8], inode_bytes: usize, seed: u32) -> Result<(SuperRoot, u32, u32), Short> {
        let mut reader = esker_base::codec::Reader::new(block);
        let (sum, bytes, flags, written) = (reader.le_u32()?, reader.le_u16()?, reader.le_u16()?, reader.le_u64()?);
        let mut inode = || InodeRecord::read(reader.take(inode_bytes)?);
        let root = SuperRoot { bytes, flags, written, dat: inode()?, cpfile: inode()?, sufile: inode()? };
        let summed = block.get(4..usize::from(bytes)).unwrap_or_default();
        Ok((root, sum, super::crc(seed, summed)))
    }

    /// Writes it with its sum.
    ///
    /// # Panics
    /// If the block is too short.
    pub fn write(&self, block: &mut [u8], inode_bytes: usize, seed: u32) {
        block[4..6].copy_from_slice(&self.bytes.to_le_bytes());
        block[6..8].copy_from_slice(&self.flags.to_le_bytes());
        block[8..HEAD].copy_from_slice(&self.written.to_le_bytes());
        for (number, inode) in [self.dat, self.cpfile, self.sufile].iter().enumerate() {
            inode.write(&mut block[HEAD + number * inode_bytes..]);
        }
        let sum = super::crc(seed, &block[4..usize::from(self.bytes)]);
        block[..4].copy_from_slice(&sum.to_le_bytes());
    }
}
