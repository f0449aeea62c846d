//! Two calls on descriptors that no library has in a safe form. Both block.

use std::io;
use std::os::fd::{AsFd, AsRawFd, IntoRawFd, OwnedFd};

/// How far a range of a file is written back; the device's own cache is never flushed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteBack {
    /// Waits for what is under way first.
    pub wait_before: bool,
    /// Starts it.
    pub start: bool,
    /// Waits for it.
    pub wait_after: bool,
}

/// Writes back `len` bytes of a file from `offset` on; 0 is to the end.
///
/// # Errors
/// The kernel's.
pub fn write_back(file: &impl AsFd, offset: u64, len: u64, what: WriteBack) -> io::Result<()> {
    let signed = |value: u64| i64::try_from(value).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput));
    let flags = [
        (what.wait_before, libc::SYNC_FILE_RANGE_WAIT_BEFORE),
        (what.start, libc::SYNC_FILE_RANGE_WRITE),
        (what.wait_after, libc::SYNC_FILE_RANGE_WAIT_AFTER),
    ];
    let flags = flags.iter().filter(|(chosen, _)| *chosen).map(|(_, flag)| *flag).sum();
    // SAFETY: the call takes no memory, and the descriptor is borrowed for its time.
    let done = unsafe { libc::sync_file_range(file.as_fd().as_raw_fd(), signed(offset)?, signed(len)?, flags) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Closes a descriptor and tells what became of its last writes, which dropping it does not.
///
/// # Errors
/// The kernel's. The descriptor is gone all the same.
pub fn close(fd: OwnedFd) -> io::Result<()> {
    // SAFETY: the descriptor was owned and is given up here; nothing else closes it.
    let closed = unsafe { libc::close(fd.into_raw_fd()) };
    if closed == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: WriteBack = WriteBack { wait_before: true, start: true, wait_after: true };

    #[test]
    fn files_are_written_back_and_pipes_are_not() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(8192).unwrap();
        write_back(&file, 0, 0, ALL).unwrap();
        write_back(&file, 4096, 4096, WriteBack { wait_after: false, ..ALL }).unwrap();
        assert!(write_back(&file, u64::MAX, 1, ALL).is_err());
        let (read, _write) = rustix::pipe::pipe().unwrap();
        assert!(write_back(&read, 0, 0, ALL).is_err());
    }

    #[test]
    fn a_closed_end_is_closed() {
        let (read, write) = rustix::pipe::pipe().unwrap();
        close(write).unwrap();
        assert_eq!(rustix::io::read(&read, &mut [0; 1]), Ok(0));
    }
}
