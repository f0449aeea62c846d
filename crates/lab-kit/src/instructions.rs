//! Instructions of a request in virtual time, counted by callgrind.
//!
//! The counted program is the example `requests` of the package `esker-able-samples`: half of its requests are writes
//! and half reads of 4 KiB, each alone. Costs are differences between runs of different length, so that start and end
//! drop out.

use std::path::PathBuf;
use std::process::Command;

use crate::{LabError, peer};

/// Runs that program under callgrind.
pub struct InstructionCounter {
    requests: u64,
    again: bool,
}

impl InstructionCounter {
    /// Builds the program, whose runs have `requests` requests, and twice as many.
    ///
    /// # Errors
    /// Without cargo, or outside of the project's directory.
    pub fn new(requests: u64) -> Result<InstructionCounter, LabError> {
        let args = ["build", "--quiet", "--release", "--package", "esker-able-samples", "--example", "requests"];
        peer::output("cargo", &args)?;
        Ok(InstructionCounter { requests, again: false })
    }

    /// With reads of what was just written.
    #[must_use]
    pub fn again(self) -> InstructionCounter {
        InstructionCounter { again: true, ..self }
    }

    /// Instructions of one request through the device `vol` of a stack.
    ///
    /// # Errors
    /// Without valgrind, or if a request fails.
    pub fn instructions(&self, stack: &str) -> Result<f64, LabError> {
        let (few, many) = (self.total(stack, self.requests)?, self.total(stack, 2 * self.requests)?);
        Ok((many - few) as f64 / self.requests as f64)
    }

    fn total(&self, stack: &str, requests: u64) -> Result<u64, LabError> {
        let program = target().join("release/examples/requests");
        let fault = |what: String| peer::fault("valgrind", what);
        let run = Command::new("valgrind")
            .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
            .arg(&program)
            .args([stack, &requests.to_string()])
            .args(self.again.then_some("again"))
            .output()
            .map_err(|error| fault(error.to_string()))?;
        let told = String::from_utf8_lossy(&run.stderr).into_owned();
        if !run.status.success() {
            return Err(fault(told));
        }
        let collected = told.lines().find_map(|line| line.split("Collected : ").nth(1));
        collected.and_then(|count| count.trim().parse().ok()).ok_or_else(|| fault(format!("no count in: {told}")))
    }
}

/// Where cargo puts what it builds.
fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| "target".into(), Into::into)
}
