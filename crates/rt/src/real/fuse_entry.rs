//! Memory in which a FUSE server and the kernel exchange requests and answers: Linux 6.14, `linux/fuse.h`.
//!
//! An entry is first registered with the kernel. Each time that the kernel gives it back, a request is in it. The
//! server writes its answer over the request and hands the entry over again. The kernel touches the memory only while
//! it has the entry.

use std::fmt;
use std::num::NonZeroU64;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;

use io_uring::{opcode, squeue, types};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout};

use super::any_ring::AnyEntry;
use crate::mem::Slab;

/// Bytes of the head of a request or answer, and of the arguments of an operation.
pub const FUSE_HEAD_BYTES: usize = 128;

/// `FUSE_IO_URING_CMD_REGISTER` and `FUSE_IO_URING_CMD_COMMIT_AND_FETCH`.
const REGISTER: u32 = 1;
const COMMIT_AND_FETCH: u32 = 2;

/// Pieces of memory of an entry.
const PIECES: u32 = 2;
/// Byte of an entry of the ring that holds the number of pieces.
const PIECES_AT: usize = 24;

/// `struct fuse_uring_req_header`.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Header {
    in_out: [u8; FUSE_HEAD_BYTES],
    operation: [u8; FUSE_HEAD_BYTES],
    flags: u64,
    commit: u64,
    payload_bytes: u32,
    padding: u32,
    reserved: u64,
}

/// `struct fuse_uring_cmd_req`, as long as an entry of the ring has room.
#[derive(IntoBytes, Immutable)]
#[repr(C)]
struct Command {
    flags: u64,
    commit: u64,
    queue: u16,
    padding: [u8; 62],
}

/// One entry of the ring of a FUSE connection.
pub struct FuseEntry {
    fd: Arc<OwnedFd>,
    queue: u16,
    /// Number of the request that is in it. None before the first one.
    commit: Option<NonZeroU64>,
    /// In memory of its own, which does not move with the entry.
    header: Box<Header>,
    payload: Slab,
}

impl FuseEntry {
    /// An entry of the queue of a CPU. `fd` is an open `/dev/fuse`; the kernel demands a payload as large as the
    /// largest request.
    pub fn new(fd: Arc<OwnedFd>, queue: u16, payload: Slab) -> FuseEntry {
        FuseEntry { fd, queue, commit: None, header: Box::new(Header::new_zeroed()), payload }
    }

    /// The head of the request, `fuse_in_header`, with zeroes or former bytes behind it.
    pub fn head(&self) -> &[u8; FUSE_HEAD_BYTES] {
        &self.header.in_out
    }

    /// Arguments of its operation, likewise.
    pub fn arguments(&self) -> &[u8; FUSE_HEAD_BYTES] {
        &self.header.operation
    }

    /// What follows its arguments.
    pub fn payload(&self) -> &[u8] {
        let len = (self.header.payload_bytes as usize).min(self.payload.len());
        &self.payload[..len]
    }

    /// Writes the answer: a `fuse_out_header`, and what follows it.
    ///
    /// # Panics
    /// If the head is longer than one. See [`FuseEntry::payload_max`] for the rest.
    pub fn answer<'a>(&mut self, head: &[u8], rest: impl Iterator<Item = &'a [u8]>) {
        self.header.in_out[..head.len()].copy_from_slice(head);
        let mut filled = 0;
        for piece in rest {
            self.payload[filled..filled + piece.len()].copy_from_slice(piece);
            filled += piece.len();
        }
        self.header.payload_bytes = filled as u32;
    }

    /// Most bytes behind the head of an answer.
    pub fn payload_max(&self) -> usize {
        self.payload.len()
    }

    /// Writes the entry of the ring that hands this one to the kernel. `pieces` must stay until the kernel has
    /// answered.
    pub(super) fn describe(&mut self, pieces: &mut Vec<libc::iovec>) -> AnyEntry {
        let fd = types::Fd(self.fd.as_raw_fd());
        let commit = self.commit.map_or(0, NonZeroU64::get);
        let command = Command { flags: 0, commit, queue: self.queue, padding: [0; 62] };
        let command: [u8; 80] = zerocopy::transmute!(command);
        if self.commit.is_some() {
            return AnyEntry::Wide(opcode::UringCmd80::new(fd, COMMIT_AND_FETCH).cmd(command).build());
        }
        for bytes in [self.header.as_mut_bytes(), &mut self.payload[..]] {
            pieces.push(libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() });
        }
        let addr = Some(pieces.as_ptr() as u64);
        let mut entry = opcode::UringCmd80::new(fd, REGISTER).cmd(command).addr(addr).build();
        let at = std::ptr::from_mut::<squeue::Entry128>(&mut entry).cast::<u8>();
        // SAFETY: the entry is the kernel's structure of 128 bytes, laid out as in C, whose `len` is a number of 32
        // bits at this place. The library has no other way to set it.
        unsafe { at.add(PIECES_AT).cast::<u32>().write_unaligned(PIECES) };
        AnyEntry::Wide(entry)
    }

    /// The kernel has given it back with a request in it.
    pub(super) fn arrived(&mut self) {
        self.commit = NonZeroU64::new(self.header.commit);
    }

    /// Lets go of all but the memory, which the kernel may still use.
    pub(super) fn leave_memory(self) {
        std::mem::forget((self.header, self.payload));
    }
}

impl fmt::Debug for FuseEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FuseEntry(queue {}, request {:?})", self.queue, self.commit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mem::Pool;

    fn entry() -> FuseEntry {
        let file = OwnedFd::from(std::fs::File::open("/dev/null").unwrap());
        FuseEntry::new(Arc::new(file), 3, Pool::default().slab(8192))
    }

    /// The bytes of the entry of the ring.
    fn bytes(described: &AnyEntry) -> [u8; 128] {
        let AnyEntry::Wide(entry) = described else { panic!("commands need a wide entry") };
        // SAFETY: it has 128 bytes, all of which were set.
        unsafe { std::ptr::from_ref(entry).cast::<[u8; 128]>().read() }
    }

    fn number(bytes: &[u8], at: usize) -> u64 {
        u64::from_ne_bytes(bytes[at..at + 8].try_into().unwrap())
    }

    #[test]
    fn the_first_command_tells_where_the_memory_is_and_the_next_ones_which_request_is_answered() {
        let (mut entry, mut pieces) = (entry(), Vec::new());
        assert_eq!(size_of::<Header>(), 288);
        let first = bytes(&entry.describe(&mut pieces));
        assert_eq!(pieces.iter().map(|piece| piece.iov_len).collect::<Vec<_>>(), [288, 8192]);
        // Operation 46 with command 1, two pieces, queue 3.
        assert_eq!((first[0], first[8], first[24], number(&first, 56), first[64]), (46, 1, 2, 0, 3));
        assert_eq!(number(&first, 16), pieces.as_ptr() as u64);
        entry.header.commit = 77;
        entry.arrived();
        let next = bytes(&entry.describe(&mut pieces));
        assert_eq!((next[8], next[24], number(&next, 16), number(&next, 56), next[64]), (2, 0, 0, 77, 3));
    }

    #[test]
    fn an_answer_lies_behind_its_head_and_no_payload_leaves_the_memory() {
        let mut entry = entry();
        entry.header.payload_bytes = u32::MAX;
        assert_eq!(entry.payload().len(), entry.payload_max());
        entry.answer(&[1; 16], [&b"ab"[..], b"", b"c"].into_iter());
        assert_eq!((&entry.head()[..17], entry.payload()), (&[&[1; 16][..], &[0]].concat()[..], &b"abc"[..]));
    }
}
