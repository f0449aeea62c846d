//! Scratch folders and what is put into them.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use esker_base::Stream;
use esker_base::units::MIB;
use tempfile::TempDir;

use crate::experiment::LabError;

/// Where the kernel keeps files in memory on every Linux.
pub const TMPFS: &str = "/dev/shm";

/// A new folder in `parent`, removed when dropped.
///
/// # Errors
/// [`LabError::Scratch`].
pub fn folder(parent: &Path) -> Result<TempDir, LabError> {
    tempfile::tempdir_in(parent).map_err(LabError::scratch(&parent))
}

/// Makes a file of `bytes` of random content, so that no layer below can cheat on zeroes.
///
/// # Errors
/// [`LabError::Scratch`].
pub fn random_file(path: &Path, bytes: u64, seed: u64) -> Result<(), LabError> {
    let mut random = Stream::named(seed, "scratch content");
    made(path, bytes, |chunk| random.fill(chunk)).map(drop).map_err(LabError::scratch(&path))
}

/// Makes a file of `bytes` of zeroes that were written, so that no write to it has to find space first.
///
/// # Errors
/// [`LabError::Scratch`].
pub fn zero_file(path: &Path, bytes: u64) -> Result<(), LabError> {
    zero_start(path, bytes, bytes)
}

/// Makes a file of `bytes`, the first `written` of which are zeroes that were written.
///
/// # Errors
/// [`LabError::Scratch`].
pub fn zero_start(path: &Path, written: u64, bytes: u64) -> Result<(), LabError> {
    let file = made(path, written, |_| {}).and_then(|file| file.set_len(bytes));
    file.map_err(LabError::scratch(&path))
}

fn made(path: &Path, bytes: u64, mut fill: impl FnMut(&mut [u8])) -> io::Result<File> {
    let mut file = File::create_new(path)?;
    let mut chunk = vec![0; MIB as usize];
    for at in (0..bytes).step_by(MIB as usize) {
        let part = &mut chunk[..(bytes - at).min(MIB) as usize];
        fill(part);
        file.write_all(part)?;
    }
    file.sync_all()?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_as_long_as_was_asked_for() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        for bytes in [0, 4096, MIB, MIB + 4096] {
            let paths = ["zeroes", "random"].map(|name| dir.path().join(format!("{name} {bytes}")));
            zero_file(&paths[0], bytes).expect("there is space");
            random_file(&paths[1], bytes, 1).expect("there is space");
            let made = paths.map(|path| std::fs::metadata(path).expect("just made").len());
            assert_eq!(made, [bytes; 2]);
        }
    }
}
