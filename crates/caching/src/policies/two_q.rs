//! 2Q: a line must come back after it left a short queue before it counts as hot.
//!
//! Johnson and Shasha, "2Q: a low overhead high performance buffer management replacement algorithm", VLDB 1994, the
//! full version.

use crate::ghosts::Ghosts;
use crate::lists::Lists;
use crate::{Lines, Policy, Recall, Slot};

const RECENT: u8 = 0;
const HOT: u8 = 1;

/// 2Q with the sizes that the paper recommends. The queue `A1in` of new lines aims at a quarter of the cache. `A1out`
/// remembers as many keys as half of the cache holds. `Am` is an LRU list.
pub struct TwoQ {
    lists: Lists,
    recent_most: u32,
    left: Ghosts,
}

impl TwoQ {
    /// For a cache of `lines` lines.
    pub fn new(lines: u32) -> TwoQ {
        TwoQ { lists: Lists::new(lines, 2), recent_most: (lines / 4).max(1), left: Ghosts::new((lines / 2).max(1), 1) }
    }

    /// Lines of the queue over its aim.
    fn excess(&self) -> u32 {
        self.lists.len(RECENT).saturating_sub(self.recent_most)
    }
}

impl Policy for TwoQ {
    #[inline]
    fn hit(&mut self, slot: Slot) {
        // Uses soon after the first are correlated, and say nothing.
        if self.lists.of(slot) == Some(HOT) {
            self.lists.push(HOT, slot);
        }
    }

    fn miss(&mut self, key: u64) -> Recall {
        Recall(self.left.take(key).is_some().into())
    }

    fn evict(&mut self, _recall: Recall, lines: &dyn Lines) -> Option<Slot> {
        let turns = if self.excess() > 0 { [RECENT, HOT] } else { [HOT, RECENT] };
        let (list, slot) = self.lists.victim(turns, lines)?;
        if list == RECENT {
            self.left.push_over(0, lines.key(slot), 0);
        }
        self.lists.remove(slot);
        Some(slot)
    }

    fn insert(&mut self, slot: Slot, _key: u64, recall: Recall) {
        self.lists.push(if recall == Recall::default() { RECENT } else { HOT }, slot);
    }

    fn remove(&mut self, slot: Slot) {
        self.lists.remove(slot);
    }

    fn order(&self, coldest: &mut Vec<Slot>, most: usize) {
        coldest.extend(self.lists.turns(RECENT, self.excess(), HOT).take(most));
    }

    fn bytes(&self) -> usize {
        self.lists.bytes() + self.left.bytes()
    }
}
