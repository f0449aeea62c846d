//! Files that a verb writes record by record: they appear only when all is written.

use std::fs::{self, File};
use std::io;
use std::path::Path;

use crate::failure::Failure;
use crate::files;

/// Why the target cannot be written.
#[derive(Debug, thiserror::Error)]
enum TargetError {
    #[error("{0}: exists; choose another name, or add --force to replace it")]
    Exists(String),
    #[error("{path}: cannot be written: {source}")]
    Io { path: String, source: io::Error },
}

/// Where the file for `path` lies until it is whole.
pub fn part(path: &str) -> String {
    format!("{path}.part")
}

/// Hands a file to `write` that lies beside `path` and is renamed at the end, so that a failure leaves what was there.
///
/// # Errors
/// If the file exists and `force` is not given, what the system refuses, and what `write` reports.
pub fn write<T>(path: &str, force: bool, write: impl FnOnce(File) -> Result<T, Failure>) -> Result<T, Failure> {
    let failed = |source| TargetError::Io { path: path.to_string(), source };
    if !force && fs::symlink_metadata(path).is_ok() {
        return Err(TargetError::Exists(path.to_string()).into());
    }
    let part = part(path);
    let file = files::create_anew(Path::new(&part)).map_err(failed)?;
    let written = write(file).and_then(|written| {
        fs::rename(&part, path).map_err(failed)?;
        Ok(written)
    });
    if written.is_err() {
        // What failed is worth more to the user than that this fails too.
        let _ = fs::remove_file(&part);
    }
    written
}
