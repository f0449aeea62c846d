//! Entries of files with an allocator: the IFILE and the DAT.

use super::core::Core;
use super::meta::MetaFile;
use crate::error::{LfsError, damaged};
use crate::format::alloc::has_bit;
use crate::format::{Allocator, EntryPlace};
use crate::volume::Block;

impl Core {
    /// Where an entry lies.
    pub(super) fn entry_place(&self, shape: &Allocator, number: u64) -> Result<EntryPlace, LfsError> {
        match shape.place(number) {
            Some(place) => Ok(place),
            None => damaged("entry", number, 0, "no file could be so large"),
        }
    }

    /// The block of an entry, if the entry is in use.
    pub(super) async fn used_entry(&self, file: &MetaFile, place: &EntryPlace) -> Result<Option<Block>, LfsError> {
        match self.meta_block(file, place.bits_block).await? {
            Some(bits) if has_bit(&bits, place.bit) => self.meta_block(file, place.block).await,
            _ => Ok(None),
        }
    }

    /// The first entry from `from` on that is not in use and that `may` be taken.
    pub(super) async fn free_entry(
        &self,
        file: &MetaFile,
        shape: &Allocator,
        from: u64,
        may: impl Fn(u64) -> bool,
    ) -> Result<u64, LfsError> {
        let mut number = from;
        loop {
            let place = self.entry_place(shape, number)?;
            let first = number - place.bit as u64;
            if self.free_in_group(file, shape, &place).await? > 0 {
                let bits = self.meta_block(file, place.bits_block).await?;
                let is_free = |bit: &usize| !bits.as_ref().is_some_and(|bits| has_bit(bits, *bit));
                let found = (place.bit..shape.per_group as usize).filter(is_free).map(|bit| first + bit as u64);
                if let Some(found) = found.into_iter().find(|number| may(*number)) {
                    return Ok(found);
                }
            }
            number = first + shape.per_group;
        }
    }

    async fn free_in_group(&self, file: &MetaFile, shape: &Allocator, place: &EntryPlace) -> Result<u32, LfsError> {
        let counters = self.meta_block(file, place.desc_block).await?;
        Ok(counters.map_or(shape.per_group as u32, |counters| counter(&counters, place.desc_offset)))
    }

    /// Marks an entry as in use, or as free.
    pub(super) async fn mark_entry(
        &self,
        file: &MetaFile,
        shape: &Allocator,
        number: u64,
        is_used: bool,
    ) -> Result<(), LfsError> {
        let place = self.entry_place(shape, number)?;
        let is_new = self.meta_block(file, place.desc_block).await?.is_none();
        file.edit(place.desc_block, |counters| {
            if is_new {
                let full = (shape.per_group as u32).to_le_bytes();
                counters.chunks_exact_mut(4).for_each(|counter| counter.copy_from_slice(&full));
            }
            let free = counter(counters, place.desc_offset);
            let free = if is_used { free.saturating_sub(1) } else { free.saturating_add(1) };
            counters[place.desc_offset..place.desc_offset + 4].copy_from_slice(&free.to_le_bytes());
        });
        self.meta_edit(file, place.bits_block, |bits| {
            let bit = 1 << (place.bit % 8);
            let byte = &mut bits[place.bit / 8];
            *byte = if is_used { *byte | bit } else { *byte & !bit };
        })
        .await
    }
}

fn counter(counters: &[u8], at: usize) -> u32 {
    counters.get(at..).and_then(<[u8]>::first_chunk).map_or(0, |counter| u32::from_le_bytes(*counter))
}
