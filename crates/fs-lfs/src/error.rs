//! Why an image is not read.

use esker_base::Errno;
use esker_block::BioError;

use crate::format::SuperblockFault;

/// Why an image is not read.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum LfsError {
    /// Neither superblock is sound.
    #[error(
        "there is no superblock of NILFS2: the one at byte 1024 {0}, the one at the end {1}; take the device that the \
         file system was made on, or make one with `esker fs mkfs lfs`"
    )]
    Superblocks(SuperblockFault, SuperblockFault),
    /// It needs features that are not known here.
    #[error("the file system needs features that are not known here (incompat bits {0:#x}); take a newer program")]
    Newer(u64),
    /// A writer needs features that are not known here.
    #[error(
        "a writer needs features that are not known here (compat_ro bits {0:#x}); mount it with -o checkpoint=NUMBER, \
         which changes nothing"
    )]
    ReadOnly(u64),
    /// The superblock makes no sense.
    #[error("the superblock makes no sense: {0}")]
    Geometry(String),
    /// The device is smaller than the file system.
    #[error("the device has {device} bytes, and the file system {needed}: it was cut; take the whole device")]
    Truncated {
        /// Bytes of the device.
        device: u64,
        /// Bytes of the file system.
        needed: u64,
    },
    /// The device has larger blocks.
    #[error("the device has blocks of {device} bytes, larger than those of the file system ({block})")]
    DeviceBlock {
        /// Bytes of a block of the device.
        device: u32,
        /// Bytes of a block of the file system.
        block: u64,
    },
    /// No checkpoint is where the superblock says.
    #[error("there is no checkpoint at block {place}, where the superblock has the last log: {why}")]
    NoCheckpoint {
        /// Where it was looked for.
        place: u64,
        /// What was found.
        why: String,
    },
    /// A checkpoint that is not there.
    #[error("there is no checkpoint {0}; `esker fs dump lfs checkpoints` lists all")]
    Unknown(u64),
    /// A structure is wrong.
    #[error("{what} {number} is damaged (block {place}): {why}")]
    Damaged {
        /// Structure.
        what: &'static str,
        /// Its number.
        number: u64,
        /// Block of the device; 0 if none is known.
        place: u64,
        /// What is wrong.
        why: String,
    },
    /// No segment is clean.
    #[error("no segment is clean: delete files, and let the cleaner run")]
    NoRoom,
    /// The file system that should be made cannot be.
    #[error("no file system can be made: {0}")]
    Mkfs(String),
    /// A request.
    #[error("the device fails: {0}")]
    Device(#[from] BioError),
}

impl LfsError {
    /// What calls answer.
    pub fn errno(&self) -> Errno {
        match self {
            LfsError::Unknown(_) => Errno::ENOENT,
            LfsError::NoRoom => Errno::ENOSPC,
            LfsError::Superblocks(..)
            | LfsError::Newer(_)
            | LfsError::ReadOnly(_)
            | LfsError::Geometry(_)
            | LfsError::Truncated { .. }
            | LfsError::DeviceBlock { .. }
            | LfsError::NoCheckpoint { .. }
            | LfsError::Mkfs(_) => Errno::EINVAL,
            LfsError::Damaged { .. } | LfsError::Device(_) => Errno::EIO,
        }
    }
}

/// A structure that is wrong.
pub(crate) fn damaged<T>(what: &'static str, number: u64, place: u64, why: impl Into<String>) -> Result<T, LfsError> {
    Err(LfsError::Damaged { what, number, place, why: why.into() })
}
