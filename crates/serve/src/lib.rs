//! A served stack: its NBD servers, and the control socket through which it is watched and changed.
//!
//! Invariant: no client of the control socket makes the server hold more than [`lines::LINE_MAX`] bytes for it, and a stop
//! answers every request that was accepted and flushes every device before it reports success.
//!
//! Reading order: [`server`] (start, run, stop), [`front`] (other ways than NBD), [`command`] (what the control socket understands), [`lines`],
//! `console` (its connections), `status` (what it tells).

#![forbid(unsafe_code)]

pub mod command;
mod console;
pub mod front;
pub mod lines;
pub mod server;
mod status;

pub use command::{Command, CommandError};
pub use front::{Front, Offer};
pub use server::{Config, Ready, ServeError, Served, StopError};

#[cfg(test)]
mod tests;
