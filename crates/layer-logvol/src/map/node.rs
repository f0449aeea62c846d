//! Nodes, and extents in 16 bytes.

use std::sync::Arc;

use super::Extent;
use crate::number::PageNo;

/// An extent in 16 bytes: 48 bits of each address, and the upper and lower half of the length beside them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Packed(u64, u64);

impl Packed {
    pub(crate) fn of(extent: Extent) -> Packed {
        debug_assert!(extent.lba < 1 << 48 && extent.pba < 1 << 48, "48 bits of address");
        let len = u64::from(extent.len);
        Packed(extent.lba << 16 | len >> 16, extent.pba << 16 | len & 0xffff)
    }

    pub(crate) fn extent(self) -> Extent {
        let len = (self.0 & 0xffff) << 16 | self.1 & 0xffff;
        Extent { lba: self.0 >> 16, pba: self.1 >> 16, len: u32::try_from(len).expect("16 bits twice") }
    }

    pub(crate) fn lba(self) -> u64 {
        self.0 >> 16
    }
}

/// A child of an inner node.
#[derive(Clone)]
pub(crate) struct Child {
    /// Logical blocks from here on are the child's, up to the next child's. The first child has what is before it, too.
    pub first: u64,
    /// The page that holds the child as it is, if one does.
    pub page: PageNo,
    pub node: Arc<Node>,
}

/// A node. Inner nodes have at least one child.
#[derive(Clone)]
pub(crate) enum Node {
    Leaf(Vec<Packed>),
    Inner(Vec<Child>),
}

/// Entries that a full leaf grows by: less would move it too often, more would waste memory.
const GROWTH: usize = 8;

/// The child that is responsible for `lba`.
pub(crate) fn responsible(children: &[Child], lba: u64) -> usize {
    children.partition_point(|child| child.first <= lba).saturating_sub(1)
}

/// Makes room for `more` entries without the doubling of a vector.
pub(crate) fn grow(entries: &mut Vec<Packed>, more: usize) {
    if entries.len() + more > entries.capacity() {
        entries.reserve_exact(more.max(GROWTH));
    }
}

impl Node {
    /// Children of an inner node, none of a leaf.
    pub(crate) fn children(&self) -> &[Child] {
        match self {
            Node::Leaf(_) => &[],
            Node::Inner(children) => children,
        }
    }

    /// Entries of either kind.
    pub(crate) fn len(&self) -> usize {
        match self {
            Node::Leaf(entries) => entries.len(),
            Node::Inner(children) => children.len(),
        }
    }

    /// Whether it holds no extent, told by a look at its only path.
    pub(crate) fn is_void(&self) -> bool {
        match self {
            Node::Leaf(entries) => entries.is_empty(),
            Node::Inner(children) => matches!(&children[..], [only] if only.node.is_void()),
        }
    }

    /// Levels below it.
    pub(crate) fn height(&self) -> u8 {
        self.children().first().map_or(0, |child| 1 + child.node.height())
    }

    /// Nodes, itself included.
    pub(crate) fn nodes(&self) -> u64 {
        1 + self.children().iter().map(|child| child.node.nodes()).sum::<u64>()
    }

    /// Cuts entries from `at` on off: the first logical block of the new node, and the node.
    pub(crate) fn split_off(&mut self, at: usize) -> (u64, Node) {
        match self {
            Node::Leaf(entries) => {
                let right = entries.split_off(at);
                entries.shrink_to(at + GROWTH);
                (right[0].lba(), Node::Leaf(right))
            }
            Node::Inner(children) => {
                let right = children.split_off(at);
                (right[0].first, Node::Inner(right))
            }
        }
    }

    /// Takes the entries of its right neighbour, which begins at `first`.
    pub(crate) fn absorb(&mut self, first: u64, right: &Node) {
        match (self, right) {
            (Node::Leaf(entries), Node::Leaf(others)) => {
                grow(entries, others.len());
                entries.extend_from_slice(others);
            }
            (Node::Inner(children), Node::Inner(others)) => {
                let at = children.len();
                children.extend_from_slice(others);
                children[at].first = first;
            }
            _ => unreachable!("neighbours are of one level"),
        }
    }

    /// Extents and blocks below.
    pub(crate) fn totals(&self) -> (u64, u64) {
        match self {
            Node::Leaf(entries) => {
                (entries.len() as u64, entries.iter().map(|entry| u64::from(entry.extent().len)).sum())
            }
            Node::Inner(children) => children.iter().fold((0, 0), |(mappings, blocks), child| {
                let below = child.node.totals();
                (mappings + below.0, blocks + below.1)
            }),
        }
    }

    /// Bytes of memory, with the two counts of an `Arc` and a word of the allocator for each of its two blocks.
    pub(crate) fn memory(&self) -> u64 {
        const FIXED: usize = size_of::<Node>() + 4 * size_of::<usize>();
        let own = match self {
            Node::Leaf(entries) => entries.capacity() * size_of::<Packed>(),
            Node::Inner(children) => children.capacity() * size_of::<Child>(),
        };
        (FIXED + own) as u64 + self.children().iter().map(|child| child.node.memory()).sum::<u64>()
    }
}
