//! SIEVE: a hand passes from old lines to new ones and takes the first that was not used.
//!
//! Zhang and others, "SIEVE is simpler than LRU: an efficient turn-key eviction algorithm for web caches", NSDI 2024,
//! algorithm 1.

use crate::links::Links;
use crate::{Lines, Policy, Recall, Slot};

/// SIEVE. Unlike in CLOCK, a used line stays where it is, and new lines come in at the newest end, not at the hand.
pub struct Sieve {
    order: Links,
    used: Vec<bool>,
    len: usize,
    /// Where the next search begins. `None` is the oldest line.
    hand: Option<Slot>,
}

impl Sieve {
    /// For a cache of `lines` lines.
    pub fn new(lines: u32) -> Sieve {
        Sieve { order: Links::new(lines, 1), used: vec![false; lines as usize], len: 0, hand: None }
    }

    /// Lines from the hand on, once around.
    fn turn(&self) -> impl Iterator<Item = Slot> + '_ {
        let start = self.hand.or(self.order.oldest(0));
        let rest = std::iter::successors(start, |slot| self.order.newer(*slot));
        rest.chain(self.order.walk(0)).take(self.len)
    }
}

impl Policy for Sieve {
    #[inline]
    fn hit(&mut self, slot: Slot) {
        self.used[slot as usize] = true;
    }

    #[inline]
    fn miss(&mut self, _key: u64) -> Recall {
        Recall::default()
    }

    #[inline]
    fn evict(&mut self, _recall: Recall, lines: &dyn Lines) -> Option<Slot> {
        // The first turn takes all marks away that it passes, so the second finds a victim unless all lines are held.
        for _ in 0..2 * self.len {
            let slot = self.hand.or(self.order.oldest(0))?;
            self.hand = self.order.newer(slot);
            if self.used[slot as usize] {
                self.used[slot as usize] = false;
            } else if !lines.is_held(slot) {
                self.remove(slot);
                return Some(slot);
            }
        }
        None
    }

    #[inline]
    fn insert(&mut self, slot: Slot, _key: u64, _recall: Recall) {
        self.used[slot as usize] = false;
        self.order.push(0, slot);
        self.len += 1;
    }

    #[inline]
    fn remove(&mut self, slot: Slot) {
        if !self.order.has(slot) {
            return;
        }
        if self.hand == Some(slot) {
            self.hand = self.order.newer(slot);
        }
        self.order.unlink(slot);
        self.len -= 1;
    }

    fn order(&self, coldest: &mut Vec<Slot>, most: usize) {
        let of = |used: bool| self.turn().filter(move |slot| self.used[*slot as usize] == used);
        coldest.extend(of(false).chain(of(true)).take(most));
    }

    fn bytes(&self) -> usize {
        self.order.bytes() + self.used.capacity()
    }
}
