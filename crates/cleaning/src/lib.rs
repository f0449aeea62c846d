//! Which segments a log-structured store cleans next, where the blocks go that it writes, and how fast it cleans.
//!
//! Everything here is a function of numbers that the store keeps: it is used unchanged by stores that serve data and by
//! the simulator in [`model`], with which its claims are measured.
//!
//! Invariant: never decides whether a block is live: a wrong number costs speed, never data. It has no clock of its
//! own, and no randomness but the streams that it is handed.
//!
//! Reading order: [`Summary`] (what is known of a segment), [`Worth`], [`policy`] (how good a victim it is), [`select`]
//! (the best of many), [`separate`] (which block goes to which log), [`pacing`] (how fast), [`analytic`] (what theory
//! says), [`model`] (a simulated store).

#![forbid(unsafe_code)]
#![warn(clippy::wildcard_enum_match_arm)]
#![cfg_attr(test, allow(clippy::wildcard_enum_match_arm, reason = "a test panics in such an arm"))]

pub mod analytic;
pub mod model;
pub mod pacing;
pub mod policy;
pub mod select;
pub mod separate;
mod summary;
mod worth;

pub use pacing::{Pace, Pacing, PacingError};
pub use policy::{Adaptive, Cost, CostBenefit, Greedy, Policy, Settled, Situation, Timestamp};
pub use select::{Selection, sampled};
pub use separate::{Class, Separator};
pub use summary::Summary;
pub use worth::Worth;
