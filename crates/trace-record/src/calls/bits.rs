//! Flags of the kernel as flags of traces.

use esker_trace_calls::words::*;

/// Each bit of the kernel, and what it is in a trace.
type Table<T> = &'static [(i64, T)];

fn gather<T: bitflags::Flags + Copy>(bits: i64, table: Table<T>) -> T {
    let mut flags = T::empty();
    for (bit, flag) in table {
        if bits & bit == *bit {
            flags.insert(*flag);
        }
    }
    flags
}

const OPEN: Table<OpenFlags> = &[
    (libc::O_APPEND as i64, OpenFlags::O_APPEND),
    (libc::O_CREAT as i64, OpenFlags::O_CREAT),
    (libc::O_EXCL as i64, OpenFlags::O_EXCL),
    (libc::O_TRUNC as i64, OpenFlags::O_TRUNC),
    (libc::O_DIRECTORY as i64, OpenFlags::O_DIRECTORY),
    (libc::O_NOFOLLOW as i64, OpenFlags::O_NOFOLLOW),
    (libc::O_CLOEXEC as i64, OpenFlags::O_CLOEXEC),
    (libc::O_DIRECT as i64, OpenFlags::O_DIRECT),
    (libc::O_SYNC as i64, OpenFlags::O_SYNC),
    (libc::O_DSYNC as i64, OpenFlags::O_DSYNC),
    (libc::O_NONBLOCK as i64, OpenFlags::O_NONBLOCK),
    (libc::O_PATH as i64, OpenFlags::O_PATH),
    (libc::O_TMPFILE as i64, OpenFlags::O_TMPFILE),
    (libc::O_NOATIME as i64, OpenFlags::O_NOATIME),
    (libc::O_NOCTTY as i64, OpenFlags::O_NOCTTY),
    // libc has 0 here: the flag is implied for programs of 64 bits, yet some give it.
    (0o100000, OpenFlags::O_LARGEFILE),
    (libc::O_ASYNC as i64, OpenFlags::O_ASYNC),
];

/// `O_` flags.
pub fn open_flags(bits: u64) -> OpenFlags {
    let mut flags = gather(bits as i64, OPEN);
    if flags.contains(OpenFlags::O_SYNC) {
        flags.remove(OpenFlags::O_DSYNC);
    }
    if flags.contains(OpenFlags::O_TMPFILE) {
        flags.remove(OpenFlags::O_DIRECTORY);
    }
    if !flags.contains(OpenFlags::O_PATH) {
        flags |= match bits as i32 & libc::O_ACCMODE {
            libc::O_RDONLY => OpenFlags::READ,
            libc::O_WRONLY => OpenFlags::WRITE,
            _ => OpenFlags::READ | OpenFlags::WRITE,
        };
    }
    flags
}

/// `RESOLVE_` flags of `openat2`.
pub fn resolve_flags(bits: u64) -> ResolveFlags {
    const TABLE: Table<ResolveFlags> = &[
        (libc::RESOLVE_NO_XDEV as i64, ResolveFlags::RESOLVE_NO_XDEV),
        (libc::RESOLVE_NO_MAGICLINKS as i64, ResolveFlags::RESOLVE_NO_MAGICLINKS),
        (libc::RESOLVE_NO_SYMLINKS as i64, ResolveFlags::RESOLVE_NO_SYMLINKS),
        (libc::RESOLVE_BENEATH as i64, ResolveFlags::RESOLVE_BENEATH),
        (libc::RESOLVE_IN_ROOT as i64, ResolveFlags::RESOLVE_IN_ROOT),
        (libc::RESOLVE_CACHED as i64, ResolveFlags::RESOLVE_CACHED),
    ];
    gather(bits as i64, TABLE)
}

/// `RENAME_` flags.
pub fn rename_flags(bits: u64) -> RenameFlags {
    const TABLE: Table<RenameFlags> = &[
        (libc::RENAME_NOREPLACE as i64, RenameFlags::RENAME_NOREPLACE),
        (libc::RENAME_EXCHANGE as i64, RenameFlags::RENAME_EXCHANGE),
        (libc::RENAME_WHITEOUT as i64, RenameFlags::RENAME_WHITEOUT),
    ];
    gather(bits as i64, TABLE)
}

/// `_OK` bits of `access`.
pub fn access_mode(bits: u64) -> AccessMode {
    const TABLE: Table<AccessMode> = &[
        (libc::R_OK as i64, AccessMode::R_OK),
        (libc::W_OK as i64, AccessMode::W_OK),
        (libc::X_OK as i64, AccessMode::X_OK),
    ];
    gather(bits as i64, TABLE)
}

