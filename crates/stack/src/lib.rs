//! Stacks: their text, the loop that runs requests through their slots, and changes while requests are in flight.
//!
//! Invariant: knows no kind by name: kinds reach it as a list. Every request through a stack passes the contract check
//! at every hop.
//!
//! Reading order: [`text`] (what a user writes), [`numbers`] (of volumes), [`hops`] (where requests go next),
//! [`snapshot`] (slots and volumes), [`run`] (the loop), [`build`], [`admission`] (admission), [`stack`] (exports). Then [`live`]
//! (insert, remove, reorder), [`frozen`] (a stack at rest), [`quiesce`] (within a bound), [`init`] (media that are
//! made), `trial` (what can be told without devices), [`mod@resize`], [`orders`] (words of an operator), [`meters`]
//! (counters that can be put in and taken out), `exports` (slots of exports), [`audit`] (extensions under
//! observation), [`theory`] (a stack in the words of `esker-compose`).

#![forbid(unsafe_code)]
#![warn(clippy::wildcard_enum_match_arm)]
#![cfg_attr(test, allow(clippy::wildcard_enum_match_arm, reason = "a test panics in such an arm"))]

mod admission;
pub mod audit;
pub mod build;
mod contract;
mod exports;
pub mod frozen;
#[cfg(test)]
mod growth_tests;
mod health;
mod hops;
pub mod init;
mod lifecycle;
pub mod live;
mod meters;
mod numbers;
pub mod orders;
mod origin;
pub mod quiesce;
pub mod resize;
#[cfg(test)]
mod router_tests;
mod run;
mod snapshot;
pub mod stack;
#[cfg(test)]
mod tests;
pub mod text;
pub mod theory;
mod trial;
mod uses;

pub use audit::{Handled, Watching, Work};
pub use build::BuildError;
pub use frozen::{FlushError, FrozenStack};
pub use health::Unusable;
pub use init::{InitError, Making, Medium, Wanted};
pub use live::LiveError;
pub use meters::Measure;
pub use orders::LayerOrderError;
pub use quiesce::QuiesceError;
pub use resize::ResizeError;
pub use stack::{EndStats, Export, PartStats, Request, Stack};
pub use text::{DeviceSpec, ExportSpec, KernelCache, Location, MountSpec, Spec};
