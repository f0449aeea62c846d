//! What tests share.

#![allow(clippy::disallowed_methods, reason = "makes real directories")]

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;

use crate::init::{InitMode, InitOptions};

/// A whole tree, made as a foreign trace's.
pub(crate) const FULL_INIT: InitOptions =
    InitOptions { mode: InitMode::Full, force: false, keep_modes: false, max_bytes: None, drop_caches: false, seed: 1 };

/// A directory that only this user may enter, also while another test has taken the mask of permissions away.
pub(crate) fn private_dir() -> tempfile::TempDir {
    tempfile::Builder::new().permissions(Permissions::from_mode(0o700)).tempdir().expect("a directory can be made")
}
