//! Aligned memory for the data of calls: what is read goes nowhere, what is written comes from a random pool.

use esker_base::Stream;
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout};

/// Largest transfer in one call; longer ones are cut in pieces of this size.
pub(crate) const TRANSFER_MAX: u64 = 64 << 20;
/// How much longer than a transfer the pool is, so that the next write sends other bytes.
const SHIFTS: usize = 256;
const PAGE: usize = 4096;

/// A page at a page's boundary, as direct I/O wants it.
#[derive(Clone, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C, align(4096))]
struct Page([u8; PAGE]);

/// One thread's memory. It grows to the largest transfer of the thread, and is then used again and again.
pub(crate) struct Buffers {
    read: Vec<Page>,
    write: Vec<Page>,
    random: Stream,
    shift: usize,
}

impl Buffers {
    /// Nothing yet; the stream is what will be written.
    pub(crate) fn new(random: Stream) -> Buffers {
        Buffers { read: Vec::new(), write: Vec::new(), random, shift: 0 }
    }

    /// Memory for `len` bytes of a read.
    pub(crate) fn room_to_read(&mut self, len: u64) -> &mut [u8] {
        let (pages, len) = sizes(len);
        if self.read.len() < pages {
            self.read.resize_with(pages, Page::new_zeroed);
        }
        &mut self.read.as_mut_slice().as_mut_bytes()[..len]
    }

    /// `len` random bytes, other ones than last time.
    pub(crate) fn bytes_to_write(&mut self, len: u64) -> &[u8] {
        let (pages, len) = sizes(len);
        let needed = pages + SHIFTS;
        if self.write.len() < needed {
            self.write.resize_with(needed, Page::new_zeroed);
            self.random.fill(self.write.as_mut_slice().as_mut_bytes());
        }
        self.shift = (self.shift + 1) % SHIFTS;
        let start = self.shift * PAGE;
        &self.write.as_slice().as_bytes()[start..start + len]
    }
}

/// Pages for, and bytes of, one piece of a transfer.
fn sizes(len: u64) -> (usize, usize) {
    let len = len.min(TRANSFER_MAX) as usize;
    (len.div_ceil(PAGE), len)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_aligned_and_as_long_as_asked() {
        let mut buffers = Buffers::new(Stream::seeded(1));
        for len in [0, 1, 4096, 70_000] {
            assert_eq!(buffers.room_to_read(len).len() as u64, len);
            assert_eq!(buffers.room_to_read(len).as_ptr() as usize % PAGE, 0);
            assert_eq!(buffers.bytes_to_write(len).len() as u64, len);
            assert_eq!(buffers.bytes_to_write(len).as_ptr() as usize % PAGE, 0);
        }
        assert_eq!(buffers.room_to_read(u64::MAX).len() as u64, TRANSFER_MAX);
    }

    #[test]
    fn two_writes_send_different_bytes() {
        let mut buffers = Buffers::new(Stream::seeded(1));
        let first = buffers.bytes_to_write(8192).to_vec();
        assert_ne!(first[..4096], first[4096..]);
        assert_ne!(buffers.bytes_to_write(8192), first);
    }
}
