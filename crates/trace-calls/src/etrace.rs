//! `.etrace`: Esker's own recording, written as it happens. Bytes: `docs/reference/formats/etrace.md`.
//!
//! A header, then blocks of one kind of item each; a block stands for itself: its names come with it. A writer that is
//! stopped in the middle loses what it had not yet flushed; a reader delivers all whole blocks and says that the tail
//! is missing. Reading order: [`layout`], [`write`], [`read`].

#![deny(clippy::cast_possible_truncation)]

mod layout;
mod read;
mod write;

pub use layout::{BLOCK_HEAD, BlockKind, HEADER, MARK, VERSION, is_etrace};
pub use read::{EtraceError, Limits, read};
pub use write::{Writer, write};

#[cfg(test)]
pub(crate) mod tests;
