//! Words of the kernel in ours, and back.

use esker_base::Errno;
use esker_vfs::{FileType, Rename, Stamp, XattrSet};
use rustix::fs::{self, Mode, RenameFlags, Timespec, XattrFlags};

const SECOND: i64 = 1_000_000_000;

pub(crate) fn errno(error: rustix::io::Errno) -> Errno {
    // Numbers of errors end at 4095.
    Errno(error.raw_os_error() as u16)
}

/// Permissions, with the three bits above them.
pub(crate) fn mode_bits(mode: u16) -> Mode {
    Mode::from_raw_mode(u32::from(mode))
}

pub(crate) fn kernel_kind(kind: FileType) -> fs::FileType {
    match kind {
        FileType::File => fs::FileType::RegularFile,
        FileType::Directory => fs::FileType::Directory,
        FileType::Symlink => fs::FileType::Symlink,
        FileType::CharDevice => fs::FileType::CharacterDevice,
        FileType::BlockDevice => fs::FileType::BlockDevice,
        FileType::Fifo => fs::FileType::Fifo,
        FileType::Socket => fs::FileType::Socket,
    }
}

/// None: a directory does not tell the kind of its entry.
pub(crate) fn our_kind(kind: fs::FileType) -> Option<FileType> {
    Some(match kind {
        fs::FileType::RegularFile => FileType::File,
        fs::FileType::Directory => FileType::Directory,
        fs::FileType::Symlink => FileType::Symlink,
        fs::FileType::CharacterDevice => FileType::CharDevice,
        fs::FileType::BlockDevice => FileType::BlockDevice,
        fs::FileType::Fifo => FileType::Fifo,
        fs::FileType::Socket => FileType::Socket,
        fs::FileType::Unknown => return None,
    })
}

pub(crate) fn rename_flags(how: Rename) -> RenameFlags {
    match how {
        Rename::Replace => RenameFlags::empty(),
        Rename::NoReplace => RenameFlags::NOREPLACE,
        Rename::Exchange => RenameFlags::EXCHANGE,
    }
}

pub(crate) fn xattr_flags(how: XattrSet) -> XattrFlags {
    match how {
        XattrSet::Any => XattrFlags::empty(),
        XattrSet::Create => XattrFlags::CREATE,
        XattrSet::Replace => XattrFlags::REPLACE,
    }
}

/// Times beyond the years 1677 and 2262 count as these.
pub(crate) fn stamp(seconds: i64, nanoseconds: i64) -> Stamp {
    Stamp(seconds.saturating_mul(SECOND).saturating_add(nanoseconds))
}

pub(crate) fn timespec(stamp: Stamp) -> Timespec {
    Timespec { tv_sec: stamp.0.div_euclid(SECOND), tv_nsec: stamp.0.rem_euclid(SECOND) }
}
