//! What all processes on one file system share: the file system, the clock, and locks.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use esker_block::{Class, Tag};
use esker_rt::mem::Pool;
use esker_vfs::{Call, Cred, FileSystem, Hint, Ino, Stamp};

use crate::file::File;
use crate::locks::Locks;
use crate::process::Process;

/// Limits and settings of a world, as a kernel has them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Settings {
    /// Most descriptors of a process: then `EMFILE`.
    pub descriptors_max: u32,
    /// Whether only its owner, or a caller that may read and write it, gives a file a further name
    /// (`fs.protected_hardlinks`).
    pub hard_links_protected: bool,
    /// Memory that buffers of reads and writes keep for the next ones, in bytes.
    pub pool_bytes_max: usize,
}

impl Settings {
    /// What Linux distributions choose.
    pub fn usual() -> Settings {
        Settings { descriptors_max: 1 << 20, hard_links_protected: true, pool_bytes_max: 4 << 20 }
    }

    /// So few of everything that tests reach the limits.
    pub fn tiny() -> Settings {
        Settings { descriptors_max: 8, hard_links_protected: true, pool_bytes_max: 1 << 16 }
    }
}

/// A file system with its clock and locks. A value is a handle.
#[derive(Clone)]
pub struct World(pub(crate) Rc<Shared>);

/// The inner state of a [`World`].
pub(crate) struct Shared {
    pub(crate) files: Rc<dyn FileSystem>,
    pub(crate) settings: Settings,
    pub(crate) pool: Pool,
    pub(crate) locks: Locks,
    /// Closed files, whose memory the next ones take.
    pub(crate) spares: RefCell<Vec<Rc<File>>>,
    clock: Box<dyn Fn() -> Stamp>,
    next_pid: Cell<u32>,
    next_file: Cell<u64>,
}

impl World {
    /// A world on a file system. `clock` tells the time with which each call is stamped.
    pub fn new(files: Rc<dyn FileSystem>, settings: Settings, clock: impl Fn() -> Stamp + 'static) -> World {
        World(Rc::new(Shared {
            files,
            settings,
            pool: Pool::new(settings.pool_bytes_max),
            locks: Locks::default(),
            spares: RefCell::default(),
            clock: Box::new(clock),
            next_pid: Cell::new(1),
            next_file: Cell::new(1),
        }))
    }

    /// A new process in the root directory, with an umask of 022 and no descriptors.
    pub fn process(&self, cred: Cred) -> Process {
        Process::first(self.clone(), cred)
    }

    /// The file system.
    pub fn files(&self) -> &Rc<dyn FileSystem> {
        &self.0.files
    }

    pub(crate) fn call(&self, pid: u32) -> Call {
        let tag = Tag { pid, ..Tag::of(Class::Foreground) };
        Call { now: (self.0.clock)(), tag, hint: Hint::default() }
    }

    pub(crate) fn next_pid(&self) -> u32 {
        let pid = self.0.next_pid.get();
        self.0.next_pid.set(pid.checked_add(1).expect("fewer than 2^32 processes of one world"));
        pid
    }

    pub(crate) fn next_file(&self) -> u64 {
        self.0.next_file.replace(self.0.next_file.get() + 1)
    }

    /// Takes over a pin that the file system gave out.
    pub(crate) fn pinned(&self, ino: Ino) -> Pin {
        Pin { world: Some(self.clone()), ino, pins: 1 }
    }

    /// The root, which stays pinned by itself.
    pub(crate) fn root(&self) -> Pin {
        Pin { world: Some(self.clone()), ino: self.0.files.root(), pins: 0 }
    }
}

/// A pin of an inode, given back when dropped.
pub(crate) struct Pin {
    /// `None` of one that was given back.
    world: Option<World>,
    ino: Ino,
    pins: u64,
}

impl Pin {
    pub(crate) fn ino(&self) -> Ino {
        self.ino
    }

    /// Gives it back.
    pub(crate) fn end(&mut self) {
        if let Some(world) = self.world.take()
            && self.pins > 0
        {
            world.0.files.forget(self.ino, self.pins);
        }
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        self.end();
    }
}
