//! The protocol's numbers. All integers on the wire are big-endian.

/// First 8 bytes of a server's greeting (`NBDMAGIC`).
pub const GREETING: u64 = 0x4e42_444d_4147_4943;
/// Second magic of the greeting and magic of each option (`IHAVEOPT`).
pub const OPTION: u64 = 0x4948_4156_454f_5054;
/// Magic of a reply to an option.
pub const OPTION_REPLY: u64 = 0x0003_e889_0455_65a9;
/// Magic of a request.
pub const REQUEST: u32 = 0x2560_9513;
/// Magic of a request with a 64-bit length.
pub const EXTENDED_REQUEST: u32 = 0x21e4_1c71;
/// Magic of a chunk with a 64-bit length.
pub const EXTENDED_CHUNK: u32 = 0x6e8a_278c;
/// Magic of a simple reply.
pub const SIMPLE_REPLY: u32 = 0x6744_6698;
/// Magic of a chunk of a structured reply.
pub const CHUNK: u32 = 0x668e_33ef;

/// Bytes of a server's greeting: two magics and the handshake flags.
pub const GREETING_LEN: usize = 18;
/// Bytes of the header of an option.
pub const OPTION_LEN: usize = 16;
/// Bytes of the header of a reply to an option.
pub const OPTION_REPLY_LEN: usize = 20;
/// Bytes of a request without its payload.
pub const REQUEST_LEN: usize = 28;
/// Bytes of a request with a 64-bit length, and of the header of a chunk that answers it.
pub const EXTENDED_LEN: usize = 32;
/// Bytes of a simple reply without its payload.
pub const SIMPLE_REPLY_LEN: usize = 16;
/// Bytes of the header of a chunk.
pub const CHUNK_LEN: usize = 20;
/// Reserved zeroes after the reply to `NBD_OPT_EXPORT_NAME`, unless they were negotiated away.
pub const RESERVED_LEN: usize = 124;

/// Largest payload of a read or write in bytes; the protocol's portable limit.
pub const MAX_PAYLOAD: u32 = 32 << 20;
/// Largest data of an option that a server reads, in bytes.
pub const MAX_OPTION: u32 = 64 << 10;
/// Options that one connection may send before it is dropped.
pub const MAX_OPTIONS: u32 = 1024;
/// Largest string of the protocol in bytes.
pub const MAX_STRING: usize = 4096;
/// Largest minimum block size in bytes.
pub const MAX_MIN_BLOCK: u32 = 64 << 10;
/// Extents in one block status reply; a client asks on from where the reply ends.
pub const MAX_EXTENTS: usize = 64 << 10;

/// Handshake flags (16 bits from the server) and client flags (32 bits, the same bits).
pub mod handshake {
    /// Options may be refused without dropping the connection.
    pub const FIXED_NEWSTYLE: u16 = 1;
    /// No reserved zeroes after `NBD_OPT_EXPORT_NAME`.
    pub const NO_ZEROES: u16 = 1 << 1;
}

/// Transmission flags: what an export can do.
pub mod flag {
    #![allow(missing_docs)]
    pub const HAS_FLAGS: u16 = 1;
    pub const READ_ONLY: u16 = 1 << 1;
    pub const SEND_FLUSH: u16 = 1 << 2;
    pub const SEND_FUA: u16 = 1 << 3;
    pub const ROTATIONAL: u16 = 1 << 4;
    pub const SEND_TRIM: u16 = 1 << 5;
    pub const SEND_WRITE_ZEROES: u16 = 1 << 6;
    pub const SEND_DF: u16 = 1 << 7;
    pub const CAN_MULTI_CONN: u16 = 1 << 8;
    /// Of the branch `extension-resize`.
    pub const SEND_RESIZE: u16 = 1 << 9;
    pub const SEND_CACHE: u16 = 1 << 10;
    pub const SEND_FAST_ZERO: u16 = 1 << 11;
    pub const BLOCK_STATUS_PAYLOAD: u16 = 1 << 12;
}

/// Options of the handshake.
pub mod opt {
    #![allow(missing_docs)]
    pub const EXPORT_NAME: u32 = 1;
    pub const ABORT: u32 = 2;
    pub const LIST: u32 = 3;
    pub const STARTTLS: u32 = 5;
    pub const INFO: u32 = 6;
    pub const GO: u32 = 7;
    pub const STRUCTURED_REPLY: u32 = 8;
    pub const LIST_META_CONTEXT: u32 = 9;
    pub const SET_META_CONTEXT: u32 = 10;
    pub const EXTENDED_HEADERS: u32 = 11;
}

