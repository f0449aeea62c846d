//! Right sums for changed images, so that fuzzers and tests reach what lies behind them.

use std::ops::Range;

use crate::format::summary::{flag, seal};
use crate::format::superblock::{FIRST_OFFSET, SUPERBLOCK_BYTES, second_offset};
use crate::format::{Geometry, LfsSuperblock, LogHeader, SuperRoot};

/// Where a sound image has sums.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Summed {
    seed: u32,
    geometry: Geometry,
    superblocks: Vec<Range<usize>>,
    logs: Vec<Range<usize>>,
}

impl Summed {
    /// Of an image. `None` if its first superblock is not sound.
    pub fn of(image: &[u8]) -> Option<Summed> {
        let at = |offset: u64| offset as usize..offset as usize + SUPERBLOCK_BYTES;
        let first = at(FIRST_OFFSET);
        let superblock = LfsSuperblock::parse(image.get(first.clone())?).ok()?;
        let geometry = superblock.geometry().ok()?;
        let second = at(second_offset(image.len() as u64)?);
        let logs = (0..geometry.segments).flat_map(|segment| logs_of(image, &geometry, segment)).collect();
        Some(Summed { seed: superblock.seed, geometry, superblocks: vec![first, second], logs })
    }

    /// Bytes of both superblocks.
    pub fn superblocks(&self) -> &[Range<usize>] {
        &self.superblocks
    }

    /// Bytes of all logs, segment by segment.
    pub fn logs(&self) -> &[Range<usize>] {
        &self.logs
    }

    /// Gives both superblocks right sums again, unless they have no magic number.
    pub fn reseal_superblocks(&self, image: &mut [u8]) {
        for range in &self.superblocks {
            let Some(bytes) = image.get_mut(range.clone()) else { continue };
            if let Ok(superblock) = LfsSuperblock::read(bytes)
                && superblock.magic == LfsSuperblock::MAGIC
            {
                bytes.copy_from_slice(&superblock.sealed());
            }
        }
    }

    /// Gives a log right sums again, that of its super root too.
    pub fn reseal_log(&self, image: &mut [u8], range: Range<usize>) {
        let Some(log) = image.get_mut(range) else { return };
        let Ok(header) = LogHeader::read(log) else { return };
        let (block, inode) = (self.geometry.block_bytes, self.geometry.inode_bytes);
        let last = log.len().saturating_sub(block);
        if header.has(flag::SUPER_ROOT)
            && let Ok((mut root, _, _)) = SuperRoot::read(&log[last..], inode, self.seed)
        {
            root.bytes = SuperRoot::bytes_with(inode) as u16;
            root.write(&mut log[last..], inode, self.seed);
        }
        let summary = (header.summary_bytes as usize).clamp(LogHeader::BYTES, log.len());
        seal(log, summary, self.seed);
    }
}

/// The logs from the beginning of a segment on.
fn logs_of(image: &[u8], geometry: &Geometry, segment: u64) -> Vec<Range<usize>> {
    let (range, mut logs) = (geometry.segment(segment), Vec::new());
    let mut place = range.start;
    while place < range.end {
        let at = place as usize * geometry.block_bytes;
        let header = LogHeader::read(image.get(at..).unwrap_or_default());
        let Some(header) = header.ok().filter(|header| header.magic == LogHeader::MAGIC && header.blocks > 1) else {
            break;
        };
        place += u64::from(header.blocks);
        if place <= range.end {
            logs.push(at..place as usize * geometry.block_bytes);
        }
    }
    logs
}
