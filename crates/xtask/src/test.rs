//! `cargo xtask test`: everything that the tests need, then all tests. What a newcomer runs on a fresh machine.

use std::process::Command;

use crate::peers;

/// `cargo xtask test [CARGO TEST ARGUMENTS]`.
pub fn main(args: &[String]) -> Result<bool, String> {
    if !peers::main(&[])? {
        return Ok(false);
    }
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo).args(["test", "--workspace"]).args(args).current_dir(crate::root()).status();
    Ok(status.map_err(|error| format!("cannot run cargo: {error}"))?.success())
}
