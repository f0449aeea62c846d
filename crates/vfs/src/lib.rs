//! The trait of file systems, and one file system in memory.
//!
//! Invariant: does no I/O, reads no clock, holds no policy: time, labels and buffers come with each call.
//!
//! Reading order: [`word`] (numbers, names, times, what comes with a call), [`attr`] (attributes), [`change`] (words of
//! single calls), [`listing`] (entries of a directory), [`about`] (abilities and promises), [`system`] (the trait),
//! [`access`] (permissions), [`walk`](mod@walk) (paths), [`claims`] (inodes that a call holds), [`digest`] (a
//! number for a tree), [`ram`] (a file system in memory), [`kind`] (kinds of file systems, for lists).

#![forbid(unsafe_code)]
#![warn(clippy::wildcard_enum_match_arm)]

pub mod about;
pub mod access;
pub mod attr;
pub mod change;
pub mod claims;
pub mod digest;
pub mod kind;
pub mod listing;
mod pinned;
pub mod ram;
pub mod system;
pub mod walk;
pub mod word;

pub use about::{Abilities, About, Promise, Space};
pub use attr::{Attr, Entry, FileFlags, FileType, New, NewKind, SetAttr};
pub use change::{
    Allocate, AllocateKind, At, Change, Copying, Last, Lock, LockCall, LockKind, Remove, Rename, Seek, Sync, Write,
    Written, Xattr, XattrSet,
};
pub use claims::Claims;
pub use digest::tree_digest;
pub use kind::{FsKind, FsKindError, FsMade, FsOpened, Opening};
pub use listing::{Listing, Row};
pub use ram::{Ram, RamConfig, RamImageError};
pub use system::{Answer, Direct, FileSystem, refuse};
pub use walk::{split, walk};
pub use word::{Call, Cookie, Cred, Hint, Ino, Lifetime, Name, NameBuf, Stamp};
