//! Rules of Prometheus, read and tried by its own program.

#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests run promtool on scratch files")]

use std::fs;
use std::process::Command;

use esker_skip::{Ability, skip};

const PROGRAM: &str = "promtool";

/// Panics with what `promtool check rules` says against a file of rules. Without the program the test is skipped.
/// `name` tells the scratch files of one test apart.
///
/// # Panics
/// If the program refuses the rules.
pub fn check(name: &str, rules: &str) {
    run(name, "check", &[("rules.json", rules)]);
}

/// Panics with what `promtool test rules` says against rules. `trials` are its tests, which name the rules `file`.
/// Without the program the test is skipped.
///
/// # Panics
/// If a trial fails.
pub fn try_rules(file: &str, rules: &str, trials: &str) {
    run(file, "test", &[("trials.json", trials), (file, rules)]);
}

/// Runs the program on the first of these files, in a folder that holds them all.
fn run(name: &str, verb: &str, files: &[(&str, &str)]) {
    let folder = std::env::temp_dir().join(format!("esker-promtool-{name}-{verb}-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("scratch");
    files.iter().for_each(|(file, text)| fs::write(folder.join(file), text).expect("scratch"));
    let run = Command::new(PROGRAM).args([verb, "rules", files[0].0]).current_dir(&folder).output();
    fs::remove_dir_all(&folder).expect("scratch");
    let Ok(output) = run else {
        return skip(Ability::Program, format!("{PROGRAM} is not installed"));
    };
    let told = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
    assert!(output.status.success(), "{name}: {told}");
}
