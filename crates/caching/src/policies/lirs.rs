//! LIRS: lines whose last two uses lie far apart leave first.
//!
//! Jiang and Zhang, "LIRS: an efficient low inter-reference recency set replacement policy", SIGMETRICS 2002.

use crate::ghosts::Ghosts;
use crate::links::Links;
use crate::{Lines, Policy, Recall, Slot};

const ABSENT: u8 = 0;
/// A line with a low distance between its uses: `LIR` in the paper.
const HOT: u8 = 1;
/// A line with a high one: `HIR`.
const COLD: u8 = 2;
/// One line of so many is cold.
const COLD_PART: u32 = 100;
/// Keys that are remembered, as a multiple of the lines. The paper has no bound.
const GHOSTS: u32 = 2;

/// LIRS with a hundredth of the cache for cold lines. Cold lines leave in the order of a queue, `Q`. The stack `S`
/// has lines and ghosts by their last use, down to the oldest hot line. A line that is used while it is in the stack
/// becomes hot.
pub struct Lirs {
    /// The numbers of lines, then those of ghosts.
    stack: Links,
    queue: Links,
    states: Vec<u8>,
    left: Ghosts,
    lines: u32,
    hot: u32,
    hot_most: u32,
}

impl Lirs {
    /// For a cache of `lines` lines.
    pub fn new(lines: u32) -> Lirs {
        Lirs {
            stack: Links::new(lines * (1 + GHOSTS), 1),
            queue: Links::new(lines, 1),
            states: vec![ABSENT; lines as usize],
            left: Ghosts::new(lines * GHOSTS, 1),
            lines,
            hot: 0,
            hot_most: lines.saturating_sub((lines / COLD_PART).max(1)),
        }
    }

    fn is_hot(&self, node: u32) -> bool {
        self.states.get(node as usize) == Some(&HOT)
    }

    /// Makes a line hot. The oldest hot line becomes cold if there are too many.
    fn heat(&mut self, slot: Slot) {
        self.states[slot as usize] = HOT;
        self.hot += 1;
        if self.hot <= self.hot_most {
            return;
        }
        self.prune();
        if let Some(oldest) = self.stack.oldest(0) {
            self.stack.unlink(oldest);
            self.states[oldest as usize] = COLD;
            self.hot -= 1;
            self.queue.push(0, oldest);
        }
    }

    /// Takes all from the stack that is older than the oldest hot line.
    fn prune(&mut self) {
        while let Some(node) = self.stack.oldest(0).filter(|node| !self.is_hot(*node)) {
            self.stack.unlink(node);
            if node >= self.lines {
                self.left.forget(node - self.lines);
            }
        }
    }

    /// Makes a cold line of the stack a ghost at its place.
    fn remember(&mut self, slot: Slot, key: u64) {
        if self.left.is_full()
            && let Some(oldest) = self.left.forget_oldest(0)
        {
            self.stack.unlink(self.lines + oldest);
        }
        let ghost = self.left.push(0, key, 0);
        self.stack.replace(slot, self.lines + ghost);
    }
}

impl Policy for Lirs {
    fn hit(&mut self, slot: Slot) {
        let was_in_stack = self.stack.has(slot);
        self.stack.unlink(slot);
        self.stack.push(0, slot);
        if self.states[slot as usize] == COLD {
            self.queue.unlink(slot);
            if was_in_stack {
                self.heat(slot);
            } else {
                self.queue.push(0, slot);
            }
        }
        self.prune();
    }

    fn miss(&mut self, key: u64) -> Recall {
        let Some((ghost, _)) = self.left.take(key) else { return Recall::default() };
        self.stack.unlink(self.lines + ghost);
        Recall(1)
    }

    fn evict(&mut self, _recall: Recall, lines: &dyn Lines) -> Option<Slot> {
        if let Some(slot) = self.queue.free(0, lines) {
            self.queue.unlink(slot);
            self.states[slot as usize] = ABSENT;
            if self.stack.has(slot) {
                self.remember(slot, lines.key(slot));
            }
            return Some(slot);
        }
        let slot = self.stack.walk(0).find(|node| self.is_hot(*node) && !lines.is_held(*node))?;
        self.remove(slot);
        Some(slot)
    }

    fn insert(&mut self, slot: Slot, _key: u64, recall: Recall) {
        self.stack.push(0, slot);
        if self.hot < self.hot_most || recall != Recall::default() {
            self.heat(slot);
        } else {
            self.states[slot as usize] = COLD;
            self.queue.push(0, slot);
        }
        self.prune();
    }

    fn remove(&mut self, slot: Slot) {
        self.hot -= u32::from(self.is_hot(slot));
        self.states[slot as usize] = ABSENT;
        self.queue.unlink(slot);
        self.stack.unlink(slot);
        self.prune();
    }

    fn order(&self, coldest: &mut Vec<Slot>, most: usize) {
        let hot = self.stack.walk(0).filter(|node| self.is_hot(*node));
        coldest.extend(self.queue.walk(0).chain(hot).take(most));
    }

    fn bytes(&self) -> usize {
        self.stack.bytes() + self.queue.bytes() + self.states.capacity() + self.left.bytes()
    }
}
