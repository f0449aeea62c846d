//! A queue of lines as a ring: one word a line, read and written in sequence.

use std::collections::{BTreeMap, VecDeque};

use crate::Slot;

/// The part of a ring that is stale when a sweep is worth its time.
const SWEPT: usize = 24;

/// Lines in the order of their arrival. A line that is removed from the middle leaves a stale place behind, which is
/// dropped when a walk from the oldest meets it. A line that comes again stands behind its stale places. So of several
/// places of one line the oldest are the stale ones, and a count for each line tells them apart.
pub(crate) struct Queue {
    ring: VecDeque<Slot>,
    /// Stale places of each line. Removing is rare, so this is mostly empty.
    stale: BTreeMap<Slot, u32>,
    /// Their sum.
    stale_sum: usize,
}

impl Queue {
    /// For `lines` lines, and a few stale places.
    pub(crate) fn new(lines: u32) -> Queue {
        let room = lines as usize + lines as usize / 16 + 16;
        Queue { ring: VecDeque::with_capacity(room), stale: BTreeMap::new(), stale_sum: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.ring.len() - self.stale_sum
    }

    /// Makes a line the newest.
    #[inline]
    pub(crate) fn push(&mut self, slot: Slot) {
        // A sweep pays for itself, because it makes room for many lines. Else the ring grows.
        if self.ring.len() == self.ring.capacity() && self.stale_sum > self.ring.len() / SWEPT {
            self.sweep();
        }
        self.ring.push_back(slot);
    }

    /// The line at a place, counted from the oldest. Drops stale places before it.
    #[inline]
    pub(crate) fn get(&mut self, at: usize) -> Option<Slot> {
        loop {
            let slot = *self.ring.get(at)?;
            if self.stale_sum == 0 || !self.is_stale(slot) {
                return Some(slot);
            }
            self.ring.remove(at);
        }
    }

    /// Takes the line at a place out.
    #[inline]
    pub(crate) fn take(&mut self, at: usize) {
        if at == 0 {
            self.ring.pop_front()
        } else {
            self.ring.remove(at)
        };
    }

    /// Removes a line, wherever it stands.
    pub(crate) fn remove(&mut self, slot: Slot) {
        *self.stale.entry(slot).or_default() += 1;
        self.stale_sum += 1;
    }

    /// The lines, the oldest first.
    pub(crate) fn walk(&self) -> impl Iterator<Item = Slot> + '_ {
        let mut stale = self.stale.clone();
        self.ring.iter().copied().filter(move |slot| match stale.get_mut(slot) {
            Some(count @ 1..) => {
                *count -= 1;
                false
            }
            _ => true,
        })
    }

    /// Whether the oldest place of a line is stale. If so, the caller drops that place.
    fn is_stale(&mut self, slot: Slot) -> bool {
        let Some(count) = self.stale.get_mut(&slot) else { return false };
        *count -= 1;
        if *count == 0 {
            self.stale.remove(&slot);
        }
        self.stale_sum -= 1;
        true
    }

    /// Drops all stale places.
    fn sweep(&mut self) {
        let mut ring = std::mem::take(&mut self.ring);
        ring.retain(|slot| self.stale_sum == 0 || !self.is_stale(*slot));
        self.ring = ring;
    }

    pub(crate) fn bytes(&self) -> usize {
        self.ring.capacity() * size_of::<Slot>() + self.stale.len() * size_of::<(Slot, u32)>()
    }
}

#[cfg(test)]
mod tests {
    use esker_base::Stream;

    use super::*;

    #[test]
    fn lines_keep_their_order_while_others_are_removed() {
        for lines in [1, 5, 40, 400] {
            let (mut queue, mut plain) = (Queue::new(lines), Vec::new());
            let mut rng = Stream::named(lines.into(), "queue");
            for _ in 0..20_000 {
                let slot = rng.below(lines.into()) as Slot;
                if !plain.contains(&slot) {
                    queue.push(slot);
                    plain.push(slot);
                } else if rng.chance(0.7) {
                    queue.remove(slot);
                    plain.retain(|other| *other != slot);
                } else {
                    let at = rng.below(plain.len() as u64 + 1) as usize;
                    // A walk drops stale places on its way.
                    let found: Vec<_> = (0..=at).map(|at| queue.get(at)).collect();
                    assert_eq!(found.last().copied().flatten(), plain.get(at).copied());
                    if at < plain.len() {
                        queue.take(at);
                        plain.remove(at);
                    }
                }
                assert_eq!(queue.len(), plain.len());
            }
            assert!(queue.walk().eq(plain), "{lines} lines");
            assert!(queue.ring.capacity() < 2 * lines as usize + 64, "{} for {lines} lines", queue.ring.capacity());
        }
    }
}
