//! The forward map: which physical block each logical block is kept in. Many logical blocks may share one.
//!
//! The logical space is cut into tracts, and each tract has a B+tree of extents. Nodes have numbers, and trees may
//! share them: a tract that is cloned as a whole refers to the root of the other one. A node that several trees share
//! is copied before one of them changes it; the collector changes it in place, for all of them ([`Map::repoint`]).
//!
//! The [`table`] of nodes can be copied for the cost of a pointer. Such a [`Snapshot`] is `Send + Sync`, and never
//! changes under a scanner, however long that takes. A checkpoint writes nodes that have changed, and the pages of the
//! table that say where they are ([`written`]); or it lists what has changed in leaves ([`changes`]).
//!
//! Invariants: extents of a tree do not overlap and stand in the order of their blocks; each lies inside the bounds of
//! its leaf, and in one tract; neighbours of one leaf that continue each other on both sides are one extent.

#![cfg_attr(not(test), deny(clippy::cast_possible_truncation))]

pub(crate) mod changes;
mod differ;
mod edit;
mod node;
mod restore;
mod table;
#[cfg(test)]
mod tests;
mod tracts;
pub(crate) mod written;

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use changes::Lists;
pub use node::NodeId;
pub(crate) use node::{Child, Leaf, Node, Packed};
pub(crate) use restore::TreeError;
use table::{Nodes, Table};
use written::Index;

/// Logical blocks of a volume: 48 bits of address.
pub use esker_layer_thin::LOGICAL_BLOCKS;

/// Blocks of a tract, as a power of two: 1 TiB of blocks of 4 KiB, which is the least room of a thin volume.
pub const TRACT_BITS: u32 = 28;
/// Blocks of a tract.
pub const TRACT: u64 = 1 << TRACT_BITS;

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

/// An extent as a leaf has it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mapping {
    /// The leaf.
    pub leaf: NodeId,
    /// The extent, as it lies in the tract for which the leaf was made.
    pub extent: Extent,
}

/// One change of what leaves refer to: for code that counts references or watches segments. A leaf that several trees
/// share counts once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Change {
    /// A leaf refers to these blocks now.
    Added(Mapping),
    /// A leaf referred to these blocks and no longer does.
    Removed(Extent),
}

/// Takes changes.
pub type Each<'a> = &'a mut dyn FnMut(Change);

/// How many entries a node has at most.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fanout {
    /// Extents of a leaf (at least 4).
    pub leaf: usize,
    /// Children of an inner node (at least 4).
    pub inner: usize,
    /// Roots of a node of roots: a power of two.
    pub roots: usize,
    /// Pages of a page of the index (at least 2).
    pub index: usize,
    /// Extents of a node of changes.
    pub changes: usize,
}

/// The map at one moment. Cheap to clone, and to be sent to other threads.
#[derive(Clone)]
pub struct Snapshot {
    nodes: Nodes,
    /// Nodes of roots, by the number of their first tract over how many they have.
    roots: Arc<BTreeMap<u32, NodeId>>,
    fanout: Fanout,
    mappings: u64,
    blocks: u64,
}

/// The map.
pub struct Map {
    table: Table,
    roots: Arc<BTreeMap<u32, NodeId>>,
    fanout: Fanout,
    /// Blocks that are mapped in each tract that has any.
    filled: BTreeMap<u32, u64>,
    /// Extents of all leaves.
    mappings: u64,
    /// Logical blocks that are mapped.
    blocks: u64,
    index: Index,
    lists: Lists,
}

/// A map or a snapshot of it, for reads.
#[derive(Clone, Copy)]
struct View<'a> {
    nodes: &'a Nodes,
    roots: &'a BTreeMap<u32, NodeId>,
    per: u32,
}

/// The tract of a logical block, and the block in it.
fn split(lba: u64) -> (u32, u64) {
    (u32::try_from(lba >> TRACT_BITS).unwrap_or(u32::MAX), lba & (TRACT - 1))
}

/// The first logical block of a tract.
fn first_of(tract: u32) -> u64 {
    u64::from(tract) << TRACT_BITS
}

