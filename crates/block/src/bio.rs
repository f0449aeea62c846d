//! A request (`Bio`, as in BSD and Linux: block I/O) and its answer.

use esker_base::{ByteRange, span};

use crate::buf::Buf;

/// Names a volume inside one stack: something that requests can be addressed to.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct VolumeId(pub u16);

/// What is asked. Closed on purpose: a new operation must break every `match` that would let it pass unseen.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Op {
    /// Fill the buffer from the range.
    Read,
    /// Store the buffer in the range.
    Write,
    /// Make every write durable that completed before this flush was issued.
    Flush,
    /// Make the range read as zeroes.
    Zero,
    /// A hint that the range is not needed. Afterwards it reads as anything that was ever written there, or zeroes.
    Discard,
    /// Remap ranges: all or nothing, visible together, durable on completion (ANViL's vectored clone/move/delete).
    Ranges(Box<[RangeOp]>),
    /// Tell which parts of the range hold data.
    Extents,
}

impl Op {
    /// Its place in tables: its discriminant, so that looking it up costs nothing.
    #[inline]
    pub fn number(&self) -> usize {
        match self {
            Op::Read => 0,
            Op::Write => 1,
            Op::Flush => 2,
            Op::Zero => 3,
            Op::Discard => 4,
            Op::Ranges(_) => 5,
            Op::Extents => 6,
        }
    }
}

/// The operation without its payload.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum OpKind {
    /// [`Op::Read`].
    Read,
    /// [`Op::Write`].
    Write,
    /// [`Op::Flush`].
    Flush,
    /// [`Op::Zero`].
    Zero,
    /// [`Op::Discard`].
    Discard,
    /// [`RangeOp::Clone`] in [`Op::Ranges`].
    Clone,
    /// [`RangeOp::Move`] in [`Op::Ranges`].
    Move,
    /// [`RangeOp::Delete`] in [`Op::Ranges`].
    Delete,
    /// [`Op::Extents`].
    Extents,
}

impl OpKind {
    /// All kinds, in the order of their discriminants.
    pub const ALL: [OpKind; 9] = [
        OpKind::Read,
        OpKind::Write,
        OpKind::Flush,
        OpKind::Zero,
        OpKind::Discard,
        OpKind::Clone,
        OpKind::Move,
        OpKind::Delete,
        OpKind::Extents,
    ];

    /// The lower-case word for texts.
    pub fn word(self) -> &'static str {
        ["read", "write", "flush", "zero", "discard", "clone", "move", "delete", "extents"][self as usize]
    }
}

/// One remapping. Source and destination never overlap; all numbers are multiples of the logical block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RangeOp {
    /// Destination maps to the same data as the source.
    Clone {
        /// What is cloned.
        src: ByteRange,
        /// First byte of the destination.
        dst: u64,
    },
    /// Destination takes the source's data; the source is unmapped and reads as zeroes.
    Move {
        /// What is moved.
        src: ByteRange,
        /// First byte of the destination.
        dst: u64,
    },
    /// The range is unmapped durably and reads as zeroes.
    Delete {
        /// What is deleted.
        at: ByteRange,
    },
}

impl RangeOp {
    /// Its kind.
    pub fn kind(&self) -> OpKind {
        match self {
            RangeOp::Clone { .. } => OpKind::Clone,
            RangeOp::Move { .. } => OpKind::Move,
            RangeOp::Delete { .. } => OpKind::Delete,
        }
    }

    /// The ranges that it reads and writes; `None` where the destination's end does not fit in 64 bits.
    pub fn ranges(&self) -> Option<(Option<ByteRange>, ByteRange)> {
        match self {
            RangeOp::Clone { src, dst } | RangeOp::Move { src, dst } => {
                Some((Some(*src), ByteRange::new(*dst, src.len())?))
            }
            RangeOp::Delete { at } => Some((None, *at)),
        }
    }
}

/// Modifiers of a request.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Flags {
    /// Force unit access: durable on completion.
    pub fua: bool,
    /// `Zero` must not give the space back.
    pub no_unmap: bool,
}

