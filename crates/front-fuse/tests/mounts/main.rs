//! File systems that are mounted on this machine, used by real system calls. Each test needs root and FUSE, and says
//! loudly when it is skipped for want of them.

#![allow(unreachable_pub, reason = "a program has no public interface: `pub` shows what its modules share")]
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests use the kernel's file systems")]

mod bytes;
mod ends;
mod harness;
mod late;
mod maps;
mod names;
mod passed;
mod requests;
