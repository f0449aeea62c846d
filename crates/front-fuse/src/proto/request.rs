//! What the kernel asks.

use zerocopy::FromBytes;

use super::abi::{CopyIn, FallocateIn, InHeader, InitIn, OpenIn, ReadIn, WRITE_HEAD, WriteIn, opcode};

/// One request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// Names it in the answer.
    pub unique: u64,
    /// What it is about.
    pub node: u64,
    /// The process that waits, 0 for the kernel itself.
    pub pid: u32,
    /// What is asked.
    pub op: Op,
}

/// What is asked. Offsets and lengths are in bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Op {
    /// The first request of all: what the kernel can.
    Init {
        /// Its protocol.
        major: u32,
        /// Its protocol.
        minor: u32,
        /// Its abilities.
        flags: u32,
        /// How far it reads ahead.
        readahead: u32,
    },
    /// A name in the directory.
    Lookup(Vec<u8>),
    /// Attributes.
    GetAttr,
    /// Opens a file.
    Open {
        /// Whether it may be changed.
        writes: bool,
    },
    /// Closes a file.
    Release,
    /// Reads a file.
    Read {
        /// First byte.
        offset: u64,
        /// Bytes.
        size: u32,
    },
    /// Writes a file; the payload follows the request's head.
    Write {
        /// First byte.
        offset: u64,
        /// Bytes.
        size: u32,
    },
    /// Makes what was written durable.
    Sync,
    /// Changes the space of a range.
    Allocate {
        /// First byte.
        offset: u64,
        /// Bytes.
        len: u64,
        /// `FALLOC_FL_` flags.
        mode: u32,
    },
    /// Copies a range.
    Copy {
        /// First byte of the source.
        from: u64,
        /// The file that is changed.
        node: u64,
        /// First byte of the destination.
        to: u64,
        /// Bytes.
        len: u64,
        /// Whether the answer counts in 64 bits.
        wide: bool,
    },
    /// About the file system as a whole.
    StatFs,
    /// Opens the directory.
    OpenDir,
    /// Lists it, from the entry of that number on, in at most so many bytes.
    ReadDir {
        /// First entry.
        from: u64,
        /// Bytes.
        size: u32,
    },
    /// Closes it.
    ReleaseDir,
    /// The file system goes away.
    Destroy,
    /// Something that wants no answer.
    Silent,
    /// Something that we do not do.
    Other(u32),
}

/// A message that is no request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// Shorter than its head or its arguments.
    #[error("a message of {0} bytes ends before its arguments do")]
    Short(usize),
    /// Its own length is another one.
    #[error("a message of {got} bytes says that it has {said}")]
    Length {
        /// What it says.
        said: u32,
        /// What came.
        got: usize,
    },
    /// A name without end.
    #[error("a name without end")]
    Name,
}

impl Request {
    /// Reads the request in a message of `total` bytes, of which `bytes` are the first: all of them, or for a write at
    /// least those before its payload.
    ///
    /// # Errors
    /// [`Malformed`].
    pub fn parse(bytes: &[u8], total: usize) -> Result<Request, Malformed> {
        let (head, body) = take::<InHeader>(bytes)?;
        if head.len as usize != total {
            return Err(Malformed::Length { said: head.len, got: total });
        }
        let op = parse_op(head.opcode, body, total)?;
        Ok(Request { unique: head.unique, node: head.node, pid: head.pid, op })
    }
}

