//! The table of nodes: what each number stands for, how many refer to it, and which page holds it.
//!
//! Invariants. The count of a number is the number of children and roots that name it; children of dead nodes count. A
//! node without a count is in the list of dead ones. A page is a node's only as long as the node is as it was written,
//! but for blocks of a leaf that are noted or listed ([`super::changes`]).

use std::ops::Range;
use std::sync::Arc;

use super::node::{Leaf, Node, NodeId};
use crate::number::PageNo;

/// Numbers whose nodes are copied together when a snapshot of the table still has them.
const CHUNK: usize = 128;

type Chunk = Vec<Option<Arc<Node>>>;

/// What each number stands for. A copy of it costs a pointer and never changes.
#[derive(Clone, Default)]
pub(crate) struct Nodes(Arc<Vec<Arc<Chunk>>>);

impl Nodes {
    /// One more than the largest number that was ever given.
    pub(crate) fn end(&self) -> usize {
        self.0.len() * CHUNK
    }

    pub(crate) fn find(&self, id: NodeId) -> Option<&Arc<Node>> {
        self.0.get(id.index() / CHUNK)?.get(id.index() % CHUNK)?.as_ref()
    }

    pub(crate) fn get(&self, id: NodeId) -> &Node {
        self.find(id).expect("a node that is referred to exists")
    }

    /// The nodes with numbers from `from` on.
    pub(crate) fn from(&self, from: usize) -> impl Iterator<Item = (NodeId, &Node)> {
        let ids = (from..self.end()).map(|id| NodeId(u32::try_from(id).unwrap_or(u32::MAX)));
        ids.filter_map(|id| Some((id, &**self.find(id)?)))
    }

    fn get_mut(&mut self, id: NodeId) -> &mut Node {
        let node = self.slot(id).as_mut().expect("a node that is referred to exists");
        Arc::make_mut(node)
    }

    fn slot(&mut self, id: NodeId) -> &mut Option<Arc<Node>> {
        let chunks = Arc::make_mut(&mut self.0);
        while chunks.len() * CHUNK <= id.index() {
            chunks.push(Arc::new(vec![None; CHUNK]));
        }
        &mut Arc::make_mut(&mut chunks[id.index() / CHUNK])[id.index() % CHUNK]
    }

    /// Bytes of memory.
    pub(crate) fn memory(&self) -> u64 {
        let nodes: u64 = self.from(0).map(|(_, node)| node.memory()).sum();
        nodes + (self.end() * size_of::<Option<Arc<Node>>>()) as u64
    }
}

/// What is known of a number beside its node.
#[derive(Clone, Copy, Default)]
struct About {
    /// Children and roots that name it.
    refs: u32,
    /// The node that named it when it was the only one; perhaps no longer.
    parent: NodeId,
    /// Whether a writer took a copy of it and left it to the others.
    is_left: bool,
}

/// Blocks of a leaf, as blocks of its tract.
pub(crate) type Note = (NodeId, Range<u64>);

/// The table.
#[derive(Default)]
pub(crate) struct Table {
    pub nodes: Nodes,
    about: Vec<About>,
    /// The page of each node; none if it has changed since it was written.
    pages: Vec<PageNo>,
    free: Vec<NodeId>,
    /// Numbers whose node or page has changed since the last checkpoint, each at least once.
    changed: Vec<NodeId>,
    /// Pages whose nodes have changed or gone since they were last taken.
    stale: Vec<PageNo>,
    /// Nodes without a count, which still count for what they refer to.
    dead: Vec<NodeId>,
    /// Blocks of leaves with a page that have changed since the last checkpoint, in the order of their changes.
    notes: Vec<Note>,
    /// Notes at most: a leaf that changes beyond them loses its page.
    notes_max: usize,
    count: u64,
}

impl Table {
    /// Nodes in all, dead ones included.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// A number for a new node, which one child or root is about to name.
    pub(crate) fn add(&mut self, node: Node, parent: NodeId) -> NodeId {
        let next = NodeId(u32::try_from(self.about.len().max(1)).expect("fewer nodes than fit in memory"));
        let id = self.free.pop().unwrap_or(next);
        self.put(id, node, PageNo::NONE);
        self.about[id.index()] = About { refs: 1, parent, is_left: false };
        self.changed.push(id);
        id
    }

    /// Sets what a number stands for: a new node, or one that was read, which nothing names so far.
    pub(crate) fn put(&mut self, id: NodeId, node: Node, page: PageNo) {
        self.widen(id.index() + 1);
        *self.nodes.slot(id) = Some(Arc::new(node));
        self.pages[id.index()] = page;
        self.count += 1;
    }

    /// Makes room for so many numbers at least.
    pub(crate) fn widen(&mut self, numbers: usize) {
        if self.about.len() < numbers {
            self.about.resize(numbers, About::default());
            self.pages.resize(numbers, PageNo::NONE);
        }
    }

    /// Lists the numbers that are free, after nodes were put.
    pub(crate) fn list_free(&mut self) {
        let ids = (1..self.about.len()).rev().map(|id| NodeId(u32::try_from(id).expect("it was given")));
        self.free = ids.filter(|id| self.nodes.find(*id).is_none()).collect();
    }

    pub(crate) fn get(&self, id: NodeId) -> &Node {
        self.nodes.get(id)
    }

    pub(crate) fn leaf(&self, id: NodeId) -> Option<&Leaf> {
        self.nodes.find(id)?.leaf()
    }

    /// A node, to be changed: its page no longer holds it.
    pub(crate) fn get_mut(&mut self, id: NodeId) -> &mut Node {
        self.spoil(id);
        self.nodes.get_mut(id)
    }

