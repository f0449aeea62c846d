//! Directories of this machine that a verb changes through the trait of replays.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;

use esker_base::Nanos;
use esker_trace_nfs::DirectoryTarget;
use rustix::fs::{Mode, OFlags};

use crate::failure::Failure;

#[derive(Debug, thiserror::Error)]
#[error("{path}: cannot be opened as a directory: {source}; name one that is there")]
struct Unopened {
    path: String,
    source: std::io::Error,
}

/// The tree below a directory. Its waits are real.
///
/// # Errors
/// It is none, or is closed to this user.
pub fn open(dir: &Path) -> Result<DirectoryTarget<fn(Nanos)>, Failure> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let opened: rustix::io::Result<OwnedFd> = rustix::fs::open(dir, flags, Mode::empty());
    let root = opened.map_err(|error| Unopened { path: dir.display().to_string(), source: error.into() })?;
    Ok(DirectoryTarget::new(root, wait))
}

fn wait(span: Nanos) {
    std::thread::sleep(Duration::from_nanos(span.0));
}
