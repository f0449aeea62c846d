//! What we answer. Each answer is one message and leaves in one write.

use esker_base::Errno;
use zerocopy::{Immutable, IntoBytes};

use super::abi::{Dirent, EntryOut, InvalEntryOut, InvalInodeOut, NOTIFY_INVAL_ENTRY, NOTIFY_INVAL_INODE, OutHeader};

/// Bytes of an entry of a directory in front of its name.
pub const ENTRY_BYTES: usize = size_of::<Dirent>();
/// The same with attributes.
pub const ENTRY_PLUS_BYTES: usize = size_of::<EntryOut>() + ENTRY_BYTES;
/// Entries begin at multiples of this.
pub const ENTRY_ALIGN: usize = 8;

/// The head of an answer that `payload` bytes follow.
pub fn head(unique: u64, payload: usize) -> Vec<u8> {
    let len = (size_of::<OutHeader>() + payload) as u32;
    OutHeader { len, error: 0, unique }.as_bytes().to_vec()
}

/// An answer with a structure.
pub fn with(unique: u64, body: &(impl IntoBytes + Immutable + ?Sized)) -> Vec<u8> {
    with_two(unique, body, &[])
}

/// An answer with a structure and bytes, or another structure, behind it.
pub fn with_two(unique: u64, first: &(impl IntoBytes + Immutable + ?Sized), second: &[u8]) -> Vec<u8> {
    let (first, len) = (first.as_bytes(), size_of_val(first) + second.len());
    let mut bytes = Vec::with_capacity(size_of::<OutHeader>() + len);
    let header = OutHeader { len: (size_of::<OutHeader>() + len) as u32, error: 0, unique };
    bytes.extend_from_slice(header.as_bytes());
    bytes.extend_from_slice(first);
    bytes.extend_from_slice(second);
    bytes
}

/// Done.
pub fn done(unique: u64) -> Vec<u8> {
    head(unique, 0)
}

/// Not done.
pub fn failed(unique: u64, error: Errno) -> Vec<u8> {
    let error = -i32::from(error.0);
    OutHeader { len: size_of::<OutHeader>() as u32, error, unique }.as_bytes().to_vec()
}

/// Adds an entry of a directory, with the number of its kind.
pub fn push_entry(to: &mut Vec<u8>, ino: u64, offset: u64, name: &[u8], kind: u32) {
    let entry = Dirent { ino, offset, namelen: name.len() as u32, kind };
    to.extend_from_slice(entry.as_bytes());
    to.extend_from_slice(name);
    to.resize(to.len().next_multiple_of(ENTRY_ALIGN), 0);
}

/// Adds an entry with attributes. Node 0 gives none out.
pub fn push_entry_plus(to: &mut Vec<u8>, node: &EntryOut, ino: u64, offset: u64, name: &[u8], kind: u32) {
    to.extend_from_slice(node.as_bytes());
    push_entry(to, ino, offset, name, kind);
}

/// A notice that the kernel must drop attributes of a node, and its bytes from `offset` on: `len` of them, or all if
/// that is 0.
pub fn drop_inode(node: u64, offset: i64, len: i64) -> Vec<u8> {
    notice(NOTIFY_INVAL_INODE, InvalInodeOut { node, offset, len }.as_bytes(), &[])
}

/// A notice that the kernel must look a name up again.
pub fn drop_entry(parent: u64, name: &[u8]) -> Vec<u8> {
    let entry = InvalEntryOut { parent, namelen: name.len() as u32, flags: 0 };
    notice(NOTIFY_INVAL_ENTRY, entry.as_bytes(), &[name, b"\0"].concat())
}

fn notice(code: i32, body: &[u8], rest: &[u8]) -> Vec<u8> {
    let len = size_of::<OutHeader>() + body.len() + rest.len();
    [OutHeader { len: len as u32, error: code, unique: 0 }.as_bytes(), body, rest].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_say_their_length_and_errors_are_negative() {
        assert_eq!(with(5, &[1u8, 2, 3]), [19, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3]);
        assert_eq!(with_two(5, &[1u8, 2], &[3]), with(5, &[1u8, 2, 3]));
        let error = failed(5, Errno::EROFS);
        assert_eq!((error.len(), i32::from_ne_bytes(error[4..8].try_into().unwrap())), (16, -30));
    }

    #[test]
    fn entries_begin_at_multiples_of_eight() {
        let mut list = Vec::new();
        push_entry(&mut list, 7, 3, b"a", 8);
        assert_eq!(list.len(), 32);
        push_entry(&mut list, 7, 3, b"longer-name", 8);
        assert_eq!(list.len(), 32 + 40);
        assert_eq!(u32::from_ne_bytes(list[20..24].try_into().unwrap()), 8, "a regular file");
        let mut plus = Vec::new();
        push_entry_plus(&mut plus, &EntryOut::zero(), 7, 3, b"a", 8);
        assert_eq!(plus.len(), ENTRY_PLUS_BYTES.next_multiple_of(ENTRY_ALIGN) + 8);
        assert_eq!(plus[size_of::<EntryOut>()..], list[..32]);
    }

    #[test]
    fn notices_have_their_code_where_answers_have_an_error() {
        let inode = drop_inode(9, 4096, 0);
        assert_eq!((inode.len(), inode[4], inode[16]), (16 + 24, 2, 9));
        let entry = drop_entry(9, b"ab");
        assert_eq!((entry.len(), entry[4], &entry[32..]), (16 + 16 + 3, 3, &b"ab\0"[..]));
    }
}
