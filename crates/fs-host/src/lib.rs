//! Directories of this machine, where scripts are played.
//!
//! Invariant: reaches nothing outside the directory that it is given, wherever links and names lead.
//!
//! Reading order: [`host`] (a player of scripts), [`place`] (the process and the folder that it plays in),
//! [`words`] (our words and the kernel's).

#![forbid(unsafe_code)]

pub mod host;
pub mod place;
mod words;

pub use host::Host;
