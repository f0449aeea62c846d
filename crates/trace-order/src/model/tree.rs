//! The two halves of a file system: inodes, and the tree of names that lead to them.
//!
//! A node is a *full path*, whether anything has that path at present or not: it remembers its generations. A
//! directory's inode knows the one node that leads to it, so that walking is one search per component, and renaming a
//! directory moves the presence of all nodes below it to other nodes.

use std::collections::BTreeMap;
use std::sync::Arc;

use esker_trace_calls::name::PathBytes;
use esker_trace_calls::words::FileKind;

use super::resource::ResourceId;

/// Number of an inode.
pub type InodeId = u32;
/// Number of a node.
pub type NodeId = u32;

/// The root's inode.
pub const ROOT: InodeId = 0;
/// The root's node.
pub const TOP: NodeId = 0;

/// What a name leads to.
#[derive(Debug, Clone)]
pub struct Inode {
    /// What it is.
    pub kind: FileKind,
    /// Bytes of a regular file.
    pub size: u64,
    /// Names that lead to it (a directory: 1, or 0 once it is removed).
    pub links: u32,
    /// Open file descriptions of it.
    pub opens: u32,
    /// Those of them that may read.
    pub readers: u32,
    /// Whether a name may be given to it though it has none (`O_TMPFILE`).
    pub linkable: bool,
    /// Target of a symbolic link.
    pub target: PathBytes,
    /// Directory: the directory that holds it.
    pub parent: InodeId,
    /// The node under which it was last given a name; a directory has no other.
    pub node: NodeId,
    /// Its resource, once it was touched.
    pub resource: Option<ResourceId>,
    /// Its entry among those that the trace implied, and whose size it may still teach.
    pub implied: Option<u32>,
}

impl Inode {
    /// A new inode without names.
    pub fn new(kind: FileKind) -> Inode {
        Inode {
            kind,
            size: 0,
            links: 0,
            opens: 0,
            readers: 0,
            linkable: false,
            target: PathBytes::default(),
            parent: ROOT,
            node: TOP,
            resource: None,
            implied: None,
        }
    }

    /// Whether it is a directory.
    pub fn is_directory(&self) -> bool {
        self.kind == FileKind::Directory
    }

    /// Whether it is a directory that was removed.
    pub fn is_dead(&self) -> bool {
        self.is_directory() && self.links == 0
    }
}

/// A full path.
#[derive(Debug, Clone)]
pub struct Node {
    /// The path without its last component.
    pub parent: NodeId,
    /// The last component.
    pub name: Arc<[u8]>,
    /// Longer paths, by their next component.
    pub children: BTreeMap<Arc<[u8]>, NodeId>,
    /// How many of them lead to something.
    pub present: u32,
    /// What it leads to.
    pub inode: Option<InodeId>,
    /// How many generations were touched.
    pub generation: u32,
    /// The resource of the present state, presence or absence, once it was touched.
    pub resource: Option<ResourceId>,
    /// The newest generation that was touched.
    pub newest: Option<ResourceId>,
    /// Whether an action of the trace made it present.
    pub created: bool,
    /// Whether any action, or the snapshot, told whether it was there at first.
    pub known: bool,
}

impl Node {
    fn new(parent: NodeId, name: Arc<[u8]>) -> Node {
        Node {
            parent,
            name,
            children: BTreeMap::new(),
            present: 0,
            inode: None,
            generation: 0,
            resource: None,
            newest: None,
            created: false,
            known: false,
        }
    }
}

/// All inodes and nodes.
#[derive(Debug, Clone)]
pub struct Tree {
    inodes: Vec<Inode>,
    nodes: Vec<Node>,
}

impl Tree {
    /// A root without entries.
    pub fn new() -> Tree {
        let mut root = Inode::new(FileKind::Directory);
        root.links = 1;
        let mut top = Node::new(TOP, Arc::from(&b""[..]));
        (top.inode, top.known) = (Some(ROOT), true);
        Tree { inodes: vec![root], nodes: vec![top] }
    }

    /// An inode.
    pub fn inode(&self, id: InodeId) -> &Inode {
        &self.inodes[id as usize]
    }

    /// An inode, to be changed.
    pub fn inode_mut(&mut self, id: InodeId) -> &mut Inode {
        &mut self.inodes[id as usize]
    }

    /// A node.
    pub fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id as usize]
    }

    /// A node, to be changed.
    pub fn node_mut(&mut self, id: NodeId) -> &mut Node {
        &mut self.nodes[id as usize]
    }

    /// Adds an inode.
    ///
    /// # Panics
    /// With 2^32 of them.
    pub fn add(&mut self, inode: Inode) -> InodeId {
        let id = InodeId::try_from(self.inodes.len()).expect("fewer inodes than 2^32");
        self.inodes.push(inode);
        id
    }

    /// The path that is `name` longer; it is made at the first request.
    ///
    /// # Panics
    /// With 2^32 nodes.
    pub fn child(&mut self, parent: NodeId, name: &[u8]) -> NodeId {
        if let Some(child) = self.node(parent).children.get(name) {
            return *child;
        }
        let id = NodeId::try_from(self.nodes.len()).expect("fewer names than 2^32");
        let name: Arc<[u8]> = Arc::from(name);
        self.nodes.push(Node::new(parent, name.clone()));
        self.node_mut(parent).children.insert(name, id);
        id
    }

    /// A name begins to lead to an inode.
    pub fn attach(&mut self, node: NodeId, id: InodeId) {
        let parent = self.node(node).parent;
        let holder = self.node(parent).inode.unwrap_or(ROOT);
        self.node_mut(node).inode = Some(id);
        self.node_mut(parent).present += 1;
        let inode = self.inode_mut(id);
        inode.node = node;
        inode.links += 1;
        if inode.is_directory() {
            inode.parent = holder;
        }
    }

    /// A name ceases to lead to anything. Returns to what it led.
    pub fn detach(&mut self, node: NodeId) -> Option<InodeId> {
        let id = self.node_mut(node).inode.take()?;
        let parent = self.node(node).parent;
        self.node_mut(parent).present -= 1;
        self.inode_mut(id).links -= 1;
        Some(id)
    }

    /// The first component of a path; nothing of the root's.
    pub fn first_name(&self, mut node: NodeId) -> &[u8] {
        let mut name: &[u8] = b"";
        while node != TOP {
            (name, node) = (&self.node(node).name, self.node(node).parent);
        }
        name
    }

    /// The full path of a node.
    pub fn path(&self, node: NodeId) -> PathBytes {
        let mut names = Vec::new();
        let mut at = node;
        while at != TOP {
            names.push(&self.node(at).name);
            at = self.node(at).parent;
        }
        let mut path = Vec::new();
        for name in names.into_iter().rev() {
            path.push(b'/');
            path.extend_from_slice(name);
        }
        if path.is_empty() {
            path.push(b'/');
        }
        PathBytes::from(path)
    }

    /// Whether directory `low` is `high` or lies below it.
    pub fn is_below(&self, low: InodeId, high: InodeId) -> bool {
        let mut at = low;
        while at != high && at != ROOT {
            at = self.inode(at).parent;
        }
        at == high
    }
}

impl Default for Tree {
    fn default() -> Tree {
        Tree::new()
    }
}
