//! Directories of this machine, where scripts are played.
//!
//! Invariant: reaches nothing outside the directory that it is given, wherever links and names lead.
//!
//! Reading order: [`host`] (a player of scripts), `words` (our words and the kernel's).

#![forbid(unsafe_code)]

pub mod host;
mod words;

pub use host::Host;
