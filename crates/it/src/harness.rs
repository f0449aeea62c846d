//! The figures of the experiment `fs-harness`, as lines of text for the program that runs it.

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use esker_testkit::files::suite::HarnessFigure;
use esker_testkit::files::{Scale, figures};

use crate::kernel::System;
use crate::kernel::weak::{WeakScale, ext4};

/// How much is measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HarnessOptions {
    /// What ends in about a minute.
    pub quick: bool,
    /// Seed of all draws.
    pub seed: u64,
}

/// The figures that need no kernel. Lines of progress go to the standard error output.
pub fn judged(options: HarnessOptions) -> Vec<HarnessFigure> {
    let HarnessOptions { quick, seed } = options;
    // Three steps in their whole number take hours; a long run draws them.
    let long = Scale { scripts: [u64::MAX, 20_000, 5_000], cycles: 1000, ..Scale::long(seed) };
    let began = Instant::now();
    figures(if quick { Scale::quick(seed) } else { long }, || began.elapsed().as_secs_f64(), |line| eprintln!("{line}"))
}

/// The figures of ext4, measured in a process with mounts of its own: `program` is this one, which is run again with
/// [`on_ext4`].
///
/// # Errors
/// What this machine lacks.
pub fn of_ext4(program: &Path, options: HarnessOptions) -> Result<String, String> {
    if !rustix::process::geteuid().is_root() {
        return Err("only root mounts file systems".to_string());
    }
    System::Ext4.missing().map_or(Ok(()), Err)?;
    let mut command = Command::new("unshare");
    command.arg("--mount").arg(program).args(["harness", "--ext4-alone", "--seed", &options.seed.to_string()]);
    command.args(options.quick.then_some("--quick"));
    let output = command.output().map_err(|error| format!("unshare: {error}"))?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The figures of ext4, in a process that has mounts of its own.
///
/// # Errors
/// What keeps them from being measured.
pub fn on_ext4(options: HarnessOptions) -> Result<Vec<HarnessFigure>, String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let (scripts, points_max, states_max) = if options.quick { (12, 40, 3) } else { (100, 1000, 6) };
    let run = ext4(WeakScale { scripts, points_max, states_max, seed: options.seed, lies: false }, folder.path())?;
    run.told.iter().for_each(|line| eprintln!("{line}"));
    Ok(vec![
        ("ext4_violations", run.violations as f64, "broken promises"),
        ("ext4_states", run.states as f64, "states that were mounted"),
        ("ext4_objects", run.judged as f64, "objects that were judged"),
    ])
}

/// A figure as a line.
pub fn line((name, value, unit): HarnessFigure) -> String {
    format!("FIGURE {name} {value} {unit}")
}
