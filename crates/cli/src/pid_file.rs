//! A file with the number of a server's process, which holds a lock on it: a file without a lock is left of a dead one.

use std::fs::{self, File, Permissions, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use crate::terminal::Terminal;

/// More than any number of a process has.
const BYTES_MAX: u64 = 32;

/// The file of this process; removed when dropped.
pub struct PidFile {
    path: PathBuf,
    /// Holds the lock.
    file: File,
}

/// Why the file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PidFileError {
    /// A server lives.
    #[error("{path}: process {pid} serves already\ntip: stop it, or name another file with --pid-file")]
    Alive {
        /// The file.
        path: String,
        /// The process.
        pid: String,
    },
    /// It is something else.
    #[error("{0}: exists, and holds no process number\ntip: remove it, or name another file with --pid-file")]
    Foreign(String),
    /// The file system's.
    #[error("{path}: no PID file can be written there: {source}")]
    Io {
        /// The file.
        path: String,
        /// Why.
        source: io::Error,
    },
}

impl PidFile {
    /// Checks that no living server has the file, before anything else is done.
    ///
    /// # Errors
    /// [`PidFileError`].
    pub fn check(path: &Path, terminal: &mut Terminal) -> Result<(), PidFileError> {
        let name = path.display().to_string();
        let pid = match found(path) {
            Ok(None) => return Ok(()),
            Ok(Some(Found { pid, is_alive: false })) => pid,
            Ok(Some(Found { pid, is_alive: true })) => {
                return Err(PidFileError::Alive { path: name, pid: pid.unwrap_or_else(|| "?".to_string()) });
            }
            Err(source) => return Err(PidFileError::Io { path: name, source }),
        };
        let pid = pid.ok_or_else(|| PidFileError::Foreign(name.clone()))?;
        terminal
            .complain(&format!("warning: {name}: process {pid} has left this file and serves no more; it is replaced"));
        Ok(())
    }

    /// Writes the file: it is there with the whole number, or not at all.
    ///
    /// # Errors
    /// The file system's.
    pub fn write(path: &Path) -> Result<PidFile, PidFileError> {
        let write = || {
            let folder = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
            let mut file = NamedTempFile::new_in(folder)?;
            writeln!(file, "{}", std::process::id())?;
            file.as_file().set_permissions(Permissions::from_mode(0o644))?;
            file.as_file().lock()?;
            Ok(PidFile { path: path.to_path_buf(), file: file.persist(path).map_err(|error| error.error)? })
        };
        write().map_err(|source| PidFileError::Io { path: path.display().to_string(), source })
    }

    /// Leaves the file to the process that has taken this one's place. That process replaces the file at any instant:
    /// a look whether it has done so could be out of date when the file is removed.
    pub fn leave(self) {
        std::mem::forget(self);
    }
}

impl Drop for PidFile {
    fn drop(&mut self) {
        let place = |found: &fs::Metadata| (found.dev(), found.ino());
        let is_ours = match (fs::metadata(&self.path), self.file.metadata()) {
            (Ok(there), Ok(ours)) => place(&there) == place(&ours),
            _ => false,
        };
        if is_ours {
            // What cannot be removed is found without a lock.
            let _kept = fs::remove_file(&self.path);
        }
    }
}

/// A file that is there already.
struct Found {
    /// The number; none if it holds another thing.
    pid: Option<String>,
    is_alive: bool,
}

fn found(path: &Path) -> io::Result<Option<Found>> {
    let mut file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened?,
    };
    let mut text = String::new();
    // What is no text is no number.
    let read = Read::by_ref(&mut file).take(BYTES_MAX).read_to_string(&mut text);
    let pid = read.ok().and_then(|_| text.trim().parse::<u32>().ok()).map(|pid| pid.to_string());
    let is_alive = match file.try_lock_shared() {
        Ok(()) => false,
        Err(TryLockError::WouldBlock) => true,
        Err(TryLockError::Error(error)) => return Err(error),
    };
    Ok(Some(Found { pid, is_alive }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_of_a_living_server_stays_and_that_of_a_dead_one_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("esker.pid");
        let mut terminal = Terminal::standard();
        PidFile::check(&path, &mut terminal).unwrap();
        let ours = PidFile::write(&path).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), format!("{}\n", std::process::id()));
        let error = PidFile::check(&path, &mut terminal).unwrap_err();
        assert!(matches!(error, PidFileError::Alive { .. }), "{error}");
        drop(ours);
        assert!(!path.exists(), "it goes with the server");
        fs::write(&path, "4194999\n").unwrap();
        PidFile::check(&path, &mut terminal).unwrap();
        let ours = PidFile::write(&path).unwrap();
        fs::write(folder.path().join("other"), "1").unwrap();
        fs::rename(folder.path().join("other"), &path).unwrap();
        drop(ours);
        assert_eq!(fs::read_to_string(&path).unwrap(), "1", "the file of another process stays");
    }

    #[test]
    fn a_file_that_holds_another_thing_is_refused_and_kept() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notes");
        fs::write(&path, "precious").unwrap();
        let error = PidFile::check(&path, &mut Terminal::standard()).unwrap_err();
        assert!(matches!(error, PidFileError::Foreign(_)), "{error}");
        let error = PidFile::write(&folder.path().join("none/pid")).err().unwrap();
        assert!(matches!(error, PidFileError::Io { .. }), "{error}");
        assert_eq!(fs::read_to_string(path).unwrap(), "precious");
    }
}
