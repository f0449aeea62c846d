//! Bytes of a large, mostly empty medium, kept in chunks: what media in memory are made of.

use std::collections::BTreeMap;
use std::rc::Rc;

use esker_base::ByteRange;

use crate::bio::{Extent, ExtentState};
use crate::buf::Buf;

/// Bytes of one chunk, the granularity in which space is taken and given back.
pub const CHUNK: u64 = 64 << 10;

/// A medium without a size of its own: what was never written reads as zeroes and takes no space.
///
/// A clone shares its chunks until either side writes them, so an image of a moment costs one pointer per chunk.
#[derive(Clone, Default)]
pub struct SparseStore {
    chunks: BTreeMap<u64, Rc<[u8]>>,
}

impl SparseStore {
    /// Fills `out` with the bytes from `at` on.
    pub fn read(&self, at: u64, out: &mut [u8]) {
        let mut out = out;
        for (chunk, within) in pieces(at, out.len() as u64) {
            let (head, rest) = out.split_at_mut(within.len());
            match self.chunks.get(&chunk) {
                Some(bytes) => head.copy_from_slice(&bytes[within]),
                None => head.fill(0),
            }
            out = rest;
        }
    }

    /// Stores `bytes` at `at`.
    pub fn write(&mut self, at: u64, bytes: &[u8]) {
        let mut bytes = bytes;
        for (chunk, within) in pieces(at, bytes.len() as u64) {
            let (head, rest) = bytes.split_at(within.len());
            let target = self.chunks.entry(chunk).or_insert_with(|| vec![0; CHUNK as usize].into());
            Rc::make_mut(target)[within].copy_from_slice(head);
            bytes = rest;
        }
    }

    /// Makes `range` read as zeroes. Chunks that it covers give their space back. It costs as much as the chunks that
    /// hold content there, however long the range is.
    pub fn zero(&mut self, range: ByteRange) {
        if range.is_empty() {
            return;
        }
        let (first, last) = (range.start() / CHUNK, (range.end() - 1) / CHUNK);
        for edge in [first, last] {
            let start = edge * CHUNK;
            let from = (range.start().max(start) - start) as usize;
            let to = (range.end() - start).min(CHUNK) as usize;
            if to - from < CHUNK as usize
                && let Some(bytes) = self.chunks.get_mut(&edge)
            {
                Rc::make_mut(bytes)[from..to].fill(0);
            }
        }
        let covered = range.start().div_ceil(CHUNK)..range.end() / CHUNK;
        if covered.is_empty() {
            return;
        }
        let gone: Vec<u64> = self.chunks.range(covered).map(|(chunk, _)| *chunk).collect();
        gone.iter().for_each(|chunk| {
            self.chunks.remove(chunk);
        });
    }

    /// Fills all of `buf`, which is unique or a chain of unique pieces, with the bytes from `at` on.
    ///
    /// # Panics
    /// If a piece of `buf` cannot be written.
    pub fn read_buf(&self, at: u64, buf: &mut Buf) {
        if let Some(out) = buf.bytes_mut() {
            return self.read(at, out);
        }
        const ZEROES: [u8; 4096] = [0; 4096];
        let mut done = 0;
        for (chunk, within) in pieces(at, buf.len() as u64) {
            let stop = done + within.len();
            match self.chunks.get(&chunk) {
                Some(bytes) => buf.fill(done, &bytes[within]),
                None => (done..stop).step_by(ZEROES.len()).for_each(|to| {
                    buf.fill(to, &ZEROES[..ZEROES.len().min(stop - to)]);
                }),
            }
            done = stop;
        }
    }

    /// Stores all of `buf` at `at`.
    pub fn write_buf(&mut self, at: u64, buf: &Buf) {
        let mut at = at;
        buf.for_each_piece(&mut |piece| {
            self.write(at, piece);
            at += piece.len() as u64;
        });
    }

    /// The extents of `range`, without gaps and as long as possible. Data ends at chunk borders, so that bytes beside
    /// data may count as data too.
    pub fn extents(&self, range: ByteRange) -> Vec<Extent> {
        let mut out: Vec<Extent> = Vec::new();
        let mut add = |from: u64, to: u64, state: ExtentState| match out.last_mut() {
            _ if from >= to => {}
            Some(last) if last.state == state => last.len += to - from,
            _ => out.push(Extent { len: to - from, state }),
        };
        let mut at = range.start();
        for chunk in self.chunks.range(range.start() / CHUNK..range.end().div_ceil(CHUNK)).map(|(chunk, _)| *chunk) {
            let start = (chunk * CHUNK).max(at);
            add(at, start, ExtentState::Hole);
            at = (chunk * CHUNK).saturating_add(CHUNK).min(range.end());
            add(start, at, ExtentState::Data);
        }
        add(at, range.end(), ExtentState::Hole);
        out
    }

    /// Bytes of memory that hold content.
    pub fn held(&self) -> u64 {
        self.chunks.len() as u64 * CHUNK
    }
}

