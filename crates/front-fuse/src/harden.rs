//! A process that holds devices of its own machine must go on when memory is short: the kernel may free memory only by
//! writing to these very devices.

#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "what the kernel may do with this process")]

use std::fs;

use esker_rt::mem::Pool;
use rustix::mm::MlockAllFlags;

/// Bytes of one request in the memory that is made ready, and how many of each.
const READY: [(usize, usize); 3] = [(4 << 10, 256), (64 << 10, 64), (1 << 20, 8)];

/// Never chosen when memory runs out.
const OOM_NEVER: &str = "-1000";

/// Keeps this process's memory from being paged out, keeps it from being killed for memory, tells the kernel that it
/// must not wait for I/O on its behalf, and makes memory for requests ready. Returns what could not be done: each is a
/// risk only when memory is short.
pub fn harden(pool: &Pool) -> Vec<String> {
    make_ready(pool);
    let mut missing = Vec::new();
    let mut note = |what: &str, result: std::io::Result<()>| {
        missing.extend(result.err().map(|error| format!("{what}: {error}")));
    };
    // What exists is loaded now; what is mapped later is locked when it is first used, so that the stacks of threads do
    // not count whole.
    let locked = rustix::mm::mlockall(MlockAllFlags::CURRENT)
        .and_then(|()| rustix::mm::mlockall(MlockAllFlags::CURRENT | MlockAllFlags::FUTURE | MlockAllFlags::ONFAULT));
    note("memory cannot be locked", locked.map_err(Into::into));
    note("cannot be spared when memory runs out", fs::write("/proc/self/oom_score_adj", OOM_NEVER));
    let flusher = rustix::process::configure_io_flusher_behavior(true);
    note("the kernel may wait for this process's own devices when it needs memory", flusher.map_err(Into::into));
    missing
}

/// Slabs as requests take them: touched, and kept by the pool.
fn make_ready(pool: &Pool) {
    for (bytes, count) in READY {
        let slabs: Vec<_> = (0..count).map(|_| pool.slab(bytes)).collect();
        for mut slab in slabs {
            slab.fill(0);
        }
    }
}

/// Becomes independent of the terminal and session that it was started in.
///
/// # Errors
/// The kernel's, for a process that already leads a group.
pub fn leave_session() -> std::io::Result<()> {
    rustix::process::setsid()?;
    Ok(())
}
