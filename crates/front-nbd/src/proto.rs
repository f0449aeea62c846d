//! The protocol as pure state machines over bytes: no I/O, no clock, no waiting.
//!
//! A machine says what it [`Need`]s next from the wire and is handed exactly that, so a payload can be received
//! straight into the buffer that the device will write from. Replies are a short head plus the caller's payload,
//! made for one gathered write.
//!
//! Source: the NBD protocol document (`doc/proto.md` of the NetworkBlockDevice project), and its branch
//! `extension-ext-header` for extended headers. TLS itself is the caller's: a machine says when it begins.
//!
//! Reading order: [`wire`] (numbers), [`context`], [`export`] (what is offered), [`option`] and [`session`] (a server's
//! side of a connection), [`request`], [`reply`], [`client`], [`client_replies`], [`feed`] (any machine from chunks of
//! bytes; for fuzzing).

pub mod client;
pub mod client_replies;
pub mod context;
pub mod export;
pub mod feed;
pub mod option;
pub mod reply;
pub mod request;
pub mod session;
pub mod wire;

#[cfg(test)]
mod tests;

pub use client::{ClientError, Handshake, HandshakeStep, Remote};
pub use client_replies::{Answer, Heard, Replies};
pub use context::{Context, Contexts};
pub use export::{ExportError, ExportInfo, Exports};
pub use reply::{Extent, Failure, Form, ReadChunk, ReplyTo, Statuses, Terms};
pub use request::{Op, Request};
pub use session::{End, Session, Step, TlsMode, Violation};
pub use wire::Errno;

/// What a machine needs next from the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// Exactly this many bytes (at most [`wire::MAX_OPTION`] for a server), for the machine to read.
    Message(usize),
    /// Exactly this many bytes of payload, into a buffer of the caller's choice.
    Payload(usize),
    /// Exactly this many bytes to read and discard in pieces.
    Skip(usize),
    /// Nothing: the conversation is over.
    Nothing,
}
