//! Changes of trees: one leaf at a time, from the root down, and what overflows or runs empty mended on the way back.
//! What other trees share is copied on the way down.

use std::ops::Range;

use super::node::{Child, Leaf, Node, NodeId, Replaced, grow, responsible, within_tract};
use super::{Change, Each, Extent, LOGICAL_BLOCKS, Map, Mapping, TRACT, split};

/// What is to be done in a tract.
struct Edit {
    tract: u32,
    range: Range<u64>,
    /// Where the first block of `range` is to lie; none unmaps.
    place: Option<u64>,
}

/// Where a change of one leaf has ended, and whether that was at the end of its leaf: as in sequential writes, which
/// are to leave full nodes.
struct Done {
    next: u64,
    is_at_end: bool,
}

impl Map {
    /// Maps the extent, whatever was mapped there before.
    pub fn map(&mut self, extent: Extent, each: Each<'_>) {
        debug_assert!(extent.len > 0 && extent.end() <= LOGICAL_BLOCKS, "inside the volume");
        let mut at = extent.lba;
        while at < extent.end() {
            let (tract, lba) = split(at);
            let len = (TRACT - lba).min(extent.end() - at);
            self.map_in(tract, lba..lba + len, extent.pba + (at - extent.lba), each);
            at += len;
        }
    }

    fn map_in(&mut self, tract: u32, range: Range<u64>, pba: u64, each: Each<'_>) {
        let root = self.root(tract);
        if !root.is_none() && self.view().leaf(root, range.start).2 < range.end {
            // Leaves in between go, so that the extent is cut as little as possible.
            self.unmap_in(tract, range.clone(), each);
        }
        if self.root(tract).is_none() {
            let root = self.table.add(Node::Leaf(Leaf { home: tract, entries: Vec::new() }), NodeId::NONE);
            self.set_root(tract, root);
        }
        self.edit(tract, range, Some(pba), each);
    }

    /// Unmaps a range. What is not mapped costs nothing, however large.
    pub fn unmap(&mut self, range: Range<u64>, each: Each<'_>) {
        let mut at = range.start;
        while at < range.end
            && let Some(extent) = self.next(at).filter(|extent| extent.lba < range.end)
        {
            let (tract, lba) = split(extent.lba.max(at));
            let len = (TRACT - lba).min(range.end - extent.lba.max(at));
            // From where the caller begins, so that a whole tract is seen as such.
            let start = if split(at).0 == tract { split(at).1 } else { 0 };
            self.unmap_in(tract, start..lba + len, each);
            at = super::first_of(tract) + lba + len;
        }
    }

    fn unmap_in(&mut self, tract: u32, range: Range<u64>, each: Each<'_>) {
        if self.covers(tract, &range) {
            return self.clear(tract);
        }
        let (start, end) = (super::first_of(tract), range.end);
        let mut at = range.start;
        while at < end
            && let Some(extent) = self.next(start + at).filter(|extent| extent.lba < start + end)
        {
            at = (extent.lba.max(start + at)) - start;
            let (_, _, leaf_end) = self.view().leaf(self.root(tract), at);
            // A leaf is emptied at once, but nodes that go as a whole may be larger.
            at = self.edit_one(&Edit { tract, range: at..end, place: None }, leaf_end.min(end), each);
        }
    }

    /// Maps `range` of a tract, cut at the borders of leaves.
    fn edit(&mut self, tract: u32, range: Range<u64>, place: Option<u64>, each: Each<'_>) {
        let mut at = range.start;
        while at < range.end {
            let place = place.map(|pba| pba + (at - range.start));
            at = self.edit_one(&Edit { tract, range: at..range.end, place }, range.end, each);
        }
    }

    /// One way down and back; `least` is where it ends at least, if there is a leaf.
    fn edit_one(&mut self, edit: &Edit, least: u64, each: Each<'_>) -> u64 {
        let root = self.root(edit.tract);
        if root.is_none() {
            return least;
        }
        let root = self.own(root, NodeId::NONE, edit.tract, each);
        self.set_root(edit.tract, root);
        let done = self.node(root, edit, 0..TRACT, each);
        self.mend_root(edit.tract, done.is_at_end, each);
        done.next
    }

