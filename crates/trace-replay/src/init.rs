//! Makes the tree that a trace begins with, and makes it again after a replay.
//!
//! A run directory ([`RunDir`]) holds `tree` (what the replay sees as its root), `shm` (shared memory by name) and
//! `manifest.json`. There is one way of making: look at what is there, take away what should not be, put right what
//! differs. After a full initialisation nothing was there; a delta skips at once what the manifest proves untouched.
//!
//! Files get their sizes and their holes. Their bytes cannot be compressed, left out or shared, so that all of them
//! reach the device. Invisible state (ageing, the order of creation) is not reproduced.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use esker_base::Progress;
use esker_trace_calls::{Entry, EntryKind, PathBytes, Snapshot};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use crate::report::Initialised;
use crate::root::Root;
use crate::rundir::{RunDir, Unfit};
use crate::{clock, privilege};

mod manifest;
mod overlay;
mod restore;
pub(crate) mod scan;
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
/// The manifest while it is written.
const MANIFEST_NEW: &str = "manifest.json.new";
/// What may lie in a directory that counts as empty: a new file system has it.
const NOT_FOREIGN: &str = "lost+found";
/// What lies in a directory that is only a run's.
const OURS: [&str; 5] = [TREE, SHM, MANIFEST, MANIFEST_NEW, NOT_FOREIGN];

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
    /// Also set-id bits and attributes outside of `user.`, which a foreign trace should not get.
    pub keep_modes: bool,
    /// Bytes that the tree and what calls write may have at most.
    pub max_bytes: Option<u64>,
    /// Forget the page cache afterwards (needs root).
    pub drop_caches: bool,
    /// Seed of the files' bytes.
    pub seed: u64,
}

/// The part that is reported: bytes of files put right.
pub const TREE_PART: &str = "initial tree";