/// The chunks that `[at, at + len)` touches, each with the touched part.
fn pieces(at: u64, len: u64) -> impl Iterator<Item = (u64, std::ops::Range<usize>)> {
    let range = ByteRange::new(at, len).unwrap_or_else(|| panic!("offset {at} + {len} bytes does not fit in 64 bits"));
    range.split_at_multiples(CHUNK).map(|piece| {
        let (chunk, start) = (piece.start() / CHUNK, (piece.start() % CHUNK) as usize);
        (chunk, start..start + piece.len() as usize)
    })
}

#[cfg(test)]
mod tests {
    use esker_rt::mem::Pool;
    use proptest::prelude::*;

    use super::*;

    const SIZE: u64 = 4 * CHUNK;

    fn range(start: u64, len: u64) -> ByteRange {
        ByteRange::new(start, len).unwrap()
    }

    #[test]
    fn what_was_never_written_is_a_hole_of_zeroes() {
        let mut store = SparseStore::default();
        let mut out = [7; 10];
        store.read(u64::MAX - 10, &mut out);
        assert_eq!(out, [0; 10]);
        store.write(CHUNK, &[1]);
        let states: Vec<_> = store.extents(range(1, SIZE - 1)).iter().map(|e| (e.len, e.state)).collect();
        let (data, hole) = (ExtentState::Data, ExtentState::Hole);
        assert_eq!(states, [(CHUNK - 1, hole), (CHUNK, data), (2 * CHUNK, hole)]);
    }

    #[test]
    fn zeroed_chunks_give_their_space_back() {
        let mut store = SparseStore::default();
        store.write(0, &[1; 3 * CHUNK as usize]);
        store.zero(range(1, 2 * CHUNK));
        assert_eq!(store.held(), 2 * CHUNK);
        let mut out = [7; 2];
        store.read(0, &mut out);
        assert_eq!(out, [1, 0]);
    }

    #[test]
    fn zeroing_visits_only_what_holds_content() {
        let mut store = SparseStore::default();
        let far = 1 << 60;
        for at in [0, CHUNK, far] {
            store.write(at, &[5; CHUNK as usize]);
        }
        // A walk over each chunk of this range would not end.
        store.zero(range(1, far + 1));
        assert_eq!(store.held(), 2 * CHUNK, "the chunk in the middle is gone");
        let mut out = [7; 2];
        store.read(0, &mut out);
        assert_eq!(out, [5, 0]);
        store.read(far + 1, &mut out);
        assert_eq!(out, [0, 5]);
        store.zero(range(CHUNK + 3, 0));
        store.zero(range(0, u64::MAX));
        assert_eq!(store.held(), 0);
    }

    #[test]
    fn chains_are_filled_like_single_buffers() {
        let (pool, mut store) = (Pool::default(), SparseStore::default());
        store.write_buf(CHUNK - 3, &Buf::described(100, 9));
        let mut chain = Buf::chain(vec![Buf::unique(&pool, 70_000), Buf::unique(&pool, 5_000)]);
        store.read_buf(5, &mut chain);
        let mut out = vec![7; 75_000];
        store.read(5, &mut out);
        assert!(chain.to_vec() == out && out[CHUNK as usize - 8..][..100] == Buf::described(100, 9).to_vec());
    }

    #[test]
    fn a_clone_keeps_what_was_there() {
        let mut store = SparseStore::default();
        store.write(CHUNK - 2, &[1, 2, 3, 4]);
        let before = store.clone();
        store.write(CHUNK - 1, &[9, 9]);
        store.zero(range(0, CHUNK - 1));
        let bytes = |store: &SparseStore| {
            let mut out = [7; 4];
            store.read(CHUNK - 2, &mut out);
            out
        };
        assert_eq!((bytes(&before), bytes(&store)), ([1, 2, 3, 4], [0, 9, 9, 4]));
    }

    proptest! {
        #[test]
        fn behaves_like_a_flat_array(steps in prop::collection::vec((0..SIZE, 0..2 * CHUNK, 0u8..4), 1..20)) {
            let (mut store, mut flat) = (SparseStore::default(), vec![0u8; SIZE as usize]);
            for (at, len, value) in steps {
                let len = len.min(SIZE - at);
                let part = &mut flat[at as usize..(at + len) as usize];
                part.fill(value);
                if value == 0 { store.zero(range(at, len)) } else { store.write(at, part) }
            }
            let mut out = vec![7; SIZE as usize];
            store.read(0, &mut out);
            prop_assert!(out == flat);
            let mut at = 0;
            for extent in store.extents(range(0, SIZE)) {
                let part = &flat[at..at + extent.len as usize];
                prop_assert!(extent.state == ExtentState::Data || part.iter().all(|b| *b == 0));
                at += extent.len as usize;
            }
            prop_assert_eq!(at as u64, SIZE);
        }
    }
}
