//! How a program begins under trace: its process stops before it executes the program, and is let through the gate.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};

use crate::filter;

/// Word by which a program of ours is asked to be the gate of another; see [`pass`].
const WORD: &str = "--esker-record-gate";
/// That only recorded calls are to stop.
const FILTER: &str = "filter";
/// That all calls may.
const OPEN: &str = "open";

/// The process that stops and executes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Gate {
    /// The shell: there on every machine.
    Shell,
    /// A program that begins with [`pass`]. It can also bind the calls of what it executes, for ptrace.
    Own(PathBuf),
}

/// A program that could not be started.
#[derive(Debug, thiserror::Error)]
pub enum GateError {
    /// It is nowhere.
    #[error("{0}: is no program here; give a path, or a name that lies in PATH")]
    Absent(String),
    /// Its process did not come to the gate.
    #[error("{0}: could not be started: {1}")]
    Unstarted(String, io::Error),
}

impl Gate {
    /// Starts the process of a program, which stops before it executes it. `filtered`, its calls that are not recorded
    /// will not stop under ptrace, if the gate can do that; tells whether it can.
    ///
    /// # Errors
    /// [`GateError`].
    pub fn start(&self, words: &[OsString], filtered: bool) -> Result<(Pid, bool), GateError> {
        let name = words.first().map(|word| word.to_string_lossy().into_owned()).unwrap_or_default();
        let program = words.first().and_then(|word| find(word)).ok_or_else(|| GateError::Absent(name.clone()))?;
        let (mut command, filtered) = match self {
            Gate::Shell => {
                let mut command = Command::new("/bin/sh");
                command.args(["-c", "kill -STOP $$; exec \"$@\"", "sh"]).arg(&program).args(&words[1..]);
                (command, false)
            }
            Gate::Own(own) => {
                let mut command = Command::new(own);
                command.arg(WORD).arg(if filtered { FILTER } else { OPEN }).arg(&program).args(words);
                (command, filtered)
            }
        };
        let child = command.spawn().map_err(|error| GateError::Unstarted(name.clone(), error))?;
        let pid = Pid::from_child(&child);
        let stopped = waitpid(Some(pid), WaitOptions::UNTRACED).map_err(io::Error::from);
        match stopped {
            Ok(Some((_, status))) if status.stopped() => Ok((pid, filtered)),
            Ok(_) => Err(GateError::Unstarted(name, io::Error::other("its process ended before it began"))),
            Err(error) => Err(GateError::Unstarted(name, error)),
        }
    }
}

/// Where a program lies.
fn find(word: &OsStr) -> Option<PathBuf> {
    if word.as_bytes().contains(&b'/') {
        return Some(PathBuf::from(word));
    }
    let path = std::env::var_os("PATH").unwrap_or_else(|| "/usr/bin:/bin".into());
    std::env::split_paths(&path).map(|folder| folder.join(word)).find(|file| is_program(file))
}

fn is_program(file: &Path) -> bool {
    let is_file = file.is_file();
    is_file && rustix::fs::access(file, rustix::fs::Access::EXEC_OK).is_ok()
}

/// What a program of ours does first of all: if it is asked to be a gate, it never returns from here. Answers the exit
/// status if the program could not be executed.
pub fn pass(args: impl Iterator<Item = OsString>) -> Option<u8> {
    let mut args = args.skip(1);
    if args.next()? != WORD {
        return None;
    }
    let (filtered, program, name) = (args.next()?, args.next()?, args.next()?);
    let stopped = kill_process(rustix::process::getpid(), Signal::STOP);
    if stopped.is_err() || (filtered == FILTER && filter::install().is_err()) {
        return Some(125);
    }
    let error = Command::new(&program).arg0(&name).args(args).exec();
    // As shells do it: 127 if there is no such program, else 126.
    eprintln!("{}: {error}", Path::new(&program).display());
    Some(if error.kind() == io::ErrorKind::NotFound { 127 } else { 126 })
}
