//! Tests of several crates together, and the mutants that tests of any crate must notice (`mutants/`).
//!
//! Invariant: nothing depends on it, and it adds nothing to what is shipped.

#![forbid(unsafe_code)]
