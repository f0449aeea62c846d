//! The simple extensions of "Improving Storage with Stackable Extensions" (5.5.3, 5.5.4), each written twice: on the
//! primitives (`able`), and straight against the block interface and the runtime (`vanilla`), which does by hand what
//! they give.
//!
//! Invariant: for comparison only: no kind of it is in the product's list. Both variants of an extension pass the same
//! tests and behave alike.
//!
//! Reading order: [`raid1`], [`raw`], [`encryptor`], [`offload`], [`dedup`]; in each `vanilla`, then `able`;
//! [`primitives`]. `cargo xtask complexity` counts both; the products of these ideas are `mirror`, `verify`, `crypt`, `offload` and `dedup`.

#![forbid(unsafe_code)]

pub mod dedup;
pub mod encryptor;
pub mod offload;
pub mod primitives;
pub mod raid1;
pub mod raw;
#[cfg(test)]
mod tests;

use esker_block::{Kind, OpSet};

/// An extension in both variants.
#[derive(Clone, Copy)]
pub struct Pair {
    /// Its name in the thesis, in lower case.
    pub name: &'static str,
    /// Written straight against the block interface.
    pub vanilla: &'static Kind,
    /// Written on the primitives.
    pub able: &'static Kind,
}

/// All of them.
pub const ALL: &[Pair] = &[
    Pair { name: "raid1", vanilla: &raid1::vanilla::KIND, able: &raid1::able::KIND },
    Pair { name: "raw", vanilla: &raw::vanilla::KIND, able: &raw::able::KIND },
    Pair { name: "offload", vanilla: &offload::vanilla::KIND, able: &offload::able::KIND },
    Pair { name: "encryptor", vanilla: &encryptor::vanilla::KIND, able: &encryptor::able::KIND },
    Pair { name: "dedup", vanilla: &dedup::vanilla::KIND, able: &dedup::able::KIND },
];

/// What the extensions let through: remapping is none of their business.
const PASSES: OpSet = OpSet::WITHOUT_REMAP;
