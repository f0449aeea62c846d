//! File systems of ours on this machine through FUSE: mounted for programs, and exports as files under loop devices.
//!
//! Invariant: no payload byte is copied between the kernel and a device; a process that dies at any instant leaves
//! nothing behind that hangs.
//!
//! Requests are read from `/dev/fuse` by the stack's own reactor, so that none changes threads; a library with threads
//! of its own would cost two hops and a copy for each request. A write's payload arrives page-aligned in a slab of its
//! own, because its header is read into another piece of memory by the same call.
//!
//! Reading order: [`proto`] (the kernel's protocol as bytes, no I/O), `wire` (bytes from and to the kernel), [`serve`]
//! (requests to a file system), `transport` (the two ways of `wire`). Then `exports` (devices as a file system) with
//! `volume` (requests as block requests), and `isolated` (calls that this process may have to answer itself). Then
//! `options` (words of `-o`), `mount_point` (directories), `mounting` (the calls that mount), [`mounted`] and
//! [`attached`] (start and stop), [`busy`] (the users of a mount), [`alive`] (its server). Last

#![forbid(unsafe_code)]

pub mod alive;
pub mod attached;
pub mod busy;
mod exports;
pub mod harden;
mod isolated;
mod mount_point;
pub mod mounted;
mod mounting;
mod options;
pub mod proto;
pub mod registry;
pub mod serve;
mod transport;
mod users;
mod volume;
mod wire;

pub use alive::{Alive, Watch};
pub use attached::{AttachError, Attached, Disk, Export, Setup};
pub use busy::{Mount, mount_at, users_of_tree};
pub use isolated::IsolatedCallError;
pub use mount_point::{MountPointError, mount_point};
pub use mounted::{MountSetup, Mounted};
pub use mounting::{MountError, MountOptions, owner, unmount};
pub use options::MountOptionError;
pub use registry::{Registry, RegistryError};
pub use serve::CacheMode;
pub use transport::{Transport, TransportError, can_ring};
pub use users::users_of;

#[cfg(test)]
mod tests;
