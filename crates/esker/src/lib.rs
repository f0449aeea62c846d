//! A storage stack in a program of your own.
//!
//! Invariant: no behaviour of its own: what a program sees through it, `esker serve` and `esker try` do too.
//!
#![doc = include_str!("../README.md")]
//!
//! # What there is
//!
//! [`open`] builds a [`Stack`] of a stack text, as `esker serve` takes it. [`Stack::export`] gives an [`Export`]: a
//! volume that any thread reads and writes. [`Stack::volumes`] gives the thin volumes of a layer of kind `thin`:
//! create, snapshot, clone, roll back. [`Stack::order`] passes an order to any layer, in the words of its kind.
//! [`OpenOptions::serve`] serves the stack to NBD clients meanwhile. [`predict`] tells in virtual time which stack
//! serves a trace best; [`trace`] reads traces. [`block`], [`rt`] and [`kinds`] are for devices and layers of your own.
//!
//! # Threads
//!
//! A stack lives on a thread of its own, which sleeps in the kernel while nothing happens. Its timers fire and its
//! background work goes on between calls. Each call blocks its thread or, with `_async` in its name, gives a future for
//! any executor. Calls of several threads overlap, and their flushes become one where they can.
//!
//! # Blocks
//!
//! Offsets and lengths are multiples of [`Export::block_bytes`]. A layer `align block=1` in the stack text takes any.
//!
//! # What is stable
//!
//! In version 0.1 the names of this crate are meant to stay, and each change of one is in the change log. [`block`] and
//! [`rt`] may change with every version. Words of stack texts may change until version 0.1, each with an error that
//! names the new word. Media have versions of their own, and this code reads one version of each format: an older or
//! newer medium is refused, with its version in the error.

#![forbid(unsafe_code)]
#![warn(clippy::wildcard_enum_match_arm)]

mod error;
mod export;
pub mod kinds;
mod predict;
mod serving;
mod stack;
pub mod trace;
mod volumes;

pub use error::Error;
pub use esker_base::{Nanos, Time};
pub use esker_block as block;
pub use esker_rt as rt;
pub use export::Export;
pub use predict::{Judged, Predicted, Prediction, predict};
pub use serving::Serving;
pub use stack::{OpenOptions, Part, Stack, open};
pub use volumes::{Volume, Volumes};

/// The program of the guide, so that it compiles as the page prints it.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/guide/embed.md")]
struct Guide;
