//! `first-answer`: how long a new user waits: for the help, for the verdict on a trace, and for the first command of
//! README.md in a clone in which nothing was built.

use std::path::Path;

use esker_lab_kit::timing::{medians_of, seconds};
use esker_lab_kit::{Figure, Lab, LabError, peer, source_tree};

/// Requests of the trace that are played.
const REQUESTS: &str = "100000";
/// Profile of the trace: servers of a data centre, of which no default of `esker try` was made.
const PROFILE: &str = "msr-like";
/// A trace of so many hours has a few more requests.
const HOURS: &str = "0.034";

pub(crate) fn run(lab: &Lab<'_>) -> Result<Vec<Figure>, LabError> {
    let (folder, rounds) = (lab.folder()?, lab.scale(5, 11));
    let trace = folder.path().join("trace.ebt");
    let file = trace.to_string_lossy();
    let seed = lab.seed.to_string();
    let generate = ["blktrace", "generate", PROFILE, &file, "--to", "ebt", "--hours", HOURS, "--seed", &seed];
    peer::own(&generate, folder.path())?;
    lab.say("the help, and the verdict on a trace");
    let timed = |words: &[&str]| seconds(|| peer::own(words, folder.path()).map(drop));
    let [help_s, verdict_s] =
        medians_of(rounds, |_| Ok([timed(&["--help"])?, timed(&["try", &file, "--limit", REQUESTS, "--force"])?]))?;
    lab.say("the first command of README.md, with an empty target folder");
    let clone_s = seconds(|| first_command(folder.path()))?;
    Ok(vec![
        Figure::alone("seconds_to_verdict", verdict_s, "s"),
        Figure::alone("help_ms", help_s * 1e3, "ms"),
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
