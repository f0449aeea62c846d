//! Scratch folders and what is put into them.

use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::path::Path;

use esker_base::Stream;
use esker_base::units::MIB;
use tempfile::TempDir;

use crate::experiment::LabError;

/// Where the kernel keeps files in memory on every Linux.
pub const TMPFS: &str = "/dev/shm";

/// Makes sure that the folder for scratch files is there.
///
/// # Errors
/// [`LabError::NoScratch`], and [`LabError::Scratch`] if it cannot be looked at.
pub fn demand(folder: &Path) -> Result<(), LabError> {
    let none = |what| Err(LabError::NoScratch { dir: folder.to_path_buf(), what });
    match folder.metadata() {
        Ok(found) if found.is_dir() => Ok(()),
        Ok(_) => none("is no folder"),
        Err(error) if error.kind() == ErrorKind::NotFound => none("is not there"),
        Err(error) => Err(LabError::scratch(folder)(error)),
    }
}

/// What is wrong with a scratch file or folder, and what to do.
pub(crate) fn told(why: &io::Error) -> String {
    let (what, first) = match why.kind() {
        ErrorKind::PermissionDenied => ("this user may not use it".to_string(), ""),
        ErrorKind::ReadOnlyFilesystem => ("the file system is read-only".to_string(), ""),
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => ("no room is left".to_string(), "make room, or "),
        _ => (format!("cannot be used for scratch files: {why}"), ""),
    };
    format!("{what}; {first}name another folder with --scratch")
}

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
    fn a_folder_that_is_not_there_or_has_no_room_is_told_with_what_to_do() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let (file, gone) = (dir.path().join("file"), dir.path().join("gone"));
        File::create(&file).expect("there is space");
        assert!(demand(dir.path()).is_ok());
        let told = [&file, &gone].map(|path| demand(path).expect_err("it is no folder").to_string());
        let says = |what: &str| {
            format!(
                "{what}, so there is no place for scratch files; make this folder, or name another one with --scratch"
            )
        };
        assert_eq!(
            told,
            [(&file, "is no folder"), (&gone, "is not there")].map(|(path, what)| format!(
                "{}: {}",
                path.display(),
                says(what)
            ))
        );
        let full = LabError::scratch(dir.path())(ErrorKind::StorageFull.into()).to_string();
        assert!(full.ends_with(": no room is left; make room, or name another folder with --scratch"), "{full}");
        assert!(folder(&gone).expect_err("it is not there").to_string().contains("cannot be used for scratch files"));
    }

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
