//! The network block device protocol: a server for block exports, and a client for tools and tests.
//!
//! Invariant: no payload byte is copied between a bare socket and a device (TLS must copy, and is counted apart); no
//! client makes the server hold more memory than its limits.
//!
//! Reading order: [`proto`] (the protocol as state machines over bytes, no I/O), [`uri`], [`listen`], [`tls`],
//! [`server`] (exports and connections), [`session`] (one connection), [`handed`] (connections that go on in another
//! server), [`client`], [`persistent`] (a client that connects again).

#![forbid(unsafe_code)]

mod account;
mod admission;
pub mod client;
mod execute;
pub mod handed;
mod link;
pub mod listen;
mod marked;
mod outbox;
mod pace;
pub mod persistent;
pub mod proto;
pub mod server;
pub mod session;
mod slots;
mod subject;
pub mod tls;
pub mod uri;
mod watch;

pub use account::ClientInfo;
pub use client::Client;
pub use handed::{Agreed, Handed};
pub use persistent::Persistent;
pub use server::{Config, Export, Server};
pub use uri::Uri;

#[cfg(test)]
mod tests;
