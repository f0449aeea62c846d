//! `cargo xtask docs`: writes the marked blocks of documents, which say what records of the code say.
//!
//! The tests that compare these blocks write them if they are told so: they are linked with the records, this tool is
//! not.

use std::process::Command;

/// As in `esker_testkit::generated`, which tools do not link.
const VARIABLE: &str = "ESKER_DOCS";
/// The tests, by the arguments of `cargo test`.
const TESTS: &[&[&str]] = &[
    &["-p", "esker-it", "--test", "it", "docs::marked_blocks_say_what_records_say"],
    &["-p", "esker-cli", "--bin", "esker", "the_page_of_commands_says_what_verbs_take"],
];

/// `cargo xtask docs`.
pub fn main(args: &[String]) -> Result<bool, String> {
    if !args.is_empty() {
        return Err("docs takes no arguments".to_string());
    }
    let mut all_done = true;
    for test in TESTS {
        let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        cargo.args(["test", "--quiet"]).args(*test).current_dir(crate::root()).env(VARIABLE, "1");
        all_done &= cargo.status().map_err(|error| format!("cannot run cargo: {error}"))?.success();
    }
    Ok(all_done)
}