/// Why there is no initial tree.
#[derive(Debug, thiserror::Error)]
pub enum InitError {
    /// The directory holds files of others.
    #[error(
        "{dir}: holds {found:?}, and no manifest says that a replay made this directory: choose an empty one, or force it \
         to be used beside that"
    )]
    Foreign {
        /// The directory.
        dir: PathBuf,
        /// Something in it.
        found: String,
    },
    /// A name that is needed is taken.
    #[error(
        "{dir}: {found:?} is there, and no manifest says that a replay made it: move it away, or choose another directory"
    )]
    Taken {
        /// The directory.
        dir: PathBuf,
        /// The name.
        found: String,
    },
    /// The directory could be steered by others.
    #[error("{dir}: {why}")]
    Unfit {
        /// The directory.
        dir: PathBuf,
        /// Why.
        why: Unfit,
    },
    /// There is less space than the tree needs.
    #[error(
        "{dir}: the tree needs {needed} bytes more, {free} are free: choose a larger file system; no byte of the new tree was written"
    )]
    TooLarge {
        /// The directory.
        dir: PathBuf,
        /// Bytes that are not there yet.
        needed: u64,
        /// Bytes free now.
        free: u64,
    },
    /// The trace asks for more than is allowed.
    #[error(
        "{dir}: the tree has {tree} bytes and calls write up to {written}, but --max-bytes allows {max}; nothing was written"
    )]
    OverMax {
        /// The directory.
        dir: PathBuf,
        /// Bytes of all files at the start.
        tree: u64,
        /// Bytes that calls write at most.
        written: u64,
        /// Bytes allowed.
        max: u64,
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
pub(crate) type Wanted = BTreeMap<PathBytes, Entry>;

/// Opens the tree of a run directory that was initialised before.
///
/// # Errors
/// [`InitError`].
pub fn open(dir: &Path) -> Result<Root, InitError> {
    let run = match RunDir::open(dir) {
        Err(Unfit::Kernel { source: Errno::NOENT, .. }) => Err(InitError::Absent { dir: dir.to_path_buf() }),
        other => other.map_err(|why| InitError::Unfit { dir: dir.to_path_buf(), why }),
    };
    open_tree(run?)
}

fn open_tree(run: RunDir) -> Result<Root, InitError> {
    let dir = run.path().to_path_buf();
    match Root::of(run) {
        Ok(root) => Ok(root),
        Err(Errno::NOENT) => Err(InitError::Absent { dir }),
        Err(Errno::NOSYS) => Err(InitError::Unconfined { dir }),
        Err(Errno::LOOP | Errno::NOTDIR) => Err(InitError::Taken { dir, found: TREE.to_string() }),
        Err(source) => Err(kernel(&dir, TREE, "opening", source)),
    }
}

/// Makes the tree of `snapshot` in the run directory `dir`, which is made if it is absent, and opens it. Reports bytes
/// as it goes on.
///
/// # Errors
/// [`InitError`]; nothing outside `dir` is touched, and nothing in it that no initialisation made.
pub fn initialise(
    dir: &Path,
    snapshot: &Snapshot,
    options: InitOptions,
    progress: &mut dyn FnMut(Progress<'_>),
) -> Result<(Root, Initialised), InitError> {
    check_max(dir, snapshot, 0, options.max_bytes)?;
    if options.mode == InitMode::None {
        return Ok((open(dir)?, Initialised { mode: "none".to_string(), ..Initialised::default() }));
    }
    let start = clock::now_ns();
    let (root, before) = prepare(dir, options)?;
    let store = |manifest: &Manifest| {
        let stored = manifest.store(root.run(), options.keep_modes);
        stored.map_err(|source| kernel(dir, MANIFEST, "writing", source))
    };
    // From here on the old manifest is wrong; an empty one says that the directory is ours all the same.
    store(&Manifest::default())?;
    let mut wanted = complete(snapshot);
    let adapted = if options.keep_modes { Vec::new() } else { privilege::strip(wanted.values_mut()) };
    let mut restore = Restore::new(dir, &root, &wanted, &before, options.seed, progress);
    if options.mode == InitMode::Full {
        restore.clear()?;
    }
    let after = restore.run()?;
    store(&after)?;
    let mut done = restore.done;
    done.mode = if options.mode == InitMode::Full { "full" } else { "delta" }.to_string();
    done.adapted = adapted;
    sync_tree(&root, options.drop_caches, &mut done).map_err(|source| kernel(dir, TREE, "writing back", source))?;
    done.elapsed_ns = clock::now_ns() - start;
    Ok((root, done))
}

/// Whether a tree and `written` bytes of calls are no more than `max`.
///
/// # Errors
/// [`InitError::OverMax`].
pub fn check_max(dir: &Path, snapshot: &Snapshot, written: u64, max: Option<u64>) -> Result<(), InitError> {
    let tree = snapshot.entries.values().map(data).fold(0, u64::saturating_add);
    match max {
        Some(max) if tree.saturating_add(written) > max => {
            Err(InitError::OverMax { dir: dir.to_path_buf(), tree, written, max })
        }
        _ => Ok(()),
    }
}

/// Makes the run directory and what lies in it, if it is ours or empty; gives what the manifest there proves.
fn prepare(dir: &Path, options: InitOptions) -> Result<(Root, Manifest), InitError> {
    let run = RunDir::make(dir).map_err(|why| InitError::Unfit { dir: dir.to_path_buf(), why })?;
    let failed = |source| match source {
        Errno::NOSYS => InitError::Unconfined { dir: dir.to_path_buf() },
        source => kernel(dir, ".", "making the run directory", source),
    };
    let before = Manifest::load(&run, options.keep_modes);
    match before {
        None if options.force => refuse_taken(dir, &run)?,
        None => refuse_foreign(dir, &run)?,
        Some(_) => {}
    }
    // Where others have files, too, the directory is not ours to close.
    if run.names().map_err(failed)?.iter().all(|name| OURS.iter().any(|ours| name.as_bytes() == ours.as_bytes())) {
        run.close_to_others().map_err(failed)?;
    }
    run.make_directory(TREE).map_err(failed)?;
    run.make_directory(SHM).map_err(failed)?;
    let before = if options.mode == InitMode::Delta { before } else { None };
    Ok((open_tree(run)?, before.unwrap_or_default()))
}

/// Nothing may be there.
fn refuse_foreign(dir: &Path, run: &RunDir) -> Result<(), InitError> {
    let listed = run.names().map_err(|source| kernel(dir, ".", "listing", source))?;
    match listed.iter().find(|name| name.as_bytes() != NOT_FOREIGN.as_bytes()) {
        None => Ok(()),
        Some(found) => {
            let found = String::from_utf8_lossy(found.as_bytes()).into_owned();
            Err(InitError::Foreign { dir: dir.to_path_buf(), found })
        }
    }
}

/// What others have there may stay, but not under our names.
fn refuse_taken(dir: &Path, run: &RunDir) -> Result<(), InitError> {
    for name in [TREE, SHM, MANIFEST] {
        if !run.is_free(name).map_err(|source| kernel(dir, name, "looking at what is there", source))? {
            return Err(InitError::Taken { dir: dir.to_path_buf(), found: name.to_string() });
        }
    }
    Ok(())
}

/// The entries with all directories that they imply.
pub(crate) fn complete(snapshot: &Snapshot) -> Wanted {
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
fn sync_tree(root: &Root, drop_caches: bool, done: &mut Initialised) -> Result<(), Errno> {
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

/// Bytes of an entry's data, without holes.
pub(crate) fn data(entry: &Entry) -> u64 {
    match entry.kind {
        EntryKind::File { size } => size.saturating_sub(entry.holes),
        _ => 0,
    }
}

fn kernel(dir: &Path, path: &str, what: &'static str, source: Errno) -> InitError {
    InitError::Kernel { dir: dir.to_path_buf(), path: path.to_string(), what, source }
}
