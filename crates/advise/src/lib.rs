//! What to buy for a load, and how to use it: as plain devices, as a cache, or as a tier.
//!
//! Each proposal is screened first: one pass over the requests, with a queue for each device, says about how long
//! requests wait. The best ones are then played with the very layers in virtual time, and only these give the advice.
//!
//! Invariant: touches no file or thread and reads no clock but `Rt`'s; recommends nothing that was not played.
//!
//! Reading order: [`catalogue`] (what can be bought), [`service`] (how fast that is), [`columns`] with `window` (what
//! is asked), [`proposal`] with `stacks` (what can be built of it). Then come estimates: `screen` with `queue`,
//! `segments`, `placing` and `sequences`. Last come [`question`] (what is wanted), [`adviser`] (all of it), [`advice`]
//! (what comes of it) with `reasons` (why), [`page`] (for people).

#![forbid(unsafe_code)]
#![warn(clippy::wildcard_enum_match_arm)]
#![cfg_attr(test, allow(clippy::wildcard_enum_match_arm, reason = "a test panics in such an arm"))]

pub mod advice;
pub mod adviser;
pub mod catalogue;
pub mod columns;
mod error;
pub mod page;
mod placing;
pub mod proposal;
pub mod question;
mod queue;
mod reasons;
mod screen;
mod segments;
mod sequences;
pub mod service;
mod stacks;
#[cfg(test)]
mod tests;
mod text;
pub mod trial;
mod window;

pub use advice::Advice;
pub use adviser::{Adviser, Settings};
pub use catalogue::Offer;
pub use columns::Columns;
pub use error::AdviseError;
pub use proposal::Proposal;
pub use question::Question;
pub use screen::Screened;
pub use service::Service;
