//! Which call of a trace must wait for which, and the compiled program that a replay plays.
//!
//! Invariant: never opens a file and never makes a call: reads traces that it is given.
//!
//! Reading order: [`model`] (the symbolic file system, which says what each call touches), [`rules`] (from touches to
//! order),
//! [`compiled`] (everything that a replay needs, in one file).

#![forbid(unsafe_code)]

pub mod compiled;
pub mod model;
pub mod rules;
