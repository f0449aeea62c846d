//! Changes of the tree: one leaf at a time, from the root down, and what overflows or runs empty mended on the way
//! back.

use std::ops::Range;
use std::sync::Arc;

use super::node::{Child, Node, Packed, grow, responsible};
use super::{Extent, Fanout, Map};
use crate::number::PageNo;

/// What is to be done from `range.start` on, and what came of it.
struct Edit<'a> {
    range: Range<u64>,
    /// Where the first block of `range` is to lie; none unmaps.
    place: Option<u64>,
    fanout: Fanout,
    removed: &'a mut dyn FnMut(Extent),
    stale: &'a mut Vec<PageNo>,
    mappings: i64,
    blocks: i64,
    nodes: i64,
    /// Whether the last change was at the end of its leaf: as in sequential writes, which are to leave full nodes.
    is_at_end: bool,
}

impl Map {
    /// Maps or unmaps `range`, cut at the borders of leaves.
    pub(super) fn edit(&mut self, range: Range<u64>, place: Option<u64>, removed: &mut dyn FnMut(Extent)) {
        let (start, end) = (range.start, range.end);
        let mut at = start;
        while at < end {
            let mut edit = Edit {
                range: at..end,
                place: place.map(|pba| pba + (at - start)),
                fanout: self.fanout,
                removed,
                stale: &mut self.stale,
                mappings: 0,
                blocks: 0,
                nodes: 0,
                is_at_end: false,
            };
            if !self.root_page.is_none() {
                edit.stale.push(std::mem::take(&mut self.root_page));
            }
            edit.node(&mut self.tree.root, u64::MAX);
            edit.mend_root(&mut self.tree.root);
            at = edit.range.start;
            self.tree.mappings = self.tree.mappings.wrapping_add_signed(edit.mappings);
            self.tree.blocks = self.tree.blocks.wrapping_add_signed(edit.blocks);
            self.nodes = self.nodes.wrapping_add_signed(edit.nodes);
        }
    }
}

impl Edit<'_> {
    fn node(&mut self, node: &mut Arc<Node>, end: u64) {
        match Arc::make_mut(node) {
            Node::Leaf(entries) => {
                let part = self.range.start..self.range.end.min(end);
                self.range.start = part.end;
                self.splice(entries, part);
            }
            Node::Inner(children) => {
                let i = responsible(children, self.range.start);
                let end = children.get(i + 1).map_or(end, |next| next.first);
                self.spoil(&mut children[i]);
                self.node(&mut children[i].node, end);
                self.mend(children, i);
            }
        }
    }

    /// The child's page no longer holds it.
    fn spoil(&mut self, child: &mut Child) {
        if !child.page.is_none() {
            self.stale.push(std::mem::take(&mut child.page));
        }
    }

    /// Replaces what a leaf has in `part`.
    fn splice(&mut self, entries: &mut Vec<Packed>, part: Range<u64>) {
        let mut from = entries.partition_point(|entry| entry.extent().end() <= part.start);
        let mut to = from + entries[from..].partition_point(|entry| entry.lba() < part.end);
        let (before, after) = (from < to).then(|| (entries[from].extent(), entries[to - 1].extent())).unzip();
        for entry in &entries[from..to] {
            let gone = entry.extent().clip(&part).expect("it overlaps");
            self.blocks -= i64::from(gone.len);
            (self.removed)(gone);
        }
        let mut left = before.and_then(|extent: Extent| extent.clip(&(extent.lba..part.start.max(extent.lba))));
        let mut right = after.and_then(|extent: Extent| extent.clip(&(part.end.min(extent.end())..extent.end())));
        let mut middle = None;
        if let Some(pba) = self.place {
            let len = part.end - part.start;
            let mut new =
                Extent { lba: part.start, pba, len: u32::try_from(len).expect("extents have 32 bits of length") };
            self.blocks += i64::from(new.len);
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
        self.mappings += count as i64 - (to - from) as i64;
        grow(entries, count.saturating_sub(to - from));
        entries.splice(from..to, fresh.into_iter().flatten().map(Packed::of));
        self.is_at_end = from + count == entries.len();
    }

    /// Mends child `i` after a change: too full is split, empty goes, small joins a neighbour.
    fn mend(&mut self, children: &mut Vec<Child>, i: usize) {
        let node = &mut children[i].node;
        let max = self.max(node);
        let len = node.len();
        if len > max {
            let (first, right) = Arc::make_mut(node).split_off(self.cut(len, max));
            children.insert(i + 1, Child { first, page: PageNo::NONE, node: Arc::new(right) });
            self.nodes += 1;
        } else if node.is_void() && children.len() > 1 {
            let Child { first, node, .. } = children.remove(i);
            self.nodes -= 1 + i64::from(node.height());
            if i == 0 {
                children[0].first = first;
            }
        } else if len < max / 4 {
            self.join(children, i, max);
        }
    }

    fn max(&self, node: &Node) -> usize {
        match node {
            Node::Leaf(_) => self.fanout.leaf,
            Node::Inner(_) => self.fanout.inner,
        }
    }

    /// Where a node of `len` entries is cut: in the middle, or where it was full if it grows at its end.
    fn cut(&self, len: usize, max: usize) -> usize {
        if self.is_at_end { max } else { len / 2 }
    }

    /// Joins a small child with a neighbour, if both together leave room.
    fn join(&mut self, children: &mut Vec<Child>, i: usize, max: usize) {
        let fits = |a: usize, b: usize| children[a].node.len() + children[b].node.len() <= max * 3 / 4;
        let left = match i {
            _ if i > 0 && fits(i - 1, i) => i - 1,
            _ if i + 1 < children.len() && fits(i, i + 1) => i,
            _ => return,
        };
        let mut right = children.remove(left + 1);
        self.nodes -= 1;
        self.spoil(&mut right);
        self.spoil(&mut children[left]);
        Arc::make_mut(&mut children[left].node).absorb(right.first, &right.node);
    }

    fn mend_root(&mut self, root: &mut Arc<Node>) {
        let (len, max) = (root.len(), self.max(root));
        if len > max {
            let (first, right) = Arc::make_mut(root).split_off(self.cut(len, max));
            let left = std::mem::replace(root, Arc::new(Node::Leaf(Vec::new())));
            let child = |first, node| Child { first, page: PageNo::NONE, node };
            *root = Arc::new(Node::Inner(vec![child(0, left), child(first, Arc::new(right))]));
            self.nodes += 2;
        }
        while let [only] = root.children() {
            let mut only = only.clone();
            self.spoil(&mut only);
            *root = only.node;
            self.nodes -= 1;
        }
    }
}
