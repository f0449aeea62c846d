//! Scratch folders and what is put into them.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use esker_base::Stream;
use esker_base::units::MIB;
use tempfile::TempDir;

use crate::experiment::LabError;

/// A new folder in `parent`, removed when dropped.
///
/// # Errors
/// [`LabError::Scratch`].
pub fn folder(parent: &Path) -> Result<TempDir, LabError> {
    tempfile::tempdir_in(parent).map_err(|source| LabError::Scratch { dir: parent.to_path_buf(), source })
}

/// Makes a file of `bytes`, a multiple of 1 MiB, of random content, so that no layer below can cheat on zeroes.
///
/// # Errors
/// [`LabError::Scratch`].
pub fn random_file(path: &Path, bytes: u64, seed: u64) -> Result<(), LabError> {
    written(path, bytes, seed).map_err(|source| LabError::Scratch { dir: path.to_path_buf(), source })
}

/// Makes a file of `bytes`, a multiple of 1 MiB, of zeroes that were written, so that no write to it has to find space first.
///
/// # Errors
/// [`LabError::Scratch`].
pub fn zero_file(path: &Path, bytes: u64) -> Result<(), LabError> {
    let made = written_by(path, bytes, |_| {});
    made.map_err(|source| LabError::Scratch { dir: path.to_path_buf(), source })
}

fn written(path: &Path, bytes: u64, seed: u64) -> io::Result<()> {
    let mut random = Stream::named(seed, "scratch content");
    written_by(path, bytes, |chunk| random.fill(chunk))
}

fn written_by(path: &Path, bytes: u64, mut fill: impl FnMut(&mut [u8])) -> io::Result<()> {
    let mut file = File::create_new(path)?;
    let mut chunk = vec![0; MIB as usize];
    for _ in 0..bytes / MIB {
        fill(&mut chunk);
        file.write_all(&chunk)?;
    }
    file.sync_all()
}
