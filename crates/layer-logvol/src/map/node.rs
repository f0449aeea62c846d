//! Nodes, and extents in 16 bytes.

use std::fmt::{Display, Formatter, Result as Written};
use std::ops::Range;

use super::Extent;

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

/// The number of a node.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
pub struct NodeId(pub(crate) u32);

impl NodeId {
    /// No node.
    pub(crate) const NONE: NodeId = NodeId(0);

    pub(crate) fn is_none(self) -> bool {
        self == NodeId::NONE
    }

    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

impl Display for NodeId {
    fn fmt(&self, out: &mut Formatter<'_>) -> Written {
        self.0.fmt(out)
    }
}

/// A child of an inner node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Child {
    /// Blocks of the tract from here on are the child's, up to the next child's. The first child has what is before it,
    /// too.
    pub first: u32,
    pub node: NodeId,
}

/// A leaf.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(crate) struct Leaf {
    /// The tract for which it was made: what copies of its blocks are ordered by.
    pub home: u32,
    /// Extents of blocks of a tract.
    pub entries: Vec<Packed>,
}

/// A node. Inner nodes have at least one child.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Node {
    Leaf(Leaf),
    Inner(Vec<Child>),
    /// The roots of tracts that follow each other, and the number of the first tract over how many they are.
    Roots(u32, Vec<NodeId>),
    /// What leaves have in blocks that have changed since their pages were written ([`super::changes`]). Empty once it
    /// is on its page: only recovery reads it.
    Changes(Vec<(NodeId, Packed)>),
}

/// What a change of a leaf's entries has done.
pub(crate) struct Replaced {
    /// Whether what was put in is at the end of the leaf.
    pub is_at_end: bool,
    /// Entries that were taken out.
    pub before: usize,
    /// Entries that were put in.
    pub after: usize,
}

/// Entries that a full leaf grows by: less would move it too often, more would waste memory.
const GROWTH: usize = 8;

/// The child that is responsible for `lba`.
pub(crate) fn responsible(children: &[Child], lba: u64) -> usize {
    children.partition_point(|child| u64::from(child.first) <= lba).saturating_sub(1)
}

/// Makes room for `more` entries without the doubling of a vector.
pub(crate) fn grow(entries: &mut Vec<Packed>, more: usize) {
    if entries.len() + more > entries.capacity() {
        entries.reserve_exact(more.max(GROWTH));
    }
}

impl Leaf {
    /// Replaces what it has in `part` by an extent that fills `part`, or by nothing, and tells what has gone.
    pub(crate) fn replace(&mut self, part: &Range<u64>, new: Option<Extent>, gone: &mut dyn FnMut(Extent)) -> Replaced {
        let entries = &mut self.entries;
        let mut from = entries.partition_point(|entry| entry.extent().end() <= part.start);
        let mut to = from + entries[from..].partition_point(|entry| entry.lba() < part.end);
        let (before, after) = (from < to).then(|| (entries[from].extent(), entries[to - 1].extent())).unzip();
        entries[from..to].iter().for_each(|entry| gone(entry.extent().clip(part).expect("it overlaps")));
        let mut left = before.and_then(|extent: Extent| extent.clip(&(extent.lba..part.start.max(extent.lba))));
        let mut right = after.and_then(|extent: Extent| extent.clip(&(part.end.min(extent.end())..extent.end())));
        let mut middle = None;
        if let Some(mut new) = new {
            if left.is_none() && from > 0 && entries[from - 1].extent().joins(&new) {
                from -= 1;
                left = Some(entries[from].extent());
            }
            if right.is_none() && to < entries.len() && new.joins(&entries[to].extent()) {
                right = Some(entries[to].extent());
                to += 1;
            }
            if let Some(extent) = left.take_if(|extent| extent.joins(&new)) {
                new = Extent { lba: extent.lba, pba: extent.pba, len: extent.len + new.len };
            }
            if let Some(extent) = right.take_if(|extent| new.joins(extent)) {
                new.len += extent.len;
            }
            middle = Some(new);
        }
        let fresh = [left, middle, right];
        let count = fresh.iter().flatten().count();
        grow(entries, count.saturating_sub(to - from));
        entries.splice(from..to, fresh.into_iter().flatten().map(Packed::of));
        Replaced { is_at_end: from + count == entries.len(), before: to - from, after: count }
    }

    /// Its extents, as they lie in its home.
    pub(crate) fn extents(&self) -> impl Iterator<Item = Extent> {
        self.entries.iter().map(|entry| self.at_home(entry.extent()))
    }

    /// An extent of its tract, in the logical space.
    pub(crate) fn at_home(&self, extent: Extent) -> Extent {
        Extent { lba: extent.lba + (u64::from(self.home) << super::TRACT_BITS), ..extent }
    }
}

impl Node {
    /// Children of an inner node.
    pub(crate) fn children(&self) -> &[Child] {
        match self {
            Node::Leaf(_) | Node::Roots(..) | Node::Changes(_) => &[],
            Node::Inner(children) => children,
        }
    }

    /// The leaf that it is.
    pub(crate) fn leaf(&self) -> Option<&Leaf> {
        match self {
            Node::Leaf(leaf) => Some(leaf),
            Node::Inner(_) | Node::Roots(..) | Node::Changes(_) => None,
        }
    }

    /// Nodes that it refers to.
    pub(crate) fn refers_to(&self) -> Vec<NodeId> {
        match self {
            Node::Leaf(_) | Node::Changes(_) => Vec::new(),
            Node::Inner(children) => children.iter().map(|child| child.node).collect(),
            Node::Roots(_, roots) => roots.iter().copied().filter(|root| !root.is_none()).collect(),
        }
    }

    /// Entries of any kind.
    pub(crate) fn len(&self) -> usize {
        match self {
            Node::Leaf(leaf) => leaf.entries.len(),
            Node::Inner(children) => children.len(),
            Node::Roots(_, roots) => roots.len(),
            Node::Changes(changes) => changes.len(),
        }
    }

    /// Cuts entries from `at` on off: the first block of the new node, and the node.
    pub(crate) fn split_off(&mut self, at: usize) -> (u32, Node) {
        match self {
            Node::Leaf(Leaf { home, entries }) => {
                let right = entries.split_off(at);
                entries.shrink_to(at + GROWTH);
                (within_tract(right[0].lba()), Node::Leaf(Leaf { home: *home, entries: right }))
            }
            Node::Inner(children) => {
                let right = children.split_off(at);
                (right[0].first, Node::Inner(right))
            }
            Node::Roots(..) | Node::Changes(_) => unreachable!("only nodes of trees are cut"),
        }
    }

    /// Bytes of memory, with the two counts of an `Arc` and a word of the allocator for each of its two blocks.
    pub(crate) fn memory(&self) -> u64 {
        const FIXED: usize = size_of::<Node>() + 4 * size_of::<usize>();
        let own = match self {
            Node::Leaf(leaf) => leaf.entries.capacity() * size_of::<Packed>(),
            Node::Inner(children) => children.capacity() * size_of::<Child>(),
            Node::Roots(_, roots) => roots.capacity() * size_of::<NodeId>(),
            Node::Changes(changes) => changes.capacity() * size_of::<(NodeId, Packed)>(),
        };
        (FIXED + own) as u64
    }
}

/// A block of a tract as nodes have it.
pub(crate) fn within_tract(lba: u64) -> u32 {
    u32::try_from(lba).expect("a tract has 2^28 blocks")
}
