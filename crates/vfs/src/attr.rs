//! Attributes of inodes.

use crate::word::{Ino, Stamp};

/// Kind of an inode.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum FileType {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink,
    /// A character device.
    CharDevice,
    /// A block device.
    BlockDevice,
    /// A named pipe.
    Fifo,
    /// A name of a socket.
    Socket,
}

/// Attributes that `chattr` sets, as bits of `FS_IOC_GETFLAGS`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct FileFlags(pub u32);

impl FileFlags {
    /// None.
    pub const NONE: FileFlags = FileFlags(0);
    /// Writes are synchronous.
    pub const SYNC: FileFlags = FileFlags(0x8);
    /// Nothing about the inode changes, and it gets no names.
    pub const IMMUTABLE: FileFlags = FileFlags(0x10);
    /// Bytes are only appended, and no name is removed.
    pub const APPEND: FileFlags = FileFlags(0x20);
    /// Programs that back up leave it out.
    pub const NODUMP: FileFlags = FileFlags(0x40);
    /// Reads do not set its time of access.
    pub const NOATIME: FileFlags = FileFlags(0x80);

    /// Whether it has all bits of `other`.
    pub fn has(self, other: FileFlags) -> bool {
        self.0 & other.0 == other.0
    }
}

/// Bits of a mode that are kept beside the nine permissions.
pub mod mode {
    /// Set-user-ID.
    pub const SET_UID: u16 = 0o4000;
    /// Set-group-ID.
    pub const SET_GID: u16 = 0o2000;
    /// Sticky: of a directory, only owners remove names.
    pub const STICKY: u16 = 0o1000;
    /// All bits that a mode has.
    pub const ALL: u16 = 0o7777;
}

/// Attributes of an inode.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Attr {
    /// Kind.
    pub kind: FileType,
    /// The twelve bits of [`mode`].
    pub mode: u16,
    /// Names; of a directory also those of its subdirectories, or always 1.
    pub links: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Number of a device, as `st_rdev`; 0 for other kinds.
    pub device: u64,
    /// Bytes. Of a symbolic link those of its target.
    pub size: u64,
    /// Bytes of space that it occupies.
    pub allocated: u64,
    /// Last access.
    pub accessed: Stamp,
    /// Last change of bytes or entries.
    pub modified: Stamp,
    /// Last change of anything.
    pub changed: Stamp,
    /// Creation, where it is stored.
    pub born: Option<Stamp>,
    /// Flags.
    pub flags: FileFlags,
    /// Grows with each change of bytes or entries.
    pub version: u64,
}

/// An inode that was given out: pinned once, until [`FileSystem::forget`](crate::FileSystem::forget).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entry {
    /// Its number.
    pub ino: Ino,
    /// Tells inodes apart that had this number one after the other.
    pub generation: u64,
    /// Its attributes.
    pub attr: Attr,
}

/// The kind of a new inode, with what only this kind has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NewKind<'a> {
    /// An empty file.
    File,
    /// An empty directory.
    Directory,
    /// A symbolic link to this target.
    Symlink(&'a [u8]),
    /// A device, pipe or socket, with the number of a device.
    Node(FileType, u64),
}

/// A new inode. The caller has applied its umask and the rules of set-group-ID directories.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct New<'a> {
    /// Kind.
    pub what: NewKind<'a>,
    /// The twelve bits of [`mode`].
    pub mode: u16,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
}

/// New attributes, all in one change. `None` leaves one as it is.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct SetAttr {
    /// The twelve bits of [`mode`].
    pub mode: Option<u16>,
    /// Owner.
    pub uid: Option<u32>,
    /// Group.
    pub gid: Option<u32>,
    /// Bytes: a file is cut, or grows by a hole.
    pub size: Option<u64>,
    /// Last access.
    pub accessed: Option<Stamp>,
    /// Last change of bytes.
    pub modified: Option<Stamp>,
    /// Flags.
    pub flags: Option<FileFlags>,
    /// Whether a file loses set-user-ID, executable set-group-ID and capabilities.
    pub kill_privileges: bool,
}
