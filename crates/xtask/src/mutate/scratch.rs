//! The scratch copy: the tree as git sees it, uncommitted changes included, with a target folder that all mutants
//! share.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::patch::Mutant;
use crate::cargo::cargo;
use crate::program::{End, run_logged};
use crate::tidy::list_files;

/// Below the root, where git does not look.
pub const FOLDER: &str = "target/mutants";
const BUILD_LIMIT: Duration = Duration::from_secs(1200);
const TEST_LIMIT: Duration = Duration::from_secs(300);

/// A copy of `root` that mutants may change.
pub struct Scratch {
    root: PathBuf,
    tree: PathBuf,
    home: PathBuf,
}

/// What a run of `cargo test` reported, summed over its test programs.
#[derive(Debug, PartialEq, Eq, Default)]
pub struct TestRun {
    pub success: bool,
    pub timed_out: bool,
    pub passed: usize,
    pub failed: usize,
}

impl Scratch {
    pub fn new(root: &Path) -> Result<Scratch, String> {
        let home = root.join(FOLDER);
        let tree = home.join("tree");
        fs::create_dir_all(&tree).map_err(|error| format!("cannot create {}: {error}", tree.display()))?;
        Ok(Scratch { root: root.into(), tree, home })
    }

    /// Makes the copy equal to the tree. Files that are equal already keep their time, so that cargo rebuilds little.
    pub fn restore(&self) -> Result<(), String> {
        let wanted = list_files(&self.root).map_err(|error| error.to_string())?;
        let present = list_files(&self.tree).map_err(|error| error.to_string())?;
        let surplus: BTreeSet<_> = present.difference(&wanted).collect();
        for path in surplus {
            fs::remove_file(self.tree.join(path))
                .map_err(|error| format!("cannot remove the copy of {path}: {error}"))?;
        }
        for path in &wanted {
            self.copy(path).map_err(|error| format!("cannot copy {path}: {error}"))?;
        }
        Ok(())
    }

    fn copy(&self, path: &str) -> io::Result<()> {
        let (from, to) = (self.root.join(path), self.tree.join(path));
        let bytes = fs::read(from)?;
        if fs::read(&to).is_ok_and(|present| present == bytes) {
            return Ok(());
        }
        fs::create_dir_all(to.parent().expect("a file in the copy has a folder"))?;
        fs::write(to, bytes)
    }

    /// Whether the patch applied.
    pub fn apply(&self, mutant: &Mutant) -> Result<bool, String> {
        // The copy lies inside a repository: without the ceiling, git would take paths from that one's root.
        let mut git = Command::new("git");
        git.args(["apply", "--whitespace=nowarn"]).arg(&mutant.path).current_dir(&self.tree);
        git.env("GIT_CEILING_DIRECTORIES", &self.home);
        let end = run_logged(&mut git, &self.log(mutant, "apply"), Duration::from_secs(60))?;
        Ok(end == End::Success)
    }

    /// Whether the mutant's test builds.
    pub fn compiles(&self, mutant: &Mutant) -> Result<bool, String> {
        let mut cargo = self.cargo(&["test", "--no-run"], mutant);
        Ok(run_logged(&mut cargo, &self.log(mutant, "build"), BUILD_LIMIT)? == End::Success)
    }

    /// Runs the mutant's test.
    pub fn test(&self, mutant: &Mutant) -> Result<TestRun, String> {
        let log = self.log(mutant, "test");
        let end = run_logged(&mut self.cargo(&["test"], mutant), &log, TEST_LIMIT)?;
        let output = fs::read(&log).map_err(|error| format!("cannot read {}: {error}", log.display()))?;
        let (passed, failed) = count_tests(&String::from_utf8_lossy(&output));
        Ok(TestRun { success: end == End::Success, timed_out: end == End::TimedOut, passed, failed })
    }

    fn cargo(&self, verb: &[&str], mutant: &Mutant) -> Command {
        let mut cargo = cargo(&self.tree);
        cargo.args(verb).args(mutant.targets()).args(&mutant.test);
        // Nothing reads it here, and without it each mutant is linked in half of the time.
        cargo.env("CARGO_PROFILE_DEV_DEBUG", "0");
        cargo.env("CARGO_TARGET_DIR", self.home.join("target"));
        cargo
    }

    fn log(&self, mutant: &Mutant, step: &str) -> PathBuf {
        self.home.join(format!("{}.{step}.log", mutant.name))
    }
}

/// Sums the summary lines `test result: ok. 3 passed; 1 failed; ..` of all test programs.
fn count_tests(output: &str) -> (usize, usize) {
    let mut sum = (0, 0);
    for line in output.lines().filter(|line| line.starts_with("test result: ")) {
        let count = |what: &str| {
            let before = line.split(what).next().filter(|before| before.len() < line.len());
            before.and_then(|before| before.split_whitespace().last()?.parse::<usize>().ok()).unwrap_or(0)
        };
        sum = (sum.0 + count(" passed;"), sum.1 + count(" failed;"));
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn summaries_are_summed_over_test_programs() {
        let output = "running 2 tests\ntest result: ok. 2 passed; 0 failed; 0 ignored;\nnoise 7 passed;\n\
                      test result: FAILED. 11 passed; 3 failed; 0 ignored;\n";
        assert_eq!(count_tests(output), (13, 3));
        assert_eq!(count_tests("error: could not compile"), (0, 0));
    }
}
