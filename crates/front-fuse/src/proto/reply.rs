//! What we answer. Each answer is one message and leaves in one write.

use rustix::io::Errno;
use zerocopy::{Immutable, IntoBytes};

use super::abi::{Attr, Dirent, OutHeader};

/// The head of an answer that `payload` bytes follow.
pub fn head(unique: u64, payload: usize) -> Vec<u8> {
    let len = (size_of::<OutHeader>() + payload) as u32;
    OutHeader { len, error: 0, unique }.as_bytes().to_vec()
}

/// An answer with a structure.
pub fn with(unique: u64, body: &(impl IntoBytes + Immutable + ?Sized)) -> Vec<u8> {
    let mut bytes = head(unique, body.as_bytes().len());
    bytes.extend_from_slice(body.as_bytes());
    bytes
}

/// Done.
pub fn done(unique: u64) -> Vec<u8> {
    head(unique, 0)
}

/// Not done.
pub fn failed(unique: u64, error: Errno) -> Vec<u8> {
    OutHeader { len: size_of::<OutHeader>() as u32, error: -error.raw_os_error(), unique }.as_bytes().to_vec()
}

/// Entries of a directory, as many as fit in `size` bytes.
pub fn entries<'a>(from: u64, size: u32, all: impl Iterator<Item = (&'a str, Attr)>) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (index, (name, attr)) in all.enumerate().skip(from as usize) {
        // The file type's bits of the mode are its number in directories.
        let kind = attr.mode >> 12;
        let entry = Dirent { ino: attr.ino, offset: index as u64 + 1, namelen: name.len() as u32, kind };
        let len = (size_of::<Dirent>() + name.len()).next_multiple_of(8);
        if bytes.len() + len > size as usize {
            break;
        }
        let end = bytes.len() + len;
        bytes.extend_from_slice(entry.as_bytes());
        bytes.extend_from_slice(name.as_bytes());
        bytes.resize(end, 0);
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_say_their_length_and_errors_are_negative() {
        assert_eq!(with(5, &[1u8, 2, 3]), [19, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3]);
        let error = failed(5, Errno::ROFS);
        assert_eq!((error.len(), i32::from_ne_bytes(error[4..8].try_into().unwrap())), (16, -30));
    }

    #[test]
    fn a_directory_is_listed_in_pieces() {
        let all = || ["a", "longer-name", "c"].map(|name| (name, Attr { mode: 0o100_600, ..Attr::zero() })).into_iter();
        let first = entries(0, 32 + 39, all());
        assert_eq!(first.len(), 32, "the second one does not fit");
        assert_eq!(entries(1, 4096, all()).len(), 40 + 32);
        assert_eq!(u32::from_ne_bytes(first[20..24].try_into().unwrap()), 8, "a regular file");
        assert!(entries(3, 4096, all()).is_empty());
    }
}
