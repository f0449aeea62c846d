//! Getting ready: limits, and what was open before the first action.

use std::collections::BTreeMap;
use std::os::fd::{BorrowedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use esker_trace_calls::Snapshot;
use esker_trace_calls::words::FileKind;
use esker_trace_order::compiled::{Opened, Program};
use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::slots::Handle;
use super::{CallExecutor, Kernel, KernelOptions, Pipes, Slots, aio, maps};
use crate::root::Root;
use crate::special::Specials;
use crate::tally::Tally;

/// Descriptors beside those of slots: what calls by path open for their time, what threads keep, and the process's own.
const SPARE: usize = 1024;
const LOST: &str = "descriptors that were open before the trace could not be opened: their calls were not made";

impl Kernel {
    /// A target on the tree `root`, which [`crate::init`] made.
    ///
    /// # Errors
    /// The kernel's.
    pub fn new(
        root: Arc<Root>,
        program: &Program,
        pipes: Pipes,
        options: KernelOptions,
        tally: Arc<Tally>,
    ) -> Result<Kernel, Errno> {
        raise_limit();
        make_room(root.dir(), program.slots().len());
        let kernel = Kernel::bare(root, program.snapshot(), program.slots().len(), options)?;
        let kernel = Kernel { pipes, tally, ..kernel };
        kernel.open_all(program.opened())?;
        Ok(kernel)
    }

    /// Without anything open.
    pub(super) fn bare(
        root: Arc<Root>,
        snapshot: &Snapshot,
        slots: usize,
        options: KernelOptions,
    ) -> Result<Kernel, Errno> {
        Ok(Kernel {
            shm: root.shm()?,
            specials: Specials::of(snapshot),
            slots: Slots::new(slots),
            maps: maps::Maps::default(),
            aio: aio::Pool::new(options.seed),
            pipes: Pipes { named: true, early: 0 },
            root,
            options,
            temporary: AtomicU64::new(0),
            tally: Arc::default(),
        })
    }

    fn open_all(&self, opened: &[Opened]) -> Result<(), Errno> {
        let hand = CallExecutor::new(self, u32::MAX);
        let mut groups: BTreeMap<u32, Arc<Handle>> = BTreeMap::new();
        for one in opened {
            let shared = groups.get(&one.group).filter(|_| one.group > 0).cloned();
            let handle = match shared {
                Some(handle) => handle,
                None => self.open_one(&hand, one)?,
            };
            groups.insert(one.group, handle.clone());
            self.slots.put(one.slot, handle);
        }
        Ok(())
    }

    /// Files by their path; all else is outside.
    fn open_one(&self, hand: &CallExecutor<'_>, one: &Opened) -> Result<Arc<Handle>, Errno> {
        let Some(path) = &one.path else { return hand.outside() };
        let device = self.specials.find(path).is_some();
        if !device && !matches!(one.kind, FileKind::Regular | FileKind::Directory) {
            return hand.outside();
        }
        match hand.open_before(path, one.flags, one.offset) {
            Ok(handle) => Ok(handle),
            Err(_) => {
                self.tally.add(LOST);
                hand.outside()
            }
        }
    }

    /// Closes everything, so that calls that wait for the other end of something come back.
    pub fn let_go(&self) {
        self.slots.close_all();
        self.maps.forget_all();
        self.aio.close();
    }
}

/// Other orders may hold more descriptors open at once than the trace did.
fn raise_limit() {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    // A refusal leaves the limit as it is; then opens fail and are told.
    let _refused = setrlimit(Resource::Nofile, raised);
}

/// Makes room for a descriptor in each slot. All threads of a replay share one table of descriptors, and the kernel
/// lets a shared one grow only when no CPU looks at the old one any more. A thread that opened a file then would wait
/// for milliseconds. Its program, alone when its table grew, did not wait.
fn make_room(any: BorrowedFd<'_>, slots: usize) {
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let last = (slots + SPARE).min(usize::try_from(limit).unwrap_or(usize::MAX)).saturating_sub(1);
    // Where there is no room for so many, the table grows as it is needed.
    let _refused = RawFd::try_from(last).map(|last| rustix::io::fcntl_dupfd_cloexec(any, last));
}