impl<'a> View<'a> {
    /// The root of a tract; none if nothing is mapped there.
    fn root(self, tract: u32) -> NodeId {
        let Some(roots) = self.roots.get(&(tract / self.per)) else { return NodeId::NONE };
        match self.nodes.get(*roots) {
            Node::Roots(_, roots) => roots[(tract % self.per) as usize],
            Node::Leaf(_) | Node::Inner(_) | Node::Changes(_) => unreachable!("the directory has nodes of roots"),
        }
    }

    /// The first tract from `from` on in which something is mapped, and its root.
    fn next_tract(self, from: u32) -> Option<(u32, NodeId)> {
        let roots = self.roots.range(from / self.per..).flat_map(move |(number, id)| {
            let Node::Roots(_, roots) = self.nodes.get(*id) else { unreachable!("the directory has nodes of roots") };
            let tracts = number * self.per..;
            tracts.zip(roots.iter().copied())
        });
        roots.skip_while(|(tract, _)| *tract < from).find(|(_, root)| !root.is_none())
    }

    /// The leaf of a tree that is responsible for a block, and where the next one begins.
    fn leaf(self, root: NodeId, lba: u64) -> (NodeId, &'a Leaf, u64) {
        let (mut id, mut end) = (root, TRACT);
        loop {
            match self.nodes.get(id) {
                Node::Leaf(leaf) => return (id, leaf, end),
                Node::Inner(children) => {
                    let i = node::responsible(children, lba);
                    end = children.get(i + 1).map_or(end, |next| u64::from(next.first));
                    id = children[i].node;
                }
                Node::Roots(..) | Node::Changes(_) => unreachable!("trees have leaves and inner nodes"),
            }
        }
    }

    /// All extents that end behind `lba`, in order.
    fn from(self, lba: u64) -> Extents<'a> {
        let mut extents = Extents { view: self, tract: 0, root: NodeId::NONE, entries: &[], at: 0, end: TRACT };
        extents.seek(split(lba));
        extents
    }
}

/// Extents in order. See [`Snapshot::from`].
pub struct Extents<'a> {
    view: View<'a>,
    tract: u32,
    root: NodeId,
    entries: &'a [Packed],
    at: usize,
    /// Where the next leaf of the tract begins.
    end: u64,
}

impl Extents<'_> {
    /// Goes on with what ends behind a block of a tract.
    fn seek(&mut self, (tract, lba): (u32, u64)) {
        let Some((found, root)) = self.view.next_tract(tract) else {
            (self.entries, self.at, self.root) = (&[], 0, NodeId::NONE);
            return;
        };
        (self.tract, self.root) = (found, root);
        self.open(if found == tract { lba } else { 0 });
    }

    fn open(&mut self, lba: u64) {
        let (_, leaf, end) = self.view.leaf(self.root, lba);
        (self.entries, self.end) = (&leaf.entries, end);
        self.at = leaf.entries.partition_point(|entry| entry.extent().end() <= lba);
    }
}

impl Iterator for Extents<'_> {
    type Item = Extent;

    fn next(&mut self) -> Option<Extent> {
        loop {
            if let Some(entry) = self.entries.get(self.at) {
                self.at += 1;
                let extent = entry.extent();
                return Some(Extent { lba: first_of(self.tract) + extent.lba, ..extent });
            }
            if self.root.is_none() {
                return None;
            }
            match self.end {
                TRACT => self.seek((self.tract + 1, 0)),
                end => self.open(end),
            }
        }
    }
}

/// What maps and snapshots tell alike.
macro_rules! reads {
    () => {
        /// Extents of all leaves; those of a leaf that several trees share count once.
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
            self.view().from(lba)
        }

        /// What `range` maps to: its extents, cut at its borders.
        pub fn pieces(&self, range: Range<u64>) -> impl Iterator<Item = Extent> {
            let within = range.clone();
            let until = self.from(range.start).take_while(move |extent| extent.lba < range.end);
            until.filter_map(move |extent| extent.clip(&within))
        }
    };
}

impl Snapshot {
    reads!();

