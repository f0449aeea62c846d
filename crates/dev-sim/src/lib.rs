//! Models of devices, which answer requests when the modelled device would have: time, energy and price.
//!
//! A model is a pure function from (state, access, instant) to a plan; the device around it queues, waits, keeps
//! content and counts energy. Devices wait through `Rt` only, so one code serves virtual time and, paced, the real
//! world.
//!
//! Invariant: never touches a real medium. It asks `Rt` alone for the time.
//!
//! Reading order: [`media`] (content and what a power cut leaves of it), [`meter`] (energy), [`catalogue`] (the numbers
//! of real devices), [`setup`] (what all models are told), [`planned`] (devices that plan at arrival), `unsettled`
//! (writes that a power cut may undo), [`disk_model`], [`ssd_model`], [`nvm_model`], [`array_model`], [`fault`] (plans
//! of faults as text) and [`faulty`] (any device, with faults).

#![forbid(unsafe_code)]
#![warn(clippy::wildcard_enum_match_arm)]
#![cfg_attr(test, allow(clippy::wildcard_enum_match_arm, reason = "a test panics in such an arm"))]

mod access;
pub mod array_model;
pub mod catalogue;
pub mod disk_model;
pub mod fault;
pub mod faulty;
pub mod media;
pub mod meter;
pub mod nvm_model;
pub mod planned;
pub mod setup;
pub mod ssd_model;
#[cfg(test)]
mod testing;
mod unsettled;

pub use access::{Access, Content};
pub use setup::Setup;
