//! Which superblock counts.
//!
//! Drivers write the two copies in turn, so one may be older than the other. The one with the newer checkpoint counts.
//! A damaged copy is told, so that a writer restores it: nothing is written here.

use super::ImageDevice;
use crate::error::LfsError;
use crate::format::superblock::{FIRST_OFFSET, SUPERBLOCK_BYTES, second_offset};
use crate::format::{Geometry, LfsSuperblock, SuperblockFault};

/// One of the two places of a superblock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SuperblockCopy {
    /// At byte 1024.
    First,
    /// In the last whole 4 KiB of the device.
    Second,
}

impl std::fmt::Display for SuperblockCopy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            SuperblockCopy::First => "the superblock at byte 1024",
            SuperblockCopy::Second => "the superblock at the end",
        })
    }
}

/// The superblock that counts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Chosen {
    /// What it says.
    pub superblock: LfsSuperblock,
    /// What follows from it.
    pub geometry: Geometry,
    /// Where it lies.
    pub from: SuperblockCopy,
    /// A copy that is damaged, and that the next writer restores from this one.
    pub repair: Option<(SuperblockCopy, SuperblockFault)>,
    /// What both places hold.
    pub copies: [Result<LfsSuperblock, SuperblockFault>; 2],
}

impl Chosen {
    /// Reads both superblocks and decides.
    ///
    /// # Errors
    /// No superblock is sound, or the one that counts is of no file system that can be read here.
    pub async fn read(medium: &ImageDevice) -> Result<Chosen, LfsError> {
        let first = parse(medium, Some(FIRST_OFFSET)).await?;
        let second_at = second_offset(medium.size()).filter(|at| *at >= FIRST_OFFSET + SUPERBLOCK_BYTES as u64);
        let mut second = parse(medium, second_at).await?;
        if let (Ok(one), Ok(_), Some(at)) = (&first, &second, second_at)
            && one.geometry().is_ok_and(|geometry| at < geometry.blocks() * geometry.block_bytes as u64)
        {
            second = Err(SuperblockFault::Place);
        }
        let (superblock, from, repair) = match (first, second) {
            (Ok(one), Ok(two)) if two.last_cno > one.last_cno => (two, SuperblockCopy::Second, None),
            (Ok(one), Ok(_)) => (one, SuperblockCopy::First, None),
            (Ok(one), Err(fault)) => (one, SuperblockCopy::First, Some((SuperblockCopy::Second, fault))),
            (Err(fault), Ok(two)) => (two, SuperblockCopy::Second, Some((SuperblockCopy::First, fault))),
            (Err(one), Err(two)) => return Err(LfsError::Superblocks(one, two)),
        };
        if superblock.incompat != 0 {
            return Err(LfsError::Newer(superblock.incompat));
        }
        let geometry = superblock.geometry().map_err(LfsError::Geometry)?;
        if superblock.device_bytes > medium.size() {
            return Err(LfsError::Truncated { device: medium.size(), needed: superblock.device_bytes });
        }
        let block = geometry.block_bytes as u64;
        if medium.unit() > block {
            return Err(LfsError::DeviceBlock { device: medium.unit() as u32, block });
        }
        Ok(Chosen { superblock, geometry, from, repair, copies: [first, second] })
    }
}

async fn parse(medium: &ImageDevice, at: Option<u64>) -> Result<Result<LfsSuperblock, SuperblockFault>, LfsError> {
    match at {
        Some(at) if at + SUPERBLOCK_BYTES as u64 <= medium.size() => {
            Ok(LfsSuperblock::parse(&medium.read(at, SUPERBLOCK_BYTES).await?))
        }
        _ => Ok(Err(SuperblockFault::Missing)),
    }
}
