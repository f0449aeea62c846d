//! `--background`: the same command as a process of its own, which goes on when it serves.
//!
//! The first process passes on what the second one says, up to its last line, [`SERVES`]. Without that line the start
//! has failed: the error of the second process is that of the first.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use rustix::stdio::{dup2_stderr, dup2_stdout};

use crate::failure::Failure;
use crate::pid_file::{PidFile, PidFileError};
use crate::terminal::Terminal;

/// What a process in the background says last.
const SERVES: &str = "\u{4}";

/// How an error begins.
const ERROR: &str = "error: ";

/// How a verb goes to the background.
#[derive(clap::Args)]
pub struct Background {
    /// Return when it serves, with a process of its own behind it, whose log lines go to --log-file
    #[arg(long)]
    background: bool,
    /// File that gets the number of the process while it serves
    #[arg(long, value_name = "FILE")]
    pid_file: Option<PathBuf>,
    /// Be the process behind --background
    #[arg(long, hide = true)]
    behind: bool,
}

/// Why a process in the background does not serve.
#[derive(Debug, thiserror::Error)]
enum BehindError {
    #[error("the process in the background cannot be started: {0}")]
    Start(io::Error),
    #[error("{0}")]
    Ended(String),
}

impl Background {
    /// Whether this process is to start another one.
    pub fn is_asked(&self) -> bool {
        self.background && !self.behind
    }

    /// Checks, before anything else is done, that no living process has the PID file; the first process does it for
    /// both.
    ///
    /// # Errors
    /// One has it, or it is no PID file.
    pub fn check(&self, terminal: &mut Terminal) -> Result<(), Failure> {
        let path = self.pid_file.as_deref().filter(|_| !self.behind);
        Ok(path.map_or(Ok(()), |path| PidFile::check(path, terminal))?)
    }

    /// Starts this command as a process of its own, passes on its lines, and returns when it serves. Callers do
    /// [`Background::check`] before. Its errors go to `log`, or to a file without a name.
    ///
    /// # Errors
    /// What the process said, if it does not serve.
    pub fn start(&self, log: Option<File>, terminal: &mut Terminal) -> Result<(), Failure> {
        let mut log = log.map_or_else(tempfile::tempfile, Ok).map_err(BehindError::Start)?;
        let from = log.seek(SeekFrom::End(0)).map_err(BehindError::Start)?;
        let program = std::env::current_exe().map_err(BehindError::Start)?;
        let mut command = Command::new(program);
        command.args(std::env::args_os().skip(1).chain(["--behind".into()]));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log.try_clone().map_err(BehindError::Start)?);
        let mut child = command.spawn().map_err(BehindError::Start)?;
        let out = BufReader::new(child.stdout.take().expect("asked for above"));
        for line in out.lines().map_while(Result::ok) {
            if line == SERVES {
                return terminal.finish();
            }
            terminal.say(&line)?;
        }
        let status = child.wait().map_err(BehindError::Start)?;
        let said = said(&mut log, from, terminal);
        Err(match status.code() {
            Some(2) => Failure::Usage(said),
            Some(3) => Failure::Damaged(said),
            _ => BehindError::Ended(said).into(),
        })
    }

    /// Writes the PID file, if one is asked for. That is done before lines say that clients may connect.
    ///
    /// # Errors
    /// The file system's.
    pub fn write_pid_file(&self) -> Result<Option<PidFile>, PidFileError> {
        self.pid_file.as_deref().map(PidFile::write).transpose()
    }

    /// All lines are said. In the background, tells the first process that this one serves, and leaves its session and
    /// its outputs. Standard error stays if it is a log.
    ///
    /// # Errors
    /// The kernel's, or the first process is gone.
    pub fn serves(&self, keeps_log: bool, terminal: &mut Terminal) -> Result<(), Failure> {
        if self.behind {
            // The leader of a group, which a shell makes of a process, has no other session to go to.
            let _led = esker_front_fuse::harden::leave_session();
            terminal.say(SERVES)?;
            terminal.finish()?;
            let nothing = File::options().write(true).open("/dev/null")?;
            dup2_stdout(&nothing).map_err(io::Error::from)?;
            if !keeps_log {
                dup2_stderr(&nothing).map_err(io::Error::from)?;
            }
        }
        Ok(())
    }
}

/// Refuses a stack from standard input, which a process in the background does not have.
///
/// # Errors
/// A usage error.
pub fn check_source(source: &str) -> Result<(), Failure> {
    match source {
        "-" => {
            let text = "a stack from standard input cannot go to the background\ntip: write it to a file";
            Err(Failure::Usage(text.to_string()))
        }
        _ => Ok(()),
    }
}

/// The error at the end of a log. What was logged before it is passed on.
fn said(log: &mut File, from: u64, terminal: &mut Terminal) -> String {
    let mut text = String::new();
    // What cannot be read is not told.
    let _unread = log.seek(SeekFrom::Start(from)).and_then(|_| log.read_to_string(&mut text));
    let text = anstream::adapter::strip_str(&text).to_string();
    let (before, error) = match text.starts_with(ERROR) {
        true => ("", &text[ERROR.len()..]),
        false => text.split_once(&format!("\n{ERROR}")).unwrap_or((&text, "")),
    };
    terminal.complain(before.trim_end());
    match error.trim_end() {
        "" => "the process in the background has ended without a word".to_string(),
        error => error.to_string(),
    }
}
