//! Keys that left, exactly, the oldest of which is forgotten first.

use crate::index::{Index, hash};
use crate::links::Links;

/// The share of places that the index uses. Most look-ups find nothing, which is one bucket only if few are full.
const LOAD: f64 = 0.5;

/// A key that is remembered. It lies beside its links, because they are used together.
#[derive(Clone, Copy, Default)]
pub(crate) struct Ghost {
    key: u64,
    pub(crate) list: u8,
    pub(crate) note: u8,
}

/// Up to a number of keys in a few lists, each with a note of the policy. A ghost has a number, which is free again
/// when its key is forgotten.
pub(crate) struct Ghosts {
    index: Index,
    order: Links<Ghost>,
    lens: Vec<u32>,
    free: Vec<u32>,
    /// Numbers that were ever in use.
    used: u32,
    most: u32,
}

impl Ghosts {
    pub(crate) fn new(most: u32, lists: u8) -> Ghosts {
        Ghosts {
            index: Index::new(most, LOAD),
            order: Links::new(most, lists.into()),
            lens: vec![0; lists.into()],
            free: Vec::new(),
            used: 0,
            most,
        }
    }

    #[inline]
    pub(crate) fn len(&self, list: u8) -> u32 {
        self.lens[usize::from(list)]
    }

    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.used == self.most && self.free.is_empty()
    }

    /// Remembers a key that is not remembered, as the newest of a list. Gives the number of its ghost. There must be
    /// room.
    pub(crate) fn push(&mut self, list: u8, key: u64, note: u8) -> u32 {
        let at = self.free.pop().unwrap_or_else(|| {
            self.used += 1;
            self.used - 1
        });
        self.order.set(at, Ghost { key, list, note });
        self.order.push(list.into(), at);
        self.lens[usize::from(list)] += 1;
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

    /// Forgets a key. Gives its ghost with the number.
    pub(crate) fn take(&mut self, key: u64) -> Option<(u32, Ghost)> {
        let at = self.index.find(hash(key), |at| self.order.with(at).key == key)?;
        Some((at, self.forget(at)))
    }

    /// Forgets the oldest key of a list. Gives the number of its ghost.
    pub(crate) fn forget_oldest(&mut self, list: u8) -> Option<u32> {
        let at = self.order.oldest(list.into())?;
        self.forget(at);
        Some(at)
    }

    /// Forgets the key of a ghost.
    pub(crate) fn forget(&mut self, at: u32) -> Ghost {
        let ghost = self.order.with(at);
        self.index.remove(hash(ghost.key), at);
        self.order.unlink(at);
        self.lens[usize::from(ghost.list)] -= 1;
        self.free.push(at);
        ghost
    }

    pub(crate) fn bytes(&self) -> usize {
        let words = self.free.capacity() + self.lens.capacity();
        self.index.bytes() + self.order.bytes() + words * size_of::<u32>()
    }
}
