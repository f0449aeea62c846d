//! Changes of leaves that a checkpoint lists instead of writing the leaves.
//!
//! Random overwrites change most leaves a little. The table notes which blocks of a leaf change. A checkpoint lists
//! what the leaf has in them, in nodes of their own, and leaves the leaf's page as it is. A list says what the blocks
//! map to when it is made, so a block that changes often is listed once.
//!
//! A page says which checkpoint wrote it. Recovery takes a listed change into a leaf if the list is newer than the
//! leaf's page. So a leaf that is written again, or a number that is given again, makes older changes void, and only
//! [`Map::settle`] has to look for lists that are superfluous.
//!
//! Invariant: a checkpoint writes a node or lists changes of it, never both; what a checkpoint that failed had written
//! is settled by the next one, because both have the same generation.

use std::collections::BTreeSet;
use std::ops::Range;

use super::node::{Node, NodeId, Packed};
use super::restore::TreeError;
use super::table::{Note, Table};
use super::{Extent, Map};

/// The physical block of what is mapped no longer: the first one is a segment's head.
pub(crate) const HOLE: u64 = 0;

/// A listed change: a leaf, and what it has in some blocks of its tract; [`HOLE`] for nothing.
pub(crate) type Listed = (NodeId, Extent);

/// Lists of changes.
#[derive(Default)]
pub(crate) struct Lists {
    /// Nodes that list changes.
    nodes: Vec<NodeId>,
    /// Leaves that they name.
    leaves: BTreeSet<NodeId>,
    /// Whether the next checkpoint must settle them.
    is_in_doubt: bool,
}

impl Lists {
    pub(super) fn count(&self) -> u64 {
        self.nodes.len() as u64
    }
}

impl Map {
    /// Lists what has changed in leaves since the last checkpoint. It settles instead if lists would take more pages
    /// than the leaves or than half of the nodes, or if `room` pages leave no space for a whole rewrite.
    pub(crate) fn list_changes(&mut self, room: u64) {
        let most = self.nodes() / 2;
        let notes_max = usize::try_from(most).unwrap_or(usize::MAX).saturating_mul(self.fanout.changes);
        let notes = self.table.take_notes(notes_max);
        let leaves = notes.chunk_by(|a, b| a.0 == b.0).count();
        let listed: Vec<Listed> = notes.iter().flat_map(|note| self.listed(note)).collect();
        let pages = listed.len().div_ceil(self.fanout.changes);
        let is_small = pages < leaves && self.lists.count() + pages as u64 <= most;
        if self.lists.is_in_doubt || !is_small || room < self.pages_for_all() + pages as u64 {
            return self.settle(&notes);
        }
        self.lists.leaves.extend(notes.iter().map(|(leaf, _)| *leaf));
        for part in listed.chunks(self.fanout.changes) {
            let changes = part.iter().map(|(leaf, extent)| (*leaf, Packed::of(*extent))).collect();
            let node = self.table.add(Node::Changes(changes), NodeId::NONE);
            self.lists.nodes.push(node);
        }
    }

    /// All leaves with changes are written, and lists are superfluous.
    fn settle(&mut self, notes: &[Note]) {
        let leaves = std::mem::take(&mut self.lists.leaves);
        leaves.into_iter().chain(notes.iter().map(|(leaf, _)| *leaf)).for_each(|leaf| self.table.spoil(leaf));
        for node in std::mem::take(&mut self.lists.nodes) {
            self.table.remove(node);
        }
        self.lists.is_in_doubt = false;
    }

    /// Nodes that list changes.
    #[cfg(test)]
    pub(crate) fn lists(&self) -> u64 {
        self.lists.count()
    }

    /// A checkpoint has failed: nothing is known of its pages.
    pub(crate) fn doubt_lists(&mut self) {
        self.lists.is_in_doubt = true;
    }

    /// What a leaf has in some blocks, holes included.
    fn listed(&self, (leaf, blocks): &Note) -> Vec<Listed> {
        let entries = &self.table.leaf(*leaf).expect("only leaves are noted").entries;
        let from = entries.partition_point(|entry| entry.extent().end() <= blocks.start);
        let (mut at, mut listed) = (blocks.start, Vec::new());
        let pieces = entries[from..].iter().map_while(|entry| entry.extent().clip(blocks));
        for piece in pieces {
            listed.extend(hole(at..piece.lba).map(|hole| (*leaf, hole)));
            at = piece.end();
            listed.push((*leaf, piece));
        }
        listed.extend(hole(at..blocks.end).map(|hole| (*leaf, hole)));
        listed
    }
}

fn hole(blocks: Range<u64>) -> Option<Extent> {
    let len = u32::try_from(blocks.end - blocks.start).expect("a tract has 2^28 blocks");
    (len > 0).then_some(Extent { lba: blocks.start, pba: HOLE, len })
}

/// Changes, the oldest first, of lists with the generations of their pages. A change is void if the page of its leaf
/// was not written before its list.
pub(crate) fn newer<I: Iterator<Item = Listed>>(
    mut lists: Vec<(u64, I)>,
    written: impl Fn(NodeId) -> Option<u64>,
) -> Vec<Listed> {
    lists.sort_by_key(|(generation, _)| *generation);
    let is_newer = |leaf, generation| written(leaf).is_some_and(|written| written < generation);
    let each = lists.into_iter().flat_map(|(generation, list)| list.map(move |change| (generation, change)));
    each.filter(|(generation, (leaf, _))| is_newer(*leaf, *generation)).map(|(_, change)| change).collect()
}

/// Takes changes, in order, into leaves that were read: the next checkpoint writes these.
pub(super) fn take_in(table: &mut Table, changes: &[Listed], leaf_max: usize) -> Result<(), TreeError> {
    for (id, extent) in changes {
        let Node::Leaf(leaf) = table.get_mut(*id) else {
            return Err(TreeError { node: *id, what: "has changes of a leaf, but is none" });
        };
        leaf.replace(&extent.range(), Some(*extent).filter(|extent| extent.pba != HOLE), &mut |_| {});
    }
    let is_full = |id: &NodeId| table.leaf(*id).is_some_and(|leaf| leaf.entries.len() > leaf_max);
    match changes.iter().map(|(id, _)| *id).find(is_full) {
        Some(node) => Err(TreeError { node, what: "has more extents with its changes than a leaf holds" }),
        None => Ok(()),
    }
}
