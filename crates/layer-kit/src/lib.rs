//! What extensions have in common, so that none repeats it: sending requests, moving blocks, memory that survives (the
//! primitives of ABLE).
//!
//! Invariant: no policy and no kind: acts only when an extension or operator asks. What is moved, kept or counted is
//! the caller's decision.
//!
//! Reading order: [`stateful`] (layers with state on media), [`background`] (their tasks), [`commit`] (callers that
//! share a commit), [`turn`]. Then [`io`] (the I/O library), [`gate`] (which requests are under way on which bytes),
//! [`awake`] and [`pace`] (when a device rests, how fast a layer works by itself). Then [`mover`] (copy, gather,
//! scatter), [`region`] (the resource manager), [`slots`] (the durable map of what lies in which slot), [`media`] (what
//! a device holds). Theory and names: "Improving Storage with Stackable Extensions", chapter 5.

#![forbid(unsafe_code)]
#![warn(clippy::wildcard_enum_match_arm)]
#![cfg_attr(test, allow(clippy::wildcard_enum_match_arm, reason = "a test panics in such an arm"))]

pub mod awake;
pub mod background;
pub mod commit;
pub mod gate;
pub mod io;
pub mod media;
pub mod mover;
pub mod pace;
pub mod region;
pub mod slots;
pub mod stateful;
pub mod turn;

pub use awake::Awake;
pub use background::{Background, Then};
pub use commit::GroupCommit;
pub use gate::Gate;
pub use io::Io;
pub use mover::Mover;
pub use slots::{LowerSet, Mask, SlotEntry, SlotKind, SlotLayout, SlotMap, SlotMarks, SlotShape};
pub use stateful::{Stateful, StatefulLayer, Task};
pub use turn::{Taken, Turn};
