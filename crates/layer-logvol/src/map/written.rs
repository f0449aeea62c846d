//! What a checkpoint writes of the map: nodes without a page, and the pages of the *index*, which says in which page
//! each node is.
//!
//! The index is a radix tree. A page of its lowest level has the pages of as many nodes as fit, in the order of their
//! numbers. A page of a higher level has pages of the level below. Its only page of the highest level is its root.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::Map;
use super::node::Node;
use crate::number::PageNo;

/// The pages of the index, each level from its lowest page on; none for pages that are not on the medium as they are.
#[derive(Default)]
pub(crate) struct Index(Vec<Vec<PageNo>>);

/// What is in a page.
#[derive(Clone)]
pub(crate) enum Content {
    /// A node.
    Node(Arc<Node>),
    /// A part of the index: its level, and pages.
    Index(u8, Vec<PageNo>),
}

/// Pages of each level of an index of so many numbers: at least one level of one page.
fn sizes(numbers: usize, fanout: usize) -> Vec<usize> {
    let mut sizes = vec![numbers.div_ceil(fanout).max(1)];
    while let Some(last) = sizes.last().copied().filter(|last| *last > 1) {
        sizes.push(last.div_ceil(fanout));
    }
    sizes
}

impl Index {
    /// An index that was read, its lowest level first.
    pub(crate) fn read(levels: Vec<Vec<PageNo>>) -> Index {
        Index(levels)
    }

    /// Places, in each level, of pages that are to be written when these places of the level below have changed.
    fn outdated(&self, numbers: usize, changed: impl Iterator<Item = usize>, fanout: usize) -> Vec<BTreeSet<usize>> {
        let mut below: BTreeSet<usize> = changed.map(|at| at / fanout).collect();
        let sizes = sizes(numbers, fanout);
        let mut all = Vec::with_capacity(sizes.len());
        for (level, size) in sizes.iter().enumerate() {
            let is_new =
                |at: &usize| self.0.get(level).and_then(|pages| pages.get(*at)).is_none_or(|page| page.is_none());
            let last = self.0.get(level).map_or(0, Vec::len).saturating_sub(1);
            below.extend((last..*size).filter(is_new));
            let above = below.iter().map(|at| at / fanout).collect();
            all.push(std::mem::replace(&mut below, above));
        }
        all
    }

    fn pages(&self) -> u64 {
        self.0.iter().map(|level| level.len() as u64).sum()
    }
}

impl Map {
    /// Pages that a whole rewrite of the map takes.
    pub(crate) fn pages(&self) -> u64 {
        let numbers = self.table.pages().len();
        let index: usize = sizes(numbers, self.fanout.index).into_iter().sum();
        self.nodes() + self.index.pages().max(index as u64)
    }

    /// Pages that are kept for a whole rewrite: a quarter more than it takes, for what is written meanwhile.
    pub(crate) fn pages_for_all(&self) -> u64 {
        pages_for(self.pages())
    }

    /// Pages that have to be written.
    pub(crate) fn outdated_pages(&mut self) -> u64 {
        let (nodes, index) = self.outdated();
        (nodes + index.iter().map(BTreeSet::len).sum::<usize>()) as u64
    }

    fn outdated(&mut self) -> (usize, Vec<BTreeSet<usize>>) {
        let changed: Vec<_> = self.table.changed().to_vec();
        let nodes = changed.iter().filter(|id| self.table.is_unwritten(**id)).count();
        let numbers = self.table.pages().len();
        let changed = changed.iter().map(|id| id.index()).filter(|at| *at < numbers);
        (nodes, self.index.outdated(numbers, changed, self.fanout.index))
    }

    /// Gives a page from `take` to everything that has to be written, and lists it: as many as
    /// [`Map::outdated_pages`].
    pub(crate) fn write_out(&mut self, take: &mut dyn FnMut() -> PageNo) -> Vec<(PageNo, Content)> {
        let (_, outdated) = self.outdated();
        let mut out = Vec::new();
        for id in self.table.take_changed() {
            if self.table.is_unwritten(id) {
                let page = take();
                self.table.set_page(id, page);
                out.push((page, Content::Node(self.table.written(id))));
            }
        }
        let numbers = self.table.pages().len();
        for (level, size) in sizes(numbers, self.fanout.index).into_iter().enumerate() {
            if self.index.0.len() == level {
                self.index.0.push(Vec::new());
            }
            self.index.0[level].resize(size, PageNo::NONE);
            for at in &outdated[level] {
                let page = take();
                let before = std::mem::replace(&mut self.index.0[level][*at], page);
                if !before.is_none() {
                    self.table.add_stale(before);
                }
                out.push((page, Content::Index(number_of(level), self.index_page(level, *at))));
            }
        }
        out
    }

    /// What a page of the index holds.
    fn index_page(&self, level: usize, at: usize) -> Vec<PageNo> {
        let below = if level == 0 { self.table.pages() } else { &self.index.0[level - 1] };
        let start = at * self.fanout.index;
        below[start.min(below.len())..(start + self.fanout.index).min(below.len())].to_vec()
    }

    /// The page of the index's root, and its level; after [`Map::write_out`].
    pub(crate) fn index_root(&self) -> (PageNo, u8) {
        let root = self.index.0.last().and_then(|level| level.first());
        (root.copied().unwrap_or_default(), number_of(self.index.0.len().saturating_sub(1)))
    }

    /// Pages whose nodes have changed or gone since the last call.
    pub(crate) fn take_stale(&mut self) -> Vec<PageNo> {
        self.table.take_stale()
    }
}

/// Pages that are kept for a rewrite that takes so many.
pub(crate) fn pages_for(pages: u64) -> u64 {
    pages + pages / 4 + 16
}

fn number_of(level: usize) -> u8 {
    u8::try_from(level).expect("an index has fewer than 16 levels")
}
