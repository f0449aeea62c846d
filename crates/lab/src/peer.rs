//! Rival programs.

use std::process::Command;

use crate::experiment::LabError;

/// Checks that `program` can be started.
///
/// # Errors
/// [`LabError::NoRival`].
pub fn demand(program: &str) -> Result<(), LabError> {
    let started = Command::new(program).arg("--version").output();
    started.map(drop).map_err(|_| LabError::NoRival { program: program.to_string() })
}

/// Runs `program` to its end and returns what it printed.
///
/// # Errors
/// [`LabError`] with its last words if it fails.
pub fn output(program: &str, args: &[String]) -> Result<String, LabError> {
    let fault = |what: String| LabError::Rival { program: program.to_string(), what };
    let run = Command::new(program).args(args).output().map_err(|e| fault(e.to_string()))?;
    if !run.status.success() {
        return Err(fault(format!("{}: {}", run.status, String::from_utf8_lossy(&run.stderr).trim())));
    }
    Ok(String::from_utf8_lossy(&run.stdout).into_owned())
}
