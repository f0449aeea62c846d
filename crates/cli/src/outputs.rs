//! Files that a verb writes by itself: an existing one is replaced only if esker wrote it, or if the user insists.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, fchown};
use std::path::{Path, PathBuf};

use crate::files;

/// A file that will be written.
pub struct Output {
    path: PathBuf,
    /// The option that chooses its place.
    option: &'static str,
}

/// Why a file cannot be written.
#[derive(Debug, thiserror::Error)]
pub enum OutputError {
    /// The file is there and not ours.
    #[error(
        "{0}: is there already and was not written by esker; choose another place with {1}, or replace it with --force"
    )]
    Foreign(String, &'static str),
    /// The system refuses.
    #[error("{0}: cannot be written: {1}; choose another place with {2}")]
    Refused(String, io::Error, &'static str),
}

/// Bytes at a file's beginning among which the mark must be.
const HEAD: u64 = 256;

impl Output {
    /// Makes sure, before any work, that `path` may be written: a file that exists must hold one of `marks` near its
    /// beginning, unless `force`. `option` is what chooses the place. Changes nothing.
    ///
    /// # Errors
    /// A file that is not ours, or one that cannot be looked at.
    pub fn claim(path: PathBuf, marks: &[&str], force: bool, option: &'static str) -> Result<Output, OutputError> {
        let output = Output { path, option };
        match has_mark(&output.path, marks).map_err(|error| output.refused(error))? || force {
            true => Ok(output),
            false => Err(OutputError::Foreign(output.path.display().to_string(), option)),
        }
    }

    /// Creates its folder and makes sure that it takes files.
    ///
    /// # Errors
    /// What the system refuses.
    pub fn prepare(&self) -> Result<(), OutputError> {
        let prepare = || {
            if let Some(folder) = self.path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
                fs::create_dir_all(folder)?;
            }
            files::create_anew(&self.beside())?;
            fs::remove_file(self.beside())
        };
        prepare().map_err(|error| self.refused(error))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes it whole or not at all.
    ///
    /// # Errors
    /// What the system refuses.
    pub fn put(&self, text: &str) -> Result<(), OutputError> {
        self.write(text, |_| Ok(()))
    }

    /// Writes it in the place of a file of the user's, whose mode and owner stay.
    ///
    /// # Errors
    /// What the system refuses.
    pub fn replace(&self, text: &str) -> Result<(), OutputError> {
        self.write(text, |file| {
            let (old, new) = (fs::metadata(&self.path)?, file.metadata()?);
            if (old.uid(), old.gid()) != (new.uid(), new.gid()) {
                fchown(file, Some(old.uid()), Some(old.gid()))?;
            }
            file.set_permissions(old.permissions())
        })
    }

    fn write(&self, text: &str, prepare: impl FnOnce(&File) -> io::Result<()>) -> Result<(), OutputError> {
        let write = || {
            let beside = self.beside();
            let mut file = files::create_anew(&beside)?;
            prepare(&file)?;
            file.write_all(text.as_bytes())?;
            file.sync_all()?;
            fs::rename(&beside, &self.path)
        };
        write().map_err(|error| self.refused(error))
    }

    fn beside(&self) -> PathBuf {
        let mut name = self.path.as_os_str().to_os_string();
        name.push(".esker-part");
        name.into()
    }

    fn refused(&self, error: io::Error) -> OutputError {
        OutputError::Refused(self.path.display().to_string(), error, self.option)
    }
}

/// Whether there is no such file, or one with a mark.
fn has_mark(path: &Path, marks: &[&str]) -> io::Result<bool> {
    if path.is_dir() {
        return Err(io::Error::from(io::ErrorKind::IsADirectory));
    }
    let file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(true),
        opened => opened?,
    };
    let mut head = Vec::new();
    file.take(HEAD).read_to_end(&mut head)?;
    let head = String::from_utf8_lossy(&head);
    Ok(marks.iter().any(|mark| head.contains(mark)))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    const MARKS: [&str; 1] = ["Written by esker"];

    fn claim(path: &Path, force: bool) -> Result<Output, OutputError> {
        Output::claim(path.to_path_buf(), &MARKS, force, "--out")
    }

    fn put(path: &Path, force: bool, text: &str) -> Result<(), OutputError> {
        let output = claim(path, force)?;
        output.prepare()?;
        output.put(text)
    }

    #[test]
    fn files_of_others_stay_and_ours_are_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("new/stack.toml");
        put(&path, false, "# Written by esker 1").unwrap();
        put(&path, false, "mine now").unwrap();
        assert!(matches!(claim(&path, false), Err(OutputError::Foreign(..))));
        assert_eq!(fs::read_to_string(&path).unwrap(), "mine now");
        put(&path, true, "forced").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "forced");
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1, "no part is left behind");
    }

    #[test]
    fn a_file_of_the_users_keeps_its_mode_when_it_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("stack.toml");
        fs::write(&path, "old").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        claim(&path, true).unwrap().replace("new").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "new");
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, 0o640);
    }

    #[test]
    fn a_place_that_takes_no_file_is_refused_before_any_work() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        fs::write(&file, "x").unwrap();
        for path in [file.join("below"), folder.path().to_path_buf()] {
            assert!(matches!(put(&path, true, "y"), Err(OutputError::Refused(..))), "{}", path.display());
        }
    }
}