/// Classes of requests have credits of their own, so that a layer that holds a slot can always submit below.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[repr(u8)]
pub enum Class {
    /// Requests of clients.
    #[default]
    Foreground,
    /// Movers, collectors, resynchronisation.
    Background,
    /// Metadata and flushes that others wait for.
    Metadata,
}

impl Class {
    /// Number of classes.
    pub const COUNT: usize = 3;
}

/// Where a request comes from. Carried down unchanged, so that policies and traces can attribute it. Except for
/// `class`, no field changes what a request means or which credits it takes: the others are labels, and 0 says nothing.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Tag {
    /// One request of a recording or experiment, by its number there. Set by the program that made the request; read
    /// by probes that follow it down the stack.
    pub trace: u64,
    /// Where requests enter: a mount, a connection, a queue of a guest, a volume of a recording. Set by the front end
    /// or player; read by caches and tiers that tell clients apart, together with `stream`.
    pub issuer: u32,
    /// What the issuer names inside itself: a file system's inode (its low 32 bits), a table of a database. Set by the
    /// file system or client; read by detectors of sequences and by policies for each file. Numbers of two issuers have
    /// nothing in common.
    pub stream: u32,
    /// The process that asked, in the numbering of its kernel or recording. Set by front ends and players; read by
    /// policies that learn which requests of a process follow each other.
    pub pid: u32,
    /// Wish of the client for its own requests: higher is more urgent. Set by the client; read by schedulers of layers
    /// among requests of one `class`.
    pub priority: u8,
    /// Which kind of medium the data should lie on: the class of a file system's hint. Set by the file system; read by
    /// caches and tiers that place data. It says nothing of urgency.
    pub storage: u8,
    /// Whose credits the request takes. Set by the layer that makes the request; read by the loop that admits it.
    pub class: Class,
}

impl Tag {
    /// Of requests that no client made.
    pub const fn of(class: Class) -> Tag {
        Tag { trace: 0, issuer: 0, stream: 0, pid: 0, priority: 0, storage: 0, class }
    }
}

/// A request and its current destination.
#[derive(Debug)]
pub struct Bio {
    /// What is asked.
    pub op: Op,
    /// The bytes of the destination that it is about; empty for flushes and range vectors.
    pub range: ByteRange,
    /// Modifiers.
    pub flags: Flags,
    /// Where it goes now. Set by the loop and by extensions with several lower devices.
    pub dest: VolumeId,
    /// The payload of reads and writes; empty otherwise.
    pub buf: Buf,
    /// Where it comes from.
    pub tag: Tag,
}

const NOWHERE: VolumeId = VolumeId(u16::MAX);

impl Bio {
    fn new(op: Op, range: ByteRange, buf: Buf) -> Bio {
        Bio { op, range, flags: Flags::default(), dest: NOWHERE, buf, tag: Tag::default() }
    }

    /// Reads `buf.len()` bytes at `offset` into `buf`.
    ///
    /// # Panics
    /// If the end does not fit in 64 bits; the same holds for all constructors.
    pub fn read(offset: u64, buf: Buf) -> Bio {
        Bio::new(Op::Read, span(offset, buf.len() as u64), buf)
    }

    /// Writes `buf` at `offset`.
    pub fn write(offset: u64, buf: Buf) -> Bio {
        Bio::new(Op::Write, span(offset, buf.len() as u64), buf)
    }

    /// Makes completed writes durable.
    pub fn flush() -> Bio {
        Bio::new(Op::Flush, span(0, 0), Buf::empty())
    }

    /// Zeroes a range.
    pub fn zero(offset: u64, len: u64) -> Bio {
        Bio::new(Op::Zero, span(offset, len), Buf::empty())
    }

    /// Hints that a range is not needed.
    pub fn discard(offset: u64, len: u64) -> Bio {
        Bio::new(Op::Discard, span(offset, len), Buf::empty())
    }

    /// Remaps ranges.
    pub fn ranges(ops: impl Into<Box<[RangeOp]>>) -> Bio {
        Bio::new(Op::Ranges(ops.into()), span(0, 0), Buf::empty())
    }

