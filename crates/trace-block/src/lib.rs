//! Block traces: reads, writes, merges and describes them as streams of [`Record`]s.
//!
//! Invariant: never opens a file: reads bytes that it is given. It never panics on any input, and never holds more of a
//! trace than one buffer for each of its files and the window that sorts it. The CacheLib reader also keeps a bounded
//! table of blocks, statistics a bounded sample of the working set, the oracleGeneral writer all of it.
//!
//! Reading order: [`record`], [`format`] (one module per format: what is to be known of it, layout, parser, encoder),
//! [`input`] (unpacking, cutting into lines and records), [`reader`], [`fault`] (what was wrong with a trace), [`source`] (what yields
//! records: selection, speed), [`merge`], [`sink`] and [`convert`], [`stats`] (what a trace is like),
//! [`generate`] (traces from numbers).

#![forbid(unsafe_code)]
#![warn(clippy::wildcard_enum_match_arm)]
#![cfg_attr(test, allow(clippy::wildcard_enum_match_arm, reason = "a test panics in such an arm"))]

pub mod convert;
pub mod fault;
pub mod format;
pub mod generate;
mod input;
mod loss;
pub mod merge;
mod names;
mod order;
mod part;
pub mod reader;
pub mod record;
pub mod sink;
pub mod source;
pub mod stats;
#[cfg(test)]
mod tests;

pub use convert::{Conversion, convert};
pub use fault::{Ending, Fault, Reason, Report, TraceError, TracePosition};
pub use format::Format;
pub use format::blktrace::category;
pub use format::blktrace::events::{BlkEvent, BlkEvents, BlkStage};
pub use format::detect::{detect, named};
pub use format::ebt::index::{Entry, Index, IndexError, IndexFlaw, Origin};
pub use input::{Input, unpacked};
pub use merge::Merged;
pub use reader::TraceReader;
pub use record::{Op, Record};
pub use sink::{Loss, Losses, RecordSink, SinkError, Written};
pub use source::{Rescaled, Selection, Source, Speed, VolumeFilter};
pub use stats::{Stats, Summary};
