//! What an initialisation left, so that the next one sees at a glance what was touched since.

use std::collections::BTreeMap;

use rustix::fs::Stat;
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use esker_trace_calls::PathBytes;

use super::{MANIFEST, MANIFEST_NEW, TREE};
use crate::rundir::{Identity, RunDir};

const VERSION: u32 = 2;

/// The state of every entry after an initialisation. One that is absent, damaged, of another version or of another tree
/// does not count: then nothing in the directory is known to be of a replay.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Manifest(BTreeMap<PathBytes, Mark>);

/// What changes whenever an entry is changed in any way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Mark {
    inode: u64,
    size: i64,
    changed_s: i64,
    changed_ns: u64,
}

#[derive(Serialize, Deserialize)]
struct Stored {
    esker_replay_manifest: u32,
    /// Inode of the tree: a manifest that was copied or planted beside another tree does not count.
    tree: u64,
    /// Whether the tree has what [`crate::privilege`] takes.
    keep_modes: bool,
    entries: Vec<(Vec<u8>, Mark)>,
}

impl Mark {
    /// Of what is there.
    #[allow(clippy::useless_conversion, reason = "the widths differ between processors")]
    pub(super) fn of(stat: &Stat) -> Mark {
        let changed_ns = stat.st_ctime_nsec.into();
        Mark { inode: stat.st_ino, size: stat.st_size, changed_s: stat.st_ctime, changed_ns }
    }
}

impl Manifest {
    /// Whether the entry at `path` is as it was left.
    pub(super) fn proves(&self, path: &PathBytes, mark: Mark) -> bool {
        self.0.get(path) == Some(&mark)
    }

    /// Remembers an entry.
    pub(super) fn note(&mut self, path: &PathBytes, mark: Mark) {
        self.0.insert(path.clone(), mark);
    }

    /// Reads the one in `run`, if it counts. Where privileges were kept otherwise than now it proves nothing of any
    /// entry.
    pub(super) fn load(run: &RunDir, keep_modes: bool) -> Option<Manifest> {
        let stored: Stored = serde_json::from_slice(&run.read(MANIFEST).ok()?).ok()?;
        let tree = Identity::of(&run.directory(TREE).ok()?).ok()?;
        if stored.esker_replay_manifest != VERSION || stored.tree != tree.inode() {
            return None;
        }
        let entries = if stored.keep_modes == keep_modes { stored.entries } else { Vec::new() };
        Some(Manifest(entries.into_iter().map(|(path, mark)| (PathBytes::from(path), mark)).collect()))
    }

    /// Writes it into `run`.
    ///
    /// # Errors
    /// The kernel's.
    pub(super) fn store(&self, run: &RunDir, keep_modes: bool) -> Result<(), Errno> {
        let entries = self.0.iter().map(|(path, mark)| (path.as_bytes().to_vec(), *mark)).collect();
        let tree = Identity::of(&run.directory(TREE)?)?.inode();
        let text = serde_json::to_vec(&Stored { esker_replay_manifest: VERSION, tree, keep_modes, entries });
        run.replace(MANIFEST, MANIFEST_NEW, &text.expect("a manifest has a JSON form"))
    }
}
