//! Keys that left, exactly, the oldest of which is forgotten first.

use crate::index::{Index, hash};
use crate::lists::Lists;

/// The share of places that the index uses.
const LOAD: f64 = 0.5;

/// Up to a number of keys in a few lists, each with a note of the policy. A ghost has a number, which is free again
/// when its key is forgotten.
pub(crate) struct Ghosts {
    index: Index,
    keys: Vec<u64>,
    notes: Vec<u8>,
    order: Lists,
    free: Vec<u32>,
    most: usize,
}

/// A key that was remembered.
pub(crate) struct Ghost {
    pub(crate) at: u32,
    pub(crate) list: u8,
    pub(crate) note: u8,
}

impl Ghosts {
    pub(crate) fn new(most: u32, lists: u8) -> Ghosts {
        Ghosts {
            index: Index::new(most, LOAD),
            keys: Vec::with_capacity(most as usize),
            notes: Vec::with_capacity(most as usize),
            order: Lists::new(most, lists),
            free: Vec::new(),
            most: most as usize,
        }
    }

    pub(crate) fn len(&self, list: u8) -> u32 {
        self.order.len(list)
    }

    pub(crate) fn is_full(&self) -> bool {
        self.keys.len() - self.free.len() == self.most
    }

    /// Remembers a key that is not remembered, as the newest of a list. Gives the number of its ghost. There must be
    /// room.
    pub(crate) fn push(&mut self, list: u8, key: u64, note: u8) -> u32 {
        let at = self.free.pop().unwrap_or_else(|| {
            self.keys.push(0);
            self.notes.push(0);
            (self.keys.len() - 1) as u32
        });
        (self.keys[at as usize], self.notes[at as usize]) = (key, note);
        self.order.push(list, at);
        self.index.insert(hash(key), at);
        at
    }

    /// Remembers a key. Forgets the oldest of its list if there is no room.
    pub(crate) fn push_over(&mut self, list: u8, key: u64, note: u8) {
        if self.is_full() && self.forget_oldest(list).is_none() {
            return;
        }
        self.push(list, key, note);
    }

    /// Forgets a key, and gives what was remembered.
    pub(crate) fn take(&mut self, key: u64) -> Option<Ghost> {
        let at = self.index.find(hash(key), |at| self.keys[at as usize] == key)?;
        let ghost = Ghost { at, list: self.order.of(at)?, note: self.notes[at as usize] };
        self.forget(at);
        Some(ghost)
    }

    /// Forgets the oldest key of a list. Gives the number of its ghost.
    pub(crate) fn forget_oldest(&mut self, list: u8) -> Option<u32> {
        let at = self.order.oldest(list)?;
        self.forget(at);
        Some(at)
    }

    /// Forgets the key of a ghost.
    pub(crate) fn forget(&mut self, at: u32) {
        self.index.remove(hash(self.keys[at as usize]), at);
        self.order.remove(at);
        self.free.push(at);
    }

    pub(crate) fn bytes(&self) -> usize {
        let words = self.keys.capacity() * 2 + self.free.capacity();
        self.index.bytes() + self.order.bytes() + words * size_of::<u32>() + self.notes.capacity()
    }
}
