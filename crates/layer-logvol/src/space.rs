//! What volumes take: found by a pass over all mappings, so that no write pays for it.
//!
//! [`Account`] takes mappings in the order of their logical blocks, from a walk of the map; [`measure`] is a walk of
//! its own over a snapshot, in as many passes as its memory demands.

use std::ops::Range;

use esker_layer_thin::{Space, Spaces};

use crate::map::{Extent, Snapshot};

/// Set in the word of a block that more than one volume uses; the rest is the last of them that was seen, plus 1.
const MANY: u32 = 1 << 31;

/// Counts the physical blocks of one part of the medium.
pub struct Account {
    window: Range<u64>,
    /// A word for each physical block of the window: its user.
    users: Vec<u32>,
    /// Blocks of each volume, those that it has several times once.
    distinct: Vec<u64>,
}

impl Account {
    /// For `volumes` volumes and the physical blocks of `window`: four bytes of memory for each.
    pub fn new(volumes: usize, window: Range<u64>) -> Account {
        let blocks = (window.end - window.start) as usize;
        Account { window, users: vec![0; blocks], distinct: vec![0; volumes] }
    }

    /// A mapping of volume number `volume`. All of one volume come before those of the next.
    pub fn note(&mut self, volume: usize, extent: Extent) {
        let start = extent.pba.max(self.window.start);
        let end = (extent.pba + u64::from(extent.len)).min(self.window.end);
        let me = volume as u32 + 1;
        for pba in start..end.max(start) {
            let user = &mut self.users[(pba - self.window.start) as usize];
            if *user & !MANY == me {
                continue;
            }
            *user = if *user == 0 { me } else { me | MANY };
            self.distinct[volume] += 1;
        }
    }

    /// Adds what was counted to `spaces`, whose `each` has a place for each volume.
    pub fn add_to(&self, spaces: &mut Spaces) {
        let mut shared = self.distinct.clone();
        for user in self.users.iter().filter(|user| **user != 0) {
            spaces.used += 1;
            if user & MANY == 0 {
                spaces.each[*user as usize - 1].exclusive += 1;
                shared[*user as usize - 1] -= 1;
            }
        }
        spaces.each.iter_mut().zip(shared).for_each(|(space, more)| space.shared += more);
    }
}

/// Measures the volumes with these ranges of logical blocks, which do not overlap, on a medium of `physical` blocks,
/// with about `memory` bytes.
pub fn measure(map: &Snapshot, volumes: &[Range<u64>], physical: u64, memory: u64) -> Spaces {
    let mut spaces = Spaces { each: vec![Space::default(); volumes.len()], used: 0 };
    for (space, range) in spaces.each.iter_mut().zip(volumes) {
        space.apparent = map.pieces(range.clone()).map(|piece| u64::from(piece.len)).sum();
    }
    let step = (memory / 4).max(1);
    for start in (0..physical).step_by(usize::try_from(step).unwrap_or(usize::MAX)) {
        let mut account = Account::new(volumes.len(), start..physical.min(start + step));
        for (volume, range) in volumes.iter().enumerate() {
            map.pieces(range.clone()).for_each(|piece| account.note(volume, piece));
        }
        account.add_to(&mut spaces);
    }
    spaces
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use esker_base::Stream;

    use super::*;
    use crate::map::{Fanout, Map};

    /// The same by sets of blocks.
    fn naive(map: &Snapshot, volumes: &[Range<u64>]) -> Spaces {
        let blocks = |range: &Range<u64>| -> Vec<u64> {
            map.pieces(range.clone()).flat_map(|piece| piece.pba..piece.pba + u64::from(piece.len)).collect()
        };
        let all: Vec<Vec<u64>> = volumes.iter().map(blocks).collect();
        let sets: Vec<BTreeSet<u64>> = all.iter().map(|blocks| blocks.iter().copied().collect()).collect();
        let each = sets.iter().enumerate().map(|(at, set)| {
            let is_elsewhere =
                |block: &&u64| sets.iter().enumerate().any(|(other, set)| other != at && set.contains(block));
            let shared = set.iter().filter(is_elsewhere).count() as u64;
            Space { apparent: all[at].len() as u64, exclusive: set.len() as u64 - shared, shared }
        });
        let used = sets.iter().flatten().collect::<BTreeSet<_>>().len() as u64;
        Spaces { each: each.collect(), used }
    }

    #[test]
    fn space_is_what_counting_each_block_says_whatever_the_memory() {
        let volumes = [0..100, 100..180, 300..500, 500..501];
        for seed in 1..=30 {
            let mut rng = Stream::named(seed, "space");
            let mut map = Map::new(Fanout { leaf: 4, inner: 4, roots: 4, index: 4, changes: 4 });
            for _ in 0..120 {
                let extent = Extent { lba: rng.below(520), pba: rng.below(150), len: 1 + rng.below(9) as u32 };
                map.map(extent, &mut |_| {});
            }
            let snapshot = map.snapshot();
            for memory in [4, 44, 400, 1 << 20] {
                assert_eq!(
                    measure(&snapshot, &volumes, 160, memory),
                    naive(&snapshot, &volumes),
                    "seed {seed}, {memory}"
                );
            }
        }
    }
}
