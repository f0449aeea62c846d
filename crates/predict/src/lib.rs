//! Predicts in virtual time which of several stacks serves block traces best, says why, and reports it.
//!
//! Each candidate stack is built in a virtual world of its own and the traces are played against its exports at their
//! recorded times (open loop). The code under the requests is the code that serves them in the real world.
//!
//! Invariant: touches no file, clock or thread; one plan gives the same comparison, byte for byte, on every machine.
//!
//! Reading order: [`trace`] (what is played), [`candidate`] (against what), [`plan`] (the whole run), `replay` (one
//! candidate), `measure` and [`outcome`] (what is counted), `speed` (how fast), [`verdict`] (which is best and why),
//! [`deploy`] (the best one over files), [`report`] (for people).

#![forbid(unsafe_code)]

pub mod candidate;
pub mod deploy;
mod error;
mod measure;
pub mod outcome;
pub mod plan;
mod replay;
pub mod report;
mod speed;
#[cfg(test)]
mod tests;
pub mod trace;
pub mod verdict;

pub use candidate::Candidate;
pub use error::PredictError;
pub use outcome::{Comparison, Run};
pub use plan::{Plan, Prepared, Watch};
pub use speed::{SpeedChoice, SpeedFound};
pub use trace::{Facts, Limit, Trace};
pub use verdict::Verdict;
