//! Replies of the transmission phase: short heads that go out with the caller's payload in one gathered write.

use esker_base::ByteRange;

use super::context::{Context, Contexts};
use super::option::clip;
use super::wire::{
    CHUNK, CHUNK_LEN, EXTENDED_CHUNK, EXTENDED_LEN, Errno, MAX_EXTENTS, Put, SIMPLE_REPLY, SIMPLE_REPLY_LEN, chunk,
    state,
};

/// The form of messages in the transmission phase.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Form {
    /// One reply without text or holes per request.
    #[default]
    Simple,
    /// Replies of chunks.
    Structured,
    /// Requests and chunks with 64-bit lengths.
    Extended,
}

/// What was negotiated for the transmission phase.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Terms {
    /// The form of messages.
    pub form: Form,
    /// Kinds of status that block status answers.
    pub contexts: Contexts,
}

/// How a reply names its request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReplyTo {
    /// The client's name for the request.
    pub cookie: u64,
    /// The request's offset.
    pub offset: u64,
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
pub struct ReadChunk {
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
    /// What the flags mean is the context's: [`state`].
    pub flags: u32,
}

/// What is known in each context that was asked for.
pub type Statuses = Vec<(Context, Vec<Extent>)>;

impl Extent {
    /// A status of `base:allocation`.
    pub fn allocation(len: u64, hole: bool, zero: bool) -> Extent {
        let flags = (if hole { state::HOLE } else { 0 }) | (if zero { state::ZERO } else { 0 });
        Extent { len, flags }
    }

    /// In `base:allocation`: not allocated below.
    pub fn hole(self) -> bool {
        self.flags & state::HOLE != 0
    }

    /// In `base:allocation`: reads as zeroes.
    pub fn zero(self) -> bool {
        self.flags & state::ZERO != 0
    }
}

impl Terms {
    /// Success without a payload; not of a read. Simple also where replies have chunks, which the protocol leaves to
    /// the server for all but reads: it is shorter, and clients that first look which form comes read it in one go.
    pub fn done(self, to: ReplyTo) -> Vec<u8> {
        match self.form {
            Form::Extended => self.chunk(chunk::NONE, true, to, 0),
            Form::Simple | Form::Structured => simple(to, 0),
        }
    }

    /// The head of a successful read whose bytes follow it at once.
    pub fn data(self, to: ReplyTo, range: ByteRange) -> Vec<u8> {
        match self.form {
            Form::Simple => simple(to, 0),
            _ => self.data_head(to, range, true),
        }
    }

    /// Heads of a successful read in parts. A head of a part that is no hole is followed by the part's bytes. Holes
    /// need chunks and a client that did not ask for one whole chunk; there must be at least one part.
    pub fn parts(self, to: ReplyTo, parts: &[ReadChunk]) -> Vec<Vec<u8>> {
        debug_assert!(self.form != Form::Simple, "holes were made for a client that cannot read them");
        let last = parts.len().saturating_sub(1);
        let head = |(i, part): (usize, &ReadChunk)| {
            if part.hole {
                self.hole_head(to, part.range, i == last)
            } else {
                self.data_head(to, part.range, i == last)
            }
        };
        parts.iter().enumerate().map(head).collect()
    }

    /// The answer to a request that failed.
    pub fn failed(self, to: ReplyTo, failure: &Failure) -> Vec<u8> {
        if self.form == Form::Simple {
            return simple(to, failure.errno.code());
        }
        let message = clip(&failure.message).as_bytes();
        let (kind, fixed) = if failure.at.is_some() { (chunk::ERROR_OFFSET, 14) } else { (chunk::ERROR, 6) };
        let mut out = self.chunk(kind, true, to, fixed + message.len() as u32);
        out.u32(failure.errno.code()).u16(message.len() as u16).bytes(message);
        if let Some(at) = failure.at {
            out.u64(at);
        }
        out
    }

    /// The answer to a block status of `asked`: a chunk for each context. Extents start at its first byte; equal
    /// neighbours are joined, a list is cut at [`MAX_EXTENTS`], and a client that asked for `one` extent gets one
    /// inside its range. Without any extent the whole range has no flag: for allocation that is data, which is
    /// always safe.
    pub fn status(self, to: ReplyTo, asked: ByteRange, one: bool, statuses: &[(Context, Vec<Extent>)]) -> Vec<u8> {
        let last = statuses.len().saturating_sub(1);
        let chunk = |(i, (context, extents)): (usize, &(Context, Vec<Extent>))| {
            self.status_chunk(to, i == last, context.id(), &self.listed(asked, one, extents))
        };
        statuses.iter().enumerate().flat_map(chunk).collect()
    }

