//! Requests of the transmission phase: read from the wire and checked against the export.

use esker_base::ByteRange;
use esker_base::codec::Reader;

use super::context::{Context, Contexts};
use super::export::ExportInfo;
use super::reply::{Failure, Form, ReplyTo, Terms};
use super::session::Violation;
use super::wire::{EXTENDED_LEN, EXTENDED_REQUEST, Errno, MAX_PAYLOAD, Put, REQUEST, REQUEST_LEN, cmd, cmd_flag};

/// A request that keeps all rules of its export, to be carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// The client's name for it, sent back with each reply.
    pub cookie: u64,
    /// What to do.
    pub op: Op,
}

/// What a request asks for. Ranges are inside the export, aligned and not empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Op {
    /// Read the range, at most [`MAX_PAYLOAD`] bytes.
    Read {
        /// What to read.
        range: ByteRange,
        /// Send one content chunk only.
        whole: bool,
    },
    /// Write the payload that follows, at most [`MAX_PAYLOAD`] bytes.
    Write {
        /// Where to write.
        range: ByteRange,
        /// Reply when durable.
        fua: bool,
    },
    /// Reply when all writes replied to before are durable.
    Flush,
    /// The content is no longer needed.
    Trim {
        /// Whose content.
        range: ByteRange,
        /// Reply when durable.
        fua: bool,
    },
    /// Make the range read as zeroes.
    WriteZeroes {
        /// Where.
        range: ByteRange,
        /// Reply when durable.
        fua: bool,
        /// Keep the space allocated.
        no_hole: bool,
        /// Refuse with [`Errno::NotSup`] rather than be as slow as a write.
        fast: bool,
    },
    /// The range will be read soon; at most [`MAX_PAYLOAD`] bytes.
    Cache {
        /// What will be read.
        range: ByteRange,
    },
    /// Change the size of the export.
    Resize {
        /// To so many bytes.
        bytes: u64,
    },
    /// Say in which state the parts of the range are.
    BlockStatus {
        /// Where.
        range: ByteRange,
        /// One extent only, inside the range.
        one: bool,
        /// Which kinds of status. A client's own request asks for all that it selected, whatever stands here.
        contexts: Contexts,
    },
}

impl Op {
    /// The bytes it concerns; none for a flush.
    pub fn range(&self) -> Option<ByteRange> {
        match *self {
            Op::Flush | Op::Resize { .. } => None,
            Op::Read { range, .. } | Op::Write { range, .. } | Op::Trim { range, .. } => Some(range),
            Op::WriteZeroes { range, .. } | Op::BlockStatus { range, .. } | Op::Cache { range } => Some(range),
        }
    }

    /// Bytes of content that it carries in either direction.
    pub fn payload(&self) -> usize {
        match *self {
            Op::Read { range, .. } | Op::Write { range, .. } | Op::Cache { range } => range.len() as usize,
            _ => 0,
        }
    }

    /// Command and flags on the wire.
    /// What stands in the fields for offset and length.
    fn place(&self) -> (u64, u64) {
        match self {
            Op::Resize { bytes } => (*bytes, 0),
            op => op.range().map_or((0, 0), |range| (range.start(), range.len())),
        }
    }

    fn code(&self) -> (u16, u16) {
        let on = |set: bool, bit: u16| if set { bit } else { 0 };
        match *self {
            Op::Read { whole, .. } => (cmd::READ, on(whole, cmd_flag::DF)),
            Op::Write { fua, .. } => (cmd::WRITE, on(fua, cmd_flag::FUA)),
            Op::Flush => (cmd::FLUSH, 0),
            Op::Trim { fua, .. } => (cmd::TRIM, on(fua, cmd_flag::FUA)),
            Op::WriteZeroes { fua, no_hole, fast, .. } => {
                let flags = on(fua, cmd_flag::FUA) | on(no_hole, cmd_flag::NO_HOLE) | on(fast, cmd_flag::FAST_ZERO);
                (cmd::WRITE_ZEROES, flags)
            }
            Op::Cache { .. } => (cmd::CACHE, 0),
            Op::Resize { .. } => (cmd::RESIZE, 0),
            Op::BlockStatus { one, .. } => (cmd::BLOCK_STATUS, on(one, cmd_flag::REQ_ONE)),
        }
    }
}

impl Request {
    /// How replies name it.
    pub fn reply_to(&self) -> ReplyTo {
        ReplyTo { cookie: self.cookie, offset: self.op.place().0 }
    }

