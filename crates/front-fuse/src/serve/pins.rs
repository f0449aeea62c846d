//! Pins that the kernel holds.

use std::cell::RefCell;
use std::collections::BTreeMap;

use esker_vfs::Ino;

/// How often each inode was given out to the kernel.
#[derive(Default)]
pub(super) struct Pins(RefCell<BTreeMap<Ino, u64>>);

impl Pins {
    /// An inode was given out once more.
    pub(super) fn give(&self, ino: Ino) {
        *self.0.borrow_mut().entry(ino).or_default() += 1;
    }

    /// The kernel gives so many back. Answers how many it had of them.
    pub(super) fn take(&self, ino: Ino, pins: u64) -> u64 {
        let mut all = self.0.borrow_mut();
        let Some(had) = all.get_mut(&ino) else { return 0 };
        let taken = pins.min(*had);
        *had -= taken;
        if *had == 0 {
            all.remove(&ino);
        }
        taken
    }

    /// All that are left.
    pub(super) fn take_all(&self) -> BTreeMap<Ino, u64> {
        self.0.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_comes_back_than_was_given() {
        let pins = Pins::default();
        for ino in [5, 5, 6] {
            pins.give(Ino(ino));
        }
        assert_eq!(pins.take(Ino(5), 9), 2);
        assert_eq!((pins.take(Ino(5), 1), pins.take(Ino(7), 1)), (0, 0));
        assert_eq!(pins.take_all(), BTreeMap::from([(Ino(6), 1)]));
    }
}
