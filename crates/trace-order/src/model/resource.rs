//! What actions touch: resources with their generations, and the touches of one action.

use std::fmt;

/// Number of a resource: one generation of one name, or one file.
pub type ResourceId = u32;

/// What kind of thing a resource is. The rules differ by kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ResourceKind {
    /// What is behind names and descriptors and has an order of its own: regular files, block devices, pipes.
    File,
    /// A directory, or anything else whose users are independent of each other.
    Directory,
    /// A name from its creation to its removal.
    Path,
    /// A name while nothing has it.
    Absence,
    /// A descriptor from its making to its closing.
    Descriptor,
    /// A control block of asynchronous I/O from submission to return.
    Aio,
    /// What threads synchronise on, where a trace tells: a thread and the requests that it submits to rings.
    Sync,
    /// A thread from its start to its end.
    Thread,
    /// A part of a file in a process' memory, from its mapping to the end of the last of it.
    Map,
    /// What woke a thread that waited for it: a call of another thread, or its end.
    Wake,
}

impl ResourceKind {
    /// Every kind.
    pub const ALL: [ResourceKind; 10] = [
        ResourceKind::File,
        ResourceKind::Directory,
        ResourceKind::Path,
        ResourceKind::Absence,
        ResourceKind::Descriptor,
        ResourceKind::Aio,
        ResourceKind::Sync,
        ResourceKind::Thread,
        ResourceKind::Map,
        ResourceKind::Wake,
    ];

    /// Its number in files.
    pub fn code(self) -> u8 {
        self as u8
    }

    /// The kind of a number in files.
    pub fn from_code(code: u8) -> Option<ResourceKind> {
        ResourceKind::ALL.get(usize::from(code)).copied()
    }
}

impl fmt::Display for ResourceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ResourceKind::File => "file",
            ResourceKind::Directory => "dir",
            ResourceKind::Path => "path",
            ResourceKind::Absence => "absence",
            ResourceKind::Descriptor => "fd",
            ResourceKind::Aio => "aio",
            ResourceKind::Sync => "sync",
            ResourceKind::Thread => "thread",
            ResourceKind::Map => "map",
            ResourceKind::Wake => "wake",
        })
    }
}

/// What an action does to a resource that it touches, weakest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// Passes through it: must come after its creation, but is not in its series.
    Traverse = 0,
    /// Uses it.
    Use = 1,
    /// Ends it.
    Delete = 2,
    /// Begins it.
    Create = 3,
}

impl Role {
    /// The role of a number in files.
    pub fn from_code(code: u8) -> Option<Role> {
        [Role::Traverse, Role::Use, Role::Delete, Role::Create].get(usize::from(code)).copied()
    }
}

/// An action's part in a resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Touch {
    /// Which resource.
    pub resource: ResourceId,
    /// What the action does to it.
    pub role: Role,
}

/// One resource. Its name is told by what made it: a node of the tree of names, a descriptor's number, a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Resource {
    /// Which kind.
    pub kind: ResourceKind,
    /// What its name is made of: a node, an inode, a descriptor's number or a key.
    pub key: u64,
    /// Counts the resources that had the same name, from 1.
    pub generation: u32,
    /// The generation before, if it was touched.
    pub previous: Option<ResourceId>,
}

/// All resources so far, and the touches of the action that is being modelled.
#[derive(Debug, Clone, Default)]
pub struct Ledger {
    resources: Vec<Resource>,
    touches: Vec<Touch>,
}

impl Ledger {
    /// A new resource.
    ///
    /// # Panics
    /// With 2^32 of them.
    pub fn add(&mut self, resource: Resource) -> ResourceId {
        let id = ResourceId::try_from(self.resources.len()).expect("fewer resources than 2^32");
        self.resources.push(resource);
        id
    }

    /// Every resource, by number.
    pub fn resources(&self) -> &[Resource] {
        &self.resources
    }

    /// The current action touches a resource. Of several roles the strongest counts.
    pub fn touch(&mut self, resource: ResourceId, role: Role) {
        match self.touches.iter_mut().find(|touch| touch.resource == resource) {
            Some(touch) => touch.role = touch.role.max(role),
            None => self.touches.push(Touch { resource, role }),
        }
    }

    /// The touches of the current action, in the order in which they came.
    pub fn touches(&self) -> &[Touch] {
        &self.touches
    }

    /// Forgets the touches: the next action begins, or the same one again.
    pub fn begin(&mut self) {
        self.touches.clear();
    }
}