    fn view(&self) -> View<'_> {
        View { nodes: &self.nodes, roots: &self.roots, per: per(self.fanout) }
    }

    /// One more than the largest number of a node.
    pub fn end(&self) -> u64 {
        self.nodes.end() as u64
    }

    /// What the leaves with these numbers refer to, each leaf once.
    pub fn leaves(&self, ids: Range<u64>) -> impl Iterator<Item = Mapping> {
        let from = usize::try_from(ids.start).unwrap_or(usize::MAX);
        let nodes = self.nodes.from(from).take_while(move |(id, _)| u64::from(id.0) < ids.end);
        let leaves = nodes.filter_map(|(id, node)| Some((id, node.leaf()?)));
        leaves.flat_map(|(leaf, node)| node.extents().map(move |extent| Mapping { leaf, extent }))
    }

    /// Where a piece ends that begins with number `from`: behind the leaf with which it has `extents` extents or more,
    /// or behind a few thousand numbers; and how many extents it has.
    pub fn piece(&self, from: u64, extents: u64) -> (u64, u64) {
        const NUMBERS: u64 = 4096;
        let mut sum = 0;
        for (id, node) in self.nodes.from(usize::try_from(from).unwrap_or(usize::MAX)) {
            if u64::from(id.0) >= from + NUMBERS {
                return (u64::from(id.0), sum);
            }
            sum += node.leaf().map_or(0, |leaf| leaf.entries.len() as u64);
            if sum >= extents {
                return (u64::from(id.0) + 1, sum);
            }
        }
        (self.end(), sum)
    }
}

fn per(fanout: Fanout) -> u32 {
    u32::try_from(fanout.roots).expect("roots of a page")
}

impl Map {
    reads!();

    /// Nothing is mapped.
    pub fn new(fanout: Fanout) -> Map {
        Map {
            table: Table::default(),
            roots: Arc::default(),
            fanout,
            filled: BTreeMap::new(),
            mappings: 0,
            blocks: 0,
            index: Index::default(),
            lists: Lists::default(),
        }
    }

    fn view(&self) -> View<'_> {
        View { nodes: &self.table.nodes, roots: &self.roots, per: per(self.fanout) }
    }

    /// The map as it is now.
    pub fn snapshot(&self) -> Snapshot {
        let (nodes, roots) = (self.table.nodes.clone(), self.roots.clone());
        Snapshot { nodes, roots, fanout: self.fanout, mappings: self.mappings, blocks: self.blocks }
    }

    /// Bytes of memory, nodes that only snapshots of the table have not included.
    pub fn memory(&self) -> u64 {
        let tract = size_of::<(u32, u64)>() as u64 + 8;
        self.table.memory() + self.filled.len() as u64 * tract
    }

    /// Nodes in all, dead ones included, without those that list changes.
    pub fn nodes(&self) -> u64 {
        self.table.count() - self.lists.count()
    }

    /// What all leaves refer to, each leaf once.
    pub(crate) fn references(&self) -> impl Iterator<Item = Extent> {
        let leaves = self.table.nodes.from(0).filter_map(|(_, node)| node.leaf());
        leaves.flat_map(|leaf| leaf.extents())
    }

    /// Whether only snapshots have a leaf, as far as is known.
    pub(crate) fn is_left(&self, leaf: NodeId) -> bool {
        self.table.is_left(leaf)
    }

    /// Whether there are dead nodes, for which [`Map::give_back`] is to be called.
    pub(crate) fn has_dead(&self) -> bool {
        self.table.has_dead()
    }

    /// Gives `most` dead nodes back.
    pub(crate) fn give_back(&mut self, most: usize, each: Each<'_>) {
        for _ in 0..most {
            let Some(id) = self.table.pop_dead() else { return };
            let node = self.table.remove(id);
            let node = node.expect("a dead node was not removed");
            if let Some(leaf) = node.leaf() {
                self.mappings -= leaf.entries.len() as u64;
                leaf.extents().for_each(|extent| each(Change::Removed(extent)));
            }
            node.refers_to().into_iter().for_each(|child| self.table.release(child));
        }
    }
}
