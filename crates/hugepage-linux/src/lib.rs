//! The manager of huge pages on this machine: the kernel's side of [`esker_hugepage`], and the process that runs it.
//!
//! Invariant: promotes no region but one whose use it has just seen to deserve it.
//!
//! Reading order: [`linux`] (this machine as a [`esker_hugepage::ProcView`]), [`config`], [`budget`] (the manager's own
//! CPU time), [`status`], [`metrics`], [`journal`] (its decisions), [`daemon`].

#![forbid(unsafe_code)]

pub mod budget;
pub mod config;
pub mod daemon;
pub mod journal;
pub mod linux;
pub mod metrics;
pub mod status;

pub use config::Config;
pub use daemon::Daemon;
pub use status::Status;
