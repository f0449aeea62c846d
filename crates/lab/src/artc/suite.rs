//! The recorded traces of real programs that the project has.

use std::io::BufReader;
use std::path::{Path, PathBuf};

use esker_trace_calls::etrace::{self, Limits};
use esker_trace_order::compiled::Program;

use super::compiled;
use esker_lab_kit::LabError;

const SUITE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../data/programs");

/// Where they lie, in the order of their names; none where the project's sources are not.
pub fn recordings() -> Vec<PathBuf> {
    let entries = std::fs::read_dir(SUITE).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> =
        entries.map(|entry| entry.path()).filter(|path| path.extension().is_some_and(|end| end == "etrace")).collect();
    paths.sort();
    paths
}

/// One of them with its name, compiled.
///
/// # Errors
/// What is wrong with it.
pub fn read(path: &Path) -> Result<(String, Program), LabError> {
    let name = path.file_stem().map_or(String::new(), |stem| stem.to_string_lossy().into_owned());
    let fault = |error: String| LabError::Data(format!("{}: {error}", path.display()));
    let file = std::fs::File::open(path).map_err(|error| fault(error.to_string()))?;
    let trace = etrace::read(BufReader::new(file), Limits::GENEROUS).map_err(|error| fault(error.to_string()))?;
    Ok((name, compiled(trace)?))
}
