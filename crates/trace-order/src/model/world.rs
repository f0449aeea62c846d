//! The state of a traced system, and the few ways in which it changes.

use std::collections::BTreeMap;
use std::sync::Arc;

use esker_base::Errno;
use esker_base::Spans;
use esker_trace_calls::action::{ProcessId, ThreadId};
use esker_trace_calls::name::PathBytes;
use esker_trace_calls::snapshot::{EntryKind, Snapshot};
use esker_trace_calls::words::{FileKind, OpenFlags};

use crate::compiled::{Slot, SlotEffect};

use super::locks::Locks;
use super::memory::Space;
use super::resource::{Ledger, Resource, ResourceId, ResourceKind, Role};
use super::tree::{Inode, InodeId, NodeId, ROOT, TOP, Tree};

/// Files, processes and descriptors, and what the current action touches.
#[derive(Debug, Clone, Default)]
pub struct World {
    pub(super) tree: Tree,
    pub(super) ledger: Ledger,
    pub(super) tasks: Vec<Task>,
    pub(super) tables: Vec<Table>,
    pub(super) contexts: Vec<Context>,
    pub(super) spaces: Vec<Space>,
    pub(super) descriptions: Vec<Description>,
    pub(super) slots: Vec<Slot>,
    /// The resource of each slot.
    pub(super) slot_resources: Vec<ResourceId>,
    /// How often each descriptor's number of a process was given out.
    pub(super) generations: BTreeMap<(ProcessId, i32), u32>,
    /// Control blocks that were submitted and not returned yet, and the files that they are about.
    pub(super) requests: BTreeMap<u64, Request>,
    pub(super) request_generations: BTreeMap<u64, ResourceId>,
    /// The files of which locks are or were held.
    pub(super) locks: BTreeMap<InodeId, Locks>,
    /// The thread of the current action.
    pub(super) actor: Option<ThreadId>,
    /// What the current action does to slots.
    pub(super) effects: Vec<SlotEffect>,
    /// Whether the current action is only tried: nothing changes.
    pub(super) dry: bool,
    /// What the trace says that the current action returned.
    pub(super) seen: Option<i64>,
    /// Files that the current action shows to be larger than known.
    pub(super) grown: Vec<InodeId>,
    /// The name that the current action looked at last, and whether it was the last of its path.
    pub(super) looked: Option<(NodeId, bool)>,
    /// The file that the current action is about, if it is about one.
    pub(super) object: Option<InodeId>,
}

/// A thread.
#[derive(Debug, Clone)]
pub(super) struct Task {
    pub process: ProcessId,
    pub table: usize,
    pub context: usize,
    pub space: usize,
    pub alive: bool,
    /// Its resource, if a call of the trace made it, and whether it has acted yet.
    pub resource: Option<ResourceId>,
    pub acted: bool,
}

/// A table of descriptors.
#[derive(Debug, Clone)]
pub(super) struct Table {
    pub process: ProcessId,
    pub fds: BTreeMap<i32, Descriptor>,
}

/// Root, working directory and mask of permission bits.
#[derive(Debug, Clone, Copy)]
pub(super) struct Context {
    /// Where absolute paths begin, and above which no path leads.
    pub root: InodeId,
    pub cwd: InodeId,
    pub umask: u16,
}

/// What a number in a table stands for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Descriptor {
    pub slot: i32,
    pub resource: ResourceId,
    pub description: usize,
    pub cloexec: bool,
}

/// An open file description: what descriptors that were doubled share.
#[derive(Debug, Clone, Copy)]
pub(super) struct Description {
    pub inode: InodeId,
    pub flags: OpenFlags,
    pub offset: u64,
    pub users: u32,
}

/// An asynchronous request under way.
#[derive(Debug, Clone, Copy)]
pub(super) struct Request {
    pub resource: ResourceId,
    pub inode: InodeId,
}

/// A part of the tree that is on its way from one name to another.
pub(super) struct Lifted {
    inode: InodeId,
    /// Whether the trace knows its name: only then can others depend on the move.
    touched: bool,
    below: Vec<(Arc<[u8]>, Lifted)>,
}

impl Lifted {
    pub(super) fn new(inode: InodeId) -> Lifted {
        Lifted { inode, touched: true, below: Vec::new() }
    }
}

