//! Directories of this machine that a verb changes through the trait of replays, and lines that tell how far it is.

use std::fmt::Display;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::{Duration, Instant};

use esker_base::Nanos;
use esker_trace_nfs::DirectoryTarget;
use rustix::fs::{Mode, OFlags};

use crate::failure::Failure;
use crate::terminal::Terminal;

/// Time between two lines.
const INTERVAL: Duration = Duration::from_secs(10);

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

/// A line on standard error every ten seconds.
pub struct Pulse {
    begun: Instant,
    last: Instant,
}

impl Pulse {
    /// The first line comes after ten seconds.
    pub fn new() -> Pulse {
        let now = Instant::now();
        Pulse { begun: now, last: now }
    }

    /// Says `what` if it is time.
    pub fn say<T: Display>(&mut self, terminal: &mut Terminal, what: impl FnOnce() -> T) {
        if self.last.elapsed() >= INTERVAL {
            self.last = Instant::now();
            terminal.complain(&format!("{} s: {}", self.begun.elapsed().as_secs(), what()));
        }
    }
}
