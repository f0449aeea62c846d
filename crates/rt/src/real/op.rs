//! What the kernel can be asked to do. An operation owns everything that the kernel touches until it is done.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use super::fuse_entry::FuseEntry;
use crate::mem::Parts;

/// What to do with the space of a range of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FallocateMode {
    /// Give the range back; it reads as zeroes and the file keeps its size.
    PunchHole,
    /// Make the range read as zeroes; space stays allocated where the file system can do so.
    ZeroRange,
    /// Allocate space so that later writes do not fail for lack of it.
    Allocate,
}

/// One operation.
#[derive(Debug)]
pub enum Op {
    /// Reads into the parts; `at` is the file offset, or `None` for a stream.
    Read {
        /// File or socket.
        fd: Arc<OwnedFd>,
        /// Offset in bytes.
        at: Option<u64>,
        /// Where the bytes go.
        parts: Parts,
    },
    /// Writes the parts.
    Write {
        /// File or socket.
        fd: Arc<OwnedFd>,
        /// Offset in bytes.
        at: Option<u64>,
        /// What is written.
        parts: Parts,
        /// Whether it is done only when the bytes are durable (`RWF_DSYNC`).
        durable: bool,
    },
    /// Makes completed writes durable (data and the metadata needed to read it back: `fdatasync`).
    Sync {
        /// File.
        fd: Arc<OwnedFd>,
    },
    /// Changes the space of a range.
    Fallocate {
        /// File.
        fd: Arc<OwnedFd>,
        /// How.
        mode: FallocateMode,
        /// Offset in bytes.
        at: u64,
        /// Bytes.
        len: u64,
    },
    /// Waits until there is something to read, and reads nothing. May end early: look whether there is.
    Readable {
        /// Event descriptor, pipe or socket; also one that listens.
        fd: Arc<OwnedFd>,
    },
    /// Hands an entry to the kernel, with the answer to the request that is in it; done when the next request is in it.
    /// Takes a reactor that [takes commands](super::Kernel::takes_commands).
    Fetch {
        /// The entry.
        entry: FuseEntry,
    },
}

impl Op {
    /// The parts of a read or write, given back after completion.
    pub fn into_parts(self) -> Parts {
        match self {
            Op::Read { parts, .. } | Op::Write { parts, .. } => parts,
            Op::Sync { .. } | Op::Fallocate { .. } | Op::Readable { .. } | Op::Fetch { .. } => Parts::new(),
        }
    }
}

/// What became of an operation.
#[derive(Debug)]
pub struct Outcome {
    /// Bytes or zero; or why it failed.
    pub result: io::Result<u32>,
    /// The operation with its buffers.
    pub op: Op,
}
