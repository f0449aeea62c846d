//! Words of single calls.

use esker_base::ByteRange;

use crate::word::{Ino, NameBuf};

/// What a removal expects.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Remove {
    /// Any inode but a directory: else `EISDIR`.
    File,
    /// An empty directory: else `ENOTDIR` or `ENOTEMPTY`.
    Directory,
}

/// What a rename does with an inode that has the new name.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Rename {
    /// Removes it in the same change.
    Replace,
    /// Fails with `EEXIST`.
    NoReplace,
    /// Gives it the old name.
    Exchange,
}

/// Where bytes go.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum At {
    /// This many bytes after the beginning.
    Offset(u64),
    /// The end, in the same change.
    End,
}

/// How bytes are written.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Write {
    /// Whether the answer means that the bytes are durable, as by [`Sync::Data`].
    pub durable: bool,
    /// Whether the bytes pass caches by.
    pub direct: bool,
    /// Whether the file loses set-user-ID, executable set-group-ID and capabilities.
    pub kill_privileges: bool,
}

/// What a write did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Written {
    /// Bytes: fewer than asked for if room ran out.
    pub bytes: u64,
    /// Offset behind the last byte.
    pub end: u64,
}

/// What happens to a range of a file.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum AllocateKind {
    /// Room is reserved; bytes stay.
    Reserve,
    /// The range becomes a hole. The size stays.
    Punch,
    /// The range becomes zeroes with room reserved.
    Zero,
}

/// See [`FileSystem::allocate`](crate::FileSystem::allocate).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Allocate {
    /// What happens.
    pub kind: AllocateKind,
    /// Whether the file keeps its size if the range ends behind it.
    pub keep_size: bool,
}

/// How bytes are copied inside a file system.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Copying {
    /// By sharing: else `EOPNOTSUPP`.
    Share,
    /// Shared where possible.
    Any,
}

/// What a seek looks for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Seek {
    /// The next byte that is not in a hole.
    Data,
    /// The next byte in a hole; the end is one.
    Hole,
}

/// What becomes durable.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Sync {
    /// Bytes and size of a file, as by `fdatasync`.
    Data(Ino),
    /// A file or directory, as by `fsync`.
    File(Ino),
    /// Everything.
    All,
}

/// What to do if an extended attribute is there, or is not.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum XattrSet {
    /// Set it anyhow.
    Any,
    /// `EEXIST` if it is there.
    Create,
    /// `ENODATA` if it is not.
    Replace,
}

/// A call on extended attributes. Names have their prefix (`user.`) and no NUL.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Xattr<'a> {
    /// Answers the value; `ENODATA` if there is none.
    Get(&'a [u8]),
    /// Answers all names, each with a NUL behind it, in byte order.
    List,
    /// Sets a value.
    Set(&'a [u8], &'a [u8], XattrSet),
    /// Removes a value; `ENODATA` if there is none.
    Remove(&'a [u8]),
}

/// Who else may hold a lock of the same bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum LockKind {
    /// Other shared locks.
    Shared,
    /// None.
    Exclusive,
    /// The owner's locks of these bytes end.
    Unlock,
}

/// What is done about a lock.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum LockCall {
    /// Answers a lock that is in the way, if any.
    Test,
    /// Takes it, or fails with `EAGAIN`.
    Try,
    /// Takes it when it is free.
    Wait,
}

/// A lock of bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Lock {
    /// Call.
    pub call: LockCall,
    /// Kind.
    pub kind: LockKind,
    /// Bytes.
    pub range: ByteRange,
    /// Owner: locks of one owner are never in each other's way.
    pub owner: u64,
    /// Process, for answers.
    pub pid: u32,
}

/// Which inode of a path a walk ends at.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Last {
    /// That which the last component leads to, through links.
    Target,
    /// That which has the last component as its name, be it a symbolic link.
    Itself,
    /// The directory in which the last component is a name. The name need not be there.
    Parent,
}

/// A change by another than the caller of [`FileSystem`](crate::FileSystem), told so that caches drop it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Change {
    /// Attributes and these bytes of an inode.
    Range(Ino, ByteRange),
    /// A name of a directory leads elsewhere.
    Name(Ino, NameBuf),
    /// The inode is gone.
    Gone(Ino),
}
