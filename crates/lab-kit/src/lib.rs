//! What experiments have in common: rigs, rival programs, ratios of pairs, progress and reports.
//!
//! Invariant: reports no figure that the run did not measure.
//!
//! Reading order: [`experiment`] (what an experiment is, is given and reports), [`papers`] (what it measures again),
//! [`drawing`] (figures as a chart and as CSV). Then [`evaluation`] (several, several times) and [`compare`] (two
//! reports side by side, also those of fio). Then [`machine`], [`rig`] (a stack in a world), [`peer`] (rival programs),
//! [`timing`] (medians, ratios and rounds of arms), [`cpu_time`], [`scratch`], [`source_tree`], [`bound`] (programs
//! that end with this one), [`cgroup`]. Servers are [`serving`] (on a thread), [`serve_process`] and [`attach_process`]
//! (`esker serve` and `esker attach` as programs) and [`nbd_serving`]. [`volume_load`] is a load for volumes.

#![forbid(unsafe_code)]
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "experiments measure real time, run rival programs and make scratch files"
)]

pub mod attach_process;
pub mod bound;
pub mod cgroup;
pub mod compare;
pub mod cpu_time;
pub mod drawing;
pub mod evaluation;
pub mod experiment;
pub mod guest_console;
pub mod instructions;
pub mod machine;
pub mod nbd_serving;
pub mod papers;
pub mod peer;
pub mod rig;
pub mod scratch;
pub mod serve_process;
pub mod serving;
pub mod source_tree;
pub mod timing;
pub mod volume_load;

pub use evaluation::{Evaluated, Evaluation, Spread, evaluate};
pub use experiment::{Experiment, Figure, Lab, LabError, Options, Peer, Report};
pub use rig::Rig;
