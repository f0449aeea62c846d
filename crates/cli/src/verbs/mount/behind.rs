//! The process behind `--background`.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek};
use std::process::{Command, Stdio};

use crate::failure::Failure;
use crate::terminal::Terminal;

/// Why a mount in the background did not come up.
#[derive(Debug, thiserror::Error)]
enum BehindError {
    #[error("the process in the background cannot be started: {0}")]
    Start(std::io::Error),
    #[error("the process in the background said: {0}")]
    Ended(String),
}

/// Starts the same command as a process of its own and waits until it has mounted.
///
/// # Errors
/// What the process said, if it did not mount.
pub(super) fn start(terminal: &mut Terminal) -> Result<(), Failure> {
    // Without a name, so that it is gone with the process.
    let mut log = tempfile::tempfile().map_err(BehindError::Start)?;
    let program = std::env::current_exe().map_err(BehindError::Start)?;
    let mut command = Command::new(program);
    command.args(std::env::args_os().skip(1).chain(["--behind".into()]));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log.try_clone().map_err(BehindError::Start)?);
    let mut child = command.spawn().map_err(BehindError::Start)?;
    let out = child.stdout.take().expect("asked for above");
    match BufReader::new(out).lines().map_while(Result::ok).next() {
        Some(line) => terminal.say(&line),
        None => {
            // It has ended, or is about to.
            let _status = child.wait();
            Err(BehindError::Ended(told(&mut log)).into())
        }
    }
}

fn told(log: &mut File) -> String {
    let mut text = String::new();
    // What cannot be read is not told.
    let _unread = log.rewind().and_then(|()| log.read_to_string(&mut text));
    // Lines of ours, which the caller's name will be put in front of once more.
    let lines = text.lines().map(|line| line.trim_start_matches("esker: "));
    lines.collect::<Vec<_>>().join("\n")
}
