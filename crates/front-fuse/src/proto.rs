//! The protocol between the kernel and a file system in user space.
//!
//! Source: `include/uapi/linux/fuse.h` of Linux, protocol 7.31 to 7.45. All numbers are in the byte order of the
//! machine. The kernel is trusted, but what cannot be understood is still an error and never a panic.
//!
//! Reading order: [`abi`] (the kernel's structures), [`request`], [`reply`].

pub mod abi;
pub mod reply;
pub mod request;

pub use request::{Malformed, Op, Request};
