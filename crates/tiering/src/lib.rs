//! Which extent of a volume lies on which type of device, and how many devices of each type a load needs.
//!
//! After the thesis on extending storage, section 3.4 (extent-based dynamic tiering) and chapter 6. The layer that
//! moves extents, the adviser and the experiments run the same code.
//!
//! Invariant: no I/O, no clock but the numbers it is given; never loses an extent in a plan.
//!
//! Reading order: [`sheet`] (a type of device), [`demand`] and [`classify`] (what an extent asks), [`model`] (what that
//! takes and costs). Plans are made by [`epoch`] (what a planner sees and answers), [`pack`], `engine`, [`planners`]
//! and [`history`]. Then [`sizing`] (devices for a load), [`throttle`] (devices that are too slow) and [`control`]
//! (when plans are made).
//!
//! Units are decimal, as the source's: a MB is 10^6 bytes. A share is a part of one device.

#![forbid(unsafe_code)]
#![warn(clippy::wildcard_enum_match_arm)]

pub mod classify;
pub mod control;
pub mod demand;
mod engine;
pub mod epoch;
pub mod history;
pub mod model;
pub mod pack;
pub mod planners;
pub mod sheet;
pub mod sizing;
pub mod throttle;

pub use classify::Classifier;
pub use demand::{Collector, Demand, Smoothing, Transfers};
pub use epoch::{Array, Epoch, NOWHERE, Placement, UsedExtent};
pub use history::History;
pub use model::Objective;
pub use planners::{Edt, Est, Planner};
pub use sheet::Sheet;

#[cfg(test)]
mod tests;