impl World {
    /// The tree of a snapshot, without processes.
    pub fn new(snapshot: &Snapshot) -> World {
        let mut world = World::default();
        let mut groups: BTreeMap<u64, InodeId> = BTreeMap::new();
        for (path, entry) in &snapshot.entries {
            let known = groups.get(&entry.group).copied().filter(|_| entry.group > 0);
            let id = match known {
                Some(id) => id,
                None => world.tree.add(inode_of(&entry.kind)),
            };
            groups.insert(entry.group, id);
            world.plant(path, id);
        }
        let shared = world.tree.add(Inode::new(FileKind::Directory));
        world.plant(super::open::SHARED_MEMORY, shared);
        world
    }

    /// Something is at `path`, and has been before the first action; so are the directories above it. What is there
    /// already stays. Returns whether it was planted.
    pub(super) fn plant(&mut self, path: &[u8], id: InodeId) -> bool {
        let names: Vec<&[u8]> = path.split(|byte| *byte == b'/').filter(|name| !name.is_empty()).collect();
        let Some((last, above)) = names.split_last() else { return false };
        let mut node = TOP;
        for name in above {
            node = self.tree.child(node, name);
            if self.tree.node(node).inode.is_none() {
                let dir = self.tree.add(Inode::new(FileKind::Directory));
                self.tree.attach(node, dir);
            }
            self.tree.node_mut(node).known = true;
        }
        let node = self.tree.child(node, last);
        self.tree.node_mut(node).known = true;
        let free = self.tree.node(node).inode.is_none();
        if free {
            self.tree.attach(node, id);
        }
        free
    }

    /// Adds a process with one thread, in a working directory. Threads are numbered in the order in which they are
    /// added.
    pub fn add_process(&mut self, process: ProcessId, cwd: InodeId, umask: u16) -> ThreadId {
        self.tables.push(Table { process, fds: BTreeMap::new() });
        self.contexts.push(Context { root: ROOT, cwd, umask });
        self.spaces.push(Space { process, maps: Spans::default() });
        let task = Task {
            process,
            table: self.tables.len() - 1,
            context: self.contexts.len() - 1,
            space: self.spaces.len() - 1,
            alive: true,
            resource: None,
            acted: false,
        };
        self.tasks.push(task);
        ThreadId((self.tasks.len() - 1) as u32)
    }

    /// What is at a path without dots and links.
    pub fn inode_at(&self, path: &[u8]) -> Option<InodeId> {
        let mut names = path.split(|byte| *byte == b'/').filter(|name| !name.is_empty());
        let node = names.try_fold(TOP, |node, name| self.tree.node(node).children.get(name).copied());
        self.tree.node(node?).inode
    }

    /// Type, size and names of an inode.
    pub fn status(&self, id: InodeId) -> (FileKind, u64, u32) {
        let inode = self.tree.inode(id);
        (inode.kind, inode.size, inode.links)
    }

    /// The file that the last call was about, if it was about one.
    pub fn subject(&self) -> Option<InodeId> {
        self.object
    }

    /// Every resource that was touched, and what the current action touches.
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// Touches the state of a path: its presence or its absence.
    pub(super) fn touch_node(&mut self, id: NodeId, role: Role) {
        let node = self.tree.node_mut(id);
        if let Some(resource) = node.resource {
            return self.ledger.touch(resource, role);
        }
        let present = node.inode.is_some();
        node.generation += u32::from(present);
        let resource = Resource {
            kind: if present { ResourceKind::Path } else { ResourceKind::Absence },
            key: u64::from(id),
            generation: node.generation,
            previous: node.newest.filter(|_| present),
        };
        let resource = self.ledger.add(resource);
        node.resource = Some(resource);
        if present {
            node.newest = Some(resource);
        }
        self.ledger.touch(resource, role);
    }

    /// Touches what a name or descriptor leads to.
    pub(super) fn touch_inode(&mut self, id: InodeId, role: Role) {
        let inode = self.tree.inode_mut(id);
        let kind = match inode.kind {
            FileKind::Regular | FileKind::BlockDevice | FileKind::Fifo | FileKind::Socket => ResourceKind::File,
            FileKind::Directory | FileKind::Symlink | FileKind::CharDevice | FileKind::Other => ResourceKind::Directory,
        };
        let ledger = &mut self.ledger;
        let resource = *inode
            .resource
            .get_or_insert_with(|| ledger.add(Resource { kind, key: u64::from(id), generation: 1, previous: None }));
        self.ledger.touch(resource, role);
    }

