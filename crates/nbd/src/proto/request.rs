//! Requests of the transmission phase: read from the wire and checked against the export.

use esker_base::ByteRange;
use esker_base::codec::Reader;

use super::export::ExportInfo;
use super::reply::{Failure, Terms};
use super::session::Violation;
use super::wire::{Errno, MAX_PAYLOAD, Put, REQUEST, REQUEST_LEN, cmd, cmd_flag};

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
    /// Say which parts are holes or zeroes.
    BlockStatus {
        /// Where.
        range: ByteRange,
        /// One extent only, inside the range.
        one: bool,
    },
}

impl Op {
    /// The bytes it concerns; none for a flush.
    pub fn range(&self) -> Option<ByteRange> {
        match *self {
            Op::Flush => None,
            Op::Read { range, .. } | Op::Write { range, .. } | Op::Trim { range, .. } => Some(range),
            Op::WriteZeroes { range, .. } | Op::BlockStatus { range, .. } => Some(range),
        }
    }

    /// Bytes of payload that its request or its successful reply carries.
    pub fn payload(&self) -> usize {
        match *self {
            Op::Read { range, .. } | Op::Write { range, .. } => range.len() as usize,
            _ => 0,
        }
    }

    /// Command and flags on the wire.
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
            Op::BlockStatus { one, .. } => (cmd::BLOCK_STATUS, on(one, cmd_flag::REQ_ONE)),
        }
    }
}

impl Request {
    /// The header that a client sends. A range longer than 32 bits cannot be said and is `None`.
    pub fn encode(&self) -> Option<Vec<u8>> {
        let (command, flags) = self.op.code();
        let (offset, len) = self.op.range().map_or((0, 0), |r| (r.start(), r.len()));
        Some(Header { flags, command, cookie: self.cookie, offset, len: u32::try_from(len).ok()? }.encode())
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
    /// Bytes.
    pub len: u32,
}

impl Header {
    /// Reads the [`REQUEST_LEN`] bytes of a request.
    pub fn parse(bytes: &[u8]) -> Result<Header, Violation> {
        let mut r = Reader::new(bytes);
        let magic = r.be_u32()?;
        if magic != REQUEST {
            return Err(Violation::RequestMagic(magic));
        }
        Ok(Header {
            flags: r.be_u16()?,
            command: r.be_u16()?,
            cookie: r.be_u64()?,
            offset: r.be_u64()?,
            len: r.be_u32()?,
        })
    }

    /// Its bytes on the wire.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(REQUEST_LEN);
        out.u32(REQUEST).u16(self.flags).u16(self.command).u64(self.cookie).u64(self.offset).u32(self.len);
        out
    }

    /// Bytes of payload behind the header, whether or not the request is accepted.
    pub fn payload(&self) -> u32 {
        if self.command == cmd::WRITE { self.len } else { 0 }
    }

    /// Checks the request against the rules of `export` and of the negotiation. `NBD_CMD_DISC` is not for here.
    pub fn check(&self, export: &ExportInfo, terms: Terms) -> Result<Op, Failure> {
        self.check_command(export, terms)?;
        self.check_flags(export, terms)?;
        if self.command == cmd::FLUSH {
            let empty = self.offset == 0 && self.len == 0;
            return if empty { Ok(Op::Flush) } else { Err(inval("a flush has no offset and no length".into())) };
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
            _ => Op::BlockStatus { range, one: has(cmd_flag::REQ_ONE) },
        })
    }

    fn check_command(&self, export: &ExportInfo, terms: Terms) -> Result<(), Failure> {
        let changes = matches!(self.command, cmd::WRITE | cmd::TRIM | cmd::WRITE_ZEROES);
        if changes && export.read_only {
            return Err(Failure::new(Errno::Perm, format!("export {:?} is read-only", export.name)));
        }
        match self.command {
            cmd::READ | cmd::WRITE | cmd::FLUSH => Ok(()),
            cmd::TRIM if export.trim => Ok(()),
            cmd::WRITE_ZEROES if export.write_zeroes => Ok(()),
            cmd::BLOCK_STATUS if terms.allocation => Ok(()),
            cmd::BLOCK_STATUS => {
                Err(inval(format!("block status needs {:?} selected first", super::wire::BASE_ALLOCATION)))
            }
            other => Err(inval(format!("command {other} is not offered"))),
        }
    }

    fn check_flags(&self, export: &ExportInfo, terms: Terms) -> Result<(), Failure> {
        let known = cmd_flag::FUA
            | match self.command {
                cmd::READ if terms.structured => cmd_flag::DF,
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

    fn check_range(&self, export: &ExportInfo) -> Result<ByteRange, Failure> {
        let at = self.offset;
        let past_end = || {
            let errno =
                if matches!(self.command, cmd::WRITE | cmd::WRITE_ZEROES) { Errno::NoSpc } else { Errno::Inval };
            Failure::new(errno, format!("{} bytes at {at} pass the export's end at {}", self.len, export.size))
        };
        let range = ByteRange::new(at, u64::from(self.len)).filter(|r| r.end() <= export.size).ok_or_else(past_end)?;
        if range.is_empty() {
            return Err(inval("the length is 0".into()));
        }
        if !range.is_aligned(u64::from(export.min_block)) {
            let block = export.min_block;
            return Err(inval(format!("{} bytes at {at} are not whole blocks of {block} bytes", self.len)));
        }
        if self.command == cmd::READ && self.len > MAX_PAYLOAD {
            let text = format!("a read of {} bytes is longer than {MAX_PAYLOAD}", self.len);
            return Err(Failure::new(Errno::Overflow, text));
        }
        Ok(range)
    }
}

fn inval(message: String) -> Failure {
    Failure::new(Errno::Inval, message)
}
