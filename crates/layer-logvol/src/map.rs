//! The forward map: which physical block each logical block is kept in. Many logical blocks may share one.
//!
//! A B+tree of extents whose nodes are shared with its snapshots and copied before they are changed. A snapshot
//! therefore costs one pointer, is `Send + Sync`, and never changes under a scanner, however long that takes; nodes
//! that no snapshot shares are changed in place. Each node remembers the page that holds it on the medium, so that a
//! checkpoint writes only what has changed.
//!
//! Invariants: extents do not overlap and stand in the order of their logical blocks; each lies inside the bounds of
//! its leaf; neighbours of one leaf that continue each other on both sides are one extent.

#![deny(clippy::cast_possible_truncation)]

mod edit;
mod node;
mod share;
#[cfg(test)]
mod tests;

use std::ops::Range;
use std::sync::Arc;

use crate::number::PageNo;

pub(crate) use node::{Child, Node, Packed};

/// Logical blocks of a volume: 48 bits of address.
pub use esker_layer_thin::LOGICAL_BLOCKS;

/// Logical blocks `[lba, lba + len)` that lie in physical blocks `[pba, pba + len)`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Extent {
    /// First logical block.
    pub lba: u64,
    /// First physical block.
    pub pba: u64,
    /// Blocks (> 0).
    pub len: u32,
}

impl Extent {
    /// One past the last logical block.
    pub fn end(&self) -> u64 {
        self.lba + u64::from(self.len)
    }

    /// Its logical blocks.
    pub fn range(&self) -> Range<u64> {
        self.lba..self.end()
    }

    /// The part inside `range`, if any.
    pub fn clip(&self, range: &Range<u64>) -> Option<Extent> {
        let (start, end) = (self.lba.max(range.start), self.end().min(range.end));
        let len = u32::try_from(end.checked_sub(start)?).expect("no longer than the extent");
        (len > 0).then(|| Extent { lba: start, pba: self.pba + (start - self.lba), len })
    }

    /// Whether `next` continues it on both sides, so that both can be one.
    fn joins(&self, next: &Extent) -> bool {
        let len = u64::from(self.len);
        self.end() == next.lba && self.pba + len == next.pba && len + u64::from(next.len) <= u64::from(u32::MAX)
    }
}

/// How many entries a node has at most.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fanout {
    /// Extents of a leaf (at least 4).
    pub leaf: usize,
    /// Children of an inner node (at least 4).
    pub inner: usize,
}

/// The map at one moment. Cheap to clone, and to be sent to other threads.
#[derive(Clone)]
pub struct Snapshot {
    root: Arc<Node>,
    mappings: u64,
    blocks: u64,
}

/// The map.
pub struct Map {
    tree: Snapshot,
    fanout: Fanout,
    nodes: u64,
    /// The root's page, none if it has changed since it was written.
    root_page: PageNo,
    /// Pages whose nodes have changed or gone since they were last taken.
    stale: Vec<PageNo>,
}

impl Snapshot {
    /// Extents.
    pub fn mappings(&self) -> u64 {
        self.mappings
    }

    /// Logical blocks that are mapped.
    pub fn blocks(&self) -> u64 {
        self.blocks
    }

    /// The first extent that ends behind `lba`.
    pub fn next(&self, lba: u64) -> Option<Extent> {
        self.from(lba).next()
    }

    /// All extents that end behind `lba`, in order.
    pub fn from(&self, lba: u64) -> Extents<'_> {
        let (leaf, end) = self.leaf(lba);
        let at = leaf.partition_point(|entry| entry.extent().end() <= lba);
        Extents { tree: self, leaf, at, end }
    }

    /// What `range` maps to: its extents, cut at its borders.
    pub fn pieces(&self, range: Range<u64>) -> impl Iterator<Item = Extent> {
        let within = range.clone();
        let until = self.from(range.start).take_while(move |extent| extent.lba < range.end);
        until.filter_map(move |extent| extent.clip(&within))
    }

    /// Extents that the first leaf has, as a hint of how many others have: at least 1.
    pub fn leaf_extents(&self) -> u64 {
        self.leaf(0).0.len().max(1) as u64
    }

    /// Bytes of memory that the nodes take, those shared with other snapshots included.
    pub fn memory(&self) -> u64 {
        self.root.memory()
    }

    /// The leaf that is responsible for `lba`, and where the next one begins.
    fn leaf(&self, lba: u64) -> (&[Packed], u64) {
        let (mut node, mut end) = (&self.root, u64::MAX);
        loop {
            match &**node {
                Node::Leaf(entries) => return (entries, end),
                Node::Inner(children) => {
                    let i = node::responsible(children, lba);
                    end = children.get(i + 1).map_or(end, |next| next.first);
                    node = &children[i].node;
                }
            }
        }
    }
}

/// Extents in order. See [`Snapshot::from`].
pub struct Extents<'a> {
    tree: &'a Snapshot,
    leaf: &'a [Packed],
    at: usize,
    end: u64,
}

