//! Whole tracts: their roots, and what is done to them without a look at what they hold.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use super::node::{Node, NodeId};
use super::{Change, Each, Extent, Map, Mapping, TRACT, first_of, per, split};

/// Extents of a source that are looked at together.
const PIECES: usize = 256;

impl Map {
    pub(super) fn root(&self, tract: u32) -> NodeId {
        self.view().root(tract)
    }

    /// Names another root, or none. Counts are the caller's.
    pub(super) fn set_root(&mut self, tract: u32, root: NodeId) {
        if self.root(tract) == root {
            return;
        }
        let (number, at) = (tract / per(self.fanout), (tract % per(self.fanout)) as usize);
        let id = match self.roots.get(&number) {
            Some(id) => *id,
            None => {
                let id = self.table.add(Node::Roots(number, vec![NodeId::NONE; self.fanout.roots]), NodeId::NONE);
                Arc::make_mut(&mut self.roots).insert(number, id);
                id
            }
        };
        let Node::Roots(_, roots) = self.table.get_mut(id) else { unreachable!("the directory has nodes of roots") };
        roots[at] = root;
        if roots.iter().all(|root| root.is_none()) {
            self.table.remove(id);
            Arc::make_mut(&mut self.roots).remove(&number);
        }
    }

    /// Counts blocks that are mapped in a tract, or no longer are.
    pub(super) fn fill(&mut self, tract: u32, blocks: i64) {
        self.blocks = self.blocks.wrapping_add_signed(blocks);
        let filled = self.filled.entry(tract).or_default();
        *filled = filled.wrapping_add_signed(blocks);
        if *filled == 0 {
            self.filled.remove(&tract);
        }
    }

    fn filled(&self, tract: u32) -> u64 {
        self.filled.get(&tract).copied().unwrap_or(0)
    }

    /// Whether nothing is mapped in a range.
    pub(super) fn is_void(&self, range: Range<u64>) -> bool {
        self.pieces(range).next().is_none()
    }

    /// Nothing is mapped in a tract any more. What only it had becomes dead.
    pub(super) fn clear(&mut self, tract: u32) {
        let root = self.root(tract);
        if !root.is_none() {
            let filled = i64::try_from(self.filled(tract)).expect("a tract has 2^28 blocks");
            self.set_root(tract, NodeId::NONE);
            self.table.release(root);
            self.fill(tract, -filled);
        }
    }

    /// The destination becomes what the source is.
    fn share(&mut self, src: u32, dst: u32) {
        let (root, filled) = (self.root(src), self.filled(src));
        if !root.is_none() {
            // Before the old root goes: both may be the same.
            self.table.refer(root);
        }
        self.clear(dst);
        if !root.is_none() {
            self.set_root(dst, root);
            self.fill(dst, i64::try_from(filled).expect("a tract has 2^28 blocks"));
        }
    }

    /// Parts of `len` blocks from `src` and `dst` on that lie in one tract each, if both begin with one.
    fn parts(src: u64, dst: u64, len: u64) -> impl Iterator<Item = Range<u64>> {
        let are_aligned = src.is_multiple_of(TRACT) && dst.is_multiple_of(TRACT);
        let step = if are_aligned { TRACT } else { len.max(1) };
        (0..len).step_by(usize::try_from(step).unwrap_or(usize::MAX)).map(move |at| at..len.min(at + step))
    }

    /// Whether a part can be cloned by its root: nothing is behind it in either tract.
    fn is_whole(&self, src: u64, dst: u64, part: &Range<u64>) -> bool {
        let (from, to) = (src + part.start, dst + part.start);
        let len = part.end - part.start;
        let is_tract = from.is_multiple_of(TRACT) && to.is_multiple_of(TRACT) && len <= TRACT;
        is_tract && [from, to].into_iter().all(|start| self.is_void(start + len..start + TRACT))
    }

    /// Blocks of the source of a clone whose extents are copied one by one.
    pub(crate) fn copied_by(&self, src: u64, dst: u64, len: u64) -> Vec<Range<u64>> {
        let copied = Map::parts(src, dst, len).filter(|part| !self.is_whole(src, dst, part));
        copied.map(|part| src + part.start..src + part.end).collect()
    }

    /// The destination becomes an exact image of the source, its holes included. They do not overlap.
    pub fn duplicate(&mut self, src: u64, dst: u64, len: u64, each: Each<'_>) {
        for part in Map::parts(src, dst, len) {
            let (from, to) = (src + part.start, dst + part.start);
            match self.is_whole(src, dst, &part) {
                true => self.share(split(from).0, split(to).0),
                false => self.copy_extents(from, to, part.end - part.start, each),
            }
        }
    }

    fn copy_extents(&mut self, src: u64, dst: u64, len: u64, each: Each<'_>) {
        let (mut from, mut to) = (src, dst);
        let mut pieces: Vec<Extent> = Vec::new();
        loop {
            pieces.clear();
            pieces.extend(self.pieces(from..src + len).take(PIECES));
            let Some(last) = pieces.last() else { break };
            from = last.end();
            for piece in &pieces {
                let image = Extent { lba: dst + (piece.lba - src), ..*piece };
                self.unmap(to..image.lba, each);
                self.map(image, each);
                to = image.end();
            }
        }
        self.unmap(to..dst + len, each);
    }

