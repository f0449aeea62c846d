//! MQ: queues by how often lines were used, for caches below other caches.
//!
//! Zhou, Philbin and Li, "The multi-queue replacement algorithm for second level buffer caches", USENIX ATC 2001.

use crate::ghosts::Ghosts;
use crate::lists::Lists;
use crate::{Lines, Policy, Recall, Slot};

const QUEUES: u8 = 8;
/// Keys that are remembered, as a multiple of the lines.
const GHOSTS: u32 = 2;
/// Uses after which a line that is not used again goes one queue down, as a multiple of the lines. The paper measures
/// the distance at which uses peak. This is a distance at which a key that left is mostly still remembered.
const LIFE: u64 = 4;

/// MQ with eight queues. A line stands in the queue of the logarithm of its uses. The lowest queue that has lines gives
/// the victim. Keys that left keep their count of uses while they are remembered.
pub struct Mq {
    queues: Lists,
    /// Uses of each line. The highest queue begins at 128, so more need not be told apart.
    uses: Vec<u8>,
    expires: Vec<u64>,
    left: Ghosts,
    now: u64,
    life: u64,
    /// No line expires before.
    due: u64,
}

impl Mq {
    /// For a cache of `lines` lines.
    pub fn new(lines: u32) -> Mq {
        Mq::with_life(lines, LIFE * u64::from(lines))
    }

    /// For a cache of `lines` lines that fall one queue after `life` uses of others.
    pub fn with_life(lines: u32, life: u64) -> Mq {
        Mq {
            queues: Lists::new(lines, QUEUES),
            uses: vec![0; lines as usize],
            expires: vec![0; lines as usize],
            left: Ghosts::new(GHOSTS * lines, 1),
            now: 0,
            life,
            due: u64::MAX,
        }
    }

    /// Counts a use of a line, which goes to the end of the queue that it belongs to.
    fn rise(&mut self, slot: Slot, before: u8) {
        let uses = before.saturating_add(1);
        self.uses[slot as usize] = uses;
        self.push((uses.ilog2() as u8).min(QUEUES - 1), slot);
        self.fall();
    }

    fn push(&mut self, queue: u8, slot: Slot) {
        self.expires[slot as usize] = self.now + self.life;
        self.queues.push(queue, slot);
        if queue > 0 {
            self.due = self.due.min(self.now + self.life);
        }
    }

    /// Lets the oldest line of each queue fall one queue if its time is over. In a queue the oldest expires first.
    fn fall(&mut self) {
        if self.due >= self.now {
            return;
        }
        for queue in 1..QUEUES {
            let expired = |slot: &Slot| self.expires[*slot as usize] < self.now;
            if let Some(slot) = self.queues.oldest(queue).filter(expired) {
                self.push(queue - 1, slot);
            }
        }
        let oldest = (1..QUEUES).filter_map(|queue| self.queues.oldest(queue));
        self.due = oldest.map(|slot| self.expires[slot as usize]).min().unwrap_or(u64::MAX);
    }
}

impl Policy for Mq {
    fn hit(&mut self, slot: Slot) {
        self.now += 1;
        self.rise(slot, self.uses[slot as usize]);
    }

    fn miss(&mut self, key: u64) -> Recall {
        self.now += 1;
        Recall(self.left.take(key).map_or(0, |(_, ghost)| ghost.note))
    }

    fn evict(&mut self, _recall: Recall, lines: &dyn Lines) -> Option<Slot> {
        let slot = (0..QUEUES).find_map(|queue| self.queues.free(queue, lines))?;
        self.left.push_over(0, lines.key(slot), self.uses[slot as usize]);
        self.queues.remove(slot);
        Some(slot)
    }

    fn insert(&mut self, slot: Slot, _key: u64, recall: Recall) {
        self.rise(slot, recall.0);
    }

    fn remove(&mut self, slot: Slot) {
        self.queues.remove(slot);
    }

    fn order(&self, coldest: &mut Vec<Slot>, most: usize) {
        coldest.extend((0..QUEUES).flat_map(|queue| self.queues.walk(queue)).take(most));
    }

    fn bytes(&self) -> usize {
        let lines = self.uses.capacity() + self.expires.capacity() * size_of::<u64>();
        self.queues.bytes() + lines + self.left.bytes()
    }
}