    /// A node that no other tree shares, to be changed: itself, or a copy that stands for it.
    fn own(&mut self, id: NodeId, parent: NodeId, tract: u32, each: Each<'_>) -> NodeId {
        if self.table.refs(id) == 1 {
            return id;
        }
        let mut node = self.table.get(id).clone();
        if let Node::Leaf(leaf) = &mut node {
            leaf.home = tract;
            self.mappings += leaf.entries.len() as u64;
        }
        node.refers_to().into_iter().for_each(|child| self.table.refer(child));
        let copy = self.table.add(node, parent);
        let leaf = self.table.leaf(copy).into_iter();
        leaf.flat_map(|leaf| leaf.extents()).for_each(|extent| each(Change::Added(Mapping { leaf: copy, extent })));
        self.table.release(id);
        self.table.leave(id);
        copy
    }

    fn children(&mut self, id: NodeId) -> &mut Vec<Child> {
        match self.table.get_mut(id) {
            Node::Inner(children) => children,
            Node::Leaf(_) | Node::Roots(..) | Node::Changes(_) => unreachable!("an inner node"),
        }
    }

    /// Changes the leaf that is responsible for the start of the range, or drops a node that goes as a whole. `bounds`
    /// are those of the node, which is not shared.
    fn node(&mut self, id: NodeId, edit: &Edit, bounds: Range<u64>, each: Each<'_>) -> Done {
        let children = self.table.get(id).children();
        if children.is_empty() {
            let part = edit.range.start..edit.range.end.min(bounds.end);
            let (is_at_end, blocks) = self.splice(id, part.clone(), edit.place, each);
            self.fill(edit.tract, blocks);
            return Done { next: part.end, is_at_end };
        }
        let i = responsible(children, edit.range.start);
        let start = if i == 0 { bounds.start } else { u64::from(children[i].first) };
        let end = children.get(i + 1).map_or(bounds.end, |next| u64::from(next.first));
        let child = children[i].node;
        let goes = edit.place.is_none() && edit.range.start <= start && end <= edit.range.end;
        if goes && children.len() > 1 {
            self.drop_child(id, i, edit.tract);
            return Done { next: end, is_at_end: false };
        }
        let own = self.own(child, id, edit.tract, each);
        if own != child {
            self.children(id)[i].node = own;
        }
        let done = self.node(own, edit, start..end, each);
        self.mend(id, i, done.is_at_end, each);
        done
    }

    /// Drops a child with all that it maps.
    fn drop_child(&mut self, id: NodeId, i: usize, tract: u32) {
        let child = self.take_child(id, i);
        let blocks = i64::try_from(self.blocks_below(child)).expect("a tract has 2^28 blocks");
        self.fill(tract, -blocks);
        self.table.release(child);
    }

    /// Takes a child out of a node that has others.
    fn take_child(&mut self, id: NodeId, i: usize) -> NodeId {
        let children = self.children(id);
        let Child { first, node } = children.remove(i);
        if i == 0 {
            children[0].first = first;
        }
        node
    }

    fn blocks_below(&self, id: NodeId) -> u64 {
        match self.table.get(id) {
            Node::Leaf(leaf) => leaf.entries.iter().map(|entry| u64::from(entry.extent().len)).sum(),
            node @ (Node::Inner(_) | Node::Roots(..) | Node::Changes(_)) => {
                node.refers_to().into_iter().map(|child| self.blocks_below(child)).sum()
            }
        }
    }

    /// Replaces what a leaf has in `part`: whether that was at its end, and by how many blocks it has more.
    pub(super) fn splice(&mut self, id: NodeId, part: Range<u64>, place: Option<u64>, each: Each<'_>) -> (bool, i64) {
        let Node::Leaf(leaf) = self.table.get_noted(id, &part) else { unreachable!("a leaf") };
        let new = place.map(|pba| Extent {
            lba: part.start,
            pba,
            len: u32::try_from(part.end - part.start).expect("extents have 32 bits of length"),
        });
        new.iter().for_each(|new| each(Change::Added(Mapping { leaf: id, extent: leaf.at_home(*new) })));
        let mut blocks = new.map_or(0, |new| i64::from(new.len));
        let Replaced { is_at_end, before, after } = leaf.replace(&part, new, &mut |gone| {
            blocks -= i64::from(gone.len);
            each(Change::Removed(gone));
        });
        self.mappings = self.mappings + after as u64 - before as u64;
        (is_at_end, blocks)
    }

