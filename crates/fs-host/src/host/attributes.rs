//! Calls on attributes.

use esker_fs_posix::script::{Facts, Object, Outcome, Word, XattrOp, bytes_of};
use esker_fs_posix::{Access, Follow, SetTime};
use rustix::fs::{self, AtFlags, CWD, Timespec};
use rustix::io;

use super::{Answer, Host, Target, done};
use crate::words::{mode_bits, our_kind, stamp, timespec, xattr_flags};

/// Most bytes of an extended attribute, and of a list of their names.
const XATTR_ROOM: usize = 1 << 16;

pub(super) fn access(path: &Word, wanted: Access) -> io::Result<()> {
    let bits = [
        (Access::READ, fs::Access::READ_OK),
        (Access::WRITE, fs::Access::WRITE_OK),
        (Access::EXECUTE, fs::Access::EXEC_OK),
    ];
    let asked = bits.into_iter().filter(|(bit, _)| wanted.contains(*bit)).map(|(_, word)| word);
    fs::accessat(CWD, &path.0[..], asked.collect(), AtFlags::EACCESS)
}

impl Host {
    pub(super) fn stat(&self, object: &Object, follow: Follow) -> Answer {
        let stat = match self.target(object)? {
            Target::Path(path) => fs::statat(CWD, path, at_flags(follow))?,
            Target::Fd(fd) => fs::fstat(fd)?,
        };
        Ok(Outcome::Facts(facts(&stat)?))
    }

    pub(super) fn chmod(&self, object: &Object, mode: u16) -> io::Result<()> {
        match self.target(object)? {
            Target::Path(path) => fs::chmodat(CWD, path, mode_bits(mode), AtFlags::empty()),
            Target::Fd(fd) => fs::fchmod(fd, mode_bits(mode)),
        }
    }

    pub(super) fn chown(&self, object: &Object, uid: Option<u32>, gid: Option<u32>, follow: Follow) -> io::Result<()> {
        let (uid, gid) = (uid.map(fs::Uid::from_raw), gid.map(fs::Gid::from_raw));
        match self.target(object)? {
            Target::Path(path) => fs::chownat(CWD, path, uid, gid, at_flags(follow)),
            Target::Fd(fd) => fs::fchown(fd, uid, gid),
        }
    }

    pub(super) fn set_times(
        &self,
        object: &Object,
        (accessed, modified): (SetTime, SetTime),
        follow: Follow,
    ) -> io::Result<()> {
        let times = fs::Timestamps { last_access: time(accessed), last_modification: time(modified) };
        match self.target(object)? {
            Target::Path(path) => fs::utimensat(CWD, path, &times, at_flags(follow)),
            Target::Fd(fd) => fs::futimens(fd, &times),
        }
    }
}

pub(super) fn xattr(target: &Target<'_>, op: &XattrOp, follow: Follow) -> Answer {
    let mut room = vec![0; XATTR_ROOM];
    let links = follow == Follow::Links;
    match op {
        XattrOp::Get(name) => {
            let name = &name.0[..];
            let len = match target {
                Target::Path(path) if links => fs::getxattr(*path, name, &mut room)?,
                Target::Path(path) => fs::lgetxattr(*path, name, &mut room)?,
                Target::Fd(fd) => fs::fgetxattr(fd, name, &mut room)?,
            };
            room.truncate(len);
            Ok(Outcome::Bytes(room))
        }
        XattrOp::List => {
            let len = match target {
                Target::Path(path) if links => fs::listxattr(*path, &mut room)?,
                Target::Path(path) => fs::llistxattr(*path, &mut room)?,
                Target::Fd(fd) => fs::flistxattr(fd, &mut room)?,
            };
            room.truncate(len);
            Ok(Outcome::Names(room))
        }
        XattrOp::Set(name, len, seed, how) => {
            let (name, value, flags) = (&name.0[..], bytes_of(*seed, *len), xattr_flags(*how));
            done(match target {
                Target::Path(path) if links => fs::setxattr(*path, name, &value, flags),
                Target::Path(path) => fs::lsetxattr(*path, name, &value, flags),
                Target::Fd(fd) => fs::fsetxattr(fd, name, &value, flags),
            })
        }
        XattrOp::Remove(name) => done(match target {
            Target::Path(path) if links => fs::removexattr(*path, &name.0[..]),
            Target::Path(path) => fs::lremovexattr(*path, &name.0[..]),
            Target::Fd(fd) => fs::fremovexattr(fd, &name.0[..]),
        }),
    }
}

fn facts(stat: &fs::Stat) -> io::Result<Facts> {
    Ok(Facts {
        kind: our_kind(fs::FileType::from_raw_mode(stat.st_mode)).ok_or(io::Errno::IO)?,
        mode: (stat.st_mode & 0o7777) as u16,
        links: stat.st_nlink as u32,
        uid: stat.st_uid,
        gid: stat.st_gid,
        device: stat.st_rdev,
        size: stat.st_size as u64,
        accessed: stamp(stat.st_atime, stat.st_atime_nsec as i64),
        modified: stamp(stat.st_mtime, stat.st_mtime_nsec as i64),
    })
}

fn time(time: SetTime) -> Timespec {
    match time {
        SetTime::Keep => Timespec { tv_sec: 0, tv_nsec: fs::UTIME_OMIT },
        SetTime::Now => Timespec { tv_sec: 0, tv_nsec: fs::UTIME_NOW },
        SetTime::To(stamp) => timespec(stamp),
    }
}

fn at_flags(follow: Follow) -> AtFlags {
    if follow == Follow::Links { AtFlags::empty() } else { AtFlags::SYMLINK_NOFOLLOW }
}
