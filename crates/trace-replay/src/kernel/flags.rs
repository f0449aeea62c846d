//! The trace's words as this system's.

use esker_trace_calls::words::{
    AccessMode, Advice, FallocFlags, FileKind, LockKind, OpenFlags, ReadWriteFlags, RenameFlags, SyncRangeFlags,
    XattrFlags,
};
use rustix::fs::{Access, FallocateFlags, FileType, FlockOperation, OFlags};

/// `O_DSYNC` of Linux's generic table; the library has it as `O_SYNC`, which is stronger.
const O_DSYNC: OFlags = OFlags::from_bits_retain(0o10000);

/// The union of those of `ours` whose counterpart is in `from`.
macro_rules! translate {
    ($from:expr => $to:ty; $($theirs:path => $ours:expr),* $(,)?) => {{
        let mut to = <$to>::empty();
        $( if $from.contains($theirs) { to |= $ours; } )*
        to
    }};
}

pub(super) fn open(flags: OpenFlags) -> OFlags {
    let access = match (flags.contains(OpenFlags::READ), flags.contains(OpenFlags::WRITE)) {
        (true, true) => OFlags::RDWR,
        (false, true) => OFlags::WRONLY,
        _ => OFlags::RDONLY,
    };
    let to = access | status(flags);
    let to = to
        | translate!(flags => OFlags;
            OpenFlags::O_CREAT => OFlags::CREATE,
            OpenFlags::O_EXCL => OFlags::EXCL,
            OpenFlags::O_TRUNC => OFlags::TRUNC,
            OpenFlags::O_DIRECTORY => OFlags::DIRECTORY,
            OpenFlags::O_NOFOLLOW => OFlags::NOFOLLOW,
            OpenFlags::O_SYNC => OFlags::SYNC,
            OpenFlags::O_DSYNC => O_DSYNC,
            OpenFlags::O_PATH => OFlags::PATH,
            OpenFlags::O_TMPFILE => OFlags::TMPFILE,
            OpenFlags::O_NOCTTY => OFlags::NOCTTY,
            OpenFlags::O_LARGEFILE => OFlags::LARGEFILE,
            // A Mac's way to open a link itself.
            OpenFlags::O_SYMLINK => OFlags::PATH | OFlags::NOFOLLOW,
        );
    // With O_PATH the kernel's openat ignores all others, its openat2 refuses them.
    if to.contains(OFlags::PATH) { to & (OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW) } else { to }
}

/// Flags that can be changed later.
pub(super) fn status(flags: OpenFlags) -> OFlags {
    translate!(flags => OFlags;
        OpenFlags::O_APPEND => OFlags::APPEND,
        OpenFlags::O_NONBLOCK => OFlags::NONBLOCK,
        OpenFlags::O_DIRECT => OFlags::DIRECT,
        OpenFlags::O_NOATIME => OFlags::NOATIME,
    )
}

pub(super) fn rename(flags: RenameFlags) -> rustix::fs::RenameFlags {
    translate!(flags => rustix::fs::RenameFlags;
        RenameFlags::RENAME_NOREPLACE => rustix::fs::RenameFlags::NOREPLACE,
        RenameFlags::RENAME_EXCHANGE => rustix::fs::RenameFlags::EXCHANGE,
        RenameFlags::RENAME_WHITEOUT => rustix::fs::RenameFlags::WHITEOUT,
    )
}

pub(super) fn access(mode: AccessMode) -> Access {
    translate!(mode => Access;
        AccessMode::R_OK => Access::READ_OK,
        AccessMode::W_OK => Access::WRITE_OK,
        AccessMode::X_OK => Access::EXEC_OK,
    )
}

