//! Makes the tree that a trace begins with, and makes it again after a replay.
//!
//! A run directory holds `tree` (what the replay sees as its root), `shm` (shared memory by name) and `manifest.json`. There
//! is one way of making: look at what is there, take away what should not be, put right what differs. After a full
//! initialisation nothing was there; a delta skips at once what the manifest proves untouched.
//!
//! Files get their sizes and bytes that nobody can compress, leave out or share, because a hole never reaches a device.
//! Invisible state (ageing, the order of creation) is not reproduced.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use esker_trace::{Entry, EntryKind, PathBytes, Snapshot};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use crate::clock;
use crate::report::Initialised;
use crate::root::Root;

mod manifest;
mod overlay;
mod restore;
mod scan;
#[cfg(test)]
mod tests;

pub use overlay::{Conflict, OverlayError, overlay};

use manifest::Manifest;
use restore::Restore;

/// The tree inside a run directory.
pub const TREE: &str = "tree";
/// Shared memory by name inside a run directory.
pub const SHM: &str = "shm";
/// The manifest inside a run directory.
pub const MANIFEST: &str = "manifest.json";
/// What may lie in a directory that counts as empty: a new file system has it.
const NOT_FOREIGN: [&[u8]; 4] = [TREE.as_bytes(), SHM.as_bytes(), MANIFEST.as_bytes(), b"lost+found"];

/// How much is made anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InitMode {
    /// Everything.
    Full,
    /// Only what differs.
    Delta,
    /// Nothing: the tree is used as it is.
    None,
}

/// The choices of an initialisation.
#[derive(Clone, Copy, Debug)]
pub struct InitOptions {
    /// How much.
    pub mode: InitMode,
    /// Also into a directory with foreign files, which stay as they are.
    pub force: bool,
    /// Forget the page cache afterwards (needs root).
    pub drop_caches: bool,
    /// Seed of the files' bytes.
    pub seed: u64,
}

/// How far an initialisation is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Entries put right.
    pub entries: u64,
    /// Entries in all.
    pub entries_all: u64,
    /// Bytes of files put right.
    pub bytes: u64,
    /// Bytes of files in all.
    pub bytes_all: u64,
}

/// Why there is no initial tree.
#[derive(Debug, thiserror::Error)]
pub enum InitError {
    /// The directory belongs to somebody else.
    #[error(
        "{dir}: holds {found:?}, which no replay made: choose an empty directory, or force it to be used beside that"
    )]
    Foreign {
        /// The directory.
        dir: PathBuf,
        /// Something in it.
        found: String,
    },
    /// No tree was made here before.
    #[error("{dir}: was not initialised: run the initialisation first")]
    Absent {
        /// The directory.
        dir: PathBuf,
    },
    /// No space.
    #[error(
        "{dir}: no space left at {path} after {made} of {all} entries and {bytes} bytes: the tree needs {needed} bytes, \
         {free} are free now; what was made stays, a delta initialisation goes on with it"
    )]
    NoSpace {
        /// The directory.
        dir: PathBuf,
        /// Where it ended.
        path: PathBytes,
        /// Entries made.
        made: u64,
        /// Entries in all.
        all: u64,
        /// Bytes written.
        bytes: u64,
        /// Bytes of all files.
        needed: u64,
        /// Bytes free now.
        free: u64,
    },
    /// The kernel cannot keep a path inside a directory.
    #[error("{dir}: this kernel cannot confine paths (openat2, Linux 5.6 or later, is needed)")]
    Unconfined {
        /// The directory.
        dir: PathBuf,
    },
    /// Anything else.
    #[error("{path} in {dir}: {what}: {source}")]
    Kernel {
        /// The directory.
        dir: PathBuf,
        /// The path in the tree.
        path: String,
        /// What was tried.
        what: &'static str,
        /// The kernel's answer.
        source: Errno,
    },
}

/// All entries of a tree, with the directories that are only implied.
type Wanted = BTreeMap<PathBytes, Entry>;

/// Opens the tree of a run directory that was initialised before.
///
/// # Errors
/// [`InitError`].
pub fn open(dir: &Path) -> Result<Root, InitError> {
    match Root::open(&dir.join(TREE)) {
        Ok(root) => Ok(root),
        Err(Errno::NOENT) => Err(InitError::Absent { dir: dir.to_path_buf() }),
        Err(Errno::NOSYS) => Err(InitError::Unconfined { dir: dir.to_path_buf() }),
        Err(source) => Err(kernel(dir, TREE, "opening", source)),
    }
}

