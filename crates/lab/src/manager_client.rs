//! A manager of huge pages that is asked what it has done.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use esker_hugepage_linux::Status;
use esker_sys::Credentials;
use tempfile::TempDir;

use crate::ingens::Manager;
use esker_lab_kit::{LabError, machine::told_bytes, peer, scratch};

const PROGRAM: &str = "esker hugepage run";
/// A manager that is alive answers within one promotion, which took 9.6 s where others held both CPUs.
const PATIENCE: Duration = Duration::from_secs(60);

/// The manager, until dropped.
pub struct Asked {
    // Before the folder that its own folder is in.
    _manager: Manager,
    folder: TempDir,
}

impl Asked {
    /// Starts it, as [`Manager::start`] does.
    ///
    /// # Errors
    /// Its last words.
    pub fn start(parent: &Path, pid: u32, config: &str) -> Result<Asked, LabError> {
        let folder = scratch::folder(parent)?;
        Ok(Asked { _manager: Manager::start(folder.path(), pid, config)?, folder })
    }

    /// What it tells.
    ///
    /// # Errors
    /// If it is gone.
    pub fn status(&self) -> Result<Status, LabError> {
        let failed = |error: std::io::Error| peer::fault(PROGRAM, error);
        let mut stream = self.connect().map_err(failed)?;
        let mut answer = String::new();
        stream.write_all(b"GET /status HTTP/1.1\r\nHost: localhost\r\n\r\n").map_err(failed)?;
        stream.read_to_string(&mut answer).map_err(failed)?;
        let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
        serde_json::from_str(body).map_err(|error| peer::fault(PROGRAM, error))
    }

    /// Bytes of memory that it takes.
    ///
    /// # Errors
    /// If it is gone.
    pub fn memory(&self) -> Result<u64, LabError> {
        let failed = |error: std::io::Error| peer::fault(PROGRAM, error);
        let peer = Credentials::of_peer(&self.connect().map_err(failed)?).map_err(failed)?;
        let told = peer.pid.and_then(|pid| told_bytes(&format!("/proc/{pid}/status"), "VmRSS"));
        told.ok_or_else(|| peer::fault(PROGRAM, "its memory is not told"))
    }

    fn connect(&self) -> std::io::Result<UnixStream> {
        let stream = UnixStream::connect(self.control()?)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        Ok(stream)
    }

    /// The socket in its own folder, the only one in ours.
    fn control(&self) -> std::io::Result<PathBuf> {
        let own = std::fs::read_dir(self.folder.path())?.flatten().next();
        own.map(|own| own.path().join("control")).ok_or_else(|| std::io::ErrorKind::NotFound.into())
    }
}
