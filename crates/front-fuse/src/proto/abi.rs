//! The kernel's structures and numbers, named as in `linux/fuse.h` without its prefix.

#![allow(missing_docs, reason = "each is documented in the kernel's header under the same name")]

use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout};

pub const MAJOR: u32 = 7;
/// The protocol that we speak; the kernel settles for the older one of its own and this.
pub const MINOR: u32 = 38;
/// Oldest protocol that has all that is used: pages at a time, and copies of ranges.
pub const MINOR_MIN: u32 = 31;

pub const ROOT: u64 = 1;

/// Bytes in front of a write's payload.
pub const WRITE_HEAD: usize = size_of::<InHeader>() + size_of::<WriteIn>();

/// Flags of [`InitOut`].
pub const ASYNC_READ: u32 = 1;
pub const BIG_WRITES: u32 = 1 << 5;
pub const ASYNC_DIO: u32 = 1 << 15;
pub const MAX_PAGES: u32 = 1 << 22;

/// Flags of [`OpenOut`].
pub const FOPEN_DIRECT_IO: u32 = 1;
pub const FOPEN_NOFLUSH: u32 = 1 << 5;
pub const FOPEN_PARALLEL_DIRECT_WRITES: u32 = 1 << 6;

/// Modes of [`FallocateIn`].
pub const KEEP_SIZE: u32 = 1;
pub const PUNCH_HOLE: u32 = 2;
pub const ZERO_RANGE: u32 = 16;

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
    OpenIn { flags: u32, open_flags: u32 }
    OpenOut { handle: u64, open_flags: u32, backing: i32 }
    ReadIn { handle: u64, offset: u64, size: u32, read_flags: u32, lock_owner: u64, flags: u32, padding: u32 }
    WriteIn { handle: u64, offset: u64, size: u32, write_flags: u32, lock_owner: u64, flags: u32, padding: u32 }
    WriteOut { size: u32, padding: u32 }
    FallocateIn { handle: u64, offset: u64, length: u64, mode: u32, padding: u32 }
    CopyIn {
        handle_in: u64, offset_in: u64, node_out: u64, handle_out: u64, offset_out: u64, length: u64, flags: u64,
    }
    CopyOut { bytes: u64 }
    Statfs {
        blocks: u64, bfree: u64, bavail: u64, files: u64, ffree: u64, bsize: u32, namelen: u32, frsize: u32,
        padding: u32, spare: [u32; 6],
    }
    Dirent { ino: u64, offset: u64, namelen: u32, kind: u32 }
}

/// Numbers of operations.
pub mod opcode {
    pub const LOOKUP: u32 = 1;
    pub const FORGET: u32 = 2;
    pub const GETATTR: u32 = 3;
    pub const OPEN: u32 = 14;
    pub const READ: u32 = 15;
    pub const WRITE: u32 = 16;
    pub const STATFS: u32 = 17;
    pub const RELEASE: u32 = 18;
    pub const FSYNC: u32 = 20;
    pub const INIT: u32 = 26;
    pub const OPENDIR: u32 = 27;
    pub const READDIR: u32 = 28;
    pub const RELEASEDIR: u32 = 29;
    pub const INTERRUPT: u32 = 36;
    pub const DESTROY: u32 = 38;
    pub const BATCH_FORGET: u32 = 42;
    pub const FALLOCATE: u32 = 43;
    pub const COPY_FILE_RANGE: u32 = 47;
    pub const COPY_FILE_RANGE_64: u32 = 53;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structures_have_the_sizes_of_the_kernel() {
        let sizes = [
            size_of::<InHeader>(),
            size_of::<OutHeader>(),
            size_of::<InitOut>(),
            size_of::<AttrOut>(),
            size_of::<EntryOut>(),
            size_of::<ReadIn>(),
            size_of::<WriteIn>(),
            size_of::<FallocateIn>(),
            size_of::<CopyIn>(),
            size_of::<Statfs>(),
            size_of::<Dirent>(),
        ];
        assert_eq!(sizes, [40, 16, 64, 104, 128, 40, 40, 32, 56, 80, 24]);
    }
}
