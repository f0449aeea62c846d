//! The client of a server's control socket, as verbs use it.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use esker_serve::command::parse_answer;
use esker_serve::{Command, Refusal, Status};
use serde_json::Value;

use crate::failure::Failure;

/// Longer than any live change waits.
const ANSWER_MAX: Duration = Duration::from_secs(660);
/// No answer has more bytes: the status of a stack with 65,535 parts has less.
const ANSWER_BYTES_MAX: u64 = 64 << 20;

/// The argument --control of verbs that speak to a server.
#[derive(clap::Args)]
pub struct Control {
    /// Control socket of the server, as esker serve printed it
    #[arg(long = "control", value_name = "PATH", default_value = "esker.ctl")]
    path: PathBuf,
}

/// Why a server did not do what was asked.
#[derive(Debug, thiserror::Error)]
enum ControlError {
    #[error("{0}: there is no control socket; name the one that `esker serve` printed with --control PATH")]
    Missing(String),
    #[error("{0}: no server answers; it has died: start `esker serve` again")]
    Dead(String),
    #[error("{path}: cannot be reached: {source}")]
    Unreached { path: String, source: io::Error },
    #[error("{path}: the server went away: {source}")]
    Lost { path: String, source: io::Error },
    #[error("{0}: more than 64 MiB came and no end of the answer; this is no control socket of esker")]
    Endless(String),
    #[error("{0}: the server went away without an answer")]
    Silent(String),
    #[error("{path}: this is not a status that this program understands: {source}; is the server of another version?")]
    Strange { path: String, source: serde_json::Error },
    #[error("{0}")]
    Refused(Refusal),
}

impl Control {
    /// Sends `command` and waits for its result.
    ///
    /// # Errors
    /// An unreachable server, or what it says.
    pub fn ask(&self, command: &Command) -> Result<Value, Failure> {
        Ok(Asked::new(&self.path, command)?.answer()?)
    }

    /// Asks for the status, and waits no longer than `patience`.
    ///
    /// # Errors
    /// As for [`Control::ask`], and a status that is none.
    pub fn status(&self, patience: Duration) -> Result<Status, Failure> {
        let value = Asked::within(&self.path, &Command::Status {}, patience)?.answer()?;
        let path = self.path.display().to_string();
        Ok(serde_json::from_value(value).map_err(|source| ControlError::Strange { path, source })?)
    }

    /// Where the server is.
    pub fn place(&self) -> String {
        self.path.display().to_string()
    }

    /// The same as [`Control::ask`], and waits until the server has closed the connection.
    ///
    /// # Errors
    /// As for [`Control::ask`], and what the server says before it closes.
    pub fn ask_and_see_off(&self, command: &Command) -> Result<(), Failure> {
        let mut asked = Asked::new(&self.path, command)?;
        asked.answer()?;
        Ok(asked.wait_for_end()?)
    }
}

/// Asks the server at `path`.
///
/// # Errors
/// As for [`Control::ask`].
pub fn ask(path: &Path, command: &Command) -> Result<Value, Failure> {
    Ok(Asked::new(path, command)?.answer()?)
}

/// A connection over which a command was sent.
struct Asked {
    path: String,
    stream: BufReader<UnixStream>,
}

impl Asked {
    fn new(path: &Path, command: &Command) -> Result<Asked, ControlError> {
        Asked::within(path, command, ANSWER_MAX)
    }

    fn within(path: &Path, command: &Command, patience: Duration) -> Result<Asked, ControlError> {
        let name = path.display().to_string();
        let mut stream = UnixStream::connect(path).map_err(|source| match source.kind() {
            io::ErrorKind::NotFound => ControlError::Missing(name.clone()),
            io::ErrorKind::ConnectionRefused => ControlError::Dead(name.clone()),
            _ => ControlError::Unreached { path: name.clone(), source },
        })?;
        let timed = stream.set_read_timeout(Some(patience)).and_then(|()| stream.set_write_timeout(Some(patience)));
        let sent = timed.and_then(|()| stream.write_all(command.line().as_bytes()));
        sent.map_err(|source| ControlError::Lost { path: name.clone(), source })?;
        Ok(Asked { path: name, stream: BufReader::new(stream) })
    }

    fn answer(&mut self) -> Result<Value, ControlError> {
        match self.next_line()? {
            line if line.is_empty() => Err(ControlError::Silent(self.path.clone())),
            line => parse_answer(line.as_bytes()).map_err(ControlError::Refused),
        }
    }

    fn wait_for_end(&mut self) -> Result<(), ControlError> {
        loop {
            match self.next_line()? {
                line if line.is_empty() => return Ok(()),
                line => parse_answer(line.as_bytes()).map(drop).map_err(ControlError::Refused)?,
            }
        }
    }

    /// Empty at the end of the stream.
    fn next_line(&mut self) -> Result<String, ControlError> {
        let mut line = String::new();
        let read = Read::by_ref(&mut self.stream).take(ANSWER_BYTES_MAX).read_line(&mut line);
        match read {
            Ok(_) if line.len() as u64 >= ANSWER_BYTES_MAX => Err(ControlError::Endless(self.path.clone())),
            // A server that dies with our bytes unread.
            Err(e) if e.kind() == io::ErrorKind::ConnectionReset => Ok(String::new()),
            Err(source) => Err(ControlError::Lost { path: self.path.clone(), source }),
            Ok(_) => Ok(line),
        }
    }
}
