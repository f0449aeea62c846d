//! Locks of media against other programs: flock(2) against Esker, and the byte locks that qemu takes on its images.
//!
//! qemu (`block/file-posix.c`) locks one byte for each permission that it uses, at [`USED`] and the permission's
//! number, and one for each that it does not share, at [`UNSHARED`] and the number. All locks are shared ones; a
//! conflict is a lock of another program on the opposite byte. They belong to the open file (`F_OFD_SETLK`), so that no
//! other descriptor's close ends them.
//!
//! | this side | uses | shares |
//! |---|---|---|
//! | writer | consistent reads, writes, changes of the size | nothing |
//! | reader | consistent reads | consistent reads |

use std::fmt;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use rustix::fs::FlockOperation;
use rustix::io::Errno;

/// Where the bytes of used permissions begin.
const USED: i64 = 100;
/// Where the bytes of permissions that are not shared begin.
const UNSHARED: i64 = 200;

/// Numbers of permissions.
const CONSISTENT_READ: i64 = 0;
const WRITE: i64 = 1;
const RESIZE: i64 = 3;

/// What a writer uses, and what it does not share.
const WRITER: (&[i64], &[i64]) = (&[CONSISTENT_READ, WRITE, RESIZE], &[CONSISTENT_READ, WRITE, RESIZE]);
/// The same for a reader.
const READER: (&[i64], &[i64]) = (&[CONSISTENT_READ], &[WRITE, RESIZE]);

/// Which program has the lock that stands in the way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockHolder {
    /// One that locks whole files, such as Esker.
    Whole,
    /// One that locks as qemu does.
    Bytes,
}

impl fmt::Display for LockHolder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            LockHolder::Whole => "another program serves this file; stop it first",
            LockHolder::Bytes => "qemu, or another program that locks as qemu does, uses this file; stop it first",
        })
    }
}

impl std::error::Error for LockHolder {}

impl From<LockHolder> for io::Error {
    fn from(held: LockHolder) -> io::Error {
        io::Error::new(io::ErrorKind::WouldBlock, held)
    }
}

/// Locks an open file, as its only user or beside readers. Does not wait.
///
/// # Errors
/// `WouldBlock` with [`LockHolder`] if another program has a lock that does not bear this one, or the kernel's.
pub fn lock_whole(file: BorrowedFd<'_>, exclusive: bool) -> io::Result<()> {
    let how = match exclusive {
        true => FlockOperation::NonBlockingLockExclusive,
        false => FlockOperation::NonBlockingLockShared,
    };
    match rustix::fs::flock(file, how) {
        Err(Errno::WOULDBLOCK) => Err(LockHolder::Whole.into()),
        other => Ok(other?),
    }
}

/// Takes qemu's locks of an open file or device, as a writer or as a reader. Does not wait. Where the file system has
/// no byte locks, there are none to take.
///
/// # Errors
/// As [`lock_whole`]; no lock is left then.
pub fn lock_bytes(file: BorrowedFd<'_>, writer: bool) -> io::Result<()> {
    let taken = take(file, if writer { WRITER } else { READER });
    if taken.is_err() {
        // What is not unlocked goes with the descriptor.
        let _left = [USED, UNSHARED].map(|base| set(file, libc::F_UNLCK, base, RESIZE + 1));
    }
    match taken {
        Err(error) if is_without_locks(&error) => Ok(()),
        other => other,
    }
}

/// First locks, then looks: of two programs that come at once, at most one goes on.
fn take(file: BorrowedFd<'_>, (used, unshared): (&[i64], &[i64])) -> io::Result<()> {
    let own = used.iter().map(|bit| USED + bit).chain(unshared.iter().map(|bit| UNSHARED + bit));
    for byte in own {
        set(file, libc::F_RDLCK, byte, 1)?;
    }
    let opposite = used.iter().map(|bit| UNSHARED + bit).chain(unshared.iter().map(|bit| USED + bit));
    for byte in opposite {
        if is_held(file, byte)? {
            return Err(LockHolder::Bytes.into());
        }
    }
    Ok(())
}

fn is_without_locks(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EINVAL | libc::ENOSYS | libc::ENOLCK | libc::EOPNOTSUPP))
}

fn set(file: BorrowedFd<'_>, kind: libc::c_int, start: i64, len: i64) -> io::Result<()> {
    match command(file, libc::F_OFD_SETLK, &mut range(kind, start, len)) {
        // Another program holds the byte for itself alone, as qemu never does.
        Err(error) if matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EACCES)) => {
            Err(LockHolder::Bytes.into())
        }
        other => other,
    }
}

/// Whether another open file has a lock there, of whatever kind.
fn is_held(file: BorrowedFd<'_>, byte: i64) -> io::Result<bool> {
    let mut asked = range(libc::F_WRLCK, byte, 1);
    command(file, libc::F_OFD_GETLK, &mut asked)?;
    Ok(libc::c_int::from(asked.l_type) != libc::F_UNLCK)
}

fn range(kind: libc::c_int, start: i64, len: i64) -> libc::flock {
    libc::flock {
        l_type: kind as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: start,
        l_len: len,
        l_pid: 0,
    }
}

fn command(file: BorrowedFd<'_>, command: libc::c_int, lock: &mut libc::flock) -> io::Result<()> {
    // SAFETY: both commands take a lock's description, which the kernel reads and writes during the call alone.
    match unsafe { libc::fcntl(file.as_fd().as_raw_fd(), command, std::ptr::from_mut(lock)) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    /// Two descriptors of one file, opened one by one.
    fn pair() -> (File, File) {
        let scratch = tempfile::NamedTempFile::new().unwrap();
        let open = || File::options().read(true).write(true).open(scratch.path()).unwrap();
        (open(), open())
    }

    fn check(first: bool, second: bool, fits: bool) {
        let (one, other) = pair();
        lock_bytes(one.as_fd(), first).unwrap();
        let result = lock_bytes(other.as_fd(), second);
        assert_eq!(result.is_ok(), fits, "{first} beside {second}: {result:?}");
        drop(one);
        lock_bytes(other.as_fd(), second).expect("the lock goes with its file");
    }

    #[test]
    fn readers_stand_beside_each_other_and_writers_alone() {
        check(false, false, true);
        check(true, true, false);
        check(true, false, false);
        check(false, true, false);
    }

    #[test]
    fn each_byte_that_qemu_locks_refuses_what_it_excludes_and_nothing_stays_locked() {
        let bytes = |bases: [i64; 2]| bases.into_iter().flat_map(|base| [0, 1, 3].map(|bit| base + bit));
        let for_reader = [USED + WRITE, USED + RESIZE, UNSHARED + CONSISTENT_READ];
        for byte in bytes([USED, UNSHARED]) {
            for writer in [true, false] {
                let (own, qemu) = pair();
                set(qemu.as_fd(), libc::F_RDLCK, byte, 1).unwrap();
                let result = lock_bytes(own.as_fd(), writer);
                assert_eq!(result.is_err(), writer || for_reader.contains(&byte), "{byte}, writer: {writer}");
                if result.is_err() {
                    let left = bytes([USED, UNSHARED]).filter(|byte| is_held(qemu.as_fd(), *byte).unwrap());
                    assert_eq!(left.collect::<Vec<_>>(), [0; 0], "{byte}, writer: {writer}");
                }
            }
        }
    }
}
