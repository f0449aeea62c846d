//! Tests of several crates together, and of whole virtual machines on what Esker serves.
//!
//! The tests lie in `tests/it/`, one module for each thing that they show. The program of this package, `it`, boots
//! guests ([`guest`]), is packed into them as the load that they verify ([`load`]), and measures the harness of file
//! systems ([`harness`]), also on those of the kernel ([`kernel`]).
//!
//! Invariant: reads nothing outside the project but Debian's packages, kept in the target folder.

#![forbid(unsafe_code)]
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests run programs, read documents and make files"
)]

pub mod guest;
pub mod harness;
pub mod kernel;
pub mod load;
