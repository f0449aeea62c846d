//! What tests of storage code need: recorded writes, the states that a crash can leave, and faults on demand.
//!
//! Invariant: never linked into what serves data.
//!
//! Reading order: [`log`] (what happened, and what it promises), [`recorder`] (a device that keeps a log), [`crash`]
//! (the states), [`fault`] (plans as text), [`faulty`] (a device that follows a plan), [`sweep`] (each request fails once).

#![forbid(unsafe_code)]

pub mod crash;
pub mod fault;
pub mod faulty;
pub mod log;
pub mod recorder;
pub mod sweep;

pub use crash::{Bound, Count};
pub use fault::{Fault, Plan, PlanError};
pub use faulty::{Faulty, Injector};
pub use log::{Log, Lost};
pub use recorder::Recorder;
pub use sweep::for_each_fault;

#[cfg(test)]
mod tests;
