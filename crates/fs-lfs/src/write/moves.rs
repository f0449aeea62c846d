//! What a checkpoint does for the cleaner: blocks move, virtual blocks and checkpoints go, victims become clean.

use esker_block::Buf;

use super::checkpoint::Making;
use super::clean::{Cleaning, MovedBlock};
use super::core::Core;
use super::plan::{Owner, PlannedBlock, PlannedFile};
use crate::error::{LfsError, damaged};
use crate::format::checkpoint::{CheckpointHead, flag};
use crate::format::{CpfileHeader, Payload};
use crate::liveness::Liveness;

impl Making<'_> {
    /// Plans blocks that move out of victims.
    pub(super) async fn plan_moves(&mut self, cleaning: &Cleaning) -> Result<(), LfsError> {
        let core = &self.inner.core;
        let mut run = Vec::new();
        for (number, moved) in cleaning.moves.iter().enumerate() {
            run.push(*moved);
            let next = cleaning.moves.get(number + 1);
            let goes_on = next.is_some_and(|next| next.block.place == moved.block.place + 1 && run.len() < RUN_BLOCKS);
            if !goes_on {
                self.plan_run(&std::mem::take(&mut run)).await?;
            }
        }
        if self.inner.core.counting.age_sort {
            // Files without versions, of number 0, change with each checkpoint: they are the youngest.
            self.files.sort_by_key(|file| (file.cno.wrapping_sub(1), file.ino));
        }
        for (index, level) in &cleaning.dat {
            match level {
                0 => core.meta_edit(&core.dat, *index, |_| {}).await?,
                _ => core.with_map(&core.dat.map, true, |map| map.touch(*index, *level)).await?,
            }
        }
        for dead in &cleaning.dead {
            core.dat_free(dead.vblock).await?;
        }
        for period in merged(&cleaning.lost_periods()) {
            core.delete_checkpoints(period, self.cno).await?;
        }
        Ok(())
    }

    /// Looks again at blocks that lived when the cleaner saw them: a change since may have ended them, and then they do
    /// not count.
    pub(super) async fn look_again(&mut self) -> Result<(), LfsError> {
        let core = &self.inner.core;
        for file in self.files.iter_mut().filter(|file| matches!(file.owner, Owner::Moved)) {
            for block in file.data.iter_mut().chain(&mut file.nodes).filter(|block| block.kept == Liveness::Live) {
                let (Payload::Data { vblock, .. } | Payload::Node { vblock }) = block.what else { continue };
                let entry = core.dat_entry(vblock).await?;
                if !entry.is_live() {
                    block.kept = if entry.is_counted() { Liveness::Snapshot } else { Liveness::Period };
                }
            }
        }
        Ok(())
    }

    /// Plans blocks that follow each other on the medium.
    async fn plan_run(&mut self, run: &[MovedBlock]) -> Result<(), LfsError> {
        let (core, block) = (&self.inner.core, self.inner.core.geometry.block_bytes);
        let bytes = core.medium.read(run[0].block.place * block as u64, run.len() * block).await?;
        for (moved, bytes) in run.iter().zip(bytes.chunks(block)) {
            let (ino, cno, what) = (moved.block.ino, moved.block.cno, moved.block.what);
            let (Payload::Data { vblock, .. } | Payload::Node { vblock }) = what else { continue };
            core.dat_touch(vblock).await?;
            let bytes = Some(Buf::from_bytes(core.medium.pool(), bytes));
            let planned = PlannedBlock { what, bytes, moved: None, kept: moved.kept };
            let is_last = |file: &PlannedFile| (file.ino, file.cno) == (ino, cno);
            if !self.files.last().is_some_and(is_last) {
                self.files.push(PlannedFile::new(ino, cno, Owner::Moved));
            }
            let file = self.files.last_mut().expect("it was put there");
            match what {
                Payload::Data { .. } => file.data.push(planned),
                Payload::Node { .. } | Payload::DatData { .. } | Payload::DatNode { .. } => file.nodes.push(planned),
            }
        }
        Ok(())
    }
}

/// Blocks that are read at once.
const RUN_BLOCKS: usize = 256;

