//! Programs in the kernel: assembled here, loaded through `aya`, attached to its tracepoints.
//!
//! Programs are written as calls of an assembler ([`asm`]) and become an object file in memory ([`object`]), so that a
//! build needs no compiler but Rust's and no object is kept in the tree. They take a tracepoint's own arguments, for
//! which tracefs need not be mounted; offsets of members of structures are read from the running kernel ([`btf`]).
//! `aya`, pure Rust, gives the object to the kernel ([`load`]), whose verifier has the last word about it.
//!
//! Invariant: leaves nothing in the kernel when the loaded object is dropped or its process dies. That holds however
//! the process dies.
//!
//! Reading order: [`asm`], [`idioms`], [`object`], [`btf`], [`load`]; [`peek`] reads the kernel's memory with all of
//! it.

#![forbid(unsafe_code)]

pub mod asm;
pub mod btf;
pub mod idioms;
pub mod load;
pub mod object;
pub mod peek;

pub use asm::{Code, Helper, If, Op, Reg, Size};
pub use btf::{BtfError, Types};
pub use idioms::Counters;
pub use load::{BpfError, Loaded, Ring};
pub use object::{Map, MapKind, Program};
pub use peek::Peek;

#[cfg(test)]
mod tests;
