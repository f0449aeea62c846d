//! A page cache for file systems on devices.
//!
//! The cache holds frames of files: 1 to 16 pages each, found by inode and number. It fetches what a read misses, reads
//! ahead of sequential readers, and chooses the frames that leave. Its owner, a file system, takes the dirty frames in
//! an order of its own and writes them.
//!
//! Invariant: never writes back by itself; a dirty frame leaves only when its owner has written or discarded it.
//!
//! Reading order: [`config`] (limits), [`cache`] (reads), [`prepared`] (writes), [`frozen`] (what the owner writes),
//! `frames` (the slots and their order), `ahead` (streams of sequential readers).

#![forbid(unsafe_code)]
#![warn(clippy::wildcard_enum_match_arm)]

mod ahead;
pub mod cache;
pub mod config;
mod fetch;
mod frames;
pub mod frozen;
pub mod prepared;

pub use cache::{Backing, PageCache, PageCacheStats};
pub use config::{Between, FrameClass, PageCacheConfig, PageCacheError};
pub use frozen::Frozen;
pub use prepared::Prepared;

#[cfg(test)]
mod tests;
