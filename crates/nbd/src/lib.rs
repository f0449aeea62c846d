//! The network block device protocol: a server for block exports, and a client for tools and tests.
//!
//! Invariant: no payload byte is ever copied between a socket and a device, and no client makes the server hold
//! more memory than its stated limits.
//!
//! Reading order: [`proto`] (the protocol as state machines over bytes, no I/O), [`uri`], [`listen`],
//! [`server`] (exports and connections), [`session`] (one connection), [`client`].

#![forbid(unsafe_code)]

mod admission;
pub mod client;
mod execute;
pub mod listen;
mod outbox;
pub mod proto;
pub mod server;
pub mod session;
pub mod uri;

pub use client::Client;
pub use server::{Config, Export, Server};
pub use uri::Uri;

#[cfg(test)]
mod tests;
