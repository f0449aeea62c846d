//! Rules of Prometheus, read by its own program.

#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests run promtool on a scratch file")]

use std::fs;
use std::process::Command;

use esker_skip::{Ability, skip};

/// Panics with what `promtool check rules` says against a file of rules. Without the program the test is skipped.
/// `name` tells the scratch files of one test apart.
///
/// # Panics
/// If the program refuses the rules.
pub fn check(name: &str, rules: &str) {
    let file = std::env::temp_dir().join(format!("esker-rules-{name}-{}.json", std::process::id()));
    fs::write(&file, rules).expect("scratch");
    let run = Command::new("promtool").args(["check", "rules"]).arg(&file).output();
    fs::remove_file(&file).expect("scratch");
    let Ok(output) = run else {
        return skip(Ability::Program, "promtool is not installed");
    };
    let told = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
    assert!(output.status.success(), "{name}: {told}");
}
