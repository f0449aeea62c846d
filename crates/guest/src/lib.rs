//! Guests: Debian's kernel in a machine without hardware help (qemu's `tcg`), with a job of its own.
//!
//! Nothing is installed: kernel and programs come from Debian's packages, which are downloaded and read. Reading order:
//! [`packages`], [`modules`] and [`cpio`] (parts), [`image`] (kernel and first file system), [`machine`] (one boot),
//! [`log`] (what it told).
//!
//! Invariant: installs nothing, and writes into the folders that it is given alone.

#![forbid(unsafe_code)]
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "guests are started as programs, from files, and bounded by real time"
)]

pub mod cpio;
pub mod image;
pub mod log;
pub mod machine;
pub mod modules;
pub mod packages;
