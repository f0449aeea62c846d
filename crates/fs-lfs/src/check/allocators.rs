//! Files with an allocator: bits and counters of free entries.

use super::Checker;
use crate::format::Allocator;
use crate::format::alloc::{AllocBlock, has_bit};
use crate::map::MappedFile;

impl Checker<'_> {
    /// Compares the counters of a file with its bits. Gives the numbers of all entries in use. `data` are the blocks
    /// that the file has.
    pub(super) async fn used(&mut self, at: &str, file: &MappedFile, shape: &Allocator, data: &[u64]) -> Vec<u64> {
        let mut used = Vec::new();
        for index in data {
            match shape.holds(*index) {
                AllocBlock::Descriptors(first) => self.counters(at, file, shape, *index, first).await,
                AllocBlock::Bits(group) => {
                    let Ok(Some(bits)) = self.volume.file_block(file, *index).await else { continue };
                    // A number that does not fit stands for no entry.
                    let Some(first) = (group + 1).checked_mul(shape.per_group).map(|end| end - shape.per_group) else {
                        self.damage(at, format!("it has bits of group {group}"));
                        continue;
                    };
                    let set = (0..shape.per_group).filter(|bit| has_bit(&bits, *bit as usize));
                    used.extend(set.map(|bit| first + bit));
                }
                AllocBlock::Entries(_) => {}
            }
        }
        used
    }

    /// Compares the counters of a block of descriptors with the bits of their groups. A group without bits is free.
    async fn counters(&mut self, at: &str, file: &MappedFile, shape: &Allocator, index: u64, first: u64) {
        let Ok(Some(counters)) = self.volume.file_block(file, index).await else { return };
        for (group, counter) in (first..).zip(counters.chunks_exact(4)) {
            let told = u64::from(u32::from_le_bytes([counter[0], counter[1], counter[2], counter[3]]));
            let Some(place) = group.checked_mul(shape.per_group).and_then(|entry| shape.place(entry)) else { return };
            let free = match self.volume.file_block(file, place.bits_block).await {
                Ok(Some(bits)) => shape.per_group - bits.iter().map(|byte| u64::from(byte.count_ones())).sum::<u64>(),
                Ok(None) => shape.per_group,
                Err(error) => {
                    self.error(format!("{at}, bits of group {group}"), &error);
                    continue;
                }
            };
            self.miscount(format!("{at}, group {group}"), "free entries", told, free);
        }
    }
}
