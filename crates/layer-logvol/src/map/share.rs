//! Where a map can be cut into parts of equal work: by numbers of nodes, not by distances, because the space is sparse.
//!
//! A place in the map is a fraction: all children of a node are taken to weigh the same. Fractions cost one way down
//! the tree, so that scanners can share out what is left as often as one of them runs dry.

use std::ops::Range;

use super::Snapshot;
use super::node::{Node, responsible};

impl Snapshot {
    /// The share of the map that lies before `lba`, 0 to 1.
    pub fn fraction(&self, lba: u64) -> f64 {
        if lba == u64::MAX {
            return 1.0;
        }
        let (mut node, mut before, mut width) = (&self.root, 0.0, 1.0);
        while let Node::Inner(children) = &**node {
            let i = responsible(children, lba);
            width /= children.len() as f64;
            before += width * i as f64;
            node = &children[i].node;
        }
        before
    }

    /// The logical block at which a leaf begins, and before which about this share of the map lies.
    pub fn at_fraction(&self, fraction: f64) -> u64 {
        let (mut node, mut rest, mut first) = (&self.root, fraction.clamp(0.0, 1.0), 0);
        while let Node::Inner(children) = &**node {
            let at = rest * children.len() as f64;
            #[expect(clippy::cast_possible_truncation, reason = "its whole part is the number of a child")]
            let i = (at as usize).min(children.len() - 1);
            // The first child of a node has what is before it, too.
            if i > 0 {
                first = children[i].first;
            }
            rest = at - i as f64;
            node = &children[i].node;
        }
        first
    }

    /// Where a piece ends that begins at `lba` and has at most `leaves` leaves, and how many extents these could hold
    /// at most; `u64::MAX` behind the last leaf.
    pub fn piece(&self, lba: u64, leaves: usize) -> (u64, u64) {
        let (mut node, mut end) = (&self.root, u64::MAX);
        while let Node::Inner(children) = &**node {
            let i = responsible(children, lba);
            let is_above_leaves = children[i].node.children().is_empty();
            let last = if is_above_leaves { (i + leaves).min(children.len()) } else { i + 1 };
            end = children.get(last).map_or(end, |next| next.first);
            if is_above_leaves {
                let extents = children[i..last].iter().map(|child| child.node.len() as u64).sum();
                return (end, extents);
            }
            node = &children[i].node;
        }
        (end, node.len() as u64)
    }

    /// Cuts a range into two of equal work, if it has more than one leaf.
    pub fn halve(&self, range: &Range<u64>) -> Option<u64> {
        let middle = self.at_fraction((self.fraction(range.start) + self.fraction(range.end)) / 2.0);
        (range.start < middle && middle < range.end).then_some(middle)
    }
}
