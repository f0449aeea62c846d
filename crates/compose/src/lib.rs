//! The theory of stackable extensions: what each extension of a stack still sees and does in a given order, and which
//! order serves given goals best.
//!
//! Invariant: pure logic: knows no kind, no request and no clock. It touches no file or thread; equal questions give
//! equal answers, byte for byte.
//!
//! The theory is chapter 5 of "Improving Storage with Stackable Extensions" (ABLE). Its grid of rules is here as a
//! view; what decides is the exact model.
//!
//! Reading order: [`set`], [`setting`] (volumes, extensions, the algebra of domains), [`grid`] (the nine rules),
//! [`exact`] (what becomes of every request), [`effect`], [`goals`], [`constraint`], [`search`] (the best order),
//! [`explain`] (an order and its witnesses), [`built`] (stacks that can be built), [`text`] (declarations), [`report`],
//! [`samples`] and [`published`].

#![forbid(unsafe_code)]
#![warn(clippy::wildcard_enum_match_arm)]
#![cfg_attr(test, allow(clippy::wildcard_enum_match_arm, reason = "a test panics in such an arm"))]

pub mod built;
pub mod constraint;
pub mod effect;
pub mod exact;
pub mod explain;
pub mod goals;
pub mod grid;
pub mod published;
pub mod report;
pub mod samples;
pub mod search;
pub mod set;
pub mod setting;
#[cfg(test)]
mod tests;
pub mod text;

pub use built::{Built, BuiltDevice, Medium};
pub use explain::Analysis;
pub use search::Problem;
pub use setting::Setting;
pub use text::Declaration;
