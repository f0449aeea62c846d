//! Requests over units that lie apart: a map says where each byte of an extension's upper port lies below, and a
//! request that spans several runs of it becomes one request for each.

use esker_base::{ByteRange, span};
use esker_rt::Rt;
use esker_rt::mem::Pool;

use crate::ext::{Below, Flow};
use crate::flight::{self, WIDTH};
use crate::{Bio, Buf, Done, Op, Reply, Step};

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

/// What a request needs to be sent in parts.
#[derive(Clone, Copy)]
pub struct Splitter<'a> {
    /// The world.
    pub rt: &'a Rt,
    /// Where the buffers of reads come from.
    pub pool: &'a Pool,
    /// Everything below the extension.
    pub below: &'a Below,
}

impl Splitter<'_> {
    /// Sends a client's request to where its bytes lie, if they lie in one piece; the request then only changes its
    /// target. Otherwise sends one request for each piece and answers as [`Splitter::join`] does. Flushes and range
    /// vectors have no range: they pass unchanged.
    pub fn redirect(self, bio: &mut Bio, pieces: &[Piece]) -> Step<Flow> {
        match (&bio.op, pieces) {
            (Op::Flush | Op::Ranges(_), _) | (_, []) => Step::Now(Flow::Down),
            // The answer about extents may end before the range does.
            (_, [one]) | (Op::Extents, [one, ..]) => {
                bio.dest = self.below.lower(one.place.lower);
                bio.range = span(one.place.at, one.part.len());
                Step::Now(Flow::Down)
            }
            _ => {
                let mut whole = bio.take();
                let parts = pieces.iter().map(|piece| self.part_of(&mut whole, *piece)).collect();
                self.join(whole, parts)
            }
        }
    }

    /// Sends the parts and makes one answer of theirs: the first error in the order of the parts, and for a read the
    /// chain of what the parts read.
    pub fn join(self, whole: Bio, parts: Vec<Bio>) -> Step<Flow> {
        let (rt, below) = (self.rt.clone(), self.below.clone());
        Step::later(async move {
            let mut result = Ok(Reply::Empty);
            let mut bufs = Vec::with_capacity(parts.len());
            let steps = parts.into_iter().map(|part| below.submit(part));
            flight::windowed(&rt, WIDTH, steps, |done| {
                if result.is_ok() {
                    result = done.result;
                }
                bufs.push(done.buf);
                true
            })
            .await;
            let buf = if whole.op == Op::Read { Buf::chain(bufs) } else { whole.buf };
            Flow::Done(Done { result, buf })
        })
    }

    /// The request for one piece of `whole`.
    fn part_of(self, whole: &mut Bio, piece: Piece) -> Bio {
        let (at, len) = ((piece.part.start() - whole.offset()) as usize, piece.part.len());
        let buf = match whole.op {
            Op::Read => whole.buf.like(self.pool, len as usize),
            Op::Write => whole.buf.slice(at, len as usize),
            Op::Flush | Op::Zero | Op::Discard | Op::Ranges(_) | Op::Extents => Buf::empty(),
        };
        let dest = self.below.lower(piece.place.lower);
        whole.part(whole.op.clone(), span(piece.place.at, len), buf).to(dest)
    }
}
