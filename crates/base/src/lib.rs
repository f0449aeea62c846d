//! Words that every other crate uses: units, ranges, a bitmap, an interval map, a token bucket, a codec, seeded random
//! streams, the event digest, error numbers and reports of progress.
//!
//! Invariant: no I/O, no clock, no global state. Every function is a pure function of its arguments.
//!
//! Reading order: [`units`] (sizes, times), [`range`], [`bits`], [`spans`], [`bucket`], [`codec`] (bytes on media and
//! on the wire), [`rng`] (named streams), [`digest`] (fingerprint of a run), [`errno`].

#![forbid(unsafe_code)]

pub mod bits;
pub mod bucket;
pub mod codec;
pub mod digest;
pub mod errno;
pub mod progress;
pub mod range;
pub mod renamed;
pub mod rng;
pub mod spans;
pub mod units;

pub use bits::Bits;
pub use bucket::Bucket;
pub use digest::Digest;
pub use errno::Errno;
pub use progress::{Progress, Unit};
pub use range::{ByteRange, span};
pub use rng::Stream;
pub use spans::Spans;
pub use units::{Nanos, Time};
