//! S3-FIFO: a small queue lets most lines go early, and ghosts bring some back.
//!
//! Yang and others, "FIFO queues are all you need for cache eviction", SOSP 2023, algorithm 1.

use std::collections::VecDeque;

use crate::ghosts::Ghosts;
use crate::prints::Prints;
use crate::queue::Queue;
use crate::{Lines, Policy, Recall, Slot};

const ABSENT: u8 = 0;
/// Uses since the line came to its queue, up to three.
const USES: u8 = 3;
const SMALL: u8 = 4;
const MAIN: u8 = 8;
/// Uses with which a line of the small queue moves on.
const MOVES: u8 = 2;

/// S3-FIFO with the paper's sizes. A tenth of the lines is the small queue. Ghosts are as many as the main queue has
/// lines. A hit is one store. As in the simulator of the authors, lines go to the main queue while the cache fills and
/// the small queue is full.
pub struct S3Fifo {
    small: Queue,
    main: Queue,
    marks: Vec<u8>,
    left: Left,
    small_most: u32,
    has_evicted: bool,
}

/// The keys that left the small queue.
enum Left {
    Keys(Ghosts),
    Prints(Prints),
}

impl Left {
    fn push(&mut self, key: u64) {
        match self {
            Left::Keys(keys) => keys.push_over(0, key, 0),
            Left::Prints(prints) => prints.push(key),
        }
    }

    fn take(&mut self, key: u64) -> bool {
        match self {
            Left::Keys(keys) => keys.take(key).is_some(),
            Left::Prints(prints) => prints.take(key),
        }
    }

    fn bytes(&self) -> usize {
        match self {
            Left::Keys(keys) => keys.bytes(),
            Left::Prints(prints) => prints.bytes(),
        }
    }
}

impl S3Fifo {
    /// For a cache of `lines` lines. Ghosts are exact, in some 20 bytes each.
    pub fn new(lines: u32) -> S3Fifo {
        S3Fifo::with(lines, |most| Left::Keys(Ghosts::new(most, 1)))
    }

    /// The same with ghosts of 5 bytes, one in some thousands of which is wrong.
    pub fn compact(lines: u32) -> S3Fifo {
        S3Fifo::with(lines, |most| Left::Prints(Prints::new(most)))
    }

    fn with(lines: u32, left: impl Fn(u32) -> Left) -> S3Fifo {
        let small_most = (lines / 10).max(1);
        let main_most = lines.saturating_sub(small_most);
        S3Fifo {
            small: Queue::new(small_most),
            main: Queue::new(main_most),
            marks: vec![ABSENT; lines as usize],
            left: left(main_most),
            small_most,
            has_evicted: false,
        }
    }

    fn small_is_full(&self) -> bool {
        self.small.len() >= self.small_most as usize
    }

    /// The oldest line of the small queue that was not used twice. Those before it move on.
    fn leave_small(&mut self, lines: &dyn Lines) -> Option<Slot> {
        let mut passed = 0;
        while let Some(slot) = self.small.get(passed) {
            if lines.is_held(slot) {
                passed += 1;
                continue;
            }
            self.small.take(passed);
            let mark = &mut self.marks[slot as usize];
            if *mark & USES >= MOVES {
                *mark = MAIN;
                self.main.push(slot);
            } else {
                *mark = ABSENT;
                self.left.push(lines.key(slot));
                return Some(slot);
            }
        }
        None
    }

    /// The oldest line of the main queue that was not used. Those before it go to its end with one use less.
    fn leave_main(&mut self, lines: &dyn Lines) -> Option<Slot> {
        let mut passed = 0;
        while let Some(slot) = self.main.get(passed) {
            if lines.is_held(slot) {
                passed += 1;
                continue;
            }
            self.main.take(passed);
            let mark = &mut self.marks[slot as usize];
            if *mark & USES == 0 {
                *mark = ABSENT;
                return Some(slot);
            }
            *mark -= 1;
            self.main.push(slot);
        }
        None
    }
}

impl Policy for S3Fifo {
    #[inline]
    fn hit(&mut self, slot: Slot) {
        let mark = &mut self.marks[slot as usize];
        *mark += u8::from(*mark & USES < USES);
    }

    #[inline]
    fn miss(&mut self, key: u64) -> Recall {
        Recall(self.left.take(key).into())
    }

    fn evict(&mut self, _recall: Recall, lines: &dyn Lines) -> Option<Slot> {
        self.has_evicted = true;
        let small = if self.small_is_full() || self.main.len() == 0 { self.leave_small(lines) } else { None };
        small.or_else(|| self.leave_main(lines)).or_else(|| self.leave_small(lines))
    }

    fn insert(&mut self, slot: Slot, _key: u64, recall: Recall) {
        let is_early = !self.has_evicted && self.small_is_full();
        if recall != Recall::default() || is_early {
            self.marks[slot as usize] = MAIN;
            self.main.push(slot);
        } else {
            self.marks[slot as usize] = SMALL;
            self.small.push(slot);
        }
    }

    fn remove(&mut self, slot: Slot) {
        match self.marks[slot as usize] & !USES {
            SMALL => self.small.remove(slot),
            MAIN => self.main.remove(slot),
            _ => {}
        }
        self.marks[slot as usize] = ABSENT;
    }

    fn order(&self, coldest: &mut Vec<Slot>, most: usize) {
        // What evicting would do, with the lines that it moves behind those of the main queue.
        let with_uses = |slot| (slot, self.marks[slot as usize] & USES);
        let (mut small, mut small_len) = (self.small.walk().map(with_uses), self.small.len());
        let (mut main, mut main_len) = (self.main.walk().map(with_uses), self.main.len());
        let mut moved = VecDeque::new();
        let next = std::iter::from_fn(|| {
            if small_len >= self.small_most as usize || main_len == 0 {
                for (slot, uses) in small.by_ref() {
                    small_len -= 1;
                    if uses < MOVES {
                        return Some(slot);
                    }
                    moved.push_back((slot, 0));
                    main_len += 1;
                }
            }
            while let Some((slot, uses)) = main.next().or_else(|| moved.pop_front()) {
                if uses == 0 {
                    main_len -= 1;
                    return Some(slot);
                }
                moved.push_back((slot, uses - 1));
            }
            None
        });
        coldest.extend(next.take(most));
    }

    fn bytes(&self) -> usize {
        self.small.bytes() + self.main.bytes() + self.marks.capacity() + self.left.bytes()
    }
}
