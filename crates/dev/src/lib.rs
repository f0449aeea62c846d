//! Leaf devices: null and memory for both worlds, files and block devices through the reactor.
//!
//! Invariant: no policy: never reorders, retries or caches. A failed write is never forgotten.
//!
//! Reading order: [`null`], [`media`] (bytes in memory that outlive a world), [`memory`],
//! `disk` (requests through the reactor), [`file`], [`raw`], [`found`] (what lies on a file or
//! block device), [`rehearsal`] (what is written is lost).

#![forbid(unsafe_code)]
#![warn(clippy::wildcard_enum_match_arm)]
#![cfg_attr(test, allow(clippy::wildcard_enum_match_arm, reason = "a test panics in such an arm"))]
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "file devices open, create and look at files")]

mod disk;
pub mod file;
pub mod found;
pub mod media;
pub mod memory;
pub mod null;
pub mod raw;
pub mod rehearsal;

pub use media::Media;
pub use memory::{Defer, MemoryDevice};
pub use null::NullDevice;

#[cfg(test)]
mod tests;
