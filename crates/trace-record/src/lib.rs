//! Records what a program, and all that it starts, does with files: each call with its arguments, paths, results and
//! times. [`block`] records what all programs ask of a block device.
//!
//! Two ways see the calls. Programs in the kernel ([`kernel`]) cost a recorded call less than a microsecond and need
//! root; ptrace ([`ptrace`]) stops each call twice and needs no privilege. What they see has one shape ([`event`]) and
//! becomes the same actions ([`assemble`]).
//!
//! Invariant: never changes what a traced program sees of files, and reads no data of theirs.
//!
//! Reading order: [`calls`] (which calls, and what is read with each), [`event`], [`wire`] and [`kernel`] (the programs
//! in the kernel), [`memory`] and [`ptrace`], [`gate`] and [`filter`] (how a program begins under trace), [`assemble`]
//! with
//! [`faults`] and [`places`], [`started`] and [`snapshot`] (what was there before), [`recorder`] (all of it).

#![forbid(unsafe_code)]
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "it watches processes of this machine and looks at their files"
)]

pub mod assemble;
pub mod block;
pub mod calls;
pub mod event;
mod faults;
mod filter;
pub mod gate;
pub mod kernel;
mod memory;
mod output;
mod places;
pub mod ptrace;
pub mod recorder;
mod signals;
pub mod snapshot;
mod started;
mod wire;

pub use assemble::Sink;
pub use gate::Gate;
pub use kernel::Lost;
pub use recorder::{Method, RecordError, Recorded, Settings, Target, record, try_kernel};
