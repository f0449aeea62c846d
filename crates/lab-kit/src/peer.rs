//! Rival programs.

use std::ffi::OsStr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::experiment::LabError;

/// What `program` did wrong.
pub fn fault(program: &str, what: impl ToString) -> LabError {
    LabError::Rival { program: program.to_string(), what: what.to_string() }
}

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
pub fn output<S: AsRef<OsStr>>(program: &str, args: &[S]) -> Result<String, LabError> {
    printed(program, Command::new(program).args(args))
}

/// The same in a folder.
///
/// # Errors
/// As [`output`].
pub fn output_in<S: AsRef<OsStr>>(program: &str, args: &[S], folder: &Path) -> Result<String, LabError> {
    printed(program, Command::new(program).args(args).current_dir(folder))
}

/// Runs this very program to its end, as a user does in a folder, and returns what it printed.
///
/// # Errors
/// As [`output`].
pub fn own<S: AsRef<OsStr>>(args: &[S], folder: &Path) -> Result<String, LabError> {
    let own = std::env::current_exe().map_err(|e| fault("esker", e))?;
    printed("esker", Command::new(own).args(args).current_dir(folder).stdin(Stdio::null()))
}

fn printed(program: &str, command: &mut Command) -> Result<String, LabError> {
    let run = command.output().map_err(|e| fault(program, e))?;
    if !run.status.success() {
        return Err(fault(program, format!("{}: {}", run.status, String::from_utf8_lossy(&run.stderr).trim())));
    }
    Ok(String::from_utf8_lossy(&run.stdout).into_owned())
}

/// Runs one job of fio for `span`, on what `place` says and with `options`, which are divided by blanks, and returns
/// its requests per second: those of all `ways` (`read`, `write`) together.
///
/// # Errors
/// [`LabError`] with its last words if it fails, or if its report has no such rate.
pub fn fio_rate(place: &[String], options: &str, span: Duration, seed: u64, ways: &[&str]) -> Result<f64, LabError> {
    let fixed = format!("--time_based --norandommap --randseed={seed} --runtime={}ms", span.as_millis());
    let report = fio(place, &format!("{options} {fixed}"))?;
    let rates: Option<Vec<f64>> = ways.iter().map(|way| report["jobs"][0][way]["iops"].as_f64()).collect();
    rates.map(|rates| rates.iter().sum()).ok_or_else(|| fault("fio", "no rate in its report"))
}

/// The same of random requests of 4 KiB with direct I/O, so many in flight, on the first `bytes` of a file or device.
///
/// # Errors
/// As [`fio_rate`].
pub fn fio_random(at: (&Path, u64), rw: &str, depth: u64, span: Duration, seed: u64) -> Result<f64, LabError> {
    let place = [format!("--filename={}", at.0.display()), format!("--size={}", at.1)];
    let options = format!("--rw={rw} --bs=4k --direct=1 --ioengine=io_uring --iodepth={depth}");
    fio_rate(&place, &options, span, seed, &["read", "write"])
}

/// Runs one job of fio to its end, on what `place` says and with `options`, which are divided by blanks, and returns
/// its report.
///
/// # Errors
/// [`LabError`] with its last words if it fails.
pub fn fio(place: &[String], options: &str) -> Result<serde_json::Value, LabError> {
    let fixed = "--name=lab --output-format=json";
    let words = [fixed, options].into_iter().flat_map(|words| words.split(' ')).map(str::to_string);
    let report = output("fio", &words.chain(place.iter().cloned()).collect::<Vec<_>>())?;
    // Some of its engines print lines of their own before the report.
    let begin = report.find('{').unwrap_or_default();
    serde_json::from_str(&report[begin..]).map_err(|e| fault("fio", e))
}
