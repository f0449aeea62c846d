//! What tests share.

#![allow(clippy::disallowed_methods, reason = "makes real directories")]

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;

/// A directory that only this user may enter, also while another test has taken the mask of permissions away.
pub fn private_dir() -> tempfile::TempDir {
    tempfile::Builder::new().permissions(Permissions::from_mode(0o700)).tempdir().expect("a directory can be made")
}
