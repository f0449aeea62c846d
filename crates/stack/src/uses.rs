//! What stands on a volume.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use esker_block::VolumeId;

use crate::snapshot::Snapshot;

/// Which slots of a snapshot stand on which volumes.
pub(crate) struct Uses<'a> {
    snapshot: &'a Snapshot,
    /// Places of slots, by the volume below them.
    by: Vec<Vec<usize>>,
}

impl<'a> Uses<'a> {
    pub(crate) fn of(snapshot: &'a Snapshot) -> Uses<'a> {
        let mut by = vec![Vec::new(); snapshot.volumes()];
        for (place, slot) in snapshot.slots.iter().enumerate() {
            slot.lowers.iter().for_each(|lower| by[usize::from(lower.0)].push(place));
        }
        Uses { snapshot, by }
    }

    /// The volumes that stand on `volume`, itself among them, and whether every byte of it lies at the same place
    /// there. The work is that of those volumes.
    pub(crate) fn above(&self, volume: VolumeId) -> BTreeMap<VolumeId, bool> {
        let on = |volume: VolumeId| self.by.get(usize::from(volume.0)).into_iter().flatten().copied();
        let mut above = BTreeMap::from([(volume, true)]);
        let mut next: BTreeSet<usize> = on(volume).collect();
        // Slots stand top-down: what a slot stands on is known when it is the last one.
        while let Some(place) = next.pop_last() {
            let slot = &self.snapshot.slots[place];
            let below = slot.lowers.iter().filter_map(|lower| above.get(lower)).min().copied();
            let is_same = below == Some(true) && slot.instance.kind.transparent;
            for upper in &slot.uppers {
                if let Entry::Vacant(new) = above.entry(*upper) {
                    new.insert(is_same);
                    next.extend(on(*upper));
                }
            }
        }
        above
    }
}
