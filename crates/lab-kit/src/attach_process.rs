//! `esker attach` as an operator has it: a process of its own.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::{Value, json};

use crate::bound::Bound;
use crate::experiment::LabError;
use crate::peer;
use crate::serve_process::ask;

/// Its name in failures.
const PROGRAM: &str = "esker attach";
/// The attachment's name. One of a process that was killed makes room for the next.
const NAME: &str = "lab";

/// An attached stack with one export; killed when dropped.
pub struct AttachProcess {
    program: Bound,
    device: PathBuf,
    control: PathBuf,
}

impl AttachProcess {
    /// Attaches a stack whose files lie in `folder`, which FOLDER means in the text.
    ///
    /// # Errors
    /// If it does not start; this takes root.
    pub fn start(folder: &Path, text: &str) -> Result<AttachProcess, LabError> {
        let at = |name: &str| folder.join(name);
        let failed = |error: std::io::Error| peer::fault(PROGRAM, error);
        std::fs::write(at("stack.toml"), text.replace("FOLDER", &folder.display().to_string())).map_err(failed)?;
        let own = std::env::current_exe().map_err(failed)?;
        let mut program = Bound::start(&own, |command| {
            command.arg("attach").arg(at("stack.toml")).args(["--name", NAME, "--json", "--log", "error"]);
            command.arg("--run-dir").arg(at("run")).stdout(Stdio::piped()).stderr(Stdio::null())
        })?;
        let lines = BufReader::new(program.child().stdout.take().expect("it is a pipe")).lines();
        let lines: Vec<Value> = lines.take(2).map_while(|line| serde_json::from_str(&line.ok()?).ok()).collect();
        let told = |key: &str| lines.iter().find_map(|line| Some(PathBuf::from(line[key].as_str()?)));
        let (Some(device), Some(control)) = (told("device"), told("control")) else {
            return Err(peer::fault(PROGRAM, "it tells no device"));
        };
        Ok(AttachProcess { program, device, control })
    }

    /// Its block device.
    pub fn device(&self) -> &Path {
        &self.device
    }

    /// What its parts told of themselves, summed over parts.
    ///
    /// # Errors
    /// A server that is gone.
    pub fn stat(&self, name: &str) -> Result<f64, LabError> {
        let status = ask(PROGRAM, &self.control, &json!({ "do": "status" }))?;
        let parts = status["parts"].as_array().cloned().unwrap_or_default();
        Ok(parts.iter().filter_map(|part| part["stats"][name].as_f64()).sum())
    }

    /// Orders its layer `vol`, in words of its kind.
    ///
    /// # Errors
    /// A refusal, and a server that is gone.
    pub fn order(&self, words: &[&str]) -> Result<(), LabError> {
        ask(PROGRAM, &self.control, &json!({ "do": "order", "device": "vol", "words": words })).map(drop)
    }

    /// Asks it to stop, and waits until it has ended.
    ///
    /// # Errors
    /// The kernel's, and a server that fails as it stops.
    pub fn stop(mut self) -> Result<(), LabError> {
        ask(PROGRAM, &self.control, &json!({ "do": "stop" }))?;
        let ended = self.program.child().wait().map_err(|error| peer::fault(PROGRAM, error))?;
        if ended.success() { Ok(()) } else { Err(peer::fault(PROGRAM, ended)) }
    }
}