fn parse_op(number: u32, body: &[u8], total: usize) -> Result<Op, Malformed> {
    Ok(match number {
        opcode::INIT => {
            let (InitIn { major, minor, max_readahead, flags }, _) = take(body)?;
            Op::Init { major, minor, flags, readahead: max_readahead }
        }
        opcode::LOOKUP => {
            let end = body.iter().position(|byte| *byte == 0).ok_or(Malformed::Name)?;
            Op::Lookup(body[..end].to_vec())
        }
        opcode::GETATTR => Op::GetAttr,
        // O_RDONLY is 0 in the two lowest bits.
        opcode::OPEN => Op::Open { writes: take::<OpenIn>(body)?.0.flags & 3 != 0 },
        opcode::RELEASE => Op::Release,
        opcode::READ => {
            let (ReadIn { offset, size, .. }, _) = take(body)?;
            Op::Read { offset, size }
        }
        opcode::WRITE => {
            let (WriteIn { offset, size, .. }, _) = take(body)?;
            if total - WRITE_HEAD != size as usize {
                return Err(Malformed::Short(total));
            }
            Op::Write { offset, size }
        }
        opcode::FSYNC => Op::Sync,
        opcode::FALLOCATE => {
            let (FallocateIn { offset, length, mode, .. }, _) = take(body)?;
            Op::Allocate { offset, len: length, mode }
        }
        opcode::COPY_FILE_RANGE | opcode::COPY_FILE_RANGE_64 => {
            let (CopyIn { offset_in, node_out, offset_out, length, .. }, _) = take(body)?;
            let wide = number == opcode::COPY_FILE_RANGE_64;
            Op::Copy { from: offset_in, node: node_out, to: offset_out, len: length, wide }
        }
        opcode::STATFS => Op::StatFs,
        opcode::OPENDIR => Op::OpenDir,
        opcode::READDIR => {
            let (ReadIn { offset, size, .. }, _) = take(body)?;
            Op::ReadDir { from: offset, size }
        }
        opcode::RELEASEDIR => Op::ReleaseDir,
        opcode::DESTROY => Op::Destroy,
        // Answers that come are as good as interrupted ones, and nodes live as long as the file system.
        opcode::FORGET | opcode::BATCH_FORGET | opcode::INTERRUPT => Op::Silent,
        other => Op::Other(other),
    })
}

fn take<T: FromBytes>(bytes: &[u8]) -> Result<(T, &[u8]), Malformed> {
    T::read_from_prefix(bytes).map_err(|_| Malformed::Short(bytes.len()))
}

#[cfg(test)]
mod tests {
    use zerocopy::{Immutable, IntoBytes};

    use super::*;

    fn message(number: u32, body: &(impl IntoBytes + Immutable + ?Sized), payload: usize) -> Vec<u8> {
        let len = size_of::<InHeader>() + body.as_bytes().len() + payload;
        let head = InHeader { len: len as u32, opcode: number, unique: 7, node: 2, pid: 9, ..InHeader::zero() };
        [head.as_bytes(), body.as_bytes(), &vec![0xaa; payload]].concat()
    }

    #[test]
    fn a_write_is_read_from_its_head_alone() {
        let body = WriteIn { offset: 4096, size: 512, ..WriteIn::zero() };
        let bytes = message(opcode::WRITE, &body, 512);
        let request = Request::parse(&bytes[..WRITE_HEAD], bytes.len()).unwrap();
        assert_eq!(request, Request { unique: 7, node: 2, pid: 9, op: Op::Write { offset: 4096, size: 512 } });
        let lie = message(opcode::WRITE, &body, 511);
        assert_eq!(Request::parse(&lie, lie.len()), Err(Malformed::Short(591)));
        assert_eq!(Request::parse(&bytes, bytes.len() - 1), Err(Malformed::Length { said: 592, got: 591 }));
    }

    #[test]
    fn arguments_reach_their_operations() {
        let op = |bytes: Vec<u8>| Request::parse(&bytes, bytes.len()).unwrap().op;
        let copy = CopyIn { offset_in: 1, node_out: 2, offset_out: 3, length: 4, ..CopyIn::zero() };
        let copied = |wide| Op::Copy { from: 1, node: 2, to: 3, len: 4, wide };
        assert_eq!(op(message(opcode::COPY_FILE_RANGE, &copy, 0)), copied(false));
        assert_eq!(op(message(opcode::COPY_FILE_RANGE_64, &copy, 0)), copied(true));
        let punch = FallocateIn { offset: 8, length: 16, mode: 3, ..FallocateIn::zero() };
        assert_eq!(op(message(opcode::FALLOCATE, &punch, 0)), Op::Allocate { offset: 8, len: 16, mode: 3 });
        assert_eq!(op(message(opcode::LOOKUP, b"vol\0", 0)), Op::Lookup(b"vol".to_vec()));
        for (flags, writes) in [(0, false), (1, true), (2, true), (0o100_000, false)] {
            assert_eq!(op(message(opcode::OPEN, &OpenIn { flags, open_flags: 0 }, 0)), Op::Open { writes });
        }
        assert_eq!(op(message(99, b"", 0)), Op::Other(99));
    }

    proptest::proptest! {
        #[test]
        fn no_message_makes_the_parser_fall(number in 0u32..60, body: Vec<u8>, cut in 0usize..40) {
            let mut bytes = message(number, body.as_slice(), 0);
            let parsed = Request::parse(&bytes, bytes.len());
            assert!(parsed.is_err() || parsed.unwrap().unique == 7);
            bytes.truncate(cut);
            assert!(Request::parse(&bytes, bytes.len()).is_err());
        }
    }
}
