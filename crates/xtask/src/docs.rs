//! `cargo xtask docs`: writes the marked blocks of documents, which say what records of the code say.
//!
//! The tests that compare these blocks write them if they are told so: they are linked with the records, this tool is
//! not.

use crate::cargo;

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
        let mut cargo = cargo::cargo(&crate::root());
        all_done &= cargo::status(cargo.args(["test", "--quiet"]).args(*test).env(VARIABLE, "1"))?.success();
    }
    Ok(all_done)
}
