//! Directories of this machine: where scripts are played, and file systems of ours that pass calls through to one.
//!
//! Invariant: reaches nothing outside the directory that it is given, wherever links and names lead.
//!
//! Reading order: [`host`] (a player of scripts), [`place`] (the process and the folder that it plays in). Then
//! [`files`] (the file system), [`kind`] (its entry in the list of kinds), `words` (our words and the kernel's).

#![forbid(unsafe_code)]

pub mod files;
pub mod host;
pub mod kind;
pub mod place;
mod words;

pub use files::{HostFs, HostFsError, raise_descriptors};
pub use host::Host;
