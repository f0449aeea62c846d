//! Handles of files, which name an inode of a mounted file system without a descriptor.

use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

/// Most bytes of a handle that the kernel knows (`MAX_HANDLE_SZ`).
const BYTES_MAX: usize = 128;

/// The kernel's `struct file_handle` with room for all handles.
#[repr(C)]
struct Raw {
    head: libc::file_handle,
    bytes: [u8; BYTES_MAX],
}

/// A handle. It stays right across renames and after an unmount, and goes stale when its inode is freed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FileHandle {
    kind: i32,
    bytes: Box<[u8]>,
}

/// The handle of an open file, which may be open for nothing but its place (`O_PATH`).
///
/// # Errors
/// The kernel's: `EOPNOTSUPP` of file systems without handles.
pub fn file_handle(file: &impl AsFd) -> io::Result<FileHandle> {
    let head = libc::file_handle { handle_bytes: BYTES_MAX as u32, handle_type: 0, f_handle: [] };
    let (mut raw, mut mount) = (Raw { head, bytes: [0; BYTES_MAX] }, 0);
    let fd = file.as_fd().as_raw_fd();
    // SAFETY: the path is an empty string with its NUL. `raw` begins with the head, which says how many bytes follow in
    // the same object, and the pointer is to all of it.
    let told = unsafe {
        libc::name_to_handle_at(fd, c"".as_ptr(), (&raw mut raw).cast(), &raw mut mount, libc::AT_EMPTY_PATH)
    };
    match told {
        0 => Ok(FileHandle { kind: raw.head.handle_type, bytes: raw.bytes[..raw.head.handle_bytes as usize].into() }),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Opens the inode of a handle with flags of `open`. `mounted` is an open file of its file system, and not one of
/// `O_PATH`.
///
/// # Errors
/// The kernel's: `ESTALE` if the inode is gone, `EPERM` without the capability `CAP_DAC_READ_SEARCH`.
pub fn open_handle(mounted: &impl AsFd, handle: &FileHandle, flags: i32) -> io::Result<OwnedFd> {
    let head = libc::file_handle { handle_bytes: handle.bytes.len() as u32, handle_type: handle.kind, f_handle: [] };
    let mut raw = Raw { head, bytes: [0; BYTES_MAX] };
    raw.bytes[..handle.bytes.len()].copy_from_slice(&handle.bytes);
    // SAFETY: as in `file_handle`; the kernel only reads.
    let fd = unsafe { libc::open_by_handle_at(mounted.as_fd().as_raw_fd(), (&raw mut raw).cast(), flags) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just made it for this call, and nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Read as _;

    use esker_skip::Ability;

    use super::*;

    #[test]
    fn a_handle_opens_its_file_until_that_is_gone() {
        let dir = tempfile::tempdir().unwrap();
        let (path, mounted) = (dir.path().join("f"), File::open(dir.path()).unwrap());
        std::fs::write(&path, "bytes").unwrap();
        let handle = match file_handle(&File::open(&path).unwrap()) {
            Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => {
                return esker_skip::skip(Ability::Root, "the folder of temporary files has no handles");
            }
            handle => handle.unwrap(),
        };
        std::fs::rename(&path, dir.path().join("g")).unwrap();
        match open_handle(&mounted, &handle, libc::O_RDONLY) {
            Err(error) if error.raw_os_error() == Some(libc::EPERM) => {
                esker_skip::skip(Ability::Root, "the kernel opens handles for root alone")
            }
            file => {
                let mut text = String::new();
                File::from(file.unwrap()).read_to_string(&mut text).unwrap();
                assert_eq!(text, "bytes");
                std::fs::remove_file(dir.path().join("g")).unwrap();
                let gone = open_handle(&mounted, &handle, libc::O_RDONLY).unwrap_err();
                assert_eq!(gone.raw_os_error(), Some(libc::ESTALE));
            }
        }
    }
}
