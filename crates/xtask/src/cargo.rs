//! Cargo, as these commands run it.

use std::path::Path;
use std::process::{Command, ExitStatus};

/// Prefixes of variables that cargo sets for this program alone. Build scripts that read them, such as that of `ring`,
/// run again when they change, and all that depends on them is then built again.
const OWN: [&str; 3] = ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_BIN_"];

/// Cargo in a folder, with the environment that a user's own call has.
pub fn cargo(folder: &Path) -> Command {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(|name| OWN.iter().any(|own| name.starts_with(own))) {
            cargo.env_remove(name);
        }
    }
    cargo.current_dir(folder);
    cargo
}

/// Runs a command of cargo to its end.
///
/// # Errors
/// It cannot be run.
pub fn status(cargo: &mut Command) -> Result<ExitStatus, String> {
    cargo.status().map_err(|error| format!("cannot run cargo: {error}"))
}
