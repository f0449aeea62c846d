//! Superblocks of a writer: both copies, never under way together.

use std::cell::Cell;

use esker_base::{Nanos, Time};

use super::Inner;
use super::core::Core;
use crate::error::LfsError;
use crate::format::LfsSuperblock;
use crate::format::superblock::{FIRST_OFFSET, second_offset, state};

/// How long a superblock may name an older checkpoint: recovery walks from there.
const INTERVAL: Nanos = Nanos::secs(10);

/// When superblocks were written.
#[derive(Default)]
pub(super) struct Superblocks {
    written: Cell<Option<Time>>,
    /// Whether the second copy is the older one.
    is_second_next: Cell<bool>,
    /// Numbers of the segments that both copies name.
    sequences: [Cell<u64>; 2],
}

impl Superblocks {
    /// Recovery may need segments from this number on, in the order in which segments were taken.
    pub(super) fn protected(&self) -> u64 {
        self.sequences[0].get().min(self.sequences[1].get())
    }
}

impl Inner {
    /// Writes a superblock if the last one is old. The copies take turns.
    pub(super) async fn superblock_in_time(&self) -> Result<(), LfsError> {
        let (written, now) = (&self.superblocks.written, self.core.rt.now());
        if written.get().is_some_and(|last| now.since(last) < INTERVAL) {
            return Ok(());
        }
        written.set(Some(now));
        let superblock = self.superblock(0);
        let is_second = self.superblocks.is_second_next.get();
        self.superblocks.is_second_next.set(!is_second);
        let offset = if is_second { second_offset(superblock.device_bytes) } else { Some(FIRST_OFFSET) };
        self.core.write_superblock(offset.unwrap_or(FIRST_OFFSET), &superblock).await?;
        self.core.medium.flush().await?;
        self.superblocks.sequences[usize::from(is_second)].set(superblock.last_sequence);
        Ok(())
    }

    /// Writes both superblocks, one after the other, in a state. They name the last checkpoint.
    pub(super) async fn both_superblocks(&self, bits: u16) -> Result<(), LfsError> {
        let superblock = self.superblock(bits);
        for offset in [Some(FIRST_OFFSET), second_offset(superblock.device_bytes)].into_iter().flatten() {
            self.core.write_superblock(offset, &superblock).await?;
            self.core.medium.flush().await?;
        }
        self.superblocks.written.set(Some(self.core.rt.now()));
        self.superblocks.sequences.iter().for_each(|sequence| sequence.set(superblock.last_sequence));
        Ok(())
    }

    /// The superblock as it would be written now.
    fn superblock(&self, bits: u16) -> LfsSuperblock {
        let (head, core) = (self.head.get(), &self.core);
        let before = core.superblock.get();
        let superblock = LfsSuperblock {
            last_cno: head.cno,
            last_log: head.log,
            last_sequence: head.log_sequence,
            free_blocks: core.segments.get().clean * core.geometry.segment_blocks,
            written: self.seconds(),
            state: before.state & !state::VALID | bits,
            ..before
        };
        core.superblock.set(superblock);
        superblock
    }
}

impl Core {
    /// Writes the copy at an offset, with what else lies in its blocks of the device.
    async fn write_superblock(&self, offset: u64, superblock: &LfsSuperblock) -> Result<(), LfsError> {
        let (unit, sealed) = (self.medium.unit(), superblock.sealed());
        let start = offset / unit * unit;
        let end = (offset + sealed.len() as u64).next_multiple_of(unit);
        let mut bytes = self.medium.read(start, (end - start) as usize).await?;
        let at = (offset - start) as usize;
        bytes[at..at + sealed.len()].copy_from_slice(&sealed);
        self.medium.write(start, &bytes).await
    }
}
