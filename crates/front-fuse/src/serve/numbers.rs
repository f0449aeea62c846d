//! Numbers of nodes and inodes.

use esker_vfs::Ino;

use crate::proto::abi::ROOT;

/// Node numbers are inode numbers, except that 1 is the root. An inode 1 that is not the root has the number of the
/// root in exchange.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Numbers {
    root: u64,
}

impl Numbers {
    pub(super) fn new(root: Ino) -> Numbers {
        Numbers { root: root.0 }
    }

    /// The inode of a node.
    pub(super) fn ino(self, node: u64) -> Ino {
        Ino(self.swapped(node))
    }

    /// The node of an inode.
    pub(super) fn node(self, ino: Ino) -> u64 {
        self.swapped(ino.0)
    }

    fn swapped(self, number: u64) -> u64 {
        match number {
            ROOT => self.root,
            number if number == self.root => ROOT,
            number => number,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_the_root_and_no_two_inodes_have_one_number() {
        for root in [1, 2, 77] {
            let numbers = Numbers::new(Ino(root));
            assert_eq!(numbers.node(Ino(root)), ROOT);
            let mut nodes: Vec<u64> = (1..100).map(|ino| numbers.node(Ino(ino))).collect();
            assert!((1..100).all(|ino| numbers.ino(numbers.node(Ino(ino))) == Ino(ino)));
            nodes.sort_unstable();
            nodes.dedup();
            assert_eq!(nodes.len(), 99);
        }
    }
}
