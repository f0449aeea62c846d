//! The recorded traces of real programs that the project has.

use std::io::BufReader;
use std::path::{Path, PathBuf};

use esker_trace_calls::etrace::{self, Limits};
use esker_trace_order::compiled::Program;

use super::compiled;
use esker_lab_kit::LabError;

const SUITE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/data/programs");

/// Those that are named, or all, in the order of their names, each compiled; none where the project's sources are not.
pub(crate) fn programs(names: Option<&[&str]>) -> impl Iterator<Item = Result<(String, Program), LabError>> {
    let entries = std::fs::read_dir(SUITE).into_iter().flatten().flatten().map(|entry| entry.path());
    let is_wanted = |path: &PathBuf| {
        let is_named = names.is_none_or(|names| names.contains(&&*stem(path)));
        path.extension().is_some_and(|end| end == "etrace") && is_named
    };
    let mut paths: Vec<PathBuf> = entries.filter(is_wanted).collect();
    paths.sort();
    paths.into_iter().map(|path| Ok((stem(&path), read(&path)?)))
}

fn stem(path: &Path) -> String {
    path.file_stem().map_or(String::new(), |stem| stem.to_string_lossy().into_owned())
}

fn read(path: &Path) -> Result<Program, LabError> {
    let fault = |error: String| LabError::Data(format!("{}: {error}", path.display()));
    let file = std::fs::File::open(path).map_err(|error| fault(error.to_string()))?;
    let trace = etrace::read(BufReader::new(file), Limits::GENEROUS).map_err(|error| fault(error.to_string()))?;
    compiled(trace)
}
