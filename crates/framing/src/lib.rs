//! Framing of media: superblocks, sealed pages and log records, for all formats.
//!
//! Every format that owns a medium begins it with the same 64 bytes ([`superblock`]). One rule decides which of two
//! slots counts and what a damaged slot means ([`newest()`]). A sealed [`Page`] is bound to its medium, its place and
//! its generation, a sealed [`cell`] to its set and its place. A [`Record`] is bound to its log, its place and its
//! epoch; a [`LogCursor`] tells the end of a log from damage.
//!
//! Invariant: opens no device: takes bytes, and returns bytes, values and errors.
//!
//! Reading order: [`superblock`] (the common header), [`newest`](mod@newest) (which slot counts), [`record`] (logs),
//! [`page`], [`cell`], [`conformance`] (what each format runs in its tests).

#![forbid(unsafe_code)]
#![warn(clippy::wildcard_enum_match_arm)]
#![cfg_attr(test, allow(clippy::wildcard_enum_match_arm, reason = "a test panics in such an arm"))]
#![cfg_attr(not(test), deny(clippy::cast_possible_truncation))]

pub mod cell;
pub mod conformance;
pub mod newest;
pub mod page;
pub mod record;
pub mod superblock;

pub use newest::{Newest, newest, slots};
pub use page::{PAGE_HEADER, Page, PageError, PageId};
pub use record::{Epochs, LogCursor, Next, RECORD_HEADER, Record};
pub use superblock::{Features, HEADER, Header, SLOT, Superblock, SuperblockError, seal, slot, unseal, version_told};

/// CRC-32 (IEEE) of `bytes`, with the four bytes at `at`, where the checksum lies, as zeroes.
pub fn checksum(bytes: &[u8], at: usize) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&bytes[..at]);
    hasher.update(&[0; 4]);
    hasher.update(&bytes[at + 4..]);
    hasher.finalize()
}
