//! Calls on names.

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd};

use esker_fs_posix::Follow;
use esker_fs_posix::script::{Object, Outcome, Word};
use esker_vfs::{FileType, Rename};
use rustix::fs::{self, AtFlags, CWD, Mode, OFlags, SeekFrom};
use rustix::io;

use super::{Answer, Host, Target};
use crate::words::{kernel_kind, mode_bits, our_kind, rename_flags};

/// Bytes of the buffer for entries, so few that a listing takes several calls.
const ENTRIES_ROOM: usize = 512;

pub(super) fn mknod(path: &Word, kind: FileType, mode: u16, device: u64) -> io::Result<()> {
    fs::mknodat(CWD, &path.0[..], kernel_kind(kind), mode_bits(mode), device)
}

pub(super) fn rename(from: &Word, to: &Word, how: Rename) -> io::Result<()> {
    fs::renameat_with(CWD, &from.0[..], CWD, &to.0[..], rename_flags(how))
}

impl Host {
    pub(super) fn link(&self, old: &Object, new: &Word, follow: Follow) -> io::Result<()> {
        let flags = if follow == Follow::Links { AtFlags::SYMLINK_FOLLOW } else { AtFlags::empty() };
        match self.target(old)? {
            Target::Path(old) => fs::linkat(CWD, old, CWD, &new.0[..], flags),
            Target::Fd(fd) => fs::linkat(fd, "", CWD, &new.0[..], flags | AtFlags::EMPTY_PATH),
        }
    }

    pub(super) fn list(&self, object: &Object) -> Answer {
        match self.target(object)? {
            Target::Fd(fd) => list(fd),
            Target::Path(path) => {
                let flags = OFlags::DIRECTORY | OFlags::NONBLOCK;
                list(fs::open(path, flags, Mode::empty())?.as_fd())
            }
        }
    }

    pub(super) fn change_directory(&self, to: &Object) -> io::Result<()> {
        match self.target(to)? {
            Target::Path(path) => rustix::process::chdir(path),
            Target::Fd(fd) => rustix::process::fchdir(fd),
        }
    }
}

fn list(fd: BorrowedFd<'_>) -> Answer {
    fs::seek(fd, SeekFrom::Start(0))?;
    let mut room = [MaybeUninit::uninit(); ENTRIES_ROOM];
    let (mut dir, mut all) = (fs::RawDir::new(fd, &mut room), Vec::new());
    while let Some(entry) = dir.next() {
        let entry = entry?;
        let kind = match our_kind(entry.file_type()) {
            Some(kind) => kind,
            None => kind_of(fd, entry.file_name())?,
        };
        all.push((entry.file_name().to_bytes().to_vec(), kind));
    }
    Ok(Outcome::Entries(all))
}

/// The kind of an entry that its directory does not tell.
fn kind_of(dir: BorrowedFd<'_>, name: &std::ffi::CStr) -> io::Result<FileType> {
    let stat = fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW)?;
    our_kind(fs::FileType::from_raw_mode(stat.st_mode)).ok_or(io::Errno::IO)
}