    /// A leaf, to be changed in some blocks: its page goes on to hold it, and these blocks are noted.
    pub(crate) fn get_noted(&mut self, id: NodeId, blocks: &Range<u64>) -> &mut Node {
        if !self.pages[id.index()].is_none() {
            let is_full = self.notes.len() >= self.notes_max;
            match self.notes.last_mut() {
                Some((last, range)) if *last == id && range.end == blocks.start => range.end = blocks.end,
                _ if is_full => self.spoil(id),
                _ => self.notes.push((id, blocks.clone())),
            }
        }
        self.nodes.get_mut(id)
    }

    /// Takes what was noted of leaves that still have their pages: without overlaps, in order. `most` notes come now.
    pub(crate) fn take_notes(&mut self, most: usize) -> Vec<Note> {
        self.notes_max = most;
        let mut notes = std::mem::take(&mut self.notes);
        notes.retain(|(id, _)| !self.pages[id.index()].is_none());
        notes.sort_unstable_by_key(|(id, blocks)| (*id, blocks.start));
        notes.dedup_by(|next, before| {
            let joins = next.0 == before.0 && next.1.start <= before.1.end;
            if joins {
                before.1.end = before.1.end.max(next.1.end);
            }
            joins
        });
        notes
    }

    /// A leaf that was read is at home in a tract.
    pub(crate) fn settle(&mut self, id: NodeId, tract: u32) {
        if let Node::Leaf(leaf) = self.nodes.get_mut(id) {
            leaf.home = tract;
        }
    }

    /// The page of a node, if it has one, no longer holds it.
    pub(crate) fn spoil(&mut self, id: NodeId) {
        let page = std::mem::take(&mut self.pages[id.index()]);
        if !page.is_none() {
            self.stale.push(page);
            self.changed.push(id);
        }
    }

    pub(crate) fn refs(&self, id: NodeId) -> u32 {
        self.about[id.index()].refs
    }

    /// One more child or root names it.
    pub(crate) fn refer(&mut self, id: NodeId) {
        let refs = &mut self.about[id.index()].refs;
        *refs = refs.checked_add(1).expect("each reference takes memory");
    }

    /// One child or root less names it.
    pub(crate) fn release(&mut self, id: NodeId) {
        let refs = &mut self.about[id.index()].refs;
        *refs -= 1;
        if *refs == 0 {
            self.dead.push(id);
        }
    }

    pub(crate) fn parent(&self, id: NodeId) -> NodeId {
        self.about[id.index()].parent
    }

    pub(crate) fn set_parent(&mut self, id: NodeId, parent: NodeId) {
        self.about[id.index()].parent = parent;
    }

    /// A writer has taken a copy of it, and leaves it to the others.
    pub(crate) fn leave(&mut self, id: NodeId) {
        self.about[id.index()].is_left = true;
    }

    /// Whether a writer left it to the others: snapshots, most probably.
    pub(crate) fn is_left(&self, id: NodeId) -> bool {
        self.about.get(id.index()).is_some_and(|about| about.is_left)
    }

    /// Takes a node out whose number nothing names any more, and which refers to nothing that counts.
    pub(crate) fn remove(&mut self, id: NodeId) -> Option<Arc<Node>> {
        self.spoil(id);
        self.changed.push(id);
        self.about[id.index()] = About::default();
        self.free.push(id);
        self.count -= 1;
        self.nodes.slot(id).take()
    }

    /// A dead node.
    pub(crate) fn pop_dead(&mut self) -> Option<NodeId> {
        self.dead.pop()
    }

    pub(crate) fn has_dead(&self) -> bool {
        !self.dead.is_empty()
    }

    pub(crate) fn pages(&self) -> &[PageNo] {
        &self.pages
    }

    pub(crate) fn set_page(&mut self, id: NodeId, page: PageNo) {
        self.pages[id.index()] = page;
    }

    /// A page of the index is superseded.
    pub(crate) fn add_stale(&mut self, page: PageNo) {
        self.stale.push(page);
    }

    /// Pages whose nodes have changed or gone since the last call.
    pub(crate) fn take_stale(&mut self) -> Vec<PageNo> {
        std::mem::take(&mut self.stale)
    }

    /// Numbers whose node or page has changed, each once, in order.
    pub(crate) fn changed(&mut self) -> &[NodeId] {
        self.changed.sort_unstable();
        self.changed.dedup();
        &self.changed
    }

    /// What has changed is written.
    pub(crate) fn take_changed(&mut self) -> Vec<NodeId> {
        std::mem::take(&mut self.changed)
    }

    /// Whether a number stands for a node that is on no page.
    pub(crate) fn is_unwritten(&self, id: NodeId) -> bool {
        self.nodes.find(id).is_some() && self.pages[id.index()].is_none()
    }

    /// A node that is being written. One that lists changes is not needed in memory any more.
    pub(crate) fn written(&mut self, id: NodeId) -> Arc<Node> {
        let node = self.nodes.find(id).expect("it is to be written").clone();
        if matches!(*node, Node::Changes(_)) {
            *self.nodes.slot(id) = Some(Arc::new(Node::Changes(Vec::new())));
        }
        node
    }

    /// Bytes of memory.
    pub(crate) fn memory(&self) -> u64 {
        let numbers = self.about.capacity() * size_of::<About>() + self.pages.capacity() * size_of::<PageNo>();
        let own = numbers + self.notes.capacity() * size_of::<Note>();
        self.nodes.memory() + own as u64
    }
}
