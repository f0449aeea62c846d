//! The kernel's structures and numbers, named as in `linux/fuse.h` without its prefix.

#![allow(missing_docs, reason = "each is documented in the kernel's header under the same name")]

use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout};

pub const MAJOR: u32 = 7;
/// The protocol that we speak; the kernel settles for the older one of its own and this.
pub const MINOR: u32 = 45;
/// Oldest protocol that has all that is used: pages at a time, and copies of ranges.
pub const MINOR_MIN: u32 = 31;

pub const ROOT: u64 = 1;

/// Bytes in front of a write's payload.
pub const WRITE_HEAD: usize = size_of::<InHeader>() + size_of::<WriteIn>();

/// Flags of [`InitOut`]; those above the 32nd bit go to its second field.
pub mod init {
    pub const ASYNC_READ: u64 = 1;
    pub const BIG_WRITES: u64 = 1 << 5;
    pub const DO_READDIRPLUS: u64 = 1 << 13;
    pub const READDIRPLUS_AUTO: u64 = 1 << 14;
    pub const ASYNC_DIO: u64 = 1 << 15;
    pub const WRITEBACK_CACHE: u64 = 1 << 16;
    pub const NO_OPEN_SUPPORT: u64 = 1 << 17;
    pub const PARALLEL_DIROPS: u64 = 1 << 18;
    pub const MAX_PAGES: u64 = 1 << 22;
    pub const CACHE_SYMLINKS: u64 = 1 << 23;
    pub const NO_OPENDIR_SUPPORT: u64 = 1 << 24;
    pub const HANDLE_KILLPRIV_V2: u64 = 1 << 28;
    pub const INIT_EXT: u64 = 1 << 30;
    pub const DIRECT_IO_ALLOW_MMAP: u64 = 1 << 36;
    pub const OVER_IO_URING: u64 = 1 << 41;
}

/// Flags of [`OpenOut`].
pub const FOPEN_DIRECT_IO: u32 = 1;
pub const FOPEN_KEEP_CACHE: u32 = 1 << 1;
pub const FOPEN_NOFLUSH: u32 = 1 << 5;
pub const FOPEN_PARALLEL_DIRECT_WRITES: u32 = 1 << 6;

/// Modes of [`FallocateIn`].
pub const KEEP_SIZE: u32 = 1;
pub const PUNCH_HOLE: u32 = 2;
pub const ZERO_RANGE: u32 = 16;

/// Valid fields of [`SetAttrIn`].
pub mod fattr {
    pub const MODE: u32 = 1;
    pub const UID: u32 = 1 << 1;
    pub const GID: u32 = 1 << 2;
    pub const SIZE: u32 = 1 << 3;
    pub const ATIME: u32 = 1 << 4;
    pub const MTIME: u32 = 1 << 5;
    pub const ATIME_NOW: u32 = 1 << 7;
    pub const MTIME_NOW: u32 = 1 << 8;
    pub const KILL_SUIDGID: u32 = 1 << 11;
}

/// Flags of [`WriteIn`].
pub const WRITE_CACHE: u32 = 1;
pub const WRITE_KILL_SUIDGID: u32 = 1 << 2;

/// Flag of [`FsyncIn`]: bytes and size alone.
pub const FSYNC_FDATASYNC: u32 = 1;

/// Flag of [`IoctlIn`]: the arguments are not described by the command.
pub const IOCTL_UNRESTRICTED: u32 = 1 << 1;

/// Codes of notices.
pub const NOTIFY_INVAL_INODE: i32 = 2;
pub const NOTIFY_INVAL_ENTRY: i32 = 3;

/// Bits of a mode that say the kind.
pub mod kind {
    pub const MASK: u32 = 0o170_000;
    pub const FIFO: u32 = 0o010_000;
    pub const CHAR: u32 = 0o020_000;
    pub const DIRECTORY: u32 = 0o040_000;
    pub const BLOCK: u32 = 0o060_000;
    pub const FILE: u32 = 0o100_000;
    pub const SYMLINK: u32 = 0o120_000;
    pub const SOCKET: u32 = 0o140_000;
}

macro_rules! structures {
    ($($name:ident { $($field:ident: $type:ty),* $(,)? })*) => {$(
        #[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
        #[repr(C)]
        pub struct $name { $(pub $field: $type),* }

        impl $name {
            /// All zeroes.
            pub fn zero() -> $name {
                $name::new_zeroed()
            }
        }
    )*};
}

