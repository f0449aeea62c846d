//! Requests over units that lie apart: a map says where each byte of an extension's upper port lies below, and a
//! request that spans several runs of it becomes one request for each.

use esker_base::ByteRange;
use esker_block::{Bio, Buf, Done, Flow, Op, Reply, Step};

use crate::io::{Io, WIDTH};

/// A byte of one of an extension's lower devices.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct LowerAddress {
    /// Number of the lower device.
    pub lower: usize,
    /// Byte of it.
    pub at: u64,
}

impl LowerAddress {
    /// The place `bytes` further on.
    pub fn plus(self, bytes: u64) -> LowerAddress {
        LowerAddress { at: self.at + bytes, ..self }
    }
}

/// Where a byte lies, and how many from there on (> 0) lie one after the other both above and below.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LowerExtent {
    /// Where the first byte lies.
    pub place: LowerAddress,
    /// Bytes.
    pub len: u64,
}

/// A part of a client's range that lies in one piece.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Piece {
    /// Bytes as the client names them.
    pub part: ByteRange,
    /// Where they lie.
    pub place: LowerAddress,
}

/// Cuts `range` into pieces, as few as possible; `map` tells where a byte lies.
///
/// # Panics
/// If `map` gives an empty run.
pub fn pieces(range: ByteRange, map: impl Fn(u64) -> LowerExtent) -> Vec<Piece> {
    let mut pieces: Vec<Piece> = Vec::new();
    let mut at = range.start();
    while at < range.end() {
        let run = map(at);
        assert!(run.len > 0, "a map must say where byte {at} lies");
        let len = run.len.min(range.end() - at);
        match pieces.last_mut() {
            Some(last) if last.place.plus(last.part.len()) == run.place => {
                last.part = span(last.part.start(), last.part.len() + len);
            }
            _ => pieces.push(Piece { part: span(at, len), place: run.place }),
        }
        at += len;
    }
    pieces
}

/// A range inside one that exists.
pub(crate) fn span(start: u64, len: u64) -> ByteRange {
    ByteRange::new(start, len).expect("a part of a range fits in 64 bits")
}

/// Sends a client's request to where its bytes lie, if they lie in one piece; the request then only changes its target.
/// Otherwise sends one request for each piece and answers when all have: with the first error in the order of bytes,
/// and for a read with the chain of what the parts read. Flushes and range vectors have no range: they pass unchanged.
pub fn redirect(io: &Io, bio: &mut Bio, pieces: &[Piece]) -> Step<Flow> {
    match (&bio.op, pieces) {
        (Op::Flush | Op::Ranges(_), _) | (_, []) => Step::Now(Flow::Down),
        (_, [one]) => {
            bio.dest = io.lower(one.place.lower);
            bio.range = span(one.place.at, one.part.len());
            Step::Now(Flow::Down)
        }
        // The answer may end before the range does.
        (Op::Extents, [first, ..]) => redirect(io, bio, &[*first]),
        _ => join(io, bio.take(), pieces),
    }
}

fn join(io: &Io, mut whole: Bio, pieces: &[Piece]) -> Step<Flow> {
    let parts: Vec<Bio> = pieces.iter().map(|piece| part_of(io, &mut whole, *piece)).collect();
    let io = io.clone();
    Step::later(async move {
        let returned = io.all(parts, WIDTH).await;
        let mut result = Ok(Reply::Empty);
        let mut bufs = Vec::with_capacity(returned.len());
        for part in returned {
            result = result.and(part.result);
            bufs.push(part.bio.buf);
        }
        let buf = if whole.op == Op::Read { Buf::chain(bufs) } else { whole.buf };
        Flow::Done(Done { result, buf })
    })
}

/// The request for one piece of `whole`.
fn part_of(io: &Io, whole: &mut Bio, piece: Piece) -> Bio {
    let (at, len) = ((piece.part.start() - whole.offset()) as usize, piece.part.len());
    let buf = match whole.op {
        Op::Read => whole.buf.like(io.pool(), len as usize),
        Op::Write => whole.buf.slice(at, len as usize),
        Op::Flush | Op::Zero | Op::Discard | Op::Ranges(_) | Op::Extents => Buf::empty(),
    };
    let dest = io.lower(piece.place.lower);
    Bio { op: whole.op.clone(), range: span(piece.place.at, len), flags: whole.flags, dest, buf, tag: whole.tag }
}

#[cfg(test)]
mod tests;
