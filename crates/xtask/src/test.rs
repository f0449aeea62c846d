//! `cargo xtask test`: everything that the tests need, then all tests, then the tests that this machine could not run.
//! What a newcomer runs on a fresh machine.

use std::fs;
use std::io::ErrorKind;

use crate::{cargo, peers, skips};

/// Where tests record their skips, from the root of the tree.
const RECORDS: &str = "target/skips.txt";

/// `cargo xtask test [CARGO TEST ARGUMENTS]`.
pub fn main(args: &[String]) -> Result<bool, String> {
    if !peers::main(&[])? {
        return Ok(false);
    }
    let root = crate::root();
    let records = root.join(RECORDS);
    match fs::remove_file(&records) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(format!("{}: {error}", records.display())),
        _ => {}
    }
    fs::create_dir_all(root.join("target")).map_err(|error| format!("cannot make the folder target: {error}"))?;
    let mut cargo = cargo::cargo(&root);
    let status = cargo::status(cargo.args(["test", "--workspace"]).args(args).env(esker_skip::VARIABLE, &records))?;
    let are_listed = skips::report(&records, &root)?;
    let is_strict = std::env::var_os(skips::STRICT_VARIABLE).is_some();
    Ok(status.success() && (are_listed || !is_strict))
}
