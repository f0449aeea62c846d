//! The client of a server's control socket, as verbs use it.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use esker_serve::command::parse_answer;
use esker_serve::{Command, Refusal, Status};
use esker_stack::Spec;
use serde_json::Value;

use crate::failure::Failure;
use crate::local::{ANSWER_BYTES_MAX, Local, LocalError};

/// A server that is alive answers so soon what it knows.
pub const PROMPT: Duration = Duration::from_secs(10);
/// What a change may take beyond the patience that its command names.
const BEYOND_PATIENCE: Duration = Duration::from_secs(60);
/// Longer than any live change and any stop waits.
const ANSWER_MAX: Duration = Duration::from_secs(660);

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
    #[error("{0}: there is no control socket\ntip: name the one that `esker serve` printed with --control PATH")]
    Missing(String),
    #[error("{0}: no server answers; it has died\ntip: start `esker serve` again")]
    Dead(String),
    #[error("{path}: cannot be reached: {source}")]
    Unreached { path: String, source: io::Error },
    #[error("{path}: not asked: {source}")]
    Untrusted { path: String, source: LocalError },
    #[error("{0}: the server gives no answer in time; it hangs, or is no server of esker")]
    Late(String),
    #[error("{path}: the server went away: {source}")]
    Lost { path: String, source: io::Error },
    #[error("{0}: more than 64 MiB came and no end of the answer; this is no control socket of esker")]
    Endless(String),
    #[error("{0}: the server went away without an answer")]
    Silent(String),
    #[error("{path}: this is not a status that this program understands: {source}; is the server of another version?")]
    Strange { path: String, source: serde_json::Error },
    #[error("the server's answer is no stack: {0}")]
    NoStack(Value),
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

    /// The stack that the server serves.
    ///
    /// # Errors
    /// As for [`Control::ask`], and an answer that is no stack.
    pub fn spec(&self) -> Result<Spec, Failure> {
        spec(&self.path)
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

/// The stack that the server at `path` serves.
///
/// # Errors
/// As for [`Control::ask`], and an answer that is no stack.
pub fn spec(path: &Path) -> Result<Spec, Failure> {
    spec_within(path, answer_max(&Command::Dump {}))
}

/// The same, and waits no longer than `patience`.
///
/// # Errors
/// As for [`spec`].
pub fn spec_within(path: &Path, patience: Duration) -> Result<Spec, Failure> {
    let dump = ask_within(path, &Command::Dump {}, patience)?;
    let text = dump["toml"].as_str().ok_or_else(|| ControlError::NoStack(dump.clone()))?;
    Ok(Spec::parse("the server's stack", text)?)
}

/// Asks the server at `path`.
///
/// # Errors
/// As for [`Control::ask`].
pub fn ask(path: &Path, command: &Command) -> Result<Value, Failure> {
    Ok(Asked::new(path, command)?.answer()?)
}

/// The same, and waits no longer than `patience`.
///
/// # Errors
/// As for [`Control::ask`].
pub fn ask_within(path: &Path, command: &Command, patience: Duration) -> Result<Value, Failure> {
    Ok(Asked::within(path, command, patience)?.answer()?)
}

/// How long the answer to a command may take.
fn answer_max(command: &Command) -> Duration {
    match command {
        Command::Hello {} | Command::Status {} | Command::Dump {} | Command::Thaw { .. } | Command::Stop { .. } => {
            PROMPT
        }
        Command::Insert { patience_ms, .. }
        | Command::Remove { patience_ms, .. }
        | Command::Replace { patience_ms, .. }
        | Command::Attach { patience_ms, .. }
        | Command::Detach { patience_ms, .. }
        | Command::Reorder { patience_ms, .. }
        | Command::Resize { patience_ms, .. }
        | Command::Sync { patience_ms }
        | Command::Freeze { patience_ms, .. }
        | Command::HandOver { patience_ms, .. }
        | Command::Meters { patience_ms, .. } => {
            Duration::from_millis(*patience_ms).saturating_add(BEYOND_PATIENCE).min(ANSWER_MAX)
        }
        Command::Remap { .. } | Command::Order { .. } => ANSWER_MAX,
    }
}

/// A connection over which a command was sent.
struct Asked {
    path: String,
    stream: BufReader<Local>,
}

impl Asked {
    fn new(path: &Path, command: &Command) -> Result<Asked, ControlError> {
        Asked::within(path, command, answer_max(command))
    }

    fn within(path: &Path, command: &Command, patience: Duration) -> Result<Asked, ControlError> {
        let name = path.display().to_string();
        let mut stream = Local::connect(path, patience).map_err(|error| unreached(name.clone(), error))?;
        stream.write_all(command.line().as_bytes()).map_err(|source| lost(name.clone(), source))?;
        Ok(Asked { path: name, stream: BufReader::new(stream) })
    }

    fn answer(&mut self) -> Result<Value, ControlError> {
        match self.next_line()? {
            line if line.is_empty() => Err(ControlError::Silent(self.path.clone())),
            line => parse_answer(line.as_bytes()).map_err(ControlError::Refused),
        }
    }

    fn wait_for_end(&mut self) -> Result<(), ControlError> {
        self.stream.get_mut().go_on_for(ANSWER_MAX);
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
            Err(source) => Err(lost(self.path.clone(), source)),
            Ok(_) => Ok(line),
        }
    }
}

fn unreached(path: String, error: LocalError) -> ControlError {
    match error {
        LocalError::Unreached(source) => match source.kind() {
            io::ErrorKind::NotFound => ControlError::Missing(path),
            io::ErrorKind::ConnectionRefused => ControlError::Dead(path),
            io::ErrorKind::TimedOut => ControlError::Late(path),
            _ => ControlError::Unreached { path, source },
        },
        source @ LocalError::Foreign(_) => ControlError::Untrusted { path, source },
    }
}

fn lost(path: String, source: io::Error) -> ControlError {
    if source.kind() == io::ErrorKind::TimedOut {
        ControlError::Late(path)
    } else {
        ControlError::Lost { path, source }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn a_server_that_says_nothing_is_given_up() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ctl");
        let _silent = UnixListener::bind(&path).unwrap();
        let command = Command::Status {};
        let mut asked = Asked::within(&path, &command, Duration::from_millis(100)).unwrap();
        let error = asked.answer().unwrap_err();
        assert!(matches!(error, ControlError::Late(_)), "{error}");
    }

    #[test]
    fn every_answer_has_a_limit_which_follows_the_patience_of_its_command() {
        let sync = |patience_ms| answer_max(&Command::Sync { patience_ms });
        assert_eq!(sync(1_000), Duration::from_secs(61));
        assert_eq!(sync(u64::MAX), ANSWER_MAX);
        assert_eq!(
            answer_max(&Command::Stop { patience_ms: Some(600_000) }),
            PROMPT,
            "it is answered before it is done"
        );
    }
}