    /// Whether a tract can be cleared as a whole when `range` of it is unmapped: the rest of it is void.
    pub(super) fn covers(&self, tract: u32, range: &Range<u64>) -> bool {
        let first = first_of(tract);
        self.is_void(first..first + range.start) && self.is_void(first + range.end..first + TRACT)
    }

    /// Nodes that a change of a range may copy because other trees share them: the paths to both of its ends.
    pub(crate) fn copied_for(&self, range: &Range<u64>) -> u64 {
        let last = (range.end - range.start > 1).then(|| range.end - 1);
        [range.start].into_iter().chain(last).map(|lba| self.shared_path(lba)).sum()
    }

    /// The same for a range that is unmapped or cloned to: nothing is copied of a tract that goes as a whole.
    pub(crate) fn copied_to_clear(&self, range: &Range<u64>) -> u64 {
        let path = |lba: u64| {
            let (tract, _) = split(lba);
            let first = first_of(tract);
            let part = range.start.saturating_sub(first)..(range.end - first).min(TRACT);
            if self.covers(tract, &part) { 0 } else { self.shared_path(lba) }
        };
        [range.start, range.end.saturating_sub(1)].into_iter().map(path).sum()
    }

    fn shared_path(&self, lba: u64) -> u64 {
        let (tract, lba) = split(lba);
        let (mut id, mut nodes, mut is_shared) = (self.root(tract), 0, false);
        while !id.is_none() {
            is_shared |= self.table.refs(id) > 1;
            nodes += u64::from(is_shared);
            let children = self.table.get(id).children();
            id = match children.is_empty() {
                true => NodeId::NONE,
                false => children[super::node::responsible(children, lba)].node,
            };
        }
        nodes
    }

    /// Points those blocks of a mapping that are still where they were at `new` and its successors; other ones stay as
    /// they are. All trees that share the leaf see it. A compare-and-swap, because nothing can happen in between. Gives
    /// the blocks.
    ///
    /// Leaves are split and joined, and writers take copies of them. So the tree for which the leaf was made is changed
    /// where it has the same blocks in the same place, too: then copies go on sharing them.
    pub fn repoint(&mut self, mapping: Mapping, new: u64, each: Each<'_>) -> u64 {
        let (mut blocks, mut changed) = (0, BTreeSet::new());
        for (leaf, piece) in self.found(&mapping) {
            let to = Extent { pba: new + (piece.pba - mapping.extent.pba), ..piece };
            self.splice(leaf, to.range(), Some(to.pba), each);
            blocks += u64::from(to.len);
            changed.insert(leaf);
        }
        for leaf in changed {
            // A leaf that was mended may have taken the place of the next one.
            if self.table.leaf(leaf).is_some() {
                self.mend_in_place(leaf, each);
            }
        }
        blocks
    }

    /// Parts of a mapping that are still where they were.
    pub fn still_there(&self, mapping: &Mapping) -> Vec<Extent> {
        let place = |(_, part): (NodeId, Extent)| {
            let lba = mapping.extent.lba + (part.pba - mapping.extent.pba);
            Extent { lba, ..part }
        };
        self.found(mapping).into_iter().map(place).collect()
    }

    /// Leaves that have parts of a mapping where they were, and these parts as blocks of a tract.
    fn found(&self, mapping: &Mapping) -> Vec<(NodeId, Extent)> {
        let (tract, at) = split(mapping.extent.lba);
        let range = at..at + u64::from(mapping.extent.len);
        let is_same = |part: &Extent| part.pba == mapping.extent.pba + (part.lba - at);
        let mut leaves = Vec::new();
        // What was a leaf may have become an inner node.
        for top in [mapping.leaf, self.root(tract)] {
            if self.table.nodes.find(top).is_some_and(|node| matches!(**node, Node::Leaf(_) | Node::Inner(_))) {
                self.leaves_below(top, &range, &mut leaves);
            }
        }
        leaves.sort_unstable();
        leaves.dedup();
        let parts_of = |id: NodeId| {
            let entries = &self.table.leaf(id).expect("it was found").entries;
            let from = entries.partition_point(|entry| entry.extent().end() <= range.start);
            let until = entries[from..].iter().map(|entry| entry.extent()).take_while(|e| e.lba < range.end);
            until.filter_map(|extent| extent.clip(&range)).filter(is_same).map(move |part| (id, part))
        };
        leaves.into_iter().flat_map(parts_of).collect()
    }

    /// Leaves of a tree that may have something in a range.
    fn leaves_below(&self, id: NodeId, range: &Range<u64>, leaves: &mut Vec<NodeId>) {
        let children = self.table.get(id).children();
        if children.is_empty() {
            return leaves.push(id);
        }
        let first = super::node::responsible(children, range.start);
        let within = children[first..].iter().enumerate();
        let within = within.take_while(|(i, child)| *i == 0 || u64::from(child.first) < range.end);
        within.for_each(|(_, child)| self.leaves_below(child.node, range, leaves));
    }

    /// Tells that a leaf refers to extents.
    pub(super) fn tell_added(leaf: NodeId, extents: &[Extent], each: Each<'_>) {
        extents.iter().for_each(|extent| each(Change::Added(Mapping { leaf, extent: *extent })));
    }
}
