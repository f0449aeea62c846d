//! LRU: the line that was not used for the longest time leaves.

use crate::links::Links;
use crate::{Lines, Policy, Recall, Slot};

/// Least recently used: the baseline of all others.
pub struct Lru {
    order: Links,
}

impl Lru {
    /// For a cache of `lines` lines.
    pub fn new(lines: u32) -> Lru {
        Lru { order: Links::new(lines, 1) }
    }
}

impl Policy for Lru {
    #[inline]
    fn hit(&mut self, slot: Slot) {
        self.order.unlink(slot);
        self.order.push(0, slot);
    }

    #[inline]
    fn miss(&mut self, _key: u64) -> Recall {
        Recall::default()
    }

    #[inline]
    fn evict(&mut self, _recall: Recall, lines: &dyn Lines) -> Option<Slot> {
        let slot = self.order.free(0, lines)?;
        self.order.unlink(slot);
        Some(slot)
    }

    #[inline]
    fn insert(&mut self, slot: Slot, _key: u64, _recall: Recall) {
        self.order.push(0, slot);
    }

    fn remove(&mut self, slot: Slot) {
        self.order.unlink(slot);
    }

    fn order(&self, coldest: &mut Vec<Slot>, most: usize) {
        coldest.extend(self.order.walk(0).take(most));
    }

    fn bytes(&self) -> usize {
        self.order.bytes()
    }
}
