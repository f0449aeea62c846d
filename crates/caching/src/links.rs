//! Doubly linked lists over dense numbers. A number costs two words, and nothing is allocated after the start.

use crate::{Lines, Slot};

#[derive(Clone, Copy)]
struct Link<T> {
    older: u32,
    newer: u32,
    with: T,
}

/// Lists that share numbers `0..nodes`. A number is in one list or in none. Each list is a ring through an end of its
/// own, so linking has no special cases. A number in no list points at itself. What belongs to a number may lie beside
/// its links.
pub(crate) struct Links<T = ()> {
    links: Vec<Link<T>>,
    nodes: u32,
}

impl<T: Copy + Default> Links<T> {
    pub(crate) fn new(nodes: u32, lists: u32) -> Links<T> {
        let alone = |at| Link { older: at, newer: at, with: T::default() };
        Links { links: (0..nodes + lists).map(alone).collect(), nodes }
    }

    /// What belongs to a number.
    #[inline]
    pub(crate) fn with(&self, node: u32) -> T {
        self.links[node as usize].with
    }

    /// Sets what belongs to a number.
    #[inline]
    pub(crate) fn set(&mut self, node: u32, with: T) {
        self.links[node as usize].with = with;
    }

    /// Places a number between two neighbours.
    #[inline]
    fn place(&mut self, node: u32, older: u32, newer: u32) {
        let link = &mut self.links[node as usize];
        (link.older, link.newer) = (older, newer);
    }

    /// Puts a number that is in no list at the newest place.
    #[inline]
    pub(crate) fn push(&mut self, list: u32, node: u32) {
        let end = self.nodes + list;
        let newest = self.links[end as usize].older;
        self.place(node, newest, end);
        self.links[newest as usize].newer = node;
        self.links[end as usize].older = node;
    }

    /// Takes a number out of its list. A number in no list stays alone.
    #[inline]
    pub(crate) fn unlink(&mut self, node: u32) {
        let Link { older, newer, .. } = self.links[node as usize];
        self.links[older as usize].newer = newer;
        self.links[newer as usize].older = older;
        self.place(node, node, node);
    }

    /// Whether a number is in a list.
    #[inline]
    pub(crate) fn has(&self, node: u32) -> bool {
        self.links[node as usize].newer != node
    }

    /// Gives the place of `old` to `new`, which is in no list.
    pub(crate) fn replace(&mut self, old: u32, new: u32) {
        let newer = self.links[old as usize].newer;
        self.unlink(old);
        let older = self.links[newer as usize].older;
        self.place(new, older, newer);
        self.links[older as usize].newer = new;
        self.links[newer as usize].older = new;
    }

    /// The oldest number of a list.
    #[inline]
    pub(crate) fn oldest(&self, list: u32) -> Option<u32> {
        self.newer(self.nodes + list)
    }

    /// The next newer number of the list.
    #[inline]
    pub(crate) fn newer(&self, node: u32) -> Option<u32> {
        Some(self.links[node as usize].newer).filter(|newer| *newer < self.nodes)
    }

    /// The numbers of a list, the oldest first.
    pub(crate) fn walk(&self, list: u32) -> impl Iterator<Item = u32> + '_ {
        std::iter::successors(self.oldest(list), |node| self.newer(*node))
    }

    /// The oldest line of a list that may leave. Held lines keep their places.
    #[inline]
    pub(crate) fn free(&self, list: u32, lines: &dyn Lines) -> Option<Slot> {
        self.walk(list).find(|slot| !lines.is_held(*slot))
    }

    pub(crate) fn bytes(&self) -> usize {
        self.links.capacity() * size_of::<Link<T>>()
    }
}