/// Types of replies to options.
pub mod rep {
    #![allow(missing_docs)]
    pub const ACK: u32 = 1;
    pub const SERVER: u32 = 2;
    pub const INFO: u32 = 3;
    pub const META_CONTEXT: u32 = 4;
    /// Set in each error type.
    pub const ERROR: u32 = 1 << 31;
    pub const ERR_UNSUP: u32 = ERROR + 1;
    pub const ERR_POLICY: u32 = ERROR + 2;
    pub const ERR_INVALID: u32 = ERROR + 3;
    pub const ERR_TLS_REQD: u32 = ERROR + 5;
    pub const ERR_UNKNOWN: u32 = ERROR + 6;
    pub const ERR_SHUTDOWN: u32 = ERROR + 7;
    pub const ERR_TOO_BIG: u32 = ERROR + 9;
    pub const ERR_EXT_HEADER_REQD: u32 = ERROR + 10;
}

/// Types of information about an export.
pub mod info {
    #![allow(missing_docs)]
    pub const EXPORT: u16 = 0;
    pub const NAME: u16 = 1;
    pub const DESCRIPTION: u16 = 2;
    pub const BLOCK_SIZE: u16 = 3;
}

/// Commands of the transmission phase.
pub mod cmd {
    #![allow(missing_docs)]
    pub const READ: u16 = 0;
    pub const WRITE: u16 = 1;
    pub const DISC: u16 = 2;
    pub const FLUSH: u16 = 3;
    pub const TRIM: u16 = 4;
    pub const CACHE: u16 = 5;
    pub const WRITE_ZEROES: u16 = 6;
    pub const BLOCK_STATUS: u16 = 7;
    pub const RESIZE: u16 = 8;
}

/// Flags of commands.
pub mod cmd_flag {
    #![allow(missing_docs)]
    pub const FUA: u16 = 1;
    pub const NO_HOLE: u16 = 1 << 1;
    pub const DF: u16 = 1 << 2;
    pub const REQ_ONE: u16 = 1 << 3;
    pub const FAST_ZERO: u16 = 1 << 4;
    /// The length is that of a payload; only with extended headers.
    pub const PAYLOAD_LEN: u16 = 1 << 5;
}

/// Types of chunks.
pub mod chunk {
    #![allow(missing_docs)]
    pub const NONE: u16 = 0;
    pub const OFFSET_DATA: u16 = 1;
    pub const OFFSET_HOLE: u16 = 2;
    pub const BLOCK_STATUS: u16 = 5;
    pub const BLOCK_STATUS_EXT: u16 = 6;
    /// Set in each error type.
    pub const ERROR_BIT: u16 = 1 << 15;
    pub const ERROR: u16 = ERROR_BIT + 1;
    pub const ERROR_OFFSET: u16 = ERROR_BIT + 2;
    /// Flag: the last chunk of its reply.
    pub const DONE: u16 = 1;
}

/// Status flags of `base:allocation`.
pub mod state {
    /// Not allocated below.
    pub const HOLE: u32 = 1;
    /// Reads as zeroes.
    pub const ZERO: u32 = 1 << 1;
    /// Of `esker:written`: changed since the server began.
    pub const WRITTEN: u32 = 1;
}

/// The errors a reply may carry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum Errno {
    /// Operation not permitted: the export is read-only, or keeps its size.
    Perm = 1,
    /// The device failed.
    Io = 5,
    /// No memory.
    NoMem = 12,
    /// The request breaks a rule.
    Inval = 22,
    /// No space, or a write past the end.
    NoSpc = 28,
    /// The request is too long.
    Overflow = 75,
    /// Cannot be done fast.
    NotSup = 95,
    /// The server is going down.
    Shutdown = 108,
}

impl Errno {
    /// The number on the wire.
    pub fn code(self) -> u32 {
        self as u32
    }

    /// The error of a number. The protocol says to treat an unexpected one as [`Errno::Inval`].
    pub fn from_code(code: u32) -> Errno {
        use Errno::*;
        [Perm, Io, NoMem, Inval, NoSpc, Overflow, NotSup, Shutdown]
            .into_iter()
            .find(|e| e.code() == code)
            .unwrap_or(Inval)
    }

    /// The name that the protocol document uses.
    pub fn name(self) -> &'static str {
        match self {
            Errno::Perm => "EPERM",
            Errno::Io => "EIO",
            Errno::NoMem => "ENOMEM",
            Errno::Inval => "EINVAL",
            Errno::NoSpc => "ENOSPC",
            Errno::Overflow => "EOVERFLOW",
            Errno::NotSup => "ENOTSUP",
            Errno::Shutdown => "ESHUTDOWN",
        }
    }
}

/// Appends integers and bytes of a message in wire order.
pub(crate) trait Put {
    fn u16(&mut self, n: u16) -> &mut Self;
    fn u32(&mut self, n: u32) -> &mut Self;
    fn u64(&mut self, n: u64) -> &mut Self;
    fn bytes(&mut self, bytes: &[u8]) -> &mut Self;
}

impl Put for Vec<u8> {
    fn u16(&mut self, n: u16) -> &mut Self {
        self.bytes(&n.to_be_bytes())
    }

    fn u32(&mut self, n: u32) -> &mut Self {
        self.bytes(&n.to_be_bytes())
    }

    fn u64(&mut self, n: u64) -> &mut Self {
        self.bytes(&n.to_be_bytes())
    }

    fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        self.extend_from_slice(bytes);
        self
    }
}