    /// Takes everything at a name away from it. Its name is absent afterwards, which no action is told yet.
    pub(super) fn lift(&mut self, node: NodeId) -> Option<Lifted> {
        self.tree.node(node).inode?;
        let children: Vec<(Arc<[u8]>, NodeId)> = match self.tree.node(node).present {
            0 => Vec::new(),
            _ => self.tree.node(node).children.iter().map(|(name, child)| (name.clone(), *child)).collect(),
        };
        let below = children.into_iter().filter_map(|(name, child)| Some((name, self.lift(child)?))).collect();
        let touched = self.tree.node(node).resource.is_some();
        if touched {
            self.touch_node(node, Role::Delete);
        }
        let inode = self.tree.detach(node)?;
        if self.tree.inode(inode).is_directory() && self.tree.inode(inode).resource.is_some() {
            // Others looked for names in it, which they might not find there any more.
            self.touch_inode(inode, Role::Delete);
        }
        let node = self.tree.node_mut(node);
        (node.resource, node.created) = (None, false);
        Some(Lifted { inode, touched, below })
    }

    /// Puts what was lifted under a name that leads to nothing.
    pub(super) fn put(&mut self, node: NodeId, lifted: Lifted) {
        if self.tree.node(node).resource.is_some() {
            self.touch_node(node, Role::Delete);
        }
        self.tree.node_mut(node).resource = None;
        self.tree.attach(node, lifted.inode);
        if lifted.touched {
            self.tree.node_mut(node).created = true;
            self.touch_node(node, Role::Create);
        }
        for (name, below) in lifted.below {
            let child = self.tree.child(node, &name);
            self.put(child, below);
        }
    }

    /// A name begins to lead to an inode.
    pub(super) fn appear(&mut self, node: NodeId, id: InodeId, role: Role) {
        self.put(node, Lifted::new(id));
        self.touch_inode(id, role);
    }

    /// A name leads to nothing any more. The last name of a file that is not open ends the file.
    pub(super) fn vanish(&mut self, node: NodeId) {
        self.touch_node(node, Role::Use);
        if let Some(lifted) = self.lift(node) {
            self.touch_node(node, Role::Create);
            self.release(lifted.inode);
        }
    }

    /// What was behind a name or descriptor that is gone: it is used, or ended.
    pub(super) fn release(&mut self, id: InodeId) {
        let inode = self.tree.inode(id);
        let ended = inode.links == 0 && inode.opens == 0;
        self.touch_inode(id, if ended { Role::Delete } else { Role::Use });
    }

    /// The task of a thread.
    pub(super) fn task(&self, thread: ThreadId) -> &Task {
        &self.tasks[thread.0 as usize]
    }

    /// The directory in which a thread works.
    pub(super) fn cwd(&self, thread: ThreadId) -> InodeId {
        self.contexts[self.task(thread).context].cwd
    }

    /// The full path of the directory in which a thread works.
    pub fn cwd_path(&self, thread: ThreadId) -> PathBytes {
        self.tree.path(self.tree.inode(self.cwd(thread)).node)
    }

    /// The mask of permission bits of a thread's new files.
    pub fn umask(&self, thread: ThreadId) -> u16 {
        self.contexts[self.task(thread).context].umask
    }

    /// What a number stands for in a thread's table, without touching it.
    pub(super) fn peek(&self, thread: ThreadId, number: i32) -> Option<Descriptor> {
        self.tables[self.task(thread).table].fds.get(&number).copied()
    }
}

/// An inode as a snapshot tells it.
pub(super) fn inode_of(kind: &EntryKind) -> Inode {
    match kind {
        EntryKind::File { size } => Inode { size: *size, ..Inode::new(FileKind::Regular) },
        EntryKind::Directory => Inode::new(FileKind::Directory),
        EntryKind::Symlink { target } => {
            Inode { target: target.clone(), size: target.len() as u64, ..Inode::new(FileKind::Symlink) }
        }
        EntryKind::Fifo => Inode::new(FileKind::Fifo),
        EntryKind::Socket => Inode::new(FileKind::Socket),
        EntryKind::Device { block: true, .. } => Inode::new(FileKind::BlockDevice),
        EntryKind::Device { block: false, .. } => Inode::new(FileKind::CharDevice),
    }
}

/// What a call answers: its result, or why it fails.
pub type Answer<T> = Result<T, Errno>;

/// The root directory's inode.
pub const ROOT_INODE: InodeId = ROOT;
