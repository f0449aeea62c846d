//! What a file system is, can and promises.

use std::ops::RangeInclusive;

use esker_base::Nanos;

use crate::word::Stamp;

/// What is there after a crash. *Durable calls* are those that a completed [`Sync`](crate::Sync) made durable.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Promise {
    /// Nothing: the medium is memory.
    None,
    /// Each object on its own, as file systems of kernels promise it.
    Weak,
    /// The state after some prefix of the completed calls that holds all durable calls.
    Prefix,
    /// Every completed call.
    Linear,
}

/// What a file system can. What it cannot is `EOPNOTSUPP`, or as the field says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Abilities {
    /// Extended attributes.
    pub xattrs: bool,
    /// More than one name for a file; else `EPERM`.
    pub hard_links: bool,
    /// Symbolic links; else `EPERM`.
    pub symlinks: bool,
    /// Devices, pipes and sockets; else `EPERM`.
    pub nodes: bool,
    /// Times of access; else they equal those of modification.
    pub access_times: bool,
    /// [`Rename::Exchange`](crate::Rename::Exchange).
    pub exchange: bool,
    /// [`AllocateKind::Reserve`](crate::AllocateKind::Reserve).
    pub reserve: bool,
    /// [`AllocateKind::Punch`](crate::AllocateKind::Punch) and `Zero`.
    pub punch: bool,
    /// Holes are told by [`FileSystem::seek`](crate::FileSystem::seek); else all is data.
    pub holes: bool,
    /// [`Copying::Share`](crate::Copying::Share).
    pub share: bool,
    /// [`FileSystem::lock`](crate::FileSystem::lock); else front ends keep locks.
    pub locks: bool,
    /// Flags of inodes.
    pub flags: bool,
}

/// What a file system is: what its conformance tests hold it to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct About {
    /// Kind of file system, as `esker mount` names it.
    pub kind: &'static str,
    /// Identity of the image; 0 for none.
    pub id: u128,
    /// Unit of allocation in bytes.
    pub block: u32,
    /// Unit of times. Times are rounded down.
    pub grain: Nanos,
    /// Times that can be stored. Others are clamped.
    pub times: RangeInclusive<Stamp>,
    /// Most names of a file, and most subdirectories of a directory: then `EMLINK`.
    pub links_max: u32,
    /// Most bytes of a file: then `EFBIG`.
    pub size_max: u64,
    /// What is there after a crash.
    pub promise: Promise,
    /// Abilities.
    pub can: Abilities,
}

/// Room of a file system. Free is what a writer can still get: reserves are not free.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Space {
    /// All bytes.
    pub bytes: u64,
    /// Free bytes.
    pub bytes_free: u64,
    /// All inodes.
    pub inodes: u64,
    /// Inodes that can be made.
    pub inodes_free: u64,
}
