//! A served stack: its NBD servers, and the control socket through which it is watched and changed.
//!
//! Invariant: holds no state that a client can grow; reports no stop before everything is flushed. No client of the
//! control socket makes the server hold more than [`lines::LINE_MAX`] bytes for it. A stop answers every request that
//! was accepted, flushes every device before it reports success, and ends within its patience.
//!
//! Reading order: `config`, [`server`] (start, run), `stop`, [`front`] (other ways than NBD). Mounts: [`mounted_fs`] (a
//! file system that is mounted), [`mounts`] (those of a text), [`single_mount`] (one in a process of its own). The
//! control socket: `keeping`, [`command`] (words), [`refusal`] (reasons against them), [`lines`], `console`
//! (connections), `dispatch`, `freeze`, `sizes`, [`hand_over`] (to another process). What is told: [`status`],
//! [`metrics`] and [`http`] (the same for Prometheus), [`rates`] (changes between two statuses), [`log`] (events as
//! lines). Last [`vhost`] (exports as disks of virtual machines) and [`attach`] (as block devices of this machine).

#![forbid(unsafe_code)]
#![warn(clippy::wildcard_enum_match_arm)]
#![cfg_attr(test, allow(clippy::wildcard_enum_match_arm, reason = "a test panics in such an arm"))]

mod accept;
pub mod attach;
pub mod command;
mod config;
mod console;
mod dispatch;
mod error;
mod freeze;
pub mod front;
pub mod hand_over;
pub mod http;
mod inherited;
mod keeping;
pub mod lines;
pub mod log;
pub mod metrics;
pub mod mounted_fs;
pub mod mounts;
pub mod rates;
pub mod refusal;
pub mod server;
pub mod single_mount;
mod sizes;
pub mod status;
mod stop;
pub mod vhost;

pub use attach::{AttachFront, AttachFrontError};
pub use command::{Command, CommandError};
pub use config::Config;
pub use error::{ServeError, UnusableOutlet};
pub use front::{Front, Offer};
pub use hand_over::{HandOver, Offered, Sockets, TakeError, Taken};
pub use inherited::Inherited;
pub use mounted_fs::{MountOrder, MountedFs, MountedFsError};
pub use mounts::FileSystems;
pub use rates::View;
pub use refusal::Refusal;
pub use server::{Ready, Served};
pub use single_mount::{SingleMount, SingleMountError};
pub use status::Status;
pub use stop::StopError;
pub use vhost::{VhostDoor, VhostError, VhostFront};

#[cfg(test)]
mod tests;
