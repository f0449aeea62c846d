//! Every family of calls on a real directory, and every kind of emulation.

#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "looks at the real tree")]

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use esker_trace_calls::words::*;
use esker_trace_calls::{AsyncOp, AsyncQueue, Errno as Traced, Outcome, PathBytes, Snapshot, Word};
use esker_trace_order::compiled::Notes;

use super::*;

mod aliases;
mod calls;
mod copies;
mod emulation;

/// A run directory and a kernel on it, with room for descriptors.
struct Scene {
    _dir: tempfile::TempDir,
    tree: PathBuf,
    kernel: Kernel,
}

const OPTIONS: KernelOptions = KernelOptions {
    fsync: FsyncMeans::Durable,
    exchange: ExchangeBy::Link,
    platform: Platform::Linux,
    keep_modes: false,
    seed: 1,
};

fn scene(options: KernelOptions) -> Scene {
    let dir = crate::testing::private_dir();
    let tree = dir.path().join(crate::init::TREE);
    fs::create_dir_all(tree.join("d")).unwrap();
    fs::create_dir(dir.path().join(crate::init::SHM)).unwrap();
    fs::write(tree.join("f"), vec![b'f'; 10_000]).unwrap();
    std::os::unix::fs::symlink("/f", tree.join("l")).unwrap();
    let root = Root::of(crate::rundir::RunDir::open(dir.path()).unwrap()).unwrap();
    let kernel = Kernel::bare(Arc::new(root), &Snapshot::default(), 16, options).unwrap();
    Scene { _dir: dir, tree, kernel }
}

impl Scene {
    fn path(&self, name: &str) -> PathBuf {
        self.tree.join(name)
    }

    /// Makes a call that gave `outcome` and made a descriptor in `slot`.
    fn call_as(&self, call: Call, outcome: Outcome, slots: Vec<SlotEffect>) -> Answer {
        let step = Step { call, outcome, notes: Notes::empty(), slots };
        made(&self.kernel, &step)
    }

    /// Makes calls of one thread that succeeded.
    fn one_hand(&self, calls: &[Call]) -> Vec<Result<i64, Traced>> {
        let mut hand = CallExecutor::new(&self.kernel, 0);
        let make = |call: &Call| {
            let (outcome, notes, slots) = (Outcome::Done(0), Notes::empty(), Vec::new());
            let step = Step { call: call.clone(), outcome, notes, slots };
            let turn = Turn { process: 0, step: &step };
            hand.prepare(&turn);
            hand.perform(&turn).result
        };
        calls.iter().map(make).collect()
    }

    /// Makes a call that succeeded.
    fn call(&self, call: Call) -> Result<i64, Traced> {
        self.call_as(call, Outcome::Done(0), Vec::new()).result
    }

    fn open(&self, path: &str, flags: OpenFlags, slot: i32) -> Result<i64, Traced> {
        let call = Call::Open { at: At::cwd(path), flags, mode: 0o644, resolve: ResolveFlags::empty() };
        self.call_as(call, Outcome::Done(3), vec![SlotEffect::Made(Fd(slot))]).result
    }
}

fn at(path: &str) -> Object {
    Object::Path { at: At::cwd(path), follow: true }
}

fn read_all(path: &Path) -> Vec<u8> {
    fs::read(path).unwrap()
}

const RW: OpenFlags = OpenFlags::READ.union(OpenFlags::WRITE);

/// Gets ready for a call and makes it.
fn made(kernel: &Kernel, step: &Step) -> Answer {
    let (mut hand, turn) = (CallExecutor::new(kernel, 0), Turn { process: 0, step });
    hand.prepare(&turn);
    hand.perform(&turn)
}