/// `FALLOC_FL_` flags.
pub fn falloc_flags(bits: u64) -> FallocFlags {
    const TABLE: Table<FallocFlags> = &[
        (libc::FALLOC_FL_KEEP_SIZE as i64, FallocFlags::FALLOC_FL_KEEP_SIZE),
        (libc::FALLOC_FL_PUNCH_HOLE as i64, FallocFlags::FALLOC_FL_PUNCH_HOLE),
        (libc::FALLOC_FL_COLLAPSE_RANGE as i64, FallocFlags::FALLOC_FL_COLLAPSE_RANGE),
        (libc::FALLOC_FL_ZERO_RANGE as i64, FallocFlags::FALLOC_FL_ZERO_RANGE),
        (libc::FALLOC_FL_INSERT_RANGE as i64, FallocFlags::FALLOC_FL_INSERT_RANGE),
        (libc::FALLOC_FL_UNSHARE_RANGE as i64, FallocFlags::FALLOC_FL_UNSHARE_RANGE),
    ];
    gather(bits as i64, TABLE)
}

/// `SYNC_FILE_RANGE_` flags.
pub fn sync_range_flags(bits: u64) -> SyncRangeFlags {
    const TABLE: Table<SyncRangeFlags> = &[
        (libc::SYNC_FILE_RANGE_WAIT_BEFORE as i64, SyncRangeFlags::SYNC_FILE_RANGE_WAIT_BEFORE),
        (libc::SYNC_FILE_RANGE_WRITE as i64, SyncRangeFlags::SYNC_FILE_RANGE_WRITE),
        (libc::SYNC_FILE_RANGE_WAIT_AFTER as i64, SyncRangeFlags::SYNC_FILE_RANGE_WAIT_AFTER),
    ];
    gather(bits as i64, TABLE)
}

/// `RWF_` flags.
pub fn read_write_flags(bits: u64) -> ReadWriteFlags {
    const TABLE: Table<ReadWriteFlags> = &[
        (libc::RWF_DSYNC as i64, ReadWriteFlags::RWF_DSYNC),
        (libc::RWF_HIPRI as i64, ReadWriteFlags::RWF_HIPRI),
        (libc::RWF_SYNC as i64, ReadWriteFlags::RWF_SYNC),
        (libc::RWF_NOWAIT as i64, ReadWriteFlags::RWF_NOWAIT),
        (libc::RWF_APPEND as i64, ReadWriteFlags::RWF_APPEND),
    ];
    gather(bits as i64, TABLE)
}

/// `XATTR_` flags.
pub fn xattr_flags(bits: u64) -> XattrFlags {
    const TABLE: Table<XattrFlags> = &[
        (libc::XATTR_CREATE as i64, XattrFlags::XATTR_CREATE),
        (libc::XATTR_REPLACE as i64, XattrFlags::XATTR_REPLACE),
    ];
    gather(bits as i64, TABLE)
}

/// `CLONE_` flags.
pub fn clone_flags(bits: u64) -> CloneFlags {
    const TABLE: Table<CloneFlags> = &[
        (libc::CLONE_THREAD as i64, CloneFlags::CLONE_THREAD),
        (libc::CLONE_FILES as i64, CloneFlags::CLONE_FILES),
        (libc::CLONE_FS as i64, CloneFlags::CLONE_FS),
        (libc::CLONE_VM as i64, CloneFlags::CLONE_VM),
        (libc::CLONE_VFORK as i64, CloneFlags::CLONE_VFORK),
        (libc::CLONE_PARENT as i64, CloneFlags::CLONE_PARENT),
    ];
    gather(bits as i64, TABLE)
}

/// `PROT_` and `MAP_` flags.
pub fn map_flags(prot: u64, flags: u64) -> MapFlags {
    const PROT: Table<MapFlags> = &[
        (libc::PROT_READ as i64, MapFlags::PROT_READ),
        (libc::PROT_WRITE as i64, MapFlags::PROT_WRITE),
        (libc::PROT_EXEC as i64, MapFlags::PROT_EXEC),
    ];
    const MAP: Table<MapFlags> = &[
        (libc::MAP_ANONYMOUS as i64, MapFlags::MAP_ANONYMOUS),
        (libc::MAP_FIXED as i64, MapFlags::MAP_FIXED),
        (libc::MAP_POPULATE as i64, MapFlags::MAP_POPULATE),
    ];
    let kind = match flags as i32 & libc::MAP_TYPE {
        libc::MAP_PRIVATE => MapFlags::MAP_PRIVATE,
        _ => MapFlags::MAP_SHARED,
    };
    gather(prot as i64, PROT) | gather(flags as i64, MAP) | kind
}

/// `MS_` flags.
pub fn map_sync_flags(bits: u64) -> MapSyncFlags {
    const TABLE: Table<MapSyncFlags> = &[
        (libc::MS_ASYNC as i64, MapSyncFlags::MS_ASYNC),
        (libc::MS_SYNC as i64, MapSyncFlags::MS_SYNC),
        (libc::MS_INVALIDATE as i64, MapSyncFlags::MS_INVALIDATE),
    ];
    gather(bits as i64, TABLE)
}

/// `CLOSE_RANGE_` flags.
pub fn close_range_flags(bits: u64) -> CloseRangeFlags {
    const TABLE: Table<CloseRangeFlags> = &[
        (libc::CLOSE_RANGE_UNSHARE as i64, CloseRangeFlags::CLOSE_RANGE_UNSHARE),
        (libc::CLOSE_RANGE_CLOEXEC as i64, CloseRangeFlags::CLOSE_RANGE_CLOEXEC),
    ];
    gather(bits as i64, TABLE)
}
