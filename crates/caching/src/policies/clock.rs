//! CLOCK: the line that was not used since the hand last passed it leaves (Corbato 1968).

use crate::{Lines, Policy, Recall, Slot};

const ABSENT: u8 = 0;
const PRESENT: u8 = 1;
const USED: u8 = 2;

/// CLOCK over the lines in the order of their numbers. A hit is one store. A line that comes is not marked as used, so
/// lines that are read once leave in one turn of the hand.
pub struct Clock {
    marks: Vec<u8>,
    hand: usize,
}

impl Clock {
    /// For a cache of `lines` lines.
    pub fn new(lines: u32) -> Clock {
        Clock { marks: vec![ABSENT; lines as usize], hand: 0 }
    }

    /// Lines from the hand on, once around.
    fn turn(&self) -> impl Iterator<Item = usize> + '_ {
        (self.hand..self.marks.len()).chain(0..self.hand)
    }
}

impl Policy for Clock {
    fn hit(&mut self, slot: Slot) {
        self.marks[slot as usize] = USED;
    }

    fn miss(&mut self, _key: u64) -> Recall {
        Recall::default()
    }

    fn evict(&mut self, _recall: Recall, lines: &dyn Lines) -> Option<Slot> {
        // The first turn takes all marks away that it passes, so the second finds a victim unless all lines are held.
        for _ in 0..2 * self.marks.len() {
            let at = self.hand;
            self.hand = (at + 1) % self.marks.len();
            match self.marks[at] {
                PRESENT if !lines.is_held(at as Slot) => {
                    self.marks[at] = ABSENT;
                    return Some(at as Slot);
                }
                USED => self.marks[at] = PRESENT,
                _ => {}
            }
        }
        None
    }

    fn insert(&mut self, slot: Slot, _key: u64, _recall: Recall) {
        self.marks[slot as usize] = PRESENT;
    }

    fn remove(&mut self, slot: Slot) {
        self.marks[slot as usize] = ABSENT;
    }

    fn order(&self, coldest: &mut Vec<Slot>, most: usize) {
        let of = |mark: u8| self.turn().filter(move |at| self.marks[*at] == mark);
        coldest.extend(of(PRESENT).chain(of(USED)).take(most).map(|at| at as Slot));
    }

    fn bytes(&self) -> usize {
        self.marks.capacity()
    }
}
