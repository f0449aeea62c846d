//! Replies of the transmission phase: short heads that go out with the caller's payload in one gathered write.

use esker_base::ByteRange;

use super::option::clip;
use super::wire::{
    BASE_ALLOCATION_ID, CHUNK, CHUNK_LEN, Errno, MAX_EXTENTS, Put, SIMPLE_REPLY, SIMPLE_REPLY_LEN, chunk, state,
};

/// What was negotiated for the transmission phase.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Terms {
    /// Replies are chunks; otherwise simple.
    pub structured: bool,
    /// Block status of `base:allocation` may be asked for.
    pub allocation: bool,
}

/// An error for one request: a code, and text that only structured replies carry.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}: {message}", errno.name())]
pub struct Failure {
    /// The code.
    pub errno: Errno,
    /// What went wrong, for people.
    pub message: String,
    /// Offset in the export where it went wrong, if known and inside the request.
    pub at: Option<u64>,
}

impl Failure {
    /// A failure at no known place.
    pub fn new(errno: Errno, message: impl Into<String>) -> Failure {
        Failure { errno, message: message.into(), at: None }
    }
}

/// One part of a read's answer. Parts follow each other without gaps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    /// Its bytes in the export.
    pub range: ByteRange,
    /// All of them are zeroes and are not sent.
    pub hole: bool,
}

/// A status of consecutive bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// Bytes; more than 0.
    pub len: u64,
    /// Not allocated below.
    pub hole: bool,
    /// Reads as zeroes.
    pub zero: bool,
}

impl Extent {
    fn flags(self) -> u32 {
        (if self.hole { state::HOLE } else { 0 }) | (if self.zero { state::ZERO } else { 0 })
    }
}

impl Terms {
    /// Success without a payload.
    pub fn done(self, cookie: u64) -> Vec<u8> {
        if self.structured { chunk_head(chunk::NONE, true, cookie, 0) } else { simple(cookie, 0) }
    }

    /// The head of a successful read whose bytes follow it at once.
    pub fn data(self, cookie: u64, range: ByteRange) -> Vec<u8> {
        if self.structured { data_head(cookie, range, true) } else { simple(cookie, 0) }
    }

    /// Heads of a successful read in parts. A head of a part that is no hole is followed by the part's bytes. Holes
    /// need structured replies and a client that did not ask for one whole chunk; there must be at least one part.
    pub fn parts(self, cookie: u64, parts: &[Part]) -> Vec<Vec<u8>> {
        debug_assert!(self.structured, "holes were made for a client that cannot read them");
        let last = parts.len().saturating_sub(1);
        let head = |(i, part): (usize, &Part)| {
            if part.hole { hole_head(cookie, part.range, i == last) } else { data_head(cookie, part.range, i == last) }
        };
        parts.iter().enumerate().map(head).collect()
    }

    /// The answer to a request that failed.
    pub fn failed(self, cookie: u64, failure: &Failure) -> Vec<u8> {
        if !self.structured {
            return simple(cookie, failure.errno.code());
        }
        let message = clip(&failure.message).as_bytes();
        let (kind, fixed) = if failure.at.is_some() { (chunk::ERROR_OFFSET, 14) } else { (chunk::ERROR, 6) };
        let mut out = chunk_head(kind, true, cookie, fixed + message.len() as u32);
        out.u32(failure.errno.code()).u16(message.len() as u16).bytes(message);
        if let Some(at) = failure.at {
            out.u64(at);
        }
        out
    }

    /// The answer to a block status of `asked`. `extents` start at its first byte; equal neighbours are joined, the
    /// list is cut at [`MAX_EXTENTS`], and a client that asked for `one` extent gets one inside its range. Without
    /// any extent the whole range is said to be data, which is always safe.
    pub fn status(self, cookie: u64, asked: ByteRange, one: bool, extents: &[Extent]) -> Vec<u8> {
        let mut list = joined(extents);
        if list.is_empty() {
            list.push((asked.len(), 0));
        }
        if one {
            list.truncate(1);
            list[0].0 = list[0].0.min(asked.len());
        }
        list.truncate(MAX_EXTENTS.min(extents_needed(&list, asked.len())));
        let mut out = chunk_head(chunk::BLOCK_STATUS, true, cookie, 4 + 8 * list.len() as u32);
        out.u32(BASE_ALLOCATION_ID);
        for (len, flags) in list {
            out.u32(len as u32).u32(flags);
        }
        out
    }
}

/// Longest extent on the wire: a multiple of every minimum block size that fits in 32 bits.
const LONGEST_EXTENT: u64 = (1 << 32) - super::wire::MAX_MIN_BLOCK as u64;

/// Lengths and flags with equal neighbours joined, until one is too long for the wire: what follows a cut is left for
/// the client's next question.
fn joined(extents: &[Extent]) -> Vec<(u64, u32)> {
    let mut list: Vec<(u64, u32)> = Vec::new();
    for extent in extents.iter().filter(|e| e.len > 0) {
        match list.last_mut().filter(|last| last.1 == extent.flags()) {
            Some(last) => last.0 = last.0.saturating_add(extent.len),
            None => list.push((extent.len, extent.flags())),
        }
    }
    if let Some(i) = list.iter().position(|e| e.0 > LONGEST_EXTENT) {
        list[i].0 = LONGEST_EXTENT;
        list.truncate(i + 1);
    }
    list
}

/// How many extents reach the end of the question; only the last may pass it.
fn extents_needed(list: &[(u64, u32)], asked: u64) -> usize {
    let mut covered = 0u64;
    let reached = list.iter().position(|(len, _)| {
        covered = covered.saturating_add(*len);
        covered >= asked
    });
    reached.map_or(list.len(), |i| i + 1)
}

fn simple(cookie: u64, error: u32) -> Vec<u8> {
    let mut out = Vec::with_capacity(SIMPLE_REPLY_LEN);
    out.u32(SIMPLE_REPLY).u32(error).u64(cookie);
    out
}

fn chunk_head(kind: u16, last: bool, cookie: u64, payload: u32) -> Vec<u8> {
    let flags = if last { chunk::DONE } else { 0 };
    let mut out = Vec::with_capacity(CHUNK_LEN + 12);
    out.u32(CHUNK).u16(flags).u16(kind).u64(cookie).u32(payload);
    out
}

// Ranges of reads are at most MAX_PAYLOAD long, so their lengths fit in 32 bits.

fn data_head(cookie: u64, range: ByteRange, last: bool) -> Vec<u8> {
    let mut out = chunk_head(chunk::OFFSET_DATA, last, cookie, 8 + range.len() as u32);
    out.u64(range.start());
    out
}

fn hole_head(cookie: u64, range: ByteRange, last: bool) -> Vec<u8> {
    let mut out = chunk_head(chunk::OFFSET_HOLE, last, cookie, 12);
    out.u64(range.start()).u32(range.len() as u32);
    out
}
