//! The `Rt` handle: time, tasks, random streams and waiting, in one of two worlds.
//!
//! *Virtual* ([`sim`]): one event heap in nanoseconds, simulated CPUs, a digest of every event; time moves only when
//! nothing can run. *Real* ([`real`]): an io_uring reactor that is a value, entered by one thread at a time. Code above
//! this crate cannot tell which world it is in, except through speed.
//!
//! Invariant: knows nothing of blocks; nothing that depends on addresses, thread ids or hash seeds influences order in
//! virtual time. Nor does the real clock.
//!
//! Reading order: [`handle`] (`Rt`), [`sim`], [`sync`] (waiting for each other), [`mem`] (slabs the kernel may use),
//! [`net`] (streams in both worlds), [`secret`] (keys that no text shows), [`real`], [`counting`] (allocations, for
//! tests).

#![warn(clippy::wildcard_enum_match_arm)]
#![cfg_attr(test, allow(clippy::wildcard_enum_match_arm, reason = "a test panics in such an arm"))]

mod core;
pub mod counting;
pub mod handle;
pub mod join;
pub mod mem;
pub mod net;
pub mod real;
mod remote;
pub mod secret;
pub mod sim;
pub mod sync;
mod task;
mod timer;

pub use handle::{Cpu, Event, Level, Rt, Sleep};
pub use join::JoinHandle;
pub use secret::{Secret, SecretSource};
pub use sim::{Halt, Sim, SimConfig};