    /// The header that a client sends. A range whose length does not fit in the form is `None`.
    pub fn encode(&self, form: Form) -> Option<Vec<u8>> {
        let (command, flags) = self.op.code();
        let (offset, len) = self.op.place();
        let carries = form == Form::Extended && command == cmd::WRITE;
        let flags = flags | if carries { cmd_flag::PAYLOAD_LEN } else { 0 };
        let fits = form == Form::Extended || u32::try_from(len).is_ok();
        fits.then(|| Header { flags, command, cookie: self.cookie, offset, len }.encode(form))
    }
}

/// A request as it is on the wire, unchecked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// Flags of the command.
    pub flags: u16,
    /// The command.
    pub command: u16,
    /// The client's name for it.
    pub cookie: u64,
    /// First byte.
    pub offset: u64,
    /// Bytes; 32 bits of it unless headers are extended.
    pub len: u64,
}

impl Header {
    /// Bytes of a request without its payload.
    pub fn size(form: Form) -> usize {
        if form == Form::Extended { EXTENDED_LEN } else { REQUEST_LEN }
    }

    /// Reads the [`Header::size`] bytes of a request.
    pub fn parse(bytes: &[u8], form: Form) -> Result<Header, Violation> {
        let extended = form == Form::Extended;
        let mut r = Reader::new(bytes);
        let magic = r.be_u32()?;
        if magic != if extended { EXTENDED_REQUEST } else { REQUEST } {
            return Err(Violation::RequestMagic(magic));
        }
        Ok(Header {
            flags: r.be_u16()?,
            command: r.be_u16()?,
            cookie: r.be_u64()?,
            offset: r.be_u64()?,
            len: if extended { r.be_u64()? } else { u64::from(r.be_u32()?) },
        })
    }

    /// Its bytes on the wire. Without extended headers only 32 bits of its length are sent.
    pub fn encode(&self, form: Form) -> Vec<u8> {
        let extended = form == Form::Extended;
        let mut out = Vec::with_capacity(Header::size(form));
        out.u32(if extended { EXTENDED_REQUEST } else { REQUEST }).u16(self.flags).u16(self.command);
        out.u64(self.cookie).u64(self.offset);
        if extended {
            out.u64(self.len)
        } else {
            out.u32(self.len as u32)
        };
        out
    }

    /// How replies name it.
    pub fn reply_to(&self) -> ReplyTo {
        ReplyTo { cookie: self.cookie, offset: self.offset }
    }

    /// Bytes of payload behind the header, whether or not the request is accepted.
    pub fn payload(&self, form: Form) -> u64 {
        let carries = if form == Form::Extended { self.carries_payload() } else { self.command == cmd::WRITE };
        if carries { self.len } else { 0 }
    }

    /// Whether the payload says which contexts a block status is about.
    pub fn is_query(&self, form: Form) -> bool {
        form == Form::Extended && self.command == cmd::BLOCK_STATUS && self.carries_payload()
    }

    fn carries_payload(&self) -> bool {
        self.flags & cmd_flag::PAYLOAD_LEN != 0
    }

    /// Checks a block status whose payload is `query`: its length in the export, and numbers of contexts.
    pub fn check_query(&self, query: &[u8], export: &ExportInfo, terms: Terms) -> Result<Op, Failure> {
        let mut r = Reader::new(query);
        let short = |_| inval("the payload of a block status is a length and numbers of contexts".into());
        let len = r.be_u64().map_err(short)?;
        let ids = (0..r.left().div_ceil(4)).map(|_| r.be_u32()).collect::<Result<Vec<u32>, _>>().map_err(short)?;
        let contexts = Contexts::of_ids(ids.into_iter(), terms.contexts);
        let contexts = contexts.ok_or_else(|| inval("a context was not selected, or is named twice".into()))?;
        Header { flags: self.flags & !cmd_flag::PAYLOAD_LEN, len, ..*self }.check(export, Terms { contexts, ..terms })
    }

    /// Checks the request against the rules of `export` and of the negotiation. `NBD_CMD_DISC` is not for here.
    pub fn check(&self, export: &ExportInfo, terms: Terms) -> Result<Op, Failure> {
        self.check_command(export, terms)?;
        self.check_flags(export, terms)?;
        if self.command == cmd::WRITE && terms.form == Form::Extended && !self.carries_payload() {
            return Err(inval("a write has no payload flag".into()));
        }
        if self.command == cmd::FLUSH {
            let empty = self.offset == 0 && self.len == 0;
            return if empty { Ok(Op::Flush) } else { Err(inval("a flush has no offset and no length".into())) };
        }
        if self.command == cmd::RESIZE {
            return self.check_resize(export);
        }
        let range = self.check_range(export)?;
        let has = |bit| self.flags & bit != 0;
        let fua = has(cmd_flag::FUA);
        Ok(match self.command {
            cmd::READ => Op::Read { range, whole: has(cmd_flag::DF) },
            cmd::WRITE => Op::Write { range, fua },
            cmd::TRIM => Op::Trim { range, fua },
            cmd::WRITE_ZEROES => {
                Op::WriteZeroes { range, fua, no_hole: has(cmd_flag::NO_HOLE), fast: has(cmd_flag::FAST_ZERO) }
            }
            cmd::CACHE => Op::Cache { range },
            _ => Op::BlockStatus { range, one: has(cmd_flag::REQ_ONE), contexts: terms.contexts },
        })
    }

