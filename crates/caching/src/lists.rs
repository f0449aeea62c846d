//! Linked lists that know their lengths, and in which of them a line is.

use crate::links::Links;
use crate::{Lines, Slot};

const NONE: u8 = u8::MAX;

/// A few lists of lines. A line is in one of them or in none.
pub(crate) struct Lists {
    links: Links,
    of: Vec<u8>,
    lens: Vec<u32>,
}

impl Lists {
    pub(crate) fn new(lines: u32, lists: u8) -> Lists {
        Lists { links: Links::new(lines, lists.into()), of: vec![NONE; lines as usize], lens: vec![0; lists.into()] }
    }

    /// Makes a line the newest of a list, wherever it was.
    #[inline]
    pub(crate) fn push(&mut self, list: u8, slot: Slot) {
        self.remove(slot);
        self.links.push(list.into(), slot);
        self.of[slot as usize] = list;
        self.lens[usize::from(list)] += 1;
    }

    /// Takes a line out of its list.
    #[inline]
    pub(crate) fn remove(&mut self, slot: Slot) {
        if let Some(list) = self.of(slot) {
            self.links.unlink(slot);
            self.of[slot as usize] = NONE;
            self.lens[usize::from(list)] -= 1;
        }
    }

    /// The list that has the line.
    #[inline]
    pub(crate) fn of(&self, slot: Slot) -> Option<u8> {
        Some(self.of[slot as usize]).filter(|list| *list != NONE)
    }

    #[inline]
    pub(crate) fn len(&self, list: u8) -> u32 {
        self.lens[usize::from(list)]
    }

    #[inline]
    pub(crate) fn oldest(&self, list: u8) -> Option<Slot> {
        self.links.oldest(list.into())
    }

    /// The lines of a list, the oldest first.
    pub(crate) fn walk(&self, list: u8) -> impl Iterator<Item = Slot> + '_ {
        self.links.walk(list.into())
    }

    /// The lines of two lists: `excess` of the first, then the second, then the rest of the first.
    pub(crate) fn turns(&self, first: u8, excess: u32, second: u8) -> impl Iterator<Item = Slot> + '_ {
        let excess = excess as usize;
        self.walk(first).take(excess).chain(self.walk(second)).chain(self.walk(first).skip(excess))
    }

    /// The oldest line that may leave, of the first list that has one, with its list.
    #[inline]
    pub(crate) fn victim(&self, lists: [u8; 2], lines: &dyn Lines) -> Option<(u8, Slot)> {
        lists.into_iter().find_map(|list| Some((list, self.free(list, lines)?)))
    }

    /// The oldest line of a list that may leave.
    #[inline]
    pub(crate) fn free(&self, list: u8, lines: &dyn Lines) -> Option<Slot> {
        self.links.free(list.into(), lines)
    }

    pub(crate) fn bytes(&self) -> usize {
        self.links.bytes() + self.of.capacity() + self.lens.capacity() * size_of::<u32>()
    }
}
