//! Which blocks only snapshots hold: those to which mappings lead only from leaves of which writers took copies, and in
//! parts of the logical space that were cloned to and not written since. Such blocks die together with their snapshot,
//! whatever their age.
//!
//! A guess for the placement of copies alone. It is made of what was seen since the volume was opened, in bounded
//! memory: parts beyond the bound count as written.

use std::collections::BTreeSet;

use crate::map::{Extent, Map, Mapping};

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
    pub(super) fn hold(&self, mut mappings: impl Iterator<Item = Mapping>, map: &Map) -> bool {
        mappings.all(|Mapping { leaf, extent }| map.is_left(leaf) || self.has(extent.lba))
    }

    fn has(&self, lba: u64) -> bool {
        self.0.contains(&(lba >> PART))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::map::{Fanout, NodeId};

    fn at(lba: u64) -> Mapping {
        Mapping { leaf: NodeId::default(), extent: Extent { lba, pba: 1, len: 1 } }
    }

    fn void() -> Map {
        Map::new(Fanout { leaf: 4, inner: 4, roots: 4, index: 4, changes: 4 })
    }

    #[test]
    fn a_part_holds_until_it_is_written_and_one_live_mapping_counts() {
        let (mut parts, map) = (HeldParts::default(), void());
        let hold = |parts: &HeldParts, lbas: &[u64]| parts.hold(lbas.iter().copied().map(at), &map);
        assert!(!hold(&parts, &[5 << PART]), "nothing was cloned");
        parts.cloned(at((5 << PART) + 3).extent);
        assert!(hold(&parts, &[5 << PART, (5 << PART) + 9]));
        assert!(!hold(&parts, &[5 << PART, 1]), "one mapping is elsewhere");
        parts.written(5 << PART);
        assert!(!hold(&parts, &[5 << PART]));
    }

    #[test]
    fn leaves_of_which_a_writer_took_a_copy_hold() {
        use crate::map::TRACT;
        let (parts, mut map) = (HeldParts::default(), void());
        map.map(Extent { lba: 3, pba: 30, len: 1 }, &mut |_| {});
        map.duplicate(0, TRACT, TRACT, &mut |_| {});
        let all = |map: &Map| map.snapshot().leaves(0..u64::MAX).collect::<Vec<_>>();
        assert!(!parts.hold(all(&map).into_iter(), &map), "the volume has it too");
        map.map(Extent { lba: 9, pba: 90, len: 1 }, &mut |_| {});
        let (old, new): (Vec<Mapping>, _) = all(&map).into_iter().partition(|mapping| map.is_left(mapping.leaf));
        assert!(parts.hold(old.into_iter(), &map) && !parts.hold(new.into_iter(), &map));
    }

    #[test]
    fn memory_is_bounded() {
        let (mut parts, map) = (HeldParts::default(), void());
        (0..2 * PARTS_MAX as u64).for_each(|part| parts.cloned(at(part << PART).extent));
        let beyond = at((PARTS_MAX as u64 + 1) << PART);
        assert!(parts.0.len() == PARTS_MAX && !parts.hold([beyond].into_iter(), &map));
    }
}
