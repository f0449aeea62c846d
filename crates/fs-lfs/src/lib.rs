//! A log-structured file system whose images are those of NILFS2, revision 2: made, written, read, checked and shown.
//!
//! Invariant: never derives liveness from a counter. What lives is told by the intervals of the DAT alone.
//!
//! The kernel's own driver reads and writes such images, so it judges every byte. The format lies in [`format`], and
//! `docs/reference/formats/nilfs2.md` describes it. [`write`](mod@write) takes changes, [`mkfs`](mod@mkfs) makes an
//! empty file system, and all else only reads.
//!
//! Reading order: [`format`] (bytes, no I/O), [`error`], [`medium`] (superblocks, blocks, logs, the latest checkpoint).
//! Then [`map`] (files to blocks), [`volume`] (metadata files), [`read`] (the file system of one checkpoint), [`kind`]
//! (its entry in the list of kinds). Then [`write`](mod@write), [`control`] (calls of cleaners), [`cleaner`]. Last
//! [`check`], [`dump`], [`mkfs`](mod@mkfs), [`sums`] (for tests).

#![forbid(unsafe_code)]
#![warn(clippy::wildcard_enum_match_arm)]

mod answer;
pub mod check;
pub mod cleaner;
pub mod control;
pub mod dump;
pub mod error;
pub mod format;
pub mod kind;
mod liveness;
pub mod map;
pub mod medium;
pub mod mkfs;
mod names;
pub mod read;
pub mod sums;
pub mod volume;
pub mod write;

pub use check::{Finding, Found, check};
pub use cleaner::{CleanerConfig, LfsCleaner};
pub use control::LfsControl;
pub use error::LfsError;
pub use mkfs::{MkfsConfig, mkfs};
pub use read::LfsReader;
pub use volume::Volume;
pub use write::counting::SnapshotCounting;
pub use write::{Lfs, LfsConfig};

#[cfg(test)]
mod tests;
