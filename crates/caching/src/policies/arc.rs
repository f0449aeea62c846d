//! ARC: recency and frequency share the cache, and ghosts of both say which deserves more.
//!
//! Megiddo and Modha, "ARC: a self-tuning, low overhead replacement cache", FAST 2003, figure 4.

use crate::ghosts::Ghosts;
use crate::lists::Lists;
use crate::{Lines, Policy, Recall, Slot};

const ONCE: u8 = 0;
const AGAIN: u8 = 1;
/// What is remembered of a key is the list that it left, plus one.
const FROM_AGAIN: Recall = Recall(1 + AGAIN);

/// ARC. `T1` has lines that were used once, `T2` the others. `B1` and `B2` are their ghosts. Ghosts of both are at
/// most as many as lines.
pub struct Arc {
    lists: Lists,
    left: Ghosts,
    lines: u32,
    /// The size that `T1` aims at: `p` in the paper.
    aim: f64,
}

impl Arc {
    /// For a cache of `lines` lines.
    pub fn new(lines: u32) -> Arc {
        // A victim becomes a ghost before the line that comes makes room for it.
        Arc { lists: Lists::new(lines, 2), left: Ghosts::new(lines + 1, 2), lines, aim: 0.0 }
    }

    /// Moves the aim after a use of a ghost, which was taken out, by more if the ghosts of its list are the fewer.
    fn adapt(&mut self, list: u8) {
        let (once, again) = (f64::from(self.left.len(ONCE)), f64::from(self.left.len(AGAIN)));
        self.aim = match list {
            ONCE => (self.aim + (again / (once + 1.0)).max(1.0)).min(self.lines.into()),
            _ => (self.aim - (once / (again + 1.0)).max(1.0)).max(0.0),
        }
    }

    /// Whether a line leaves `T1`: `REPLACE` in the paper.
    fn takes_once(&self, recall: Recall) -> bool {
        let once = f64::from(self.lists.len(ONCE));
        once > self.aim || recall == FROM_AGAIN && once == self.aim
    }
}

impl Policy for Arc {
    #[inline]
    fn hit(&mut self, slot: Slot) {
        self.lists.push(AGAIN, slot);
    }

    fn miss(&mut self, key: u64) -> Recall {
        let Some((_, ghost)) = self.left.take(key) else { return Recall::default() };
        self.adapt(ghost.list);
        Recall(1 + ghost.list)
    }

    fn evict(&mut self, recall: Recall, lines: &dyn Lines) -> Option<Slot> {
        let turns = if self.takes_once(recall) { [ONCE, AGAIN] } else { [AGAIN, ONCE] };
        let (list, slot) = self.lists.victim(turns, lines)?;
        self.left.push_over(list, lines.key(slot), 0);
        self.lists.remove(slot);
        Some(slot)
    }

    fn insert(&mut self, slot: Slot, _key: u64, recall: Recall) {
        self.lists.push(if recall == Recall::default() { ONCE } else { AGAIN }, slot);
        // The paper forgets before the victim becomes a ghost. The same ghosts remain.
        let [once, again] = [ONCE, AGAIN].map(|list| self.lists.len(list) + self.left.len(list));
        if once > self.lines {
            self.left.forget_oldest(ONCE);
        } else if once + again > 2 * self.lines {
            self.left.forget_oldest(AGAIN);
        }
    }

    fn remove(&mut self, slot: Slot) {
        self.lists.remove(slot);
    }

    fn order(&self, coldest: &mut Vec<Slot>, most: usize) {
        let excess = self.lists.len(ONCE).saturating_sub(self.aim as u32);
        coldest.extend(self.lists.turns(ONCE, excess, AGAIN).take(most));
    }

    fn bytes(&self) -> usize {
        self.lists.bytes() + self.left.bytes()
    }
}
