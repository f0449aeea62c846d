//! A map from nodes that were read. Counts are not stored: they are counted here, along all ways down from the roots.
//! What no root reaches is dropped.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use super::changes::{Listed, Lists, take_in};
use super::node::{Node, NodeId};
use super::table::Table;
use super::written::Index;
use super::{Fanout, LOGICAL_BLOCKS, Map, TRACT, TRACT_BITS, first_of, per};
use crate::number::PageNo;

/// Levels of a tree at most. A tree grows only where its root is full, or where a node that was changed in place is.
const HEIGHT_MAX: u32 = 64;

/// Why nodes are no map.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("node {node} of the map {what}")]
pub struct TreeError {
    /// The node.
    pub node: NodeId,
    /// What is wrong.
    pub what: &'static str,
}

/// What is known of a node and all below it.
#[derive(Clone, Copy)]
struct Seen {
    /// The first block that is mapped, and the end of the last; empty if there is none.
    span: (u64, u64),
    blocks: u64,
    height: u32,
}

/// Looks at each node once.
struct Walk {
    table: Table,
    seen: BTreeMap<NodeId, Option<Seen>>,
    mappings: u64,
}

impl Map {
    /// The map of these nodes with their pages, with changes of them in the order in which they were listed, and the
    /// pages of the index, its lowest level first.
    ///
    /// # Errors
    /// [`TreeError`].
    pub(crate) fn restored(
        fanout: Fanout,
        nodes: Vec<(NodeId, PageNo, Node)>,
        changes: &[Listed],
        index: Vec<Vec<PageNo>>,
    ) -> Result<Map, TreeError> {
        let mut table = Table::default();
        let mut directory = Vec::new();
        for (id, page, node) in nodes {
            if let Node::Roots(number, roots) = &node {
                directory.push((id, *number, roots.clone()));
            }
            table.put(id, node, page);
        }
        // As many numbers as the index has room for, so that its pages stay where they are.
        let pages = index.first().map_or(0, Vec::len);
        table.widen(pages.saturating_sub(1) * fanout.index + 1);
        table.list_free();
        take_in(&mut table, changes, fanout.leaf)?;
        let mut walk = Walk { table, seen: BTreeMap::new(), mappings: 0 };
        let (mut roots, mut filled) = (BTreeMap::new(), BTreeMap::new());
        let error = |node, what| Err(TreeError { node, what });
        for (id, number, trees) in directory {
            let tracts = LOGICAL_BLOCKS >> TRACT_BITS;
            if trees.len() != fanout.roots || u64::from(number) >= tracts.div_ceil(fanout.roots as u64) {
                return error(id, "has roots of tracts that do not exist");
            }
            if roots.insert(number, id).is_some() {
                return error(id, "has roots of tracts that another node has, too");
            }
            walk.table.refer(id);
            for (tract, root) in (number * per(fanout)..).zip(trees).filter(|(_, root)| !root.is_none()) {
                let seen = walk.node(root, id, tract, 0)?;
                if seen.span.1 > TRACT.min(LOGICAL_BLOCKS - first_of(tract)) || seen.blocks == 0 {
                    return error(root, "maps blocks outside of its tract, or none");
                }
                filled.insert(tract, seen.blocks);
            }
        }
        let Walk { mut table, seen, mappings } = walk;
        let unreached: Vec<NodeId> = table.nodes.from(0).map(|(id, _)| id).filter(|id| table.refs(*id) == 0).collect();
        debug_assert!(unreached.iter().all(|id| !seen.contains_key(id)));
        unreached.into_iter().for_each(|id| {
            table.remove(id);
        });
        let blocks = filled.values().sum();
        Ok(Map {
            table,
            roots: Arc::new(roots),
            fanout,
            filled,
            mappings,
            blocks,
            index: Index::read(index),
            lists: Lists::default(),
        })
    }
}

impl Walk {
    /// Counts a reference to a node, and looks at it if nothing did before.
    fn node(&mut self, id: NodeId, parent: NodeId, tract: u32, depth: u32) -> Result<Seen, TreeError> {
        let error = |what| Err(TreeError { node: id, what });
        if self.table.nodes.find(id).is_none() {
            return error("is missing");
        }
        self.table.refer(id);
        match self.seen.get(&id) {
            Some(Some(seen)) if depth + seen.height > HEIGHT_MAX => return error("lies too deep"),
            Some(Some(seen)) => return Ok(*seen),
            Some(None) => return error("is below itself"),
            None if depth > HEIGHT_MAX => return error("lies too deep"),
            None => self.seen.insert(id, None),
        };
        self.table.set_parent(id, parent);
        let seen = match self.table.get(id).clone() {
            Node::Roots(..) => return error("has roots, but is no root of them"),
            Node::Changes(_) => return error("lists changes, but something refers to it"),
            Node::Leaf(leaf) => {
                self.table.settle(id, tract);
                self.mappings += leaf.entries.len() as u64;
                let ends = leaf.entries.first().zip(leaf.entries.last());
                let span = ends.map_or((TRACT, 0), |(first, last)| (first.lba(), last.extent().end()));
                let blocks = leaf.entries.iter().map(|entry| u64::from(entry.extent().len)).sum();
                Seen { span, blocks, height: 0 }
            }
            Node::Inner(children) => {
                let mut all = Seen { span: (TRACT, 0), blocks: 0, height: 0 };
                let starts = [0].into_iter().chain(children.iter().skip(1).map(|child| child.first.into()));
                let ends = children.iter().skip(1).map(|child| child.first.into()).chain([u64::MAX]);
                let bounds: Vec<Range<u64>> = starts.zip(ends).map(|(start, end)| start..end).collect();
                for (child, bounds) in children.iter().zip(bounds) {
                    let Seen { span: (start, end), blocks, height } = self.node(child.node, id, tract, depth + 1)?;
                    if start < end && (start < bounds.start || end > bounds.end) {
                        return error("has children that are out of bounds");
                    }
                    all.span = (all.span.0.min(start), all.span.1.max(end));
                    all.blocks += blocks;
                    all.height = all.height.max(1 + height);
                }
                all
            }
        };
        self.seen.insert(id, Some(seen));
        Ok(seen)
    }
}
