//! Kinds of file systems as verbs name them, and the memory that one gets here.

use esker_base::units::GIB;
use esker_lab_kit::machine::told_bytes;
use esker_serve::FileSystems;
use esker_vfs::{FsKind, FsKindError};

use crate::failure::Failure;

/// The kind of that name.
///
/// # Errors
/// A usage error that names all kinds.
pub fn find(name: &str) -> Result<&'static FsKind, Failure> {
    FsKind::find(esker_filesystems::ALL, name).map_err(refused)
}

/// As a failure of the verb: what its arguments name is a usage error, what lies on a device is none.
pub fn refused(error: FsKindError) -> Failure {
    match error {
        FsKindError::Unusable(_) => error.into(),
        other => Failure::Usage(other.to_string()),
    }
}

/// What mounts of a text are opened with.
pub fn file_systems() -> FileSystems {
    FileSystems { kinds: esker_filesystems::ALL, memory: half_of_memory() }
}

/// Bytes of a file system in memory, unless it is told another number: half of the machine's, as tmpfs takes it.
pub fn half_of_memory() -> u64 {
    told_bytes("/proc/meminfo", "MemTotal").unwrap_or(BYTES_UNKNOWN) / 2
}

/// Memory of a machine that does not tell it.
const BYTES_UNKNOWN: u64 = 2 * GIB;
