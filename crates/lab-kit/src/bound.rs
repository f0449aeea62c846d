//! Programs that end with this one.

use std::ffi::OsStr;
use std::io;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::experiment::LabError;
use crate::peer;

/// A program that gets a signal when this one ends, however that is.
pub fn bound(signal: &str, program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", signal, "--"]).arg(program);
    command
}

/// Connects to a socket that a server opens when it is ready. Not once it has ended.
///
/// # Errors
/// The kernel's, when `within` is over.
pub fn connect(
    socket: &Path,
    within: Duration,
    mut has_ended: impl FnMut() -> io::Result<bool>,
) -> io::Result<UnixStream> {
    let begun = Instant::now();
    loop {
        match UnixStream::connect(socket) {
            Err(_) if begun.elapsed() < within && !has_ended()? => sleep(Duration::from_millis(20)),
            connected => return connected,
        }
    }
}

/// A server that has not begun by then has failed.
pub const BEGUN_WITHIN: Duration = Duration::from_secs(10);

/// A program that is killed with this one, and when this is dropped.
pub struct Bound {
    program: String,
    child: Child,
}

impl Bound {
    /// Starts a program, as `ready` says; without input, unless that gives it one.
    ///
    /// # Errors
    /// If it cannot be executed.
    pub fn start(
        program: impl AsRef<OsStr>,
        ready: impl FnOnce(&mut Command) -> &mut Command,
    ) -> Result<Bound, LabError> {
        let name = program.as_ref().to_string_lossy().into_owned();
        Bound::spawn(name, ready(bound("KILL", program).stdin(Stdio::null())))
    }

    /// A program that is killed when this is dropped.
    ///
    /// # Errors
    /// If it cannot be executed.
    pub fn spawn(program: String, command: &mut Command) -> Result<Bound, LabError> {
        let child = command.spawn().map_err(|error| peer::fault(&program, error))?;
        Ok(Bound { program, child })
    }

    /// Its number.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Its pipes.
    pub fn child(&mut self) -> &mut Child {
        &mut self.child
    }

    /// Connects to the socket that it opens when it is ready, which may take so long.
    ///
    /// # Errors
    /// If it does not, or ends.
    pub fn connect(&mut self, socket: &Path, within: Duration) -> Result<UnixStream, LabError> {
        let connected = connect(socket, within, || Ok(self.child.try_wait()?.is_some()));
        connected.map_err(|error| match self.child.try_wait() {
            Ok(Some(status)) => peer::fault(&self.program, format!("it ended before it served: {status}")),
            Ok(None) | Err(_) => peer::fault(&self.program, error),
        })
    }
}

impl Drop for Bound {
    fn drop(&mut self) {
        // It may have ended by itself.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
