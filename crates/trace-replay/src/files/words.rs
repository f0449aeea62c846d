//! The trace's words as those of our calls.

use esker_fs_posix::{Access, Fallocate, OpenFlags as Ours, SetTime, Whence};
use esker_trace_calls::words::{self, AccessMode, FallocFlags, FileKind, LockKind, OpenFlags, RenameFlags, XattrFlags};
use esker_vfs::{FileType, Rename, Stamp, XattrSet};

/// The union of those of ours whose counterpart is in `from`.
macro_rules! translate {
    ($from:expr => $to:ty; $($theirs:path => $ours:expr),* $(,)?) => {{
        let mut to = <$to>::empty();
        $( if $from.contains($theirs) { to |= $ours; } )*
        to
    }};
}

pub(super) fn open(flags: OpenFlags) -> Ours {
    let access = match (flags.contains(OpenFlags::READ), flags.contains(OpenFlags::WRITE)) {
        (true, true) => Ours::RDWR,
        (false, true) => Ours::WRONLY,
        _ => Ours::RDONLY,
    };
    access
        | status(flags)
        | translate!(flags => Ours;
            OpenFlags::O_CREAT => Ours::CREAT,
            OpenFlags::O_EXCL => Ours::EXCL,
            OpenFlags::O_TRUNC => Ours::TRUNC,
            OpenFlags::O_DIRECTORY => Ours::DIRECTORY,
            OpenFlags::O_NOFOLLOW => Ours::NOFOLLOW,
            OpenFlags::O_SYNC => Ours::SYNC,
            OpenFlags::O_DSYNC => Ours::DSYNC,
            OpenFlags::O_PATH => Ours::PATH,
            OpenFlags::O_TMPFILE => Ours::TMPFILE,
            // A Mac's way to open a link itself.
            OpenFlags::O_SYMLINK => Ours::PATH | Ours::NOFOLLOW,
        )
}

/// Flags that can be changed later.
pub(super) fn status(flags: OpenFlags) -> Ours {
    translate!(flags => Ours;
        OpenFlags::O_APPEND => Ours::APPEND,
        OpenFlags::O_NONBLOCK => Ours::NONBLOCK,
        OpenFlags::O_DIRECT => Ours::DIRECT,
        OpenFlags::O_NOATIME => Ours::NOATIME,
    )
}

/// A whiteout is asked of no file system of ours: the kernel refuses it where it is not there.
pub(super) fn rename(flags: RenameFlags) -> Option<Rename> {
    match flags {
        RenameFlags::RENAME_NOREPLACE => Some(Rename::NoReplace),
        RenameFlags::RENAME_EXCHANGE => Some(Rename::Exchange),
        none if none.is_empty() => Some(Rename::Replace),
        _ => None,
    }
}

pub(super) fn access(mode: AccessMode) -> Access {
    translate!(mode => Access;
        AccessMode::R_OK => Access::READ,
        AccessMode::W_OK => Access::WRITE,
        AccessMode::X_OK => Access::EXECUTE,
    )
}

pub(super) fn allocate(flags: FallocFlags) -> Fallocate {
    translate!(flags => Fallocate;
        FallocFlags::FALLOC_FL_KEEP_SIZE => Fallocate::KEEP_SIZE,
        FallocFlags::FALLOC_FL_PUNCH_HOLE => Fallocate::PUNCH_HOLE,
        FallocFlags::FALLOC_FL_COLLAPSE_RANGE => Fallocate::COLLAPSE_RANGE,
        FallocFlags::FALLOC_FL_ZERO_RANGE => Fallocate::ZERO_RANGE,
        FallocFlags::FALLOC_FL_INSERT_RANGE => Fallocate::INSERT_RANGE,
        FallocFlags::FALLOC_FL_UNSHARE_RANGE => Fallocate::UNSHARE_RANGE,
    )
}

pub(super) fn xattr(flags: XattrFlags) -> XattrSet {
    match flags {
        XattrFlags::XATTR_CREATE => XattrSet::Create,
        XattrFlags::XATTR_REPLACE => XattrSet::Replace,
        _ => XattrSet::Any,
    }
}

pub(super) fn lock(kind: LockKind) -> esker_vfs::LockKind {
    match kind {
        LockKind::Shared => esker_vfs::LockKind::Shared,
        LockKind::Exclusive => esker_vfs::LockKind::Exclusive,
        LockKind::Unlock => esker_vfs::LockKind::Unlock,
    }
}

pub(super) fn whence(whence: words::Whence) -> Whence {
    match whence {
        words::Whence::Set => Whence::Set,
        words::Whence::Current => Whence::Current,
        words::Whence::End => Whence::End,
        words::Whence::Data => Whence::Data,
        words::Whence::Hole => Whence::Hole,
    }
}

pub(super) fn time(ns: Option<i64>) -> SetTime {
    match ns {
        None => SetTime::Keep,
        Some(i64::MIN) => SetTime::Now,
        Some(ns) => SetTime::To(Stamp(ns)),
    }
}

/// The type of a file that is there.
pub(super) fn kind(kind: FileType) -> FileKind {
    match kind {
        FileType::File => FileKind::Regular,
        FileType::Directory => FileKind::Directory,
        FileType::Symlink => FileKind::Symlink,
        FileType::CharDevice => FileKind::CharDevice,
        FileType::BlockDevice => FileKind::BlockDevice,
        FileType::Fifo => FileKind::Fifo,
        FileType::Socket => FileKind::Socket,
    }
}

/// The type of a file to be made, if `mknod` makes it.
pub(super) fn file_type(kind: FileKind) -> Option<FileType> {
    match kind {
        FileKind::Regular => Some(FileType::File),
        FileKind::Fifo => Some(FileType::Fifo),
        FileKind::Socket => Some(FileType::Socket),
        FileKind::CharDevice => Some(FileType::CharDevice),
        FileKind::BlockDevice => Some(FileType::BlockDevice),
        FileKind::Directory | FileKind::Symlink | FileKind::Other => None,
    }
}