    fn listed(self, asked: ByteRange, one: bool, extents: &[Extent]) -> Vec<Extent> {
        let longest = if self.form == Form::Extended { u64::MAX } else { LONGEST_EXTENT };
        let mut list = joined(extents, longest);
        if list.is_empty() {
            list.push(Extent { len: asked.len().min(longest), flags: 0 });
        }
        if one {
            list.truncate(1);
            list[0].len = list[0].len.min(asked.len());
        }
        list.truncate(MAX_EXTENTS.min(extents_needed(&list, asked.len())));
        list
    }

    fn status_chunk(self, to: ReplyTo, last: bool, id: u32, list: &[Extent]) -> Vec<u8> {
        let count = list.len() as u32;
        if self.form == Form::Extended {
            let mut out = self.chunk(chunk::BLOCK_STATUS_EXT, last, to, 8 + 16 * count);
            out.u32(id).u32(count);
            for extent in list {
                out.u64(extent.len).u64(u64::from(extent.flags));
            }
            return out;
        }
        let mut out = self.chunk(chunk::BLOCK_STATUS, last, to, 4 + 8 * count);
        out.u32(id);
        for extent in list {
            out.u32(extent.len as u32).u32(extent.flags);
        }
        out
    }

    /// The header of a chunk.
    fn chunk(self, kind: u16, last: bool, to: ReplyTo, payload: u32) -> Vec<u8> {
        let flags = if last { chunk::DONE } else { 0 };
        if self.form == Form::Extended {
            let mut out = Vec::with_capacity(EXTENDED_LEN + 12);
            out.u32(EXTENDED_CHUNK).u16(flags).u16(kind).u64(to.cookie).u64(to.offset).u64(u64::from(payload));
            return out;
        }
        let mut out = Vec::with_capacity(CHUNK_LEN + 12);
        out.u32(CHUNK).u16(flags).u16(kind).u64(to.cookie).u32(payload);
        out
    }

    // Ranges of reads are at most MAX_PAYLOAD long, so their lengths fit in 32 bits.

    fn data_head(self, to: ReplyTo, range: ByteRange, last: bool) -> Vec<u8> {
        let mut out = self.chunk(chunk::OFFSET_DATA, last, to, 8 + range.len() as u32);
        out.u64(range.start());
        out
    }

    fn hole_head(self, to: ReplyTo, range: ByteRange, last: bool) -> Vec<u8> {
        let mut out = self.chunk(chunk::OFFSET_HOLE, last, to, 12);
        out.u64(range.start()).u32(range.len() as u32);
        out
    }
}

/// Longest extent in a structured reply: a multiple of every minimum block size that fits in 32 bits.
const LONGEST_EXTENT: u64 = (1 << 32) - super::wire::MAX_MIN_BLOCK as u64;

/// Extents with equal neighbours joined, until one is longer than `longest`: what follows a cut is left for the
/// client's next question.
fn joined(extents: &[Extent], longest: u64) -> Vec<Extent> {
    let mut list: Vec<Extent> = Vec::new();
    for extent in extents.iter().filter(|e| e.len > 0) {
        match list.last_mut().filter(|last| last.flags == extent.flags) {
            Some(last) => last.len = last.len.saturating_add(extent.len),
            None => list.push(*extent),
        }
    }
    if let Some(i) = list.iter().position(|e| e.len > longest) {
        list[i].len = longest;
        list.truncate(i + 1);
    }
    list
}

/// How many extents reach the end of the question; only the last may pass it.
fn extents_needed(list: &[Extent], asked: u64) -> usize {
    let mut covered = 0u64;
    let reached = list.iter().position(|extent| {
        covered = covered.saturating_add(extent.len);
        covered >= asked
    });
    reached.map_or(list.len(), |i| i + 1)
}

fn simple(to: ReplyTo, error: u32) -> Vec<u8> {
    let mut out = Vec::with_capacity(SIMPLE_REPLY_LEN);
    out.u32(SIMPLE_REPLY).u32(error).u64(to.cookie);
    out
}