    fn max(&self, id: NodeId) -> usize {
        match self.table.get(id) {
            Node::Leaf(_) => self.fanout.leaf,
            Node::Inner(_) => self.fanout.inner,
            Node::Roots(..) => self.fanout.roots,
            Node::Changes(_) => self.fanout.changes,
        }
    }

    fn len(&self, id: NodeId) -> usize {
        self.table.get(id).len()
    }

    /// Cuts a node in two: the first block of the new one, and its number, which the caller names.
    fn cut(&mut self, id: NodeId, at: usize, parent: NodeId, each: Each<'_>) -> Child {
        let (first, right) = self.table.get_mut(id).split_off(at);
        let node = self.add_moved(right, parent, each);
        Child { first, node }
    }

    /// A number for what was taken out of another node.
    fn add_moved(&mut self, node: Node, parent: NodeId, each: Each<'_>) -> NodeId {
        let extents: Vec<Extent> = node.leaf().map_or_else(Vec::new, |leaf| leaf.extents().collect());
        let below = node.refers_to();
        let id = self.table.add(node, parent);
        below.into_iter().for_each(|child| self.table.set_parent(child, id));
        Map::tell_moved(id, &extents, each);
        id
    }

    /// Extents have gone from one leaf to another.
    fn tell_moved(to: NodeId, extents: &[Extent], each: Each<'_>) {
        Map::tell_added(to, extents, each);
        extents.iter().for_each(|extent| each(Change::Removed(*extent)));
    }

    /// Where a node is cut that is too full: in the middle, or where it was full if it grows at its end.
    fn middle(&self, id: NodeId, is_at_end: bool) -> usize {
        if is_at_end { self.max(id) } else { self.len(id) / 2 }
    }

    /// Mends child `i` after a change: too full is split, empty goes, small joins a neighbour.
    fn mend(&mut self, id: NodeId, i: usize, is_at_end: bool, each: Each<'_>) {
        let Child { first: _, node } = self.table.get(id).children()[i];
        let (len, max, siblings) = (self.len(node), self.max(node), self.len(id) - 1);
        if len > max {
            let right = self.cut(node, self.middle(node, is_at_end), id, each);
            self.children(id).insert(i + 1, right);
        } else if siblings > 0 && self.is_empty(node) {
            self.take_child(id, i);
            self.remove_empty(node);
        } else if len < max / 4 && siblings > 0 {
            self.join(id, i, max, each);
        }
    }

    /// Whether a node holds no extent, told by a look at its only path.
    fn is_empty(&self, id: NodeId) -> bool {
        match self.table.get(id) {
            Node::Inner(children) => matches!(children[..], [only] if self.is_empty(only.node)),
            node @ (Node::Leaf(_) | Node::Roots(..) | Node::Changes(_)) => node.len() == 0,
        }
    }

    /// Removes a node that holds no extent, and that no other tree shares because it has just been changed.
    fn remove_empty(&mut self, id: NodeId) {
        let below = self.table.get(id).refers_to();
        self.table.remove(id);
        below.into_iter().for_each(|child| self.remove_empty(child));
    }

    /// Joins a small child with a neighbour of its kind that no other tree shares, if both together leave room.
    fn join(&mut self, id: NodeId, i: usize, max: usize, each: Each<'_>) {
        let children = self.table.get(id).children();
        let is_leaf = |at: usize| self.table.leaf(children[at].node).is_some();
        let fits = |a: usize, b: usize| {
            let is_alone = |at: usize| self.table.refs(children[at].node) == 1;
            let both = self.len(children[a].node) + self.len(children[b].node);
            is_leaf(a) == is_leaf(b) && is_alone(a) && is_alone(b) && both <= max * 3 / 4
        };
        let left = match i {
            _ if i > 0 && fits(i - 1, i) => i - 1,
            _ if i + 1 < children.len() && fits(i, i + 1) => i,
            _ => return,
        };
        let into = children[left].node;
        let right = self.children(id).remove(left + 1);
        let node = self.table.remove(right.node).expect("a child exists");
        match (self.table.get_mut(into), &*node) {
            (Node::Leaf(leaf), Node::Leaf(other)) => {
                grow(&mut leaf.entries, other.entries.len());
                leaf.entries.extend_from_slice(&other.entries);
                let extents: Vec<Extent> = other.entries.iter().map(|entry| leaf.at_home(entry.extent())).collect();
                Map::tell_moved(into, &extents, each);
            }
            (Node::Inner(children), Node::Inner(others)) => {
                let at = children.len();
                children.extend_from_slice(others);
                children[at].first = right.first;
                others.iter().for_each(|child| self.table.set_parent(child.node, into));
            }
            _ => unreachable!("neighbours of one kind"),
        }
    }

