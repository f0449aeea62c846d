//! Processes on any file system of ours: descriptors, paths, permissions and locks as POSIX and Linux have them, and
//! scripts of calls.
//!
//! Invariant: keeps nothing that must survive its processes; decides no order of writes.
//!
//! A [`World`] is a file system with a clock and locks. A [`Process`] makes calls on it, each an `async` function
//! that is ready at once if the file system is. Which of two errors wins is what Linux says, and ext4 where file
//! systems differ.
//!
//! Reading order: [`world`], [`process`], [`paths`] (what calls are about), [`file`] (open descriptions), [`open`],
//! [`names`], [`bytes`], [`attrs`], [`lock_calls`] over `locks`, [`script`] (calls as text).

#![forbid(unsafe_code)]

pub mod attrs;
pub mod bytes;
pub mod file;
pub mod flags;
pub mod lock_calls;
mod locks;
pub mod names;
pub mod open;
pub mod paths;
pub mod process;
pub mod script;
pub mod world;

pub use attrs::{SetTime, Status};
pub use bytes::{Spot, Whence};
pub use file::Fd;
pub use flags::{Access, Fallocate, OpenFlags};
pub use lock_calls::{LockOwner, LockRequest};
pub use names::DirEntry;
pub use paths::{Follow, Where};
pub use process::Process;
pub use world::{Settings, World};

#[cfg(test)]
mod tests;
