//! What lies in a directory, and taking it away.

use std::ffi::CString;
use std::os::fd::AsFd;

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

use crate::root::is;

/// Names in an open directory, without `.` and `..`.
pub(crate) fn names_of(dir: &impl AsFd) -> Result<Vec<CString>, Errno> {
    let mut names = Vec::new();
    for entry in Dir::read_from(dir)? {
        let entry = entry?;
        if !matches!(entry.file_name().to_bytes(), b"." | b"..") {
            names.push(entry.file_name().to_owned());
        }
    }
    Ok(names)
}

/// What `name` in `dir` is, itself and not where it leads.
pub(crate) fn look(dir: &impl AsFd, name: &CString) -> Result<Stat, Errno> {
    rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW)
}

/// Opens a directory for reading, never through a link.
pub(crate) fn enter(dir: &impl AsFd, name: &CString) -> Result<std::os::fd::OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(dir, name, flags, Mode::empty())
}

/// Removes `name` from `dir` with everything below; returns how many entries that were. Never leaves `dir`: links are
/// removed, not followed.
pub(crate) fn remove(dir: &impl AsFd, name: &CString) -> Result<u64, Errno> {
    if !is(&look(dir, name)?, FileType::Directory) {
        return rustix::fs::unlinkat(dir, name, AtFlags::empty()).map(|()| 1);
    }
    let below = match enter(dir, name) {
        // A program that runs without root may have locked itself out.
        Err(Errno::ACCESS) => {
            rustix::fs::chmodat(dir, name, Mode::RWXU, AtFlags::empty())?;
            enter(dir, name)?
        }
        other => other?,
    };
    let mut removed = 1;
    for name in names_of(&below)? {
        removed += remove(&below, &name)?;
    }
    rustix::fs::unlinkat(dir, name, AtFlags::REMOVEDIR)?;
    Ok(removed)
}