    fn mend_root(&mut self, tract: u32, is_at_end: bool, each: Each<'_>) {
        let root = self.root(tract);
        if self.len(root) > self.max(root) {
            let right = self.cut(root, self.middle(root, is_at_end), NodeId::NONE, each);
            let left = Child { first: 0, node: root };
            let above = self.table.add(Node::Inner(vec![left, right]), NodeId::NONE);
            [root, right.node].into_iter().for_each(|child| self.table.set_parent(child, above));
            self.set_root(tract, above);
        }
        while let [only] = *self.table.get(self.root(tract)).children() {
            let above = self.root(tract);
            self.set_root(tract, only.node);
            // Its only child is now the root, and counts as before.
            self.table.remove(above);
        }
        if self.len(self.root(tract)) == 0 {
            let root = self.root(tract);
            self.set_root(tract, NodeId::NONE);
            self.table.remove(root);
        }
    }

    /// Mends a node that was changed in place, for all trees that share it. If it is too full, half of it goes to its
    /// parent if it has only one, and if not, it becomes the parent of both halves. If it is small, it joins a
    /// neighbour under the same parent.
    pub(super) fn mend_in_place(&mut self, id: NodeId, each: Each<'_>) {
        let (len, max) = (self.len(id), self.max(id));
        if len > max {
            match self.place_in_parent(id) {
                Some((parent, i)) => {
                    let right = self.cut(id, len / 2, parent, each);
                    self.children(parent).insert(i + 1, right);
                    self.mend_in_place(parent, each);
                }
                None => self.halve(id, each),
            }
        } else if len < max / 4
            && let Some((parent, i)) = self.place_in_parent(id)
        {
            let siblings = self.len(parent);
            self.join(parent, i, max, each);
            if self.len(parent) < siblings {
                self.mend_in_place(parent, each);
            }
        }
        self.take_only_child(id, each);
    }

    /// The node that names another one, and where, if there is only one and it is known.
    fn place_in_parent(&self, id: NodeId) -> Option<(NodeId, usize)> {
        let parent = self.table.parent(id);
        let children = self.table.nodes.find(parent)?.children();
        let at = children.iter().position(|child| child.node == id)?;
        (self.table.refs(id) == 1).then_some((parent, at))
    }

    /// A node that is too full becomes the parent of both halves.
    fn halve(&mut self, id: NodeId, each: Each<'_>) {
        let at = self.len(id) / 2;
        let (first, right) = self.table.get_mut(id).split_off(at);
        let left = std::mem::replace(self.table.get_mut(id), Node::Inner(Vec::new()));
        let start = match &left {
            Node::Leaf(leaf) => within_tract(leaf.entries[0].lba()),
            Node::Inner(children) => children[0].first,
            Node::Roots(..) | Node::Changes(_) => unreachable!("only nodes of trees are halved"),
        };
        let left = self.add_moved(left, id, each);
        let right = self.add_moved(right, id, each);
        *self.children(id) = vec![Child { first: start, node: left }, Child { first, node: right }];
    }

    /// A node with one child takes the child's place.
    fn take_only_child(&mut self, id: NodeId, each: Each<'_>) {
        let Some([only]) = self.table.nodes.find(id).map(|node| node.children()) else { return };
        let only = only.node;
        if self.table.refs(only) > 1 {
            return;
        }
        let node = (*self.table.remove(only).expect("a child exists")).clone();
        node.refers_to().into_iter().for_each(|child| self.table.set_parent(child, id));
        let extents: Vec<Extent> = node.leaf().map_or_else(Vec::new, |leaf| leaf.extents().collect());
        *self.table.get_mut(id) = node;
        Map::tell_moved(id, &extents, each);
    }
}
