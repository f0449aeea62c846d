//! `esker serve` as an operator has it: a process of its own.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::bound::{BEGUN_WITHIN, Bound};
use crate::experiment::LabError;
use crate::machine::told_bytes;
use crate::{peer, scratch};

/// Its name in failures.
pub const PROGRAM: &str = "esker serve";

/// The same for a server that a profiler slows down fifty times.
const SLOWED_BEGUN_WITHIN: Duration = Duration::from_secs(120);

/// A server that is ready; killed when dropped.
pub struct ServeProcess {
    program: Bound,
    folder: TempDir,
}

impl ServeProcess {
    /// Serves a stack, with more arguments, and waits until it is open and measured. In both texts, FOLDER is the
    /// server's own folder in `parent`. Only errors are logged.
    ///
    /// # Errors
    /// If it does not start.
    pub fn start(parent: &Path, text: &str, args: &[&str]) -> Result<ServeProcess, LabError> {
        ServeProcess::start_in(scratch::folder(parent)?, &[], text, &[&["--log", "error"], args].concat(), quiet)
    }

    /// The same under a program that runs another one, such as a profiler: its words, in which FOLDER is the server's
    /// folder.
    ///
    /// # Errors
    /// If it does not start.
    pub fn start_under(parent: &Path, runner: &[&str], text: &str) -> Result<ServeProcess, LabError> {
        ServeProcess::start_in(scratch::folder(parent)?, runner, text, &["--log", "error"], quiet)
    }

    /// The same in a folder that may hold files of the stack, under a runner if there is one. `ready` says where
    /// output goes.
    ///
    /// # Errors
    /// If it does not start.
    pub fn start_in(
        folder: TempDir,
        runner: &[&str],
        text: &str,
        args: &[&str],
        ready: impl FnOnce(&mut Command) -> &mut Command,
    ) -> Result<ServeProcess, LabError> {
        let at = |name: &str| folder.path().join(name);
        let in_folder = |text: &&str| text.replace("FOLDER", &folder.path().display().to_string());
        std::fs::write(at("stack.toml"), in_folder(&text)).map_err(failed)?;
        let own = std::env::current_exe().map_err(failed)?;
        let words: Vec<OsString> = runner.iter().map(|word| in_folder(word).into()).chain([own.into()]).collect();
        let mut program = Bound::start(&words[0], |command| {
            command.args(&words[1..]).arg("serve").arg(at("stack.toml")).arg("--control").arg(at("control"));
            ready(command.args(args.iter().map(in_folder)))
        })?;
        let within = if runner.is_empty() { BEGUN_WITHIN } else { SLOWED_BEGUN_WITHIN };
        program.connect(&at("control"), within)?;
        let mut server = ServeProcess { program, folder };
        // Commands are taken when all else that belongs to the start is done.
        server.ask(&json!({ "do": "hello" }))?;
        Ok(server)
    }

    /// Asks over the control socket for what is not refused.
    ///
    /// # Errors
    /// A refusal, and a server that is gone.
    pub fn ask(&mut self, command: &Value) -> Result<Value, LabError> {
        ask(PROGRAM, &self.at("control"), command)
    }

    /// A file of its folder.
    pub fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Its number.
    pub fn pid(&self) -> u32 {
        self.program.pid()
    }

    /// Asks it over the control socket to stop, and waits until it has ended. Under a profiler a signal may not reach
    /// it.
    ///
    /// # Errors
    /// The kernel's, and a server that fails as it stops.
    pub fn stop(&mut self) -> Result<(), LabError> {
        self.ask(&json!({ "do": "stop" }))?;
        let ended = self.program.child().wait().map_err(failed)?;
        if ended.success() { Ok(()) } else { Err(peer::fault(PROGRAM, ended)) }
    }

    /// Waits until it has ended.
    ///
    /// # Errors
    /// The kernel's.
    pub fn wait(&mut self) -> Result<(), LabError> {
        self.program.child().wait().map(drop).map_err(failed)
    }

    /// Its memory by the name that the kernel has for it (`VmRSS` now, `VmHWM` at most), in MiB.
    ///
    /// # Errors
    /// If it has ended.
    pub fn memory_mib(&self, name: &str) -> Result<f64, LabError> {
        let told = told_bytes(&format!("/proc/{}/status", self.program.pid()), name);
        let bytes = told.ok_or_else(|| peer::fault(PROGRAM, "its memory is not told"))?;
        Ok(bytes as f64 / f64::from(1 << 20))
    }
}

/// Asks a server, which failures call `program`, over its control socket for what is not refused. Servers end
/// connections that are silent for long, so each command has its own.
///
/// # Errors
/// A refusal, and a server that is gone.
pub fn ask(program: &str, control: &Path, command: &Value) -> Result<Value, LabError> {
    let failed = |error: std::io::Error| peer::fault(program, error);
    let mut control = BufReader::new(UnixStream::connect(control).map_err(failed)?);
    control.get_mut().write_all(format!("{command}\n").as_bytes()).map_err(failed)?;
    let mut line = String::new();
    control.read_line(&mut line).map_err(failed)?;
    let mut answer: Value = serde_json::from_str(&line).map_err(|error| peer::fault(program, error))?;
    match answer["ok"].as_bool() {
        Some(true) => Ok(answer["result"].take()),
        _ => Err(peer::fault(program, format!("{command}: {}", line.trim()))),
    }
}

fn quiet(command: &mut Command) -> &mut Command {
    command.stdout(Stdio::null()).stderr(Stdio::null())
}

/// What the kernel says about it.
pub fn failed(error: std::io::Error) -> LabError {
    peer::fault(PROGRAM, error)
}
