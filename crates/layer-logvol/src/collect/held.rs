//! Which blocks only snapshots hold: those to which mappings lead only in parts of the logical space that were cloned
//! to and not written since. Such blocks die together with their snapshot, whatever their age.
//!
//! A guess for the placement of copies alone. It is made of what was seen since the volume was opened, in bounded
//! memory: parts beyond the bound count as written.

use std::collections::BTreeSet;

use crate::map::Extent;

/// Logical blocks of a part, as a power of two: 256 MiB of blocks of 4 KiB.
const PART: u32 = 16;
/// Parts that are remembered.
const PARTS_MAX: usize = 1 << 16;

/// Parts of the logical space that hold nothing but clones.
#[derive(Default)]
pub(crate) struct HeldParts(BTreeSet<u64>);

impl HeldParts {
    /// An extent was cloned or moved to its place.
    pub(crate) fn cloned(&mut self, extent: Extent) {
        if self.0.len() < PARTS_MAX {
            self.0.insert(extent.lba >> PART);
        }
    }

    /// Blocks from here on were written: what is there is no snapshot.
    pub(crate) fn written(&mut self, lba: u64) {
        self.0.remove(&(lba >> PART));
    }

    /// Whether only snapshots have these mappings.
    pub(super) fn hold(&self, mut mappings: impl Iterator<Item = Extent>) -> bool {
        !self.0.is_empty() && mappings.all(|extent| self.0.contains(&(extent.lba >> PART)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(lba: u64) -> Extent {
        Extent { lba, pba: 1, len: 1 }
    }

    #[test]
    fn a_part_holds_until_it_is_written_and_one_live_mapping_counts() {
        let mut parts = HeldParts::default();
        assert!(!parts.hold([at(5 << PART)].into_iter()), "nothing was cloned");
        parts.cloned(at((5 << PART) + 3));
        assert!(parts.hold([at(5 << PART), at((5 << PART) + 9)].into_iter()));
        assert!(!parts.hold([at(5 << PART), at(1)].into_iter()), "one mapping is elsewhere");
        parts.written(5 << PART);
        assert!(!parts.hold([at(5 << PART)].into_iter()));
    }

    #[test]
    fn memory_is_bounded() {
        let mut parts = HeldParts::default();
        (0..2 * PARTS_MAX as u64).for_each(|part| parts.cloned(at(part << PART)));
        assert!(parts.0.len() == PARTS_MAX && !parts.hold([at((PARTS_MAX as u64 + 1) << PART)].into_iter()));
    }
}
