//! `first-answer`: how long a new user waits: for the help, for the verdict on a trace, and for the first command of
//! README.md in a clone in which nothing was built.

use std::path::Path;

use esker_lab_kit::timing::{median, seconds};
use esker_lab_kit::{Figure, Lab, LabError, peer, source_tree};

/// Requests of the trace.
const REQUESTS: &str = "100000";
/// Profile of the trace: a server of files, of which no default of `esker try` was made.
const PROFILE: &str = "msr-like";

pub(crate) fn run(lab: &Lab<'_>) -> Result<Vec<Figure>, LabError> {
    let (folder, rounds) = (lab.folder()?, lab.scale(5, 11));
    let trace = folder.path().join("trace.csv");
    let file = trace.to_string_lossy();
    let seed = lab.seed.to_string();
    peer::own(
        &["blktrace", "generate", "--profile", PROFILE, "--requests", REQUESTS, "--seed", &seed, &file],
        folder.path(),
    )?;
    let timed = |words: &[&str]| -> Result<f64, LabError> {
        let times: Result<Vec<f64>, LabError> =
            (0..rounds).map(|_| seconds(|| peer::own(words, folder.path()).map(drop))).collect();
        times.map(median)
    };
    lab.say("the help, and the verdict on a trace");
    let help_ms = timed(&["--help"])? * 1e3;
    let verdict_s = timed(&["try", &file])?;
    lab.say("the first command of README.md, with an empty target folder");
    let clone_s = seconds(|| first_command(folder.path()))?;
    Ok(vec![
        Figure::alone("seconds_to_verdict", verdict_s, "s"),
        Figure::alone("help_ms", help_ms, "ms"),
        Figure::alone("fresh_clone_minutes", clone_s / 60.0, "minutes"),
    ])
}

/// Runs the first command of the first block of README.md in a clone of the tree. Registries and toolchain are there.
fn first_command(folder: &Path) -> Result<(), LabError> {
    let root = source_tree::root()?;
    peer::output_in("git", &["clone", "--quiet", &root.to_string_lossy(), "clone"], folder)?;
    let clone = folder.join("clone");
    let page = std::fs::read_to_string(clone.join("README.md")).map_err(|error| peer::fault("README.md", error))?;
    let block = page.split("```").nth(1).unwrap_or_default();
    let line = block.lines().skip(1).find(|line| !line.trim().is_empty());
    let line = line.ok_or_else(|| LabError::data("README.md has no command"))?;
    peer::output_in("env", &["-u", "CARGO_TARGET_DIR", "sh", "-c", line], &clone).map(drop)
}
