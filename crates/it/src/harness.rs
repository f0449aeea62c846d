//! The figures of the experiment `fs-harness`, as lines of text for the program that runs it.

use std::fmt::Display;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use esker_testkit::files::suite::HarnessFigure;
use esker_testkit::files::{Scale, figures};

use crate::kernel::System;
use crate::kernel::weak::{WeakScale, judge};

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

/// The figures of a file system of the kernel, measured in a process with mounts of its own: `program` is this one,
/// which is run again with [`on_kernel`].
///
/// # Errors
/// What this machine lacks.
pub fn of_kernel(system: System, program: &Path, options: HarnessOptions) -> Result<String, String> {
    if !rustix::process::geteuid().is_root() {
        return Err("only root mounts file systems".to_string());
    }
    system.missing().map_or(Ok(()), Err)?;
    let mut command = Command::new("unshare");
    let seed = options.seed.to_string();
    command.arg("--mount").arg(program).args(["harness", "--kernel-alone", system.name(), "--seed", &seed]);
    command.args(options.quick.then_some("--quick"));
    let output = command.output().map_err(|error| format!("unshare: {error}"))?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The figures of a file system of the kernel, in a process that has mounts of its own.
///
/// # Errors
/// What keeps them from being measured.
pub fn on_kernel(system: System, options: HarnessOptions) -> Result<Vec<(String, f64, &'static str)>, String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let (scripts, points_max, states_max) = if options.quick { (12, 40, 3) } else { (100, 1000, 6) };
    let scale = WeakScale { scripts, points_max, states_max, seed: options.seed, lies: false };
    let run = judge(system, scale, folder.path())?;
    run.told.iter().for_each(|line| eprintln!("{line}"));
    let named = |what: &str| format!("{}_{what}", system.name());
    Ok(vec![
        (named("violations"), run.violations as f64, "broken promises"),
        (named("states"), run.states as f64, "states that were mounted"),
        (named("objects"), run.judged as f64, "objects that were judged"),
    ])
}

/// A figure as a line.
pub fn line((name, value, unit): (impl Display, f64, &str)) -> String {
    format!("FIGURE {name} {value} {unit}")
}
