//! The policies. Each has the sizes of its paper; its module names paper and place.
//!
//! In all of them a line that is held is passed by and keeps its place. If no line of the list that should give the
//! victim may leave, another list gives it.

mod arc;
mod clock;
mod lirs;
mod lru;
mod mq;
mod s3_fifo;
mod sieve;
mod tiny_lfu;
mod two_q;

pub use arc::Arc;
pub use clock::Clock;
pub use lirs::Lirs;
pub use lru::Lru;
pub use mq::Mq;
pub use s3_fifo::S3Fifo;
pub use sieve::Sieve;
pub use tiny_lfu::TinyLfu;
pub use two_q::TwoQ;
