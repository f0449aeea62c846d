//! Packets, transactions, the image and the player, on a file system in memory.

mod generated;
mod handles;
mod hot_cold;
mod packets;
mod played;
mod waits;

use std::cell::Cell;
use std::future::{Ready, ready};
use std::rc::Rc;

use esker_base::Nanos;
use esker_fs_posix::script::at_once;
use esker_fs_posix::{Follow, OpenFlags, Process, Settings, World};
use esker_rt::mem::Pool;
use esker_vfs::{Call, Cred, FileType, Ram, RamConfig, Stamp, tree_digest};

use crate::player::NfsPayload;
use crate::process_target::ProcessTarget;
use crate::replay::{NfsReplayOptions, NfsRun};
use crate::report::NfsReport;

/// Bytes of a file system that holds what most tests write.
const ROOM: u64 = 256 << 20;
/// First second of the traces.
const BEGIN: u64 = 999_316_800;

/// A target whose waits are only counted.
type Target = ProcessTarget<Box<dyn FnMut(Nanos) -> Ready<()>>>;

/// A file system in memory with a replay on it.
struct Scene {
    process: Process,
    files: Ram,
    run: NfsRun<Target>,
    waited: Rc<Cell<u64>>,
    seconds: u64,
    xid: u64,
}

fn options() -> NfsReplayOptions {
    NfsReplayOptions { memory: 64 << 20, sync_every: None, payload: NfsPayload::Random(1), begin: None, end: None }
}

/// A process at the root of an empty file system.
fn ram(bytes: u64) -> (Ram, Process) {
    let files = Ram::new(RamConfig::sized(bytes), Pool::new(0));
    let world = World::new(Rc::new(files.clone()), Settings::usual(), || Stamp(0));
    (files, world.process(Cred::root()))
}

impl Scene {
    fn new() -> Scene {
        Scene::with(ROOM, options())
    }

    fn with(bytes: u64, options: NfsReplayOptions) -> Scene {
        let (files, process) = ram(bytes);
        let waited = Rc::new(Cell::new(0));
        let count = waited.clone();
        let wait: Box<dyn FnMut(Nanos) -> Ready<()>> = Box::new(move |span| {
            count.set(count.get() + span.0 / 1_000_000_000);
            ready(())
        });
        let run = NfsRun::new(ProcessTarget::new(process.clone(), wait), options);
        Scene { process, files, run, waited, seconds: BEGIN, xid: 1 }
    }

    fn line(&mut self, line: &str) -> bool {
        let goes_on = at_once(self.run.line(line.as_bytes(), false));
        self.run.player().tree().check();
        goes_on
    }

    fn call(&mut self, operation: &str, call: &str) {
        let (seconds, xid) = (self.seconds, self.xid);
        self.line(&format!("{seconds}.000001 31.03f2 30.0801 U C3 {xid:x} 0 {operation} {call}"));
    }

    fn reply(&mut self, operation: &str, reply: &str) {
        let (seconds, xid) = (self.seconds, self.xid);
        self.line(&format!("{seconds}.000002 30.0801 31.03f2 U R3 {xid:x} 0 {operation} {reply}"));
        self.xid += 1;
    }

    /// A call and its reply.
    fn pair(&mut self, operation: &str, call: &str, reply: &str) {
        self.call(operation, call);
        self.reply(operation, reply);
    }

    fn write(&mut self, handle: u64, count: u64) {
        self.pair("write", &format!("fh {handle:x} off 0 count {count:x}"), "OK");
    }

    fn create(&mut self, dir: u64, name: &str, handle: u64) {
        self.pair("create", &format!("fh {dir:x} name \"{name}\""), &format!("OK fh {handle:x} ftype 1"));
    }

    fn lookup(&mut self, dir: u64, name: &str, handle: u64, kind: u64) {
        self.pair("lookup", &format!("fh {dir:x} name \"{name}\""), &format!("OK fh {handle:x} ftype {kind}"));
    }

    fn remove(&mut self, dir: u64, name: &str) {
        self.pair("remove", &format!("fh {dir:x} name \"{name}\""), "OK");
    }

    fn report(&self) -> NfsReport {
        self.run.report()
    }

    fn size(&self, path: &str) -> Option<u64> {
        at_once(self.process.stat(path, Follow::Nothing)).ok().map(|status| status.attr.size)
    }

    fn digest(&self) -> u64 {
        at_once(tree_digest(&self.files, Call::at(Stamp(0)))).expect("a tree in memory can be read")
    }

    /// All paths of the target, with sizes of files and a slash behind directories.
    fn tree(&self) -> Vec<String> {
        let mut found = Vec::new();
        let mut open = vec![String::new()];
        while let Some(dir) = open.pop() {
            let path = if dir.is_empty() { "." } else { &dir };
            let fd = at_once(self.process.open(path, OpenFlags::DIRECTORY, 0)).expect("it was listed");
            loop {
                let entries = at_once(self.process.list(fd, 1 << 16)).expect("it is a directory");
                if entries.is_empty() {
                    break;
                }
                for entry in entries.iter().filter(|entry| !matches!(&*entry.name, b"." | b"..")) {
                    let path = format!("{dir}{}", String::from_utf8_lossy(&entry.name));
                    match entry.kind == FileType::Directory {
                        true => {
                            found.push(format!("{path}/"));
                            open.push(format!("{path}/"));
                        }
                        false => found.push(format!("{path} {}", self.size(&path).expect("it was listed"))),
                    }
                }
            }
            at_once(self.process.close(fd)).expect("it is open");
        }
        found.sort();
        found
    }
}

/// Name of a file whose place is unknown.
fn orphan(handle: u64) -> String {
    format!("{handle:016x}")
}