/// Ranges in ascending order that do not overlap.
fn merged(ranges: &[std::ops::Range<u64>]) -> Vec<std::ops::Range<u64>> {
    let mut sorted: Vec<_> = ranges.iter().filter(|range| range.start < range.end).cloned().collect();
    sorted.sort_by_key(|range| (range.start, range.end));
    let mut merged: Vec<std::ops::Range<u64>> = Vec::new();
    for range in sorted {
        match merged.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => merged.push(range),
        }
    }
    merged
}

impl Core {
    /// The header of the CPFILE.
    pub(super) async fn cpfile_header(&self) -> Result<CpfileHeader, LfsError> {
        match self.meta_block(&self.cpfile, 0).await? {
            None => damaged("the CPFILE", 0, 0, "its first block is a hole"),
            Some(block) => {
                CpfileHeader::read(&block).or_else(|short| damaged("the header of the CPFILE", 0, 0, short.to_string()))
            }
        }
    }

    /// What a checkpoint says of itself.
    pub(super) async fn checkpoint_head(&self, cno: u64) -> Result<CheckpointHead, LfsError> {
        let (index, offset) = self.geometry.checkpoints.place(cno);
        let block = self.meta_block(&self.cpfile, index).await?.ok_or(LfsError::Unknown(cno))?;
        CheckpointHead::read(&block[offset..]).or_else(|short| damaged("checkpoint", cno, 0, short.to_string()))
    }

    /// Deletes checkpoints of a range. Snapshots stay: a caller names no range that one protects.
    pub(super) async fn delete_checkpoints(&self, range: std::ops::Range<u64>, cno: u64) -> Result<(), LfsError> {
        let shape = self.geometry.checkpoints;
        let (mut number, end) = (range.start.max(1), range.end.min(cno));
        let mut deleted = 0;
        while number < end {
            let (index, _) = shape.place(number);
            let behind = (index + 1) * shape.per_block - shape.first + 1;
            if self.meta_block(&self.cpfile, index).await?.is_some() {
                deleted += self.delete_in_block(index, number..behind.min(end), cno).await?;
            }
            number = behind;
        }
        if deleted > 0 {
            let header = self.cpfile_header().await?;
            let header = CpfileHeader { checkpoints: header.checkpoints.saturating_sub(deleted), ..header };
            self.cpfile.edit(0, |block| header.write(block));
        }
        Ok(())
    }

    /// Deletes checkpoints that lie in one block. Answers how many there were.
    async fn delete_in_block(&self, index: u64, range: std::ops::Range<u64>, cno: u64) -> Result<u64, LfsError> {
        let shape = self.geometry.checkpoints;
        let heads = range.map(|number| (number, shape.place(number).1));
        let block = self.meta_block(&self.cpfile, index).await?.unwrap_or_else(|| Vec::new().into());
        let valid = heads.filter(|(_, offset)| {
            let head = block.get(*offset..).and_then(|entry| CheckpointHead::read(entry).ok());
            head.is_some_and(|head| head.flags & (flag::INVALID | flag::SNAPSHOT) == 0)
        });
        let valid: Vec<usize> = valid.map(|(_, offset)| offset).collect();
        if valid.is_empty() {
            return Ok(0);
        }
        let mut left = u32::MAX;
        self.cpfile.edit(index, |block| {
            for offset in &valid {
                if let Ok(head) = CheckpointHead::read(&block[*offset..]) {
                    CheckpointHead { flags: flag::INVALID, ..head }.write(&mut block[*offset..]);
                }
            }
            // The first entry of each block but the first counts the valid ones.
            if index > 0
                && let Ok(first) = CheckpointHead::read(block)
            {
                left = first.in_block.saturating_sub(valid.len() as u32);
                CheckpointHead { in_block: left, ..first }.write(block);
            }
        });
        if left == 0 && index != shape.place(cno).0 {
            self.punch_checkpoints(index).await?;
        }
        Ok(valid.len() as u64)
    }

    /// Makes a block of the CPFILE without checkpoints a hole.
    async fn punch_checkpoints(&self, index: u64) -> Result<(), LfsError> {
        let taken = self.with_map(&self.cpfile.map, false, |map| map.take(index..index + 1)).await?;
        for (_, vblock) in taken {
            self.dat_end(vblock, 0).await?;
        }
        self.cpfile.forget(index);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlapping_ranges_become_one() {
        assert_eq!(merged(&[5..7, 1..3, 3..4, 6..9, 4..4]), [1..4, 5..9]);
    }
}
