//! What an initialisation left, so that the next one sees at a glance what was touched since.

use std::collections::BTreeMap;
use std::path::Path;

use rustix::fs::{Mode, OFlags, Stat};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use esker_trace::PathBytes;

const VERSION: u32 = 1;

/// The state of every entry after an initialisation. Only a cache: one that is absent, damaged or of another version means
/// that everything is looked at.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Manifest(BTreeMap<PathBytes, Mark>);

/// What changes whenever an entry is changed in any way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mark {
    inode: u64,
    size: i64,
    changed_s: i64,
    changed_ns: u64,
}

#[derive(Serialize, Deserialize)]
struct Stored {
    esker_replay_manifest: u32,
    entries: Vec<(Vec<u8>, Mark)>,
}

impl Mark {
    /// Of what is there.
    #[allow(clippy::useless_conversion, reason = "the widths differ between processors")]
    pub fn of(stat: &Stat) -> Mark {
        let changed_ns = stat.st_ctime_nsec.into();
        Mark { inode: stat.st_ino, size: stat.st_size, changed_s: stat.st_ctime, changed_ns }
    }
}

impl Manifest {
    /// Whether the entry at `path` is as it was left.
    pub fn proves(&self, path: &PathBytes, mark: Mark) -> bool {
        self.0.get(path) == Some(&mark)
    }

    /// Remembers an entry.
    pub fn note(&mut self, path: &PathBytes, mark: Mark) {
        self.0.insert(path.clone(), mark);
    }

    /// Reads it.
    pub fn load(path: &Path) -> Manifest {
        let stored = read(path).ok().and_then(|bytes| serde_json::from_slice::<Stored>(&bytes).ok());
        let stored = stored.filter(|stored| stored.esker_replay_manifest == VERSION);
        let entries = stored.map_or(Vec::new(), |stored| stored.entries);
        Manifest(entries.into_iter().map(|(path, mark)| (PathBytes::from(path), mark)).collect())
    }

    /// Writes it.
    ///
    /// # Errors
    /// The kernel's.
    pub fn store(&self, path: &Path) -> Result<(), Errno> {
        let entries = self.0.iter().map(|(path, mark)| (path.as_bytes().to_vec(), *mark)).collect();
        let text = serde_json::to_vec(&Stored { esker_replay_manifest: VERSION, entries });
        let text = text.expect("a manifest has a JSON form");
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::CLOEXEC;
        let file = rustix::fs::open(path, flags, Mode::from_raw_mode(0o644))?;
        let mut rest = text.as_slice();
        while !rest.is_empty() {
            let written = rustix::io::retry_on_intr(|| rustix::io::write(&file, rest))?;
            rest = &rest[written..];
        }
        Ok(())
    }
}

fn read(path: &Path) -> Result<Vec<u8>, Errno> {
    let file = rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    let (mut bytes, mut chunk) = (Vec::new(), vec![0; 1 << 16]);
    loop {
        match rustix::io::retry_on_intr(|| rustix::io::read(&file, &mut chunk))? {
            0 => return Ok(bytes),
            read => bytes.extend_from_slice(&chunk[..read]),
        }
    }
}
