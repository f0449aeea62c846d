//! The tree that this program was built from: experiments on the sources themselves need it.

use std::path::{Path, PathBuf};

use crate::experiment::LabError;

/// The root of the tree.
///
/// # Errors
/// [`LabError::Data`] if the tree is not where it was when the program was built.
pub fn root() -> Result<PathBuf, LabError> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    root.canonicalize().ok().filter(|root| root.join("crates/xtask").is_dir()).ok_or_else(|| {
        LabError::Data(format!(
            "this program was built from {}, where there are no sources: run it by `cargo run` in a clone",
            root.display()
        ))
    })
}
