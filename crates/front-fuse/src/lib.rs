//! Exports as block devices of this machine: a FUSE file system with one file for each export, under loop devices.
//!
//! Invariant: no payload byte is copied between the kernel and a device; a process that dies at any instant leaves
//! nothing behind that hangs.
//!
//! Requests are read from `/dev/fuse` by the stack's own reactor, so that none changes threads; a library with threads
//! of its own would cost two hops and a copy for each request. A write's payload arrives page-aligned in a slab of its
//! own, because its header is read into another piece of memory by the same call.
//!
//! Reading order: [`proto`] (the kernel's protocol as bytes, no I/O), `tree` (names and attributes), `volume` (requests
//! as block requests), `channel` (bytes from and to the kernel), [`session`] (answers to the kernel), `isolated` (calls
//! that this process may have to answer itself), [`attached`] (start and stop), [`registry`] (what is attached on this
//! machine, alive or dead), `users` (the users of a device), [`harden`] (of a process that holds devices).

#![forbid(unsafe_code)]

pub mod attached;
mod channel;
pub mod harden;
mod isolated;
pub mod proto;
pub mod registry;
pub mod session;
mod tree;
mod users;
mod volume;

pub use attached::{AttachError, Attached, Disk, Export, Setup};
pub use isolated::IsolatedCallError;
pub use registry::{Registry, RegistryError};
pub use users::users_of;

#[cfg(test)]
mod tests;