/// Makes the tree of `snapshot` in the run directory `dir`, which is made if it is absent, and opens it. Calls back as it
/// goes on.
///
/// # Errors
/// [`InitError`]; nothing outside `dir` is touched, and nothing in it that no initialisation made.
pub fn initialise(
    dir: &Path,
    snapshot: &Snapshot,
    options: InitOptions,
    progress: &mut dyn FnMut(Progress),
) -> Result<(Root, Initialised), InitError> {
    if options.mode == InitMode::None {
        return Ok((open(dir)?, Initialised { mode: "none".to_string(), ..Initialised::default() }));
    }
    let start = clock::now_ns();
    prepare(dir, options.force)?;
    let before = match options.mode {
        InitMode::Delta => Manifest::load(&dir.join(MANIFEST)),
        _ => Manifest::default(),
    };
    let store = |manifest: &Manifest| {
        manifest.store(&dir.join(MANIFEST)).map_err(|source| kernel(dir, MANIFEST, "writing", source))
    };
    // From here on the old manifest is wrong; an empty one says that the directory is ours all the same.
    store(&Manifest::default())?;
    let root = open(dir)?;
    let wanted = complete(snapshot);
    let mut restore = Restore::new(dir, &root, &wanted, &before, options.seed, progress);
    if options.mode == InitMode::Full {
        restore.clear()?;
    }
    let after = restore.run()?;
    store(&after)?;
    let mut done = restore.done;
    done.mode = if options.mode == InitMode::Full { "full" } else { "delta" }.to_string();
    settle(&root, options.drop_caches, &mut done).map_err(|source| kernel(dir, TREE, "writing back", source))?;
    done.elapsed_ns = clock::now_ns() - start;
    Ok((root, done))
}

/// Makes the run directory and what lies in it, if it is ours or empty.
fn prepare(dir: &Path, force: bool) -> Result<(), InitError> {
    let failed = |source| kernel(dir, ".", "making the run directory", source);
    make_directory(dir).map_err(failed)?;
    let listed = scan::names(dir).map_err(failed)?;
    let foreign = listed.iter().find(|name| !NOT_FOREIGN.contains(&name.as_bytes()));
    let ours = listed.iter().any(|name| name.as_bytes() == MANIFEST.as_bytes());
    let tree = listed.iter().find(|name| name.as_bytes() == TREE.as_bytes());
    if let (Some(found), false, false) = (foreign.or(tree), ours, force) {
        let found = String::from_utf8_lossy(found.as_bytes()).into_owned();
        return Err(InitError::Foreign { dir: dir.to_path_buf(), found });
    }
    make_directory(&dir.join(TREE)).map_err(failed)?;
    make_directory(&dir.join(SHM)).map_err(failed)
}

fn make_directory(dir: &Path) -> Result<(), Errno> {
    match rustix::fs::mkdir(dir, Mode::from_raw_mode(0o755)) {
        Ok(()) => Ok(()),
        // It may be a link to a directory, which the user chose.
        Err(Errno::EXIST) => rustix::fs::open(dir, OFlags::PATH | OFlags::DIRECTORY, Mode::empty()).map(drop),
        Err(e) => Err(e),
    }
}

/// The entries with all directories that they imply.
fn complete(snapshot: &Snapshot) -> Wanted {
    let mut wanted = Wanted::new();
    for (path, entry) in &snapshot.entries {
        let bytes = path.as_bytes();
        for (at, _) in bytes.iter().enumerate().skip(1).filter(|(_, byte)| **byte == b'/') {
            let parent = PathBytes::from(&bytes[..at]);
            wanted.entry(parent).or_insert_with(|| Entry::plain(EntryKind::Directory));
        }
        if bytes != b"/" {
            wanted.insert(path.clone(), entry.clone());
        }
    }
    wanted
}

/// Brings everything to the device, and forgets what is cached if that is asked for.
fn settle(root: &Root, drop_caches: bool, done: &mut Initialised) -> Result<(), Errno> {
    let dir = rustix::fs::openat(root.dir(), c".", OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty())?;
    rustix::fs::syncfs(&dir)?;
    if drop_caches {
        let flags = OFlags::WRONLY | OFlags::CLOEXEC;
        let switch = rustix::fs::open(c"/proc/sys/vm/drop_caches", flags, Mode::empty());
        if let Err(e) = switch.and_then(|fd| rustix::io::write(&fd, b"3")) {
            done.notes.push(format!("caches were not dropped: {e}"));
        }
    }
    Ok(())
}

fn kernel(dir: &Path, path: &str, what: &'static str, source: Errno) -> InitError {
    InitError::Kernel { dir: dir.to_path_buf(), path: path.to_string(), what, source }
}