structures! {
    InHeader {
        len: u32, opcode: u32, unique: u64, node: u64, uid: u32, gid: u32, pid: u32, extensions: u16, padding: u16,
    }
    OutHeader { len: u32, error: i32, unique: u64 }
    InitIn { major: u32, minor: u32, max_readahead: u32, flags: u32 }
    InitOut {
        major: u32, minor: u32, max_readahead: u32, flags: u32, max_background: u16, congestion_threshold: u16,
        max_write: u32, time_gran: u32, max_pages: u16, map_alignment: u16, flags2: u32, max_stack_depth: u32,
        request_timeout: u16, unused: [u16; 11],
    }
    Attr {
        ino: u64, size: u64, blocks: u64, atime: u64, mtime: u64, ctime: u64, atimensec: u32, mtimensec: u32,
        ctimensec: u32, mode: u32, nlink: u32, uid: u32, gid: u32, rdev: u32, blksize: u32, flags: u32,
    }
    AttrOut { valid: u64, valid_nsec: u32, dummy: u32, attr: Attr }
    EntryOut {
        node: u64, generation: u64, entry_valid: u64, attr_valid: u64, entry_valid_nsec: u32, attr_valid_nsec: u32,
        attr: Attr,
    }
    ForgetIn { nlookup: u64 }
    ForgetOne { node: u64, nlookup: u64 }
    BatchForgetIn { count: u32, dummy: u32 }
    GetAttrIn { flags: u32, dummy: u32, handle: u64 }
    SetAttrIn {
        valid: u32, padding: u32, handle: u64, size: u64, lock_owner: u64, atime: u64, mtime: u64, ctime: u64,
        atimensec: u32, mtimensec: u32, ctimensec: u32, mode: u32, unused4: u32, uid: u32, gid: u32, unused5: u32,
    }
    MknodIn { mode: u32, rdev: u32, umask: u32, padding: u32 }
    MkdirIn { mode: u32, umask: u32 }
    RenameIn { new_dir: u64 }
    Rename2In { new_dir: u64, flags: u32, padding: u32 }
    LinkIn { old_node: u64 }
    CreateIn { flags: u32, mode: u32, umask: u32, open_flags: u32 }
    OpenIn { flags: u32, open_flags: u32 }
    OpenOut { handle: u64, open_flags: u32, backing: i32 }
    ReleaseIn { handle: u64, flags: u32, release_flags: u32, lock_owner: u64 }
    FlushIn { handle: u64, unused: u32, padding: u32, lock_owner: u64 }
    ReadIn { handle: u64, offset: u64, size: u32, read_flags: u32, lock_owner: u64, flags: u32, padding: u32 }
    WriteIn { handle: u64, offset: u64, size: u32, write_flags: u32, lock_owner: u64, flags: u32, padding: u32 }
    WriteOut { size: u32, padding: u32 }
    FsyncIn { handle: u64, fsync_flags: u32, padding: u32 }
    SetXattrIn { size: u32, flags: u32 }
    GetXattrIn { size: u32, padding: u32 }
    GetXattrOut { size: u32, padding: u32 }
    LockIn { handle: u64, owner: u64, start: u64, end: u64, kind: u32, pid: u32, lock_flags: u32, padding: u32 }
    AccessIn { mask: u32, padding: u32 }
    InterruptIn { unique: u64 }
    BmapIn { block: u64, blocksize: u32, padding: u32 }
    IoctlIn { handle: u64, flags: u32, command: u32, argument: u64, in_size: u32, out_size: u32 }
    IoctlOut { result: i32, flags: u32, in_iovs: u32, out_iovs: u32 }
    PollIn { handle: u64, poll_handle: u64, flags: u32, events: u32 }
    FallocateIn { handle: u64, offset: u64, length: u64, mode: u32, padding: u32 }
    LseekIn { handle: u64, offset: u64, whence: u32, padding: u32 }
    LseekOut { offset: u64 }
    CopyIn {
        handle_in: u64, offset_in: u64, node_out: u64, handle_out: u64, offset_out: u64, length: u64, flags: u64,
    }
    CopyOut { bytes: u64 }
    SyncFsIn { padding: u64 }
    StatxIn { getattr_flags: u32, reserved: u32, handle: u64, sx_flags: u32, sx_mask: u32 }
    SxTime { seconds: u64, nanoseconds: u32, reserved: i32 }
    Statx {
        mask: u32, blksize: u32, attributes: u64, nlink: u32, uid: u32, gid: u32, mode: u16, spare0: u16, ino: u64,
        size: u64, blocks: u64, attributes_mask: u64, atime: SxTime, btime: SxTime, ctime: SxTime, mtime: SxTime,
        rdev_major: u32, rdev_minor: u32, dev_major: u32, dev_minor: u32, spare2: [u64; 14],
    }
    StatxOut { attr_valid: u64, attr_valid_nsec: u32, flags: u32, spare: [u64; 2], stat: Statx }
    Statfs {
        blocks: u64, bfree: u64, bavail: u64, files: u64, ffree: u64, bsize: u32, namelen: u32, frsize: u32,
        padding: u32, spare: [u32; 6],
    }
    Dirent { ino: u64, offset: u64, namelen: u32, kind: u32 }
    InvalInodeOut { node: u64, offset: i64, len: i64 }
    InvalEntryOut { parent: u64, namelen: u32, flags: u32 }
}

