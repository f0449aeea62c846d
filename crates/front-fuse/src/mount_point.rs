//! Directories that can be mounted on.

#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "what this machine's tree has at a path")]

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::busy::mount_at;

/// Why a directory cannot be mounted on.
#[derive(Debug, thiserror::Error)]
pub enum MountPointError {
    /// It cannot be looked at.
    #[error("{path}: {source}")]
    Unusable {
        /// The directory, as written.
        path: String,
        /// The kernel's words.
        source: io::Error,
    },
    /// It is something else.
    #[error("{0}: is no directory; a file system is mounted on an existing directory")]
    NoDirectory(String),
    /// A mount is there whose server was killed.
    #[error("{0}: the process that served what is mounted there has ended; `esker umount {0}` takes it away")]
    Dead(String),
    /// A mount is there.
    #[error("{path}: {name} ({kind}) is mounted there already; unmount it, or name another directory")]
    Taken {
        /// The directory, as written.
        path: String,
        /// The source of what is mounted.
        name: String,
        /// Its type.
        kind: String,
    },
}

/// The absolute path of a directory that can be mounted on. Not to be asked for what lies in a mount that this very
/// thread serves: the kernel would ask it.
///
/// # Errors
/// [`MountPointError`].
pub fn mount_point(dir: &Path) -> Result<PathBuf, MountPointError> {
    let path = dir.display().to_string();
    let unusable = |source: io::Error| match source.kind() {
        io::ErrorKind::NotConnected => MountPointError::Dead(path.clone()),
        _ => MountPointError::Unusable { path: path.clone(), source },
    };
    let at = fs::canonicalize(dir).map_err(unusable)?;
    if !fs::metadata(&at).map_err(unusable)?.is_dir() {
        return Err(MountPointError::NoDirectory(path));
    }
    match mount_at(&at) {
        Some(mount) => Err(MountPointError::Taken { path, name: mount.source, kind: mount.kind }),
        None => Ok(at),
    }
}
