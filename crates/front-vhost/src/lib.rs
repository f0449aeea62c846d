//! The vhost-user-blk protocol: block exports as virtio disks of virtual machines, without a network protocol between.
//!
//! Invariant: no guest and no monitor makes it panic, leave the guest's memory, stop the reactor or exceed its limits
//! of memory. It never waits on the reactor's thread, and touches no memory that is not the guest's.
//!
//! A guest's memory changes under our hands, so no reference into it can exist in safe Rust. Payload is copied once in
//! each direction, between guest memory and slabs of the pool, and the copies are counted ([`Counters::copied_bytes`]).
//!
//! Reading order: [`disk`] (what the guest sees of an export), [`guest`] (its memory, which may go), [`chain`]
//! (descriptors), [`request`] (what they ask), `execute` (requests as requests to a device), [`ring`] (one queue),
//! [`inflight`] (what survives our death), `handler` and `session` (the monitor's messages: a thread that reads them, the reactor that obeys), [`server`].

#![deny(unsafe_code)]

pub mod chain;
pub mod disk;
mod execute;
pub mod guest;
mod handler;
pub mod inflight;
mod mailbox;
pub mod request;
pub mod ring;
pub mod server;
mod session;

pub use disk::{Counters, Disk};
pub use guest::Guest;
pub use server::{Config, Server};

/// Memory of a guest, as its monitor shares it.
pub type Memory = vm_memory::GuestMemoryMmap<()>;

#[cfg(test)]
mod tests;
