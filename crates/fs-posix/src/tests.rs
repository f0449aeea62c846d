//! Processes on a file system in memory.

mod descriptors;
mod late;
mod places;

use std::cell::Cell;
use std::rc::Rc;

use esker_base::Errno;
use esker_rt::mem::Pool;
use esker_vfs::{Cred, FileSystem, Ram, RamConfig, Stamp};

use crate::script::at_once;
use crate::{Fd, OpenFlags, Process, Settings, World};

/// Bytes of the file systems.
const ROOM: u64 = 4 << 20;

fn ram() -> Ram {
    Ram::new(RamConfig::sized(ROOM), Pool::new(0))
}

fn world(files: impl FileSystem + 'static) -> World {
    let now = Cell::new(1_800_000_000_000_000_000);
    let clock = move || {
        now.set(now.get() + 1_000_000);
        Stamp(now.get())
    };
    World::new(Rc::new(files), Settings::tiny(), clock)
}

fn process() -> Process {
    world(ram()).process(Cred::root())
}

/// Opens a path in a process whose calls do not wait.
fn open(process: &Process, path: &str, flags: OpenFlags) -> Result<Fd, Errno> {
    at_once(process.open(path, flags, 0o644))
}

fn made(process: &Process, path: &str) -> Fd {
    open(process, path, OpenFlags::RDWR | OpenFlags::CREAT).expect("there is room")
}
