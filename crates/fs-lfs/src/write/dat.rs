//! The DAT of a writer: virtual blocks are allocated, get their places, end, and are freed.

use super::core::Core;
use crate::error::{LfsError, damaged};
use crate::format::{CNO_MAX, DatEntry};

/// The checkpoint number of an entry that has no place yet, or that is free.
const CNO_NONE: u64 = 1;

impl Core {
    /// An entry.
    ///
    /// # Errors
    /// It is not in use; a structure on the way is wrong; the device's.
    pub(super) async fn dat_entry(&self, vblock: u64) -> Result<DatEntry, LfsError> {
        match self.dat_entry_in_use(vblock).await? {
            Some(entry) => Ok(entry),
            None => damaged("entry of the DAT", vblock, 0, "it is not in use"),
        }
    }

    /// The same; `None` if it is not in use.
    pub(super) async fn dat_entry_in_use(&self, vblock: u64) -> Result<Option<DatEntry>, LfsError> {
        let place = self.entry_place(&self.geometry.dat, vblock)?;
        let block = self.used_entry(&self.dat, &place).await?;
        Ok(block.and_then(|block| DatEntry::read(&block[place.offset..]).ok()))
    }

    /// Makes the entry part of the next log, as it is.
    pub(super) async fn dat_touch(&self, vblock: u64) -> Result<(), LfsError> {
        let place = self.entry_place(&self.geometry.dat, vblock)?;
        self.meta_edit(&self.dat, place.block, |_| {}).await
    }

    /// A new virtual block, without a place.
    pub(super) async fn dat_allocate(&self) -> Result<u64, LfsError> {
        let shape = self.geometry.dat;
        let vblock = self.free_entry(&self.dat, &shape, self.dat_hint.get(), |_| true).await?;
        self.dat_hint.set(vblock + 1);
        self.mark_entry(&self.dat, &shape, vblock, true).await?;
        self.dat_put(vblock, DatEntry { place: 0, start: CNO_NONE, end: CNO_MAX, snapshot: 0 }).await?;
        Ok(vblock)
    }

    /// The block is no longer part of the state from checkpoint `cno` on. 0: its file has no versions, so no checkpoint
    /// has the block.
    pub(super) async fn dat_end(&self, vblock: u64, cno: u64) -> Result<(), LfsError> {
        let entry = self.dat_entry(vblock).await?;
        if entry.place == 0 {
            return self.dat_free(vblock).await;
        }
        // A block that was made and ended within one checkpoint belongs to none.
        self.dat_put(vblock, self.ended(&entry, cno.max(entry.start))).await
    }

    /// Frees a virtual block to which no checkpoint leads.
    pub(super) async fn dat_free(&self, vblock: u64) -> Result<(), LfsError> {
        self.dat_put(vblock, DatEntry { place: 0, start: CNO_NONE, end: CNO_NONE, snapshot: 0 }).await?;
        self.dat_hint.set(self.dat_hint.get().min(vblock));
        self.mark_entry(&self.dat, &self.geometry.dat, vblock, false).await
    }

    /// Gives a virtual block its place in the log that is being made. Its entry is part of that log. The counter of the
    /// segment there has the block, or has not.
    pub(super) fn dat_assign(&self, vblock: u64, place: u64, cno: u64, is_counted: bool) {
        let at = self.geometry.dat.place(vblock).expect("it was allocated");
        self.dat.edit_planned(at.block, |block| {
            let entry = DatEntry::read(&block[at.offset..]).expect("a block holds whole entries");
            // A block that moves keeps its life.
            let start = if entry.place == 0 { cno } else { entry.start };
            let snapshot = self.moved_mark(&entry, is_counted);
            DatEntry { place, start, snapshot, ..entry }.write(&mut block[at.offset..]);
        });
    }

    /// The same in a log of data alone. The next checkpoint writes the entry.
    pub(super) async fn dat_settle(&self, vblock: u64, place: u64, cno: u64) -> Result<(), LfsError> {
        let entry = self.dat_entry(vblock).await?;
        let snapshot = self.moved_mark(&entry, true);
        self.dat_put(vblock, DatEntry { place, start: cno, snapshot, ..entry }).await
    }

    pub(super) async fn dat_put(&self, vblock: u64, entry: DatEntry) -> Result<(), LfsError> {
        let place = self.entry_place(&self.geometry.dat, vblock)?;
        self.meta_edit(&self.dat, place.block, |block| entry.write(&mut block[place.offset..])).await
    }
}
