//! What tests of storage code need: recorded writes, the states that a crash can leave, and faults on demand.
//!
//! Invariant: never linked into what serves data.
//!
//! Reading order: [`log`] (what happened, and what it leaves open), [`promise`] (what a client may rely on),
//! [`recorder`] (a device that keeps a log), [`crash`] (the states). Then [`power`] (the suite with a crash at every
//! write), [`kill`] (the same for a device with a medium of its own), [`sweep`] (each request fails once). Plans of
//! faults and the device that follows them are in `esker-dev-sim`. Then [`races`] (schedules for layers that move
//! blocks) and [`bench`] (short words for a stack under test). [`kept`], [`given`](mod@given) and [`spoil`] are ends
//! and ways down for it, [`simulated`] is a disk that fails by plan. Then [`puppet`] (a process that does as it is
//! told) and [`soak`] (how long a soak is). [`skip`] is for tests that this machine cannot run, [`generated`] for
//! blocks of documents that records say, [`files`] for the harness of file systems, [`browser`] for
//! pages, [`promtool`] for rules of alerts.

#![forbid(unsafe_code)]

pub mod bench;
pub mod browser;
pub mod crash;
pub mod files;
pub mod generated;
pub mod given;
pub mod kept;
pub mod kill;
pub mod log;
pub mod power;
pub mod promise;
pub mod promtool;
pub mod puppet;
pub mod races;
pub mod recorder;
pub mod simulated;
pub mod soak;
pub mod spoil;
pub mod sweep;

pub use crash::{Bound, Count, Image};
pub use esker_dev_sim::fault::{Fault, FaultPlan, PlanError};
pub use esker_dev_sim::faulty::{Faulty, Injector};
pub use esker_skip::{Ability, has_fuse_ring, skip};
pub use given::{GIVEN, given};
pub use kept::KEPT;
pub use log::Log;
pub use promise::{Lost, Promise};
pub use puppet::Puppet;
pub use recorder::{Journal, Recorder};
pub use soak::SoakLength;
pub use spoil::SPOIL;
pub use sweep::for_each_fault;

#[cfg(test)]
mod tests;