    /// Asks which parts of a range hold data.
    pub fn extents(offset: u64, len: u64) -> Bio {
        Bio::new(Op::Extents, span(offset, len), Buf::empty())
    }

    /// With force unit access.
    pub fn fua(mut self) -> Bio {
        self.flags.fua = true;
        self
    }

    /// With another tag.
    pub fn tagged(mut self, tag: Tag) -> Bio {
        self.tag = tag;
        self
    }

    /// Addressed to `dest`.
    pub fn to(mut self, dest: VolumeId) -> Bio {
        self.dest = dest;
        self
    }

    /// A request that does a part of this one: same destination, flags and tag.
    pub fn part(&self, op: Op, range: ByteRange, buf: Buf) -> Bio {
        Bio { op, range, flags: self.flags, dest: self.dest, buf, tag: self.tag }
    }

    /// Takes the request out of its place, to be answered or kept while its extension waits.
    pub fn take(&mut self) -> Bio {
        std::mem::replace(self, Bio::new(Op::Flush, span(0, 0), Buf::empty()))
    }

    /// First byte.
    pub fn offset(&self) -> u64 {
        self.range.start()
    }

    /// Bytes.
    pub fn len(&self) -> u64 {
        self.range.len()
    }

    /// Whether the range holds no byte.
    pub fn is_empty(&self) -> bool {
        self.range.is_empty()
    }

    /// Whether it may change what the destination holds.
    pub fn changes_data(&self) -> bool {
        matches!(self.op, Op::Write | Op::Zero | Op::Discard | Op::Ranges(_))
    }

    /// The answer that it succeeded, with its buffer.
    pub fn ok(self) -> Done {
        Done { result: Ok(Reply::Empty), buf: self.buf }
    }

    /// The answer that it failed, with its buffer.
    pub fn fail(self, error: BioError) -> Done {
        Done { result: Err(error), buf: self.buf }
    }
}

/// State of one extent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ExtentState {
    /// Holds data.
    Data,
    /// Reads as zeroes and takes no space.
    Hole,
    /// Reads as zeroes and takes space.
    Zero,
}

/// A run of bytes in one state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Extent {
    /// Length in bytes (> 0).
    pub len: u64,
    /// State.
    pub state: ExtentState,
}

/// What a successful request brings back besides its buffer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Reply {
    /// Nothing.
    Empty,
    /// Extents from the start of the range, without gaps; may end before the range does, never empty.
    Extents(Box<[Extent]>),
}

/// Why a request failed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BioError {
    /// The medium or the kernel failed; the text says what.
    #[error("I/O error: {0}")]
    Io(Box<str>),
    /// No space left below.
    #[error("no space left on {0}")]
    NoSpace(Box<str>),
    /// The destination cannot do this.
    #[error("{} is not supported here", .0.word())]
    Unsupported(OpKind),
    /// The caller broke the contract; the text says how.
    #[error("invalid request: {0}")]
    Invalid(Box<str>),
    /// Data at this offset is not what was written.
    #[error("corrupt data at byte {0}")]
    Corrupt(u64),
    /// The destination takes no changes.
    #[error("{0} is read-only")]
    ReadOnly(Box<str>),
    /// The device is not there any more.
    #[error("{0} is gone")]
    Gone(Box<str>),
    /// It refuses this until its medium is repaired and the server restarts: latched after a failed write or flush, or
    /// never opened. The text is made of whole sentences.
    #[error("{0}")]
    Latched(Box<str>),
}

impl BioError {
    /// An I/O error with a text.
    pub fn io(text: impl Into<Box<str>>) -> BioError {
        BioError::Io(text.into())
    }

    /// A broken contract with a text.
    pub fn invalid(text: impl Into<Box<str>>) -> BioError {
        BioError::Invalid(text.into())
    }
}

/// The answer to a request: in every case the buffer comes back.
#[derive(Debug)]
pub struct Done {
    /// What came of it.
    pub result: Result<Reply, BioError>,
    /// The request's buffer: filled by a successful read, unchanged by a write.
    pub buf: Buf,
}
