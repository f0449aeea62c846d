//! Predicts in virtual time which of several stacks serves block traces best, says why, and reports it.
//!
//! Each candidate stack is built in a virtual world of its own and the traces are played against its exports, at their
//! recorded times (open loop) or each request after an answer (closed loop). The code under the requests is the code
//! that serves them in the real world; the same player plays there, so that a prediction can be held against the truth.
//!
//! Invariant: touches no file or thread and reads no clock but `Rt`'s; one plan gives the same comparison, byte for
//! byte, on every machine.
//!
//! Reading order: [`input`] (what is played), [`load`] (how requests come), [`candidate`] (against what), [`plan`] (the
//! whole run), `play` (one candidate) in its `world` with its `player`, `measure` and [`outcome`] (what is counted),
//! `speed` (how fast), [`calibration`] (what CPU and devices take) and [`bench`] (a real stack for those who measure
//! it),
//! [`verdict`] (which is best and why) with `pareto`, [`known_error`] and [`against`], [`deploy`] (the best one over files),
//! [`report`] (for people).

#![forbid(unsafe_code)]
#![warn(clippy::wildcard_enum_match_arm)]
#![cfg_attr(test, allow(clippy::wildcard_enum_match_arm, reason = "a test panics in such an arm"))]

pub mod against;
pub mod bench;
pub mod calibration;
pub mod candidate;
mod caveats;
pub mod deploy;
mod error;
pub mod facts;
pub mod feed;
mod headroom;
pub mod input;
pub mod known_error;
pub mod load;
mod measure;
pub mod outcome;
mod pareto;
pub mod plan;
mod play;
mod player;
mod product;
pub mod report;
pub mod seats;
mod speed;
mod teller;
#[cfg(test)]
mod tests;
pub mod verdict;
mod world;

pub use against::Older;
pub use calibration::{Calibration, CalibrationError};
pub use candidate::{Candidate, Making, MeasuredDisk, Volumes};
pub use error::PredictError;
pub use facts::Facts;
pub use feed::{Limit, Warm};
pub use headroom::Headroom;
pub use input::Trace;
pub use load::Load;
pub use measure::Latencies;
pub use outcome::{CandidateRun, Comparison};
pub use plan::{ComparisonPlan, Prepared, Watch};
pub use product::Product;
pub use speed::{SpeedChoice, SpeedFound};
pub use verdict::Verdict;
