//! The image of the server's tree, which a trace teaches bit by bit, and the map from handles to its nodes.
//!
//! A node whose place is unknown lies in the root under its handle. Several nodes have one handle if the file has
//! several names. A handle of 0 is none: the node's handle went to another file.
//!
//! A child is never seen later than its directory: then the oldest nodes can go, and the tree stays one.

mod collect;

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use esker_base::Nanos;

use crate::request::Handle;

pub use collect::{TreeLimits, TreeLosses};

/// Number of a node, which the next node may get when it is gone.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct NodeId(u32);

/// The directory of the replay.
pub const ROOT: NodeId = NodeId(0);

/// Directories above a new node at most.
const DEPTH_MAX: usize = 256;
/// Names of one file at most. Each operation on a file looks at all of them.
pub(crate) const NAMES_MAX: usize = 1024;

/// What a node is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NodeKind {
    /// A file.
    File,
    /// A directory.
    Dir,
    /// A symbolic link.
    Symlink,
}

/// A name in the image.
#[derive(Clone, Debug)]
pub struct ServerNode {
    /// Its directory; the root's is the root.
    pub parent: NodeId,
    /// Its name there.
    pub name: Rc<[u8]>,
    /// Its handle, 0 if unknown.
    pub handle: Handle,
    /// What it is.
    pub kind: NodeKind,
    /// Last access, in time of the trace.
    pub seen: Nanos,
    /// Whether the target has it.
    pub on_target: bool,
    /// How many of its children the target has.
    pub on_target_children: u32,
    children: BTreeMap<Rc<[u8]>, NodeId>,
}

/// The image.
pub struct ServerTree {
    nodes: Vec<Option<ServerNode>>,
    free: Vec<u32>,
    handles: BTreeSet<(Handle, NodeId)>,
    count: u64,
    count_max: u64,
    name_bytes: u64,
    limits: TreeLimits,
    collected: Option<Nanos>,
    losses: TreeLosses,
    next_lost: u64,
}

impl ServerTree {
    /// An empty tree.
    pub fn new(limits: TreeLimits) -> ServerTree {
        let root = ServerNode {
            parent: ROOT,
            name: Rc::from(&b""[..]),
            handle: 0,
            kind: NodeKind::Dir,
            seen: Nanos::ZERO,
            on_target: true,
            on_target_children: 0,
            children: BTreeMap::new(),
        };
        ServerTree {
            nodes: vec![Some(root)],
            free: Vec::new(),
            handles: BTreeSet::new(),
            count: 0,
            count_max: 0,
            name_bytes: 0,
            limits,
            collected: None,
            losses: TreeLosses::default(),
            next_lost: 0,
        }
    }

    /// A node.
    ///
    /// # Panics
    /// If it is gone.
    pub fn node(&self, id: NodeId) -> &ServerNode {
        self.nodes[id.0 as usize].as_ref().expect("an id is used between two collections, and never after its removal")
    }

    fn node_mut(&mut self, id: NodeId) -> &mut ServerNode {
        self.nodes[id.0 as usize].as_mut().expect("an id is used between two collections, and never after its removal")
    }

    /// Nodes beside the root.
    pub fn len(&self) -> u64 {
        self.count
    }

    /// Whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Nodes at its largest.
    pub fn len_max(&self) -> u64 {
        self.count_max
    }

    /// The entry of a directory.
    pub fn child(&self, dir: NodeId, name: &[u8]) -> Option<NodeId> {
        self.node(dir).children.get(name).copied()
    }

    /// Whether the image knows entries of a node.
    pub fn has_children(&self, id: NodeId) -> bool {
        !self.node(id).children.is_empty()
    }

    /// All nodes with a handle.
    pub fn with_handle(&self, handle: Handle) -> impl Iterator<Item = NodeId> {
        let all = (handle, NodeId(0))..=(handle, NodeId(u32::MAX));
        self.handles.range(all).map(|(_, id)| *id)
    }

    /// The node that stands for a handle: one that the target has, otherwise one whose place is known.
    pub fn find(&self, handle: Handle) -> Option<NodeId> {
        self.with_handle(handle).max_by_key(|id| {
            let node = self.node(*id);
            (node.on_target, node.parent != ROOT, std::cmp::Reverse(*id))
        })
    }

    /// Whether a file has as many names as the image can learn.
    pub fn has_all_names(&self, handle: Handle) -> bool {
        self.with_handle(handle).nth(NAMES_MAX - 1).is_some()
    }

    /// Its path from the root, without a slash before it.
    pub fn path(&self, id: NodeId) -> Vec<u8> {
        let mut names: Vec<&[u8]> = self.upwards(id).map(|id| &*self.node(id).name).collect();
        names.reverse();
        names.join(&b'/')
    }

    /// The node and the directories above it, without the root.
    pub fn upwards(&self, id: NodeId) -> impl Iterator<Item = NodeId> {
        std::iter::successors(Some(id), |id| Some(self.node(*id).parent)).take_while(|id| *id != ROOT)
    }

    /// Whether a node is `above` or lies below it.
    pub fn is_within(&self, id: NodeId, above: NodeId) -> bool {
        above == ROOT || self.upwards(id).any(|id| id == above)
    }

    /// Whether a directory lies too deep for further entries.
    pub fn is_too_deep(&self, dir: NodeId) -> bool {
        self.upwards(dir).nth(DEPTH_MAX).is_some()
    }