pub(super) fn allocate(flags: FallocFlags) -> FallocateFlags {
    translate!(flags => FallocateFlags;
        FallocFlags::FALLOC_FL_KEEP_SIZE => FallocateFlags::KEEP_SIZE,
        FallocFlags::FALLOC_FL_PUNCH_HOLE => FallocateFlags::PUNCH_HOLE,
        FallocFlags::FALLOC_FL_COLLAPSE_RANGE => FallocateFlags::COLLAPSE_RANGE,
        FallocFlags::FALLOC_FL_ZERO_RANGE => FallocateFlags::ZERO_RANGE,
        FallocFlags::FALLOC_FL_INSERT_RANGE => FallocateFlags::INSERT_RANGE,
        FallocFlags::FALLOC_FL_UNSHARE_RANGE => FallocateFlags::UNSHARE_RANGE,
    )
}

pub(super) fn read_write(flags: ReadWriteFlags) -> rustix::io::ReadWriteFlags {
    translate!(flags => rustix::io::ReadWriteFlags;
        ReadWriteFlags::RWF_DSYNC => rustix::io::ReadWriteFlags::DSYNC,
        ReadWriteFlags::RWF_HIPRI => rustix::io::ReadWriteFlags::HIPRI,
        ReadWriteFlags::RWF_SYNC => rustix::io::ReadWriteFlags::SYNC,
        ReadWriteFlags::RWF_NOWAIT => rustix::io::ReadWriteFlags::NOWAIT,
        ReadWriteFlags::RWF_APPEND => rustix::io::ReadWriteFlags::APPEND,
    )
}

pub(super) fn xattr(flags: XattrFlags) -> rustix::fs::XattrFlags {
    translate!(flags => rustix::fs::XattrFlags;
        XattrFlags::XATTR_CREATE => rustix::fs::XattrFlags::CREATE,
        XattrFlags::XATTR_REPLACE => rustix::fs::XattrFlags::REPLACE,
    )
}

pub(super) fn write_back(flags: SyncRangeFlags) -> esker_sys::WriteBack {
    esker_sys::WriteBack {
        wait_before: flags.contains(SyncRangeFlags::SYNC_FILE_RANGE_WAIT_BEFORE),
        start: flags.contains(SyncRangeFlags::SYNC_FILE_RANGE_WRITE),
        wait_after: flags.contains(SyncRangeFlags::SYNC_FILE_RANGE_WAIT_AFTER),
    }
}

pub(super) fn advice(advice: Advice) -> rustix::fs::Advice {
    match advice {
        Advice::Normal => rustix::fs::Advice::Normal,
        Advice::Random => rustix::fs::Advice::Random,
        Advice::Sequential => rustix::fs::Advice::Sequential,
        Advice::WillNeed => rustix::fs::Advice::WillNeed,
        Advice::DontNeed => rustix::fs::Advice::DontNeed,
        Advice::NoReuse => rustix::fs::Advice::NoReuse,
    }
}

pub(super) fn lock(kind: LockKind) -> FlockOperation {
    match kind {
        LockKind::Shared => FlockOperation::NonBlockingLockShared,
        LockKind::Exclusive => FlockOperation::NonBlockingLockExclusive,
        LockKind::Unlock => FlockOperation::NonBlockingUnlock,
    }
}

/// The type of a file that is there.
pub(super) fn kind(mode: u32) -> FileKind {
    match FileType::from_raw_mode(mode) {
        FileType::RegularFile => FileKind::Regular,
        FileType::Directory => FileKind::Directory,
        FileType::Symlink => FileKind::Symlink,
        FileType::Fifo => FileKind::Fifo,
        FileType::Socket => FileKind::Socket,
        FileType::CharacterDevice => FileKind::CharDevice,
        FileType::BlockDevice => FileKind::BlockDevice,
        FileType::Unknown => FileKind::Other,
    }
}

/// The type of a file to be made, if `mknod` makes it.
pub(super) fn file_type(kind: FileKind) -> Option<FileType> {
    match kind {
        FileKind::Regular => Some(FileType::RegularFile),
        FileKind::Fifo => Some(FileType::Fifo),
        FileKind::Socket => Some(FileType::Socket),
        _ => None,
    }
}