impl Iterator for Extents<'_> {
    type Item = Extent;

    fn next(&mut self) -> Option<Extent> {
        loop {
            if let Some(entry) = self.leaf.get(self.at) {
                self.at += 1;
                return Some(entry.extent());
            }
            if self.end == u64::MAX {
                return None;
            }
            (self.leaf, self.end) = self.tree.leaf(self.end);
            self.at = 0;
        }
    }
}

impl std::ops::Deref for Map {
    type Target = Snapshot;

    fn deref(&self) -> &Snapshot {
        &self.tree
    }
}

impl Map {
    /// Nothing is mapped.
    pub fn new(fanout: Fanout) -> Map {
        Map::restored(fanout, Arc::new(Node::Leaf(Vec::new())), PageNo::NONE)
    }

    /// A map from nodes that were read, and the page of their root.
    pub(crate) fn restored(fanout: Fanout, root: Arc<Node>, root_page: PageNo) -> Map {
        let ((mappings, blocks), nodes) = (root.totals(), root.nodes());
        Map { tree: Snapshot { root, mappings, blocks }, fanout, nodes, root_page, stale: Vec::new() }
    }

    /// The map as it is now.
    pub fn snapshot(&self) -> Snapshot {
        self.tree.clone()
    }

    /// Maps the extent, whatever was mapped there before; `removed` gets the parts that were.
    pub fn map(&mut self, extent: Extent, removed: &mut dyn FnMut(Extent)) {
        debug_assert!(extent.len > 0 && extent.end() <= LOGICAL_BLOCKS, "inside the volume");
        let (_, leaf_end) = self.tree.leaf(extent.lba);
        if leaf_end < extent.end() {
            // Leaves in between go, so that the extent is cut as little as possible.
            self.unmap(extent.range(), removed);
        }
        self.edit(extent.range(), Some(extent.pba), removed);
    }

    /// Unmaps a range; `removed` gets what was mapped there. What is not mapped costs nothing, however large.
    pub fn unmap(&mut self, range: Range<u64>, removed: &mut dyn FnMut(Extent)) {
        let mut at = range.start;
        while at < range.end
            && let Some(extent) = self.tree.next(at).filter(|extent| extent.lba < range.end)
        {
            at = extent.lba.max(at);
            let (_, leaf_end) = self.tree.leaf(at);
            let end = leaf_end.min(range.end);
            self.edit(at..end, None, removed);
            at = end;
        }
    }

    /// Points those blocks of `range` that lie where `old` and its successors are at `new` and its successors instead.
    /// It leaves the others alone: a mapping that has changed since the look stays as it is. `moved` gets each part
    /// with its new place. A compare-and-swap, because nothing can happen in between.
    pub fn remap_if(&mut self, range: Range<u64>, old: u64, new: u64, moved: &mut dyn FnMut(Extent)) {
        let start = range.start;
        let still_there = |piece: &Extent| piece.pba == old + (piece.lba - start);
        let pieces: Vec<Extent> = self.pieces(range).filter(still_there).collect();
        for piece in pieces {
            let to = Extent { pba: new + (piece.lba - start), ..piece };
            self.map(to, &mut |_| {});
            moved(to);
        }
    }

    /// Nodes that are not on the medium as they are.
    pub(crate) fn dirty_nodes(&self) -> usize {
        fn below(node: &Node) -> usize {
            node.children().iter().filter(|child| child.page.is_none()).map(|child| 1 + below(&child.node)).sum()
        }
        if !self.root_page.is_none() { 0 } else { 1 + below(&self.tree.root) }
    }

    /// Nodes in all.
    pub(crate) fn nodes(&self) -> u64 {
        self.nodes
    }

    /// Gives every dirty node a page from `page` and lists them with their pages, children before their parents; the
    /// last one is the root, if anything has changed.
    pub(crate) fn write_out(&mut self, page: &mut dyn FnMut() -> PageNo) -> Vec<(PageNo, Arc<Node>)> {
        fn below(node: &mut Arc<Node>, page: &mut dyn FnMut() -> PageNo, out: &mut Vec<(PageNo, Arc<Node>)>) {
            if node.children().is_empty() {
                return;
            }
            let Node::Inner(children) = Arc::make_mut(node) else { return };
            for child in children.iter_mut().filter(|child| child.page.is_none()) {
                below(&mut child.node, page, out);
                child.page = page();
                out.push((child.page, child.node.clone()));
            }
        }
        let mut out = Vec::new();
        if self.root_page.is_none() {
            below(&mut self.tree.root, page, &mut out);
            self.root_page = page();
            out.push((self.root_page, self.tree.root.clone()));
        }
        out
    }

    /// The root's page; none if it has changed since it was written.
    pub(crate) fn root_page(&self) -> PageNo {
        self.root_page
    }

    /// Levels above the leaves.
    pub(crate) fn height(&self) -> u8 {
        self.tree.root.height()
    }

    /// Pages whose nodes have changed or gone since the last call.
    pub(crate) fn take_stale(&mut self) -> Vec<PageNo> {
        std::mem::take(&mut self.stale)
    }
}