    /// Notes an access to a node, and so to the directories above it.
    pub fn touch(&mut self, id: NodeId, now: Nanos) {
        let mut at = id;
        while at != ROOT {
            let node = self.node_mut(at);
            node.seen = node.seen.max(now);
            at = node.parent;
        }
    }

    /// Adds a node that the target does not have, where nothing is yet.
    pub fn add(&mut self, parent: NodeId, name: &[u8], kind: NodeKind, handle: Handle, now: Nanos) -> NodeId {
        let name: Rc<[u8]> = Rc::from(name);
        let node = ServerNode {
            parent,
            name: name.clone(),
            handle,
            kind,
            seen: now,
            on_target: false,
            on_target_children: 0,
            children: BTreeMap::new(),
        };
        let id = match self.free.pop() {
            Some(number) => NodeId(number),
            None => {
                self.nodes.push(None);
                NodeId(u32::try_from(self.nodes.len() - 1).expect("the limit of memory is below 2^32 nodes"))
            }
        };
        self.nodes[id.0 as usize] = Some(node);
        self.count += 1;
        self.count_max = self.count_max.max(self.count);
        self.name_bytes += name.len() as u64;
        let old = self.node_mut(parent).children.insert(name, id);
        assert!(old.is_none(), "the caller has made room for the name");
        if handle != 0 {
            self.handles.insert((handle, id));
        }
        self.touch(id, now);
        id
    }

    /// Gives a node another handle; 0 is none.
    pub fn set_handle(&mut self, id: NodeId, handle: Handle) {
        let old = std::mem::replace(&mut self.node_mut(id).handle, handle);
        self.handles.remove(&(old, id));
        if handle != 0 {
            self.handles.insert((handle, id));
        }
    }

    /// Makes a node without children another kind.
    pub fn set_kind(&mut self, id: NodeId, kind: NodeKind) {
        self.node_mut(id).kind = kind;
    }

    /// Notes whether the target has a node.
    pub fn set_on_target(&mut self, id: NodeId, on_target: bool) {
        let node = self.node_mut(id);
        if std::mem::replace(&mut node.on_target, on_target) != on_target {
            let parent = node.parent;
            self.count_on_target(parent, on_target);
        }
    }

    fn count_on_target(&mut self, dir: NodeId, is_more: bool) {
        let count = &mut self.node_mut(dir).on_target_children;
        *count = if is_more { *count + 1 } else { *count - 1 };
    }

    /// Moves a node, with all below it, to a free name.
    pub fn move_to(&mut self, id: NodeId, parent: NodeId, name: &[u8]) {
        let (old_parent, old_name) = (self.node(id).parent, self.node(id).name.clone());
        self.node_mut(old_parent).children.remove(&old_name);
        let name: Rc<[u8]> = Rc::from(name);
        self.name_bytes = self.name_bytes - old_name.len() as u64 + name.len() as u64;
        let node = self.node_mut(id);
        (node.parent, node.name) = (parent, name.clone());
        let (on_target, seen) = (node.on_target, node.seen);
        if on_target {
            self.count_on_target(old_parent, false);
            self.count_on_target(parent, true);
        }
        let old = self.node_mut(parent).children.insert(name, id);
        assert!(old.is_none(), "the caller has made room for the name");
        self.touch(id, seen);
    }

    /// Removes a node without children.
    pub fn remove(&mut self, id: NodeId) {
        self.set_on_target(id, false);
        let node = self.nodes[id.0 as usize].take().expect("a node is removed once");
        assert!(node.children.is_empty(), "what lies below is removed before");
        self.handles.remove(&(node.handle, id));
        self.node_mut(node.parent).children.remove(&node.name);
        self.free.push(id.0);
        self.count -= 1;
        self.name_bytes -= node.name.len() as u64;
    }

    /// A free name in the root for a node that gives up its place: its handle, if that is free.
    pub fn spare_name(&mut self, handle: Handle) -> Vec<u8> {
        let by_handle = handle_name(handle);
        if handle != 0 && self.child(ROOT, &by_handle).is_none() {
            return by_handle;
        }
        loop {
            self.next_lost += 1;
            let name = format!("lost-{:08x}", self.next_lost).into_bytes();
            if self.child(ROOT, &name).is_none() {
                return name;
            }
        }
    }
}

/// The name of a file whose place is unknown.
pub fn handle_name(handle: Handle) -> Vec<u8> {
    format!("{handle:016x}").into_bytes()
}

#[cfg(test)]
impl ServerTree {
    /// Checks what must hold of the image.
    pub(crate) fn check(&self) {
        let mut names = 0;
        for (number, node) in self.nodes.iter().enumerate() {
            let (id, Some(node)) = (NodeId(number as u32), node) else { continue };
            let here = node.children.values().filter(|child| self.node(**child).on_target).count();
            assert_eq!(here, node.on_target_children as usize, "children of {id:?} on the target");
            for (name, child) in &node.children {
                assert_eq!((&self.node(*child).name, self.node(*child).parent), (name, id));
                assert!(id == ROOT || self.node(*child).seen <= node.seen, "{id:?} is older than its child");
            }
            assert!(node.children.is_empty() || node.kind == NodeKind::Dir);
            assert!(node.on_target || node.on_target_children == 0, "{id:?} is missing above what the target has");
            assert_eq!(node.handle != 0, self.handles.contains(&(node.handle, id)));
            names += node.name.len() as u64;
        }
        assert_eq!(names, self.name_bytes);
        assert!(self.handles.iter().all(|(handle, id)| self.node(*id).handle == *handle));
        assert_eq!(self.count as usize, self.nodes.iter().flatten().count() - 1);
    }
}
