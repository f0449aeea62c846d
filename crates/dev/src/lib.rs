//! Leaf devices: null and memory for both worlds, files and block devices through the reactor.
//!
//! Invariant: no policy; a device never reorders, retries or caches, and a failed write is never forgotten.
//!
//! Reading order: [`null`], [`media`] (bytes in memory that outlive a world), [`memory`].

#![forbid(unsafe_code)]

pub mod media;
pub mod memory;
pub mod null;

pub use media::Media;
pub use memory::{Defer, MemoryDevice};
pub use null::NullDevice;

#[cfg(test)]
mod tests;
