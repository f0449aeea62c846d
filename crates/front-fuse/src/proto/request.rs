//! What the kernel asks.

mod arguments;
#[cfg(test)]
mod tests;

use super::abi::{InHeader, IoctlIn, LockIn, SetAttrIn, StatxIn};

pub use arguments::Forgets;

/// One request. Names and values lie in the message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request<'a> {
    /// Names it in the answer.
    pub unique: u64,
    /// What it is about.
    pub node: u64,
    /// User of the caller.
    pub uid: u32,
    /// Group of the caller.
    pub gid: u32,
    /// The process that waits, 0 for the kernel itself.
    pub pid: u32,
    /// Number of the operation.
    pub opcode: u32,
    /// What is asked.
    pub op: Op<'a>,
}

/// A new inode with a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Made<'a> {
    /// Its name.
    pub name: &'a [u8],
    /// Permissions, and for MKNOD the kind. The kernel has applied the umask.
    pub mode: u32,
}

/// A rename.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Renamed<'a> {
    /// Old name.
    pub from: &'a [u8],
    /// New directory.
    pub to_dir: u64,
    /// New name.
    pub to: &'a [u8],
    /// `RENAME_` flags.
    pub flags: u32,
}

/// What is asked. Offsets and lengths are in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Op<'a> {
    /// The first request of all: what the kernel can.
    Init {
        /// Its protocol.
        major: u32,
        /// Its protocol.
        minor: u32,
        /// Its abilities.
        flags: u64,
        /// How far it reads ahead.
        readahead: u32,
    },
    /// A name in a directory.
    Lookup(&'a [u8]),
    /// Pins that are given back. No answer.
    Forget(u64),
    /// Pins of several nodes that are given back. No answer.
    BatchForget(Forgets<'a>),
    /// Attributes.
    GetAttr,
    /// Attributes, as `statx` has them.
    Statx(StatxIn),
    /// New attributes.
    SetAttr(SetAttrIn),
    /// The target of a symbolic link.
    ReadLink,
    /// A new symbolic link.
    Symlink {
        /// Its name.
        name: &'a [u8],
        /// What it leads to.
        target: &'a [u8],
    },
    /// A new file, device, pipe or socket.
    Mknod(Made<'a>, u32),
    /// A new directory.
    Mkdir(Made<'a>),
    /// Removes a name of what is no directory.
    Unlink(&'a [u8]),
    /// Removes a directory.
    Rmdir(&'a [u8]),
    /// Moves a name.
    Rename(Renamed<'a>),
    /// One more name for a node.
    Link {
        /// The node.
        node: u64,
        /// The name.
        name: &'a [u8],
    },
    /// A new file that is opened, with `open` flags.
    Create(Made<'a>, u32),
    /// A new file without a name that is opened, with a mode and `open` flags.
    TmpFile {
        /// Permissions.
        mode: u32,
        /// `open` flags.
        flags: u32,
    },
    /// Opens a file, with `open` flags.
    Open(u32),
    /// Closes a file for the last time.
    Release,
    /// Closes one descriptor of a file.
    Flush,
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
        /// `WRITE_` flags.
        how: u32,
        /// `open` flags.
        flags: u32,
    },
    /// Makes what was written durable; `true` for bytes and size alone.
    Sync(bool),
    /// Makes a directory durable.
    SyncDir,
    /// Makes everything durable.
    SyncFs,
    /// Changes the space of a range.
    Allocate {
        /// First byte.
        offset: u64,
        /// Bytes.
        len: u64,
        /// `FALLOC_FL_` flags.
        mode: u32,
    },
    /// Looks for data or a hole.
    Seek {
        /// From here on.
        offset: u64,
        /// `SEEK_DATA` or `SEEK_HOLE`.
        whence: u32,
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
    /// Opens a directory.
    OpenDir,
    /// Lists it, from a cookie on, in at most so many bytes.
    ReadDir {
        /// Cookie.
        from: u64,
        /// Bytes.
        size: u32,
        /// Whether attributes are asked for.
        plus: bool,
    },
    /// Closes it.
    ReleaseDir,
    /// An extended attribute, in at most so many bytes; 0 asks for the size.
    GetXattr(&'a [u8], u32),
    /// All names of extended attributes, likewise.
    ListXattr(u32),
    /// Sets an extended attribute.
    SetXattr {
        /// Name.
        name: &'a [u8],
        /// Value.
        value: &'a [u8],
        /// `XATTR_` flags.
        flags: u32,
    },
    /// Removes an extended attribute.
    RemoveXattr(&'a [u8]),
    /// Tests, takes or ends a lock: GETLK, SETLK or SETLKW, as the number of the operation says.
    Lock(LockIn),
    /// Whether the caller may do this.
    Access(u32),
    /// A caller gave up the request of this number.
    Interrupt(u64),
    /// A block of a device.
    Bmap,
    /// A command, with its bytes.
    Ioctl(IoctlIn, &'a [u8]),
    /// Whether there is something to read.
    Poll,
    /// The file system goes away.
    Destroy,
    /// Something that we do not know.
    Other,
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

impl<'a> Request<'a> {
    /// Reads the request in a message of `total` bytes, of which `bytes` are the first: all of them, or for a write at
    /// least those before its payload.
    ///
    /// # Errors
    /// [`Malformed`].
    pub fn parse(bytes: &'a [u8], total: usize) -> Result<Request<'a>, Malformed> {
        let (head, body) = arguments::take::<InHeader>(bytes)?;
        if head.len as usize != total {
            return Err(Malformed::Length { said: head.len, got: total });
        }
        let op = arguments::parse(head.opcode, body, total)?;
        let InHeader { unique, node, uid, gid, pid, opcode, .. } = head;
        Ok(Request { unique, node, uid, gid, pid, opcode, op })
    }

    /// The number that the answer to a message must carry, if the message has a head: a message that is no request is
    /// still refused by it.
    pub fn unique_of(bytes: &[u8]) -> Option<u64> {
        arguments::take::<InHeader>(bytes).ok().map(|(head, _)| head.unique)
    }

    /// The operation's number, if the message has a head.
    pub fn opcode_of(bytes: &[u8]) -> Option<u32> {
        arguments::take::<InHeader>(bytes).ok().map(|(head, _)| head.opcode)
    }
}
