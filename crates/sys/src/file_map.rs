//! A file in the memory of this process, of which pages are touched and never read: what a fault of another program did
//! to the page cache is done again, with the kernel's own readahead.

use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::ptr;

/// A part of a file, mapped readable until dropped.
#[derive(Debug)]
pub struct FileMap {
    start: *mut libc::c_void,
    len: usize,
    is_writable: bool,
}

// SAFETY: the address is only ever given to the kernel, whose calls on memory any thread may make at any time.
unsafe impl Send for FileMap {}
// SAFETY: as above; no byte behind the address is read or written here.
unsafe impl Sync for FileMap {}

impl FileMap {
    /// Maps `len` bytes of a file from `offset` on, a multiple of the page size.
    ///
    /// # Errors
    /// The kernel's: also if the file may not be read, or not be written if it `is_writable`.
    pub fn new(file: &impl AsFd, offset: u64, len: u64, is_writable: bool) -> io::Result<FileMap> {
        let invalid = |_| io::Error::from(io::ErrorKind::InvalidInput);
        let (at, len) = (i64::try_from(offset).map_err(invalid)?, usize::try_from(len).map_err(invalid)?);
        let fd = file.as_fd().as_raw_fd();
        let protection = libc::PROT_READ | if is_writable { libc::PROT_WRITE } else { 0 };
        // SAFETY: the kernel chooses an address at which nothing is; the descriptor is borrowed for the call's time.
        let start = unsafe { libc::mmap(ptr::null_mut(), len, protection, libc::MAP_SHARED, fd, at) };
        match start == libc::MAP_FAILED {
            true => Err(io::Error::last_os_error()),
            false => Ok(FileMap { start, len, is_writable }),
        }
    }

    /// Bytes that are mapped.
    pub fn bytes(&self) -> u64 {
        self.len as u64
    }

    /// Brings the page at `offset` of the map into memory as an access does, and waits for it (`MADV_POPULATE_READ`,
    /// Linux 5.14). A page behind the file's end is an error here, not a signal.
    ///
    /// # Errors
    /// The kernel's, and an offset outside of the map.
    pub fn touch(&self, offset: u64) -> io::Result<()> {
        self.populate(offset, libc::MADV_POPULATE_READ)
    }

    /// Whether pages may be made dirty.
    pub fn is_writable(&self) -> bool {
        self.is_writable
    }

    /// Makes the page at `offset` of the map dirty as a write does that changes no byte (`MADV_POPULATE_WRITE`, Linux
    /// 5.14).
    ///
    /// # Errors
    /// As [`FileMap::touch`]; also if the map is not written.
    pub fn make_dirty(&self, offset: u64) -> io::Result<()> {
        self.populate(offset, libc::MADV_POPULATE_WRITE)
    }

    fn populate(&self, offset: u64, advice: i32) -> io::Result<()> {
        let inside = usize::try_from(offset).ok().filter(|offset| *offset < self.len);
        let page = inside.ok_or(io::Error::from(io::ErrorKind::InvalidInput))? & !(page_size() - 1);
        let at = self.start.wrapping_byte_add(page);
        // SAFETY: the page belongs to this map, and the call changes no byte of it.
        let done = unsafe { libc::madvise(at, 1, advice) };
        if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}

impl Drop for FileMap {
    fn drop(&mut self) {
        // SAFETY: this range was mapped by `new`, belongs to this value alone, and nothing refers to its bytes.
        let gone = unsafe { libc::munmap(self.start, self.len) };
        debug_assert_eq!(gone, 0, "{}", io::Error::last_os_error());
    }
}

fn page_size() -> usize {
    rustix::param::page_size()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::FileExt;

    #[test]
    fn a_page_becomes_dirty_without_a_change() {
        let file = tempfile::tempfile().unwrap();
        file.write_all_at(&[7; 8192], 0).unwrap();
        let map = FileMap::new(&file, 0, 8192, true).unwrap();
        assert!(map.is_writable());
        map.make_dirty(4096).unwrap();
        assert!(map.make_dirty(8192).is_err(), "behind the map");
        let mut bytes = [0; 8192];
        file.read_exact_at(&mut bytes, 0).unwrap();
        assert_eq!(bytes, [7; 8192]);
        let map = FileMap::new(&file, 0, 8192, false).unwrap();
        assert!(!map.is_writable() && map.make_dirty(0).is_err());
    }

    #[test]
    fn pages_of_a_file_come_into_memory_and_none_comes_from_behind_its_end() {
        let file = tempfile::tempfile().unwrap();
        file.write_all_at(&[7; 8192], 0).unwrap();
        let map = FileMap::new(&file, 4096, 8192, false).unwrap();
        map.touch(0).unwrap();
        map.touch(4095).unwrap();
        assert!(map.touch(4096).is_err(), "the file ends there");
        assert_eq!(map.touch(8192).unwrap_err().kind(), io::ErrorKind::InvalidInput);
    }

    #[test]
    fn what_cannot_be_mapped_is_an_error() {
        let (read, _write) = rustix::pipe::pipe().unwrap();
        assert!(FileMap::new(&read, 0, 4096, false).is_err());
        let file = tempfile::tempfile().unwrap();
        assert!(FileMap::new(&file, 1, 4096, false).is_err(), "not at a page's beginning");
        assert!(FileMap::new(&file, 0, 0, false).is_err());
    }
}