/// Numbers of operations.
pub mod opcode {
    macro_rules! opcodes {
        ($($name:ident = $number:literal,)*) => {
            $(pub const $name: u32 = $number;)*

            /// Its name in the kernel's header.
            pub fn name(number: u32) -> Option<&'static str> {
                match number {
                    $($number => Some(stringify!($name)),)*
                    _ => None,
                }
            }
        };
    }

    opcodes! {
        LOOKUP = 1,
        FORGET = 2,
        GETATTR = 3,
        SETATTR = 4,
        READLINK = 5,
        SYMLINK = 6,
        MKNOD = 8,
        MKDIR = 9,
        UNLINK = 10,
        RMDIR = 11,
        RENAME = 12,
        LINK = 13,
        OPEN = 14,
        READ = 15,
        WRITE = 16,
        STATFS = 17,
        RELEASE = 18,
        FSYNC = 20,
        SETXATTR = 21,
        GETXATTR = 22,
        LISTXATTR = 23,
        REMOVEXATTR = 24,
        FLUSH = 25,
        INIT = 26,
        OPENDIR = 27,
        READDIR = 28,
        RELEASEDIR = 29,
        FSYNCDIR = 30,
        GETLK = 31,
        SETLK = 32,
        SETLKW = 33,
        ACCESS = 34,
        CREATE = 35,
        INTERRUPT = 36,
        BMAP = 37,
        DESTROY = 38,
        IOCTL = 39,
        POLL = 40,
        NOTIFY_REPLY = 41,
        BATCH_FORGET = 42,
        FALLOCATE = 43,
        READDIRPLUS = 44,
        RENAME2 = 45,
        LSEEK = 46,
        COPY_FILE_RANGE = 47,
        SETUPMAPPING = 48,
        REMOVEMAPPING = 49,
        SYNCFS = 50,
        TMPFILE = 51,
        STATX = 52,
        COPY_FILE_RANGE_64 = 53,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structures_have_the_sizes_of_the_kernel() {
        let sizes = [
            (size_of::<InHeader>(), 40),
            (size_of::<OutHeader>(), 16),
            (size_of::<InitOut>(), 64),
            (size_of::<AttrOut>(), 104),
            (size_of::<EntryOut>(), 128),
            (size_of::<SetAttrIn>(), 88),
            (size_of::<MknodIn>(), 16),
            (size_of::<Rename2In>(), 16),
            (size_of::<CreateIn>(), 16),
            (size_of::<ReleaseIn>(), 24),
            (size_of::<FlushIn>(), 24),
            (size_of::<ReadIn>(), 40),
            (size_of::<WriteIn>(), 40),
            (size_of::<LockIn>(), 48),
            (size_of::<IoctlIn>(), 32),
            (size_of::<IoctlOut>(), 16),
            (size_of::<PollIn>(), 24),
            (size_of::<FallocateIn>(), 32),
            (size_of::<LseekIn>(), 24),
            (size_of::<CopyIn>(), 56),
            (size_of::<StatxIn>(), 24),
            (size_of::<Statx>(), 256),
            (size_of::<StatxOut>(), 288),
            (size_of::<Statfs>(), 80),
            (size_of::<Dirent>(), 24),
            (size_of::<InvalInodeOut>(), 24),
            (size_of::<InvalEntryOut>(), 16),
        ];
        for (at, (ours, kernel)) in sizes.into_iter().enumerate() {
            assert_eq!(ours, kernel, "structure {at}");
        }
    }

    #[test]
    fn operations_have_names_without_gaps_but_two() {
        let unnamed: Vec<u32> = (1..=53).filter(|number| opcode::name(*number).is_none()).collect();
        assert_eq!((unnamed, opcode::name(53)), (vec![7, 19], Some("COPY_FILE_RANGE_64")));
    }
}
