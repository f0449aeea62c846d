//! W-TinyLFU: a line that comes must have been used more often than the line that would leave for it.
//!
//! Einziger, Friedman and Manes, "TinyLFU: a highly efficient cache admission policy", ACM Transactions on Storage 13,
//! 2017, section "W-TinyLFU". Ties go to the line that is there.

use crate::index::hash;
use crate::lists::Lists;
use crate::sketch::Sketch;
use crate::{Lines, Policy, Recall, Slot};

const WINDOW: u8 = 0;
const PROBATION: u8 = 1;
const PROTECTED: u8 = 2;
/// One line of so many is in the window.
const WINDOW_PART: u32 = 100;

/// W-TinyLFU with the paper's sizes: the window, an LRU list, has a hundredth of the lines. The rest is a segmented LRU
/// that protects four fifths. A sketch counts the uses of all keys, those that left too.
pub struct TinyLfu {
    lists: Lists,
    /// The keys' hashes, by which the sketch knows them.
    hashes: Vec<u32>,
    sketch: Sketch,
    window_most: u32,
    protected_most: u32,
}

impl TinyLfu {
    /// For a cache of `lines` lines.
    pub fn new(lines: u32) -> TinyLfu {
        let window_most = (lines / WINDOW_PART).max(1);
        let main = u64::from(lines.saturating_sub(window_most));
        TinyLfu {
            lists: Lists::new(lines, 3),
            hashes: vec![0; lines as usize],
            sketch: Sketch::new(lines),
            window_most,
            protected_most: (main * 4 / 5) as u32,
        }
    }

    fn uses(&self, slot: Slot) -> u64 {
        self.sketch.count(self.hashes[slot as usize])
    }

    /// Whether the line of the main part stays, when it and a line of the window are the next to leave.
    fn main_stays(&self, window: Slot, main: Slot) -> bool {
        self.uses(window) <= self.uses(main)
    }

    /// Makes a line of the main part the newest protected one.
    fn protect(&mut self, slot: Slot) {
        self.lists.push(PROTECTED, slot);
        if self.lists.len(PROTECTED) > self.protected_most
            && let Some(oldest) = self.lists.oldest(PROTECTED)
        {
            self.lists.push(PROBATION, oldest);
        }
    }
}

impl Policy for TinyLfu {
    fn hit(&mut self, slot: Slot) {
        self.sketch.add(self.hashes[slot as usize]);
        match self.lists.of(slot) {
            Some(WINDOW) => self.lists.push(WINDOW, slot),
            _ => self.protect(slot),
        }
    }

    fn miss(&mut self, key: u64) -> Recall {
        self.sketch.add(hash(key) as u32);
        Recall::default()
    }

    fn evict(&mut self, _recall: Recall, lines: &dyn Lines) -> Option<Slot> {
        let window = self.lists.free(WINDOW, lines);
        let main = self.lists.victim([PROBATION, PROTECTED], lines).map(|(_, slot)| slot);
        let slot = match (window, main) {
            (Some(window), Some(main)) => {
                let is_full = self.lists.len(WINDOW) >= self.window_most;
                if is_full && self.main_stays(window, main) { window } else { main }
            }
            (window, main) => window.or(main)?,
        };
        self.lists.remove(slot);
        Some(slot)
    }

    fn insert(&mut self, slot: Slot, key: u64, _recall: Recall) {
        self.hashes[slot as usize] = hash(key) as u32;
        self.lists.push(WINDOW, slot);
        // The oldest line of the window has won against the victim, or the cache has room.
        if self.lists.len(WINDOW) > self.window_most
            && let Some(oldest) = self.lists.oldest(WINDOW)
        {
            self.lists.push(PROBATION, oldest);
        }
    }

    fn remove(&mut self, slot: Slot) {
        self.lists.remove(slot);
    }

    fn order(&self, coldest: &mut Vec<Slot>, most: usize) {
        let mut window = self.lists.walk(WINDOW).peekable();
        let mut main = self.lists.walk(PROBATION).chain(self.lists.walk(PROTECTED)).peekable();
        let mut window_len = self.lists.len(WINDOW);
        coldest.extend(
            std::iter::from_fn(|| {
                let is_of_window = match (window.peek(), main.peek()) {
                    (Some(new), Some(old)) => window_len >= self.window_most && self.main_stays(*new, *old),
                    (new, _) => new.is_some(),
                };
                window_len -= u32::from(is_of_window);
                if is_of_window { window.next() } else { main.next() }
            })
            .take(most),
        );
    }

    fn bytes(&self) -> usize {
        self.lists.bytes() + self.hashes.capacity() * size_of::<u32>() + self.sketch.bytes()
    }
}
