//! One request of a trace.

use esker_base::{ByteRange, Nanos};

/// What a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Op {
    /// Bytes are read.
    Read,
    /// Bytes are written.
    Write,
    /// Earlier writes are made durable.
    Flush,
    /// Bytes are no longer needed.
    Discard,
}

impl Op {
    /// Every operation, in the order of [`Op::index`].
    pub const ALL: [Op; 4] = [Op::Read, Op::Write, Op::Flush, Op::Discard];

    /// Position in [`Op::ALL`].
    pub fn index(self) -> usize {
        self as usize
    }

    /// Whether bytes move (read or write).
    pub fn is_transfer(self) -> bool {
        matches!(self, Op::Read | Op::Write)
    }
}

/// One request. `offset + len` fits in 64 bits; a flush has offset and length 0, everything else a length above 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// Time since the trace's start. Never before the previous record's of the same trace.
    pub at: Nanos,
    /// Number of the volume, counted from 0 in order of first appearance.
    pub volume: u32,
    /// What is asked for.
    pub op: Op,
    /// First byte.
    pub offset: u64,
    /// Length in bytes.
    pub len: u64,
    /// The process that asks, in the numbering of the source; 0 if the source does not tell.
    pub who: u32,
}

impl Record {
    /// The bytes of this request; an overflowing end, which no reader yields, is cut off at 2^64 - 1.
    pub fn range(&self) -> ByteRange {
        let len = self.len.min(u64::MAX - self.offset);
        ByteRange::new(self.offset, len).expect("the length was cut to fit")
    }
}
