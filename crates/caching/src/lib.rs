//! Which line of a full cache makes room.
//!
//! A cache has its keys and its lines. A policy has an order of the lines, as arrays over their dense numbers. The
//! cache tells it of hits and misses, and asks for victims. So one policy serves caches of blocks, caches of files, and
//! simulators of both.
//!
//! Invariant: never sees data or a device: a wrong choice costs a miss, never a byte. It has no clock and no
//! randomness.
//!
//! Reading order: [`policy`] (the trait and the names), [`policies`], and what these share: `links`, `lists`, `queue`,
//! `index`, `ghosts`, `prints`, `sketch`. [`models`] has each policy
//! a second time. Then [`request`], [`simulator`], [`opt`], and [`curve`] with its methods.

#![forbid(unsafe_code)]
#![warn(clippy::wildcard_enum_match_arm)]

pub mod curve;
mod ghosts;
pub mod ids;
pub mod index;
mod links;
mod lists;
pub mod models;
pub mod opt;
pub mod policies;
pub mod policy;
mod prints;
mod queue;
pub mod request;
pub mod simulator;
mod sketch;
pub mod streams;

pub use policies::Clock;
pub use policy::{Lines, NAMED, Policy, Recall, Slot, by_name, compact_by_name};
pub use request::{LineUse, lines_in, lines_of};
pub use simulator::{Simulator, SimulatorTally};

#[cfg(test)]
mod tests;