    fn check_command(&self, export: &ExportInfo, terms: Terms) -> Result<(), Failure> {
        let changes = matches!(self.command, cmd::WRITE | cmd::TRIM | cmd::WRITE_ZEROES | cmd::RESIZE);
        if changes && export.read_only {
            return Err(Failure::new(Errno::Perm, format!("export {:?} is read-only", export.name)));
        }
        match self.command {
            cmd::READ | cmd::WRITE | cmd::FLUSH => Ok(()),
            cmd::TRIM if export.trim => Ok(()),
            cmd::WRITE_ZEROES if export.write_zeroes => Ok(()),
            cmd::CACHE if export.cache => Ok(()),
            cmd::CACHE => Err(inval("nothing here would make a later read faster".into())),
            cmd::RESIZE if export.resizable => Ok(()),
            cmd::RESIZE => {
                Err(Failure::new(Errno::Perm, format!("clients may not change the size of export {:?}", export.name)))
            }
            cmd::BLOCK_STATUS if !terms.contexts.is_empty() => Ok(()),
            cmd::BLOCK_STATUS => Err(inval(format!(
                "block status needs a context selected first, such as {:?}",
                Context::Allocation.name()
            ))),
            other => Err(inval(format!("command {other} is not offered"))),
        }
    }

    fn check_flags(&self, export: &ExportInfo, terms: Terms) -> Result<(), Failure> {
        let known = cmd_flag::FUA
            | match self.command {
                cmd::READ if terms.form != Form::Simple => cmd_flag::DF,
                cmd::WRITE if terms.form == Form::Extended => cmd_flag::PAYLOAD_LEN,
                cmd::WRITE_ZEROES if export.fast_zero => cmd_flag::NO_HOLE | cmd_flag::FAST_ZERO,
                cmd::WRITE_ZEROES => cmd_flag::NO_HOLE,
                cmd::BLOCK_STATUS => cmd_flag::REQ_ONE,
                _ => 0,
            };
        match self.flags & !known {
            0 => Ok(()),
            unknown => Err(inval(format!("flags {unknown:#x} do not go with command {}", self.command))),
        }
    }

    /// The offset is the new size.
    fn check_resize(&self, export: &ExportInfo) -> Result<Op, Failure> {
        let (bytes, block) = (self.offset, export.min_block);
        match self.len == 0 && bytes > 0 && bytes.is_multiple_of(u64::from(block)) {
            true => Ok(Op::Resize { bytes }),
            false => Err(inval(format!(
                "a resize to {bytes} bytes with length {}; a size is a multiple of {block} and not 0, the length is 0",
                self.len
            ))),
        }
    }

    fn check_range(&self, export: &ExportInfo) -> Result<ByteRange, Failure> {
        let at = self.offset;
        let past_end = || {
            let errno =
                if matches!(self.command, cmd::WRITE | cmd::WRITE_ZEROES) { Errno::NoSpc } else { Errno::Inval };
            Failure::new(errno, format!("{} bytes at {at} pass the export's end at {}", self.len, export.size))
        };
        let range = ByteRange::new(at, self.len).filter(|r| r.end() <= export.size).ok_or_else(past_end)?;
        if range.is_empty() {
            return Err(inval("the length is 0".into()));
        }
        if !range.is_aligned(u64::from(export.min_block)) {
            let block = export.min_block;
            return Err(inval(format!("{} bytes at {at} are not whole blocks of {block} bytes", self.len)));
        }
        if matches!(self.command, cmd::READ | cmd::CACHE) && self.len > u64::from(MAX_PAYLOAD) {
            let text = format!("{} bytes are more than the {MAX_PAYLOAD} that are read at once", self.len);
            return Err(Failure::new(Errno::Overflow, text));
        }
        Ok(range)
    }
}

fn inval(message: String) -> Failure {
    Failure::new(Errno::Inval, message)
}
