//! The payload of reads and writes.
//!
//! A buffer is *unique* (one owner, may be written: what reads carry), *shared* (immutable, many owners: mirror, cache
//! fill and verify need the payload twice), *described* (a length and a content seed, so that simulation carries no
//! bytes), a window of a *region* (a shared map), or a *chain* of those (what a split read comes back as). Moving bytes
//! from one buffer to another is a *bounce* and is counted by the pool; front ends prove that they cause none.

use std::fmt;
use std::sync::Arc;

use esker_base::digest::mix;
use esker_rt::mem::{Mem, Parts, Pool, Slab, Slice};

enum Repr {
    /// Content word `n` (8 bytes, little-endian) is a hash of seed and `n`; the seed 0 stands for zeroes.
    Described(u64),
    Unique(Slab),
    Shared(Arc<Slab>),
    Chain(Vec<Buf>),
}

/// A payload: a window of `len` bytes of some memory.
pub struct Buf {
    repr: Repr,
    start: usize,
    len: usize,
}

impl Buf {
    /// No bytes.
    pub const fn empty() -> Buf {
        Buf::described(0, 0)
    }

    /// `len` bytes that are determined by `seed` and not stored; seed 0 is all zeroes.
    pub const fn described(len: usize, seed: u64) -> Buf {
        Buf { repr: Repr::Described(seed), start: 0, len }
    }

    /// `len` writable bytes from `pool`, with whatever content their last user left.
    pub fn unique(pool: &Pool, len: usize) -> Buf {
        Buf { repr: Repr::Unique(pool.slab(len)), start: 0, len }
    }

    /// `len` writable zero bytes from `pool`.
    pub fn zeroed(pool: &Pool, len: usize) -> Buf {
        let mut slab = pool.slab(len);
        slab[..len].fill(0);
        Buf { repr: Repr::Unique(slab), start: 0, len }
    }

    /// A copy of `bytes` in memory from `pool`: how producers (tests, tools) make payloads.
    pub fn from_bytes(pool: &Pool, bytes: &[u8]) -> Buf {
        let mut slab = pool.slab(bytes.len());
        slab[..bytes.len()].copy_from_slice(bytes);
        Buf { repr: Repr::Unique(slab), start: 0, len: bytes.len() }
    }

    /// The given buffers one after the other, without a copy.
    pub fn chain(mut parts: Vec<Buf>) -> Buf {
        if parts.len() == 1 {
            return parts.remove(0);
        }
        let len = parts.iter().map(Buf::len).sum();
        Buf { repr: Repr::Chain(parts), start: 0, len }
    }

    /// A buffer for reading `self.len()`-like data: described if `self` is, else writable bytes from `pool`.
    pub fn like(&self, pool: &Pool, len: usize) -> Buf {
        if self.is_described() { Buf::described(len, 0) } else { Buf::unique(pool, len) }
    }

    /// Bytes.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it has no byte.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether its bytes are described, not carried. An empty buffer is.
    pub fn is_described(&self) -> bool {
        match &self.repr {
            Repr::Described(_) => true,
            Repr::Chain(parts) => parts.iter().all(Buf::is_described),
            Repr::Unique(_) | Repr::Shared(_) => false,
        }
    }

    /// Whether it surely carries its bytes, told by a look at its kind alone: false for chains.
    #[inline]
    pub fn is_carried(&self) -> bool {
        matches!(self.repr, Repr::Unique(_) | Repr::Shared(_))
    }

    /// The bytes, if they are carried and in one piece.
    pub fn bytes(&self) -> Option<&[u8]> {
        let all: &[u8] = match &self.repr {
            Repr::Unique(slab) => slab,
            Repr::Shared(shared) => shared,
            Repr::Described(_) | Repr::Chain(_) => return None,
        };
        Some(&all[self.start..self.start + self.len])
    }

    /// The bytes for writing, if the buffer is unique.
    pub fn bytes_mut(&mut self) -> Option<&mut [u8]> {
        let range = self.start..self.start + self.len;
        match &mut self.repr {
            Repr::Unique(slab) => Some(&mut slab[range]),
            Repr::Described(_) | Repr::Shared(_) | Repr::Chain(_) => None,
        }
    }

    /// The bytes for writing, if no other handle holds them: also of a buffer that was shared, when the other handles
    /// are gone.
    pub fn sole_bytes_mut(&mut self) -> Option<&mut [u8]> {
        let range = self.start..self.start + self.len;
        match &mut self.repr {
            Repr::Unique(slab) => Some(&mut slab[range]),
            Repr::Shared(shared) => Arc::get_mut(shared).map(|slab| &mut slab[range]),
            Repr::Described(_) | Repr::Chain(_) => None,
        }
    }

    /// Calls `each` with the pieces in order; a described piece is generated in steps.
    pub fn for_each_piece(&self, each: &mut dyn FnMut(&[u8])) {
        match &self.repr {
            Repr::Described(seed) => generate(*seed, self.start, self.len, each),
            Repr::Chain(parts) => parts.iter().for_each(|p| p.for_each_piece(each)),
            Repr::Unique(_) | Repr::Shared(_) => each(self.bytes().expect("carried bytes in one piece")),
        }
    }

    /// Whether all bytes are zero.
    pub fn is_zero(&self) -> bool {
        let mut is_zero = true;
        self.for_each_piece(&mut |piece| is_zero = is_zero && are_zeroes(piece));
        is_zero
    }

    /// Copies all bytes out: for consumers such as media and comparisons, not for handing on.
    ///
    /// # Panics
    /// If `out` has another length.
    pub fn copy_to(&self, out: &mut [u8]) {
        assert_eq!(out.len(), self.len, "the target of a copy has the buffer's length");
        let mut at = 0;
        self.for_each_piece(&mut |piece| {
            out[at..at + piece.len()].copy_from_slice(piece);
            at += piece.len();
        });
    }

    /// All bytes as a vector: for tests and tools.
    pub fn to_vec(&self) -> Vec<u8> {
        let mut out = vec![0; self.len];
        self.copy_to(&mut out);
        out
    }

    /// Fills a unique buffer (or the unique pieces of a chain) from offset `at` on: what media do on a read.
    ///
    /// # Panics
    /// If a touched piece cannot be written, or the bytes leave the buffer.
    pub fn fill(&mut self, at: usize, bytes: &[u8]) {
        if let Repr::Chain(parts) = &mut self.repr {
            let mut begin = 0;
            for part in parts {
                let (from, to) = (at.max(begin), (at + bytes.len()).min(begin + part.len));
                if from < to {
                    part.fill(from - begin, &bytes[from - at..to - at]);
                }
                begin += part.len;
            }
            return;
        }
        self.bytes_mut().expect("only unique buffers are filled")[at..at + bytes.len()].copy_from_slice(bytes);
    }

    /// Copies `from` into this unique buffer at `at`. A bounce: counted.
    pub fn bounce(&mut self, at: usize, from: &Buf) {
        self.note_bounce(from.len);
        let mut to = at;
        from.for_each_piece(&mut |piece| {
            self.fill(to, piece);
            to += piece.len();
        });
    }

    fn note_bounce(&self, bytes: usize) {
        match &self.repr {
            Repr::Unique(slab) => slab.pool().note_bounce(bytes),
            Repr::Chain(parts) => parts.first().into_iter().for_each(|p| p.note_bounce(bytes)),
            Repr::Described(_) | Repr::Shared(_) => {}
        }
    }

    /// The same bytes carried in one unique piece from `pool`: unchanged if they already are, else a counted bounce
    /// (free of count for described bytes, which are made here for the first time).
    pub fn into_unique(self, pool: &Pool) -> Buf {
        if matches!(self.repr, Repr::Unique(_)) {
            return self;
        }
        let mut out = Buf::unique(pool, self.len);
        self.copy_to(out.bytes_mut().expect("just made unique"));
        if !self.is_described() {
            pool.note_bounce(self.len);
        }
        out
    }

    /// A second handle on the same bytes; afterwards neither can be written. Costs no copy.
    pub fn share(&mut self) -> Buf {
        if let Repr::Unique(_) = self.repr {
            let Repr::Unique(slab) = std::mem::replace(&mut self.repr, Repr::Described(0)) else {
                unreachable!("matched above")
            };
            self.repr = Repr::Shared(Arc::new(slab));
        }
        let repr = match &mut self.repr {
            Repr::Described(seed) => Repr::Described(*seed),
            Repr::Shared(shared) => Repr::Shared(shared.clone()),
            Repr::Chain(parts) => Repr::Chain(parts.iter_mut().map(Buf::share).collect()),
            Repr::Unique(_) => unreachable!("made shared above"),
        };
        Buf { repr, start: self.start, len: self.len }
    }

    /// A second handle on the bytes `[at, at + len)`, as [`Buf::share`].
    ///
    /// # Panics
    /// If the window leaves the buffer.
    pub fn slice(&mut self, at: usize, len: usize) -> Buf {
        assert!(at + len <= self.len, "bytes [{at}, {}) of a buffer of {}", at + len, self.len);
        if let Repr::Chain(parts) = &mut self.repr {
            let (mut begin, mut out) = (0, Vec::new());
            for part in parts {
                let (from, to) = (at.max(begin), (at + len).min(begin + part.len));
                if from < to {
                    out.push(part.slice(from - begin, to - from));
                }
                begin += part.len;
            }
            return Buf::chain(out);
        }
        let mut all = self.share();
        all.start += at;
        all.len = len;
        all
    }

    /// Whether both hold the same bytes.
    pub fn same_bytes(&self, other: &Buf) -> bool {
        match (&self.repr, &other.repr) {
            (Repr::Described(a), Repr::Described(b)) if a == b && self.start % 8 == other.start % 8 => {
                self.len == other.len && (*a == 0 || self.start == other.start)
            }
            _ => self.len == other.len && self.to_vec() == other.to_vec(),
        }
    }

    /// The windows that a vectored kernel operation needs, in order. [`Buf::from_parts`] undoes it.
    ///
    /// # Panics
    /// If bytes are described: the builder refuses such stacks (`Kind::needs_bytes`).
    pub fn into_parts(self) -> Parts {
        let (start, len) = (self.start, self.len);
        match self.repr {
            Repr::Unique(slab) => Slice { mem: Mem::Unique(slab), start, len }.into(),
            Repr::Shared(shared) => Slice { mem: Mem::Shared(shared), start, len }.into(),
            Repr::Chain(parts) => parts.into_iter().flat_map(Buf::into_parts).collect(),
            Repr::Described(_) if len == 0 => Parts::new(),
            Repr::Described(_) => panic!("described bytes cannot be given to the kernel"),
        }
    }

    /// A buffer over windows that came back from the kernel.
    pub fn from_parts(parts: impl IntoIterator<Item = Slice>) -> Buf {
        let mut bufs = parts.into_iter().map(Buf::from_part);
        let Some(first) = bufs.next() else { return Buf::empty() };
        match bufs.next() {
            None => first,
            Some(second) => Buf::chain([first, second].into_iter().chain(bufs).collect()),
        }
    }

    fn from_part(part: Slice) -> Buf {
        let repr = match part.mem {
            Mem::Unique(slab) => Repr::Unique(slab),
            Mem::Shared(shared) => Repr::Shared(shared),
            Mem::Heap(bytes) => {
                let whole = Buf::from_bytes(&Pool::new(0), &bytes);
                return Buf { start: part.start, len: part.len, ..whole };
            }
        };
        Buf { repr, start: part.start, len: part.len }
    }
}

/// Generates described content in pieces of at most one page.
fn generate(seed: u64, start: usize, len: usize, each: &mut dyn FnMut(&[u8])) {
    let mut page = [0u8; 4096];
    let (mut at, end) = (start, start + len);
    while at < end {
        let begin = at - at % 8;
        let stop = end.min(begin + page.len());
        if seed != 0 {
            for (i, word) in page.chunks_exact_mut(8).take((stop - begin).div_ceil(8)).enumerate() {
                word.copy_from_slice(&mix(seed ^ mix((begin / 8 + i) as u64 + 1)).to_le_bytes());
            }
        }
        each(&page[at - begin..stop - begin]);
        at = stop;
    }
}

impl Default for Buf {
    fn default() -> Buf {
        Buf::empty()
    }
}

impl fmt::Debug for Buf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match &self.repr {
            Repr::Described(_) => "described",
            Repr::Unique(_) => "unique",
            Repr::Shared(_) => "shared",
            Repr::Chain(_) => "chain",
        };
        write!(f, "Buf({what}, {} bytes)", self.len)
    }
}

/// Whether all bytes are zero: a block at a time, which is many times as fast as a byte at a time.
pub fn are_zeroes(bytes: &[u8]) -> bool {
    static ZEROES: [u8; 4096] = [0; 4096];
    bytes.chunks(ZEROES.len()).all(|block| *block == ZEROES[..block.len()])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbered(pool: &Pool, len: usize) -> Buf {
        Buf::from_bytes(pool, &(0..len).map(|i| i as u8).collect::<Vec<_>>())
    }

    #[test]
    fn sharing_and_slicing_move_no_byte() {
        let pool = Pool::default();
        let mut buf = numbered(&pool, 100);
        let mut second = buf.share();
        assert!(buf.bytes_mut().is_none() && second.bytes_mut().is_none());
        let window = second.slice(10, 20);
        drop(buf);
        assert_eq!(window.bytes().unwrap(), &numbered(&pool, 100).to_vec()[10..30]);
        assert_eq!(pool.bounced(), 0);
    }

    #[test]
    fn described_content_does_not_depend_on_how_it_is_cut() {
        let mut whole = Buf::described(10_000, 7);
        let bytes = whole.to_vec();
        for (at, len) in [(0, 10_000), (3, 5000), (4093, 11), (9999, 1)] {
            assert_eq!(whole.slice(at, len).to_vec(), &bytes[at..at + len], "{at} {len}");
        }
        assert!(Buf::described(64, 0).to_vec().iter().all(|b| *b == 0));
        assert!(Buf::described(9000, 0).is_zero() && !whole.is_zero());
        assert!(are_zeroes(&[0; 5000]) && !are_zeroes(&[[0; 4999].as_slice(), &[1]].concat()));
        assert!(!whole.same_bytes(&Buf::described(10_000, 8)));
    }

    #[test]
    fn chains_read_fill_slice_and_travel_as_one() {
        let pool = Pool::default();
        let mut chain = Buf::chain(vec![Buf::unique(&pool, 5), Buf::unique(&pool, 7)]);
        chain.fill(0, &[0; 12]);
        chain.fill(3, &[1, 2, 3, 4]);
        let expected = [0, 0, 0, 1, 2, 3, 4, 0, 0, 0, 0, 0];
        assert_eq!(chain.to_vec(), expected);
        let mut back = Buf::from_parts(chain.into_parts());
        assert_eq!(back.to_vec(), expected);
        assert_eq!(back.slice(4, 3).to_vec(), [2, 3, 4]);
        assert_eq!(pool.bounced(), 0, "nothing was copied between buffers");
        assert_eq!(back.into_unique(&pool).to_vec(), expected);
        assert_eq!(pool.bounced(), 12, "joining a chain is a bounce");
    }

    #[test]
    fn a_bounce_is_counted() {
        let pool = Pool::default();
        let mut to = Buf::zeroed(&pool, 16);
        to.bounce(4, &numbered(&pool, 8));
        assert_eq!((pool.bounced(), to.to_vec()[4..12].to_vec()), (8, (0..8).collect()));
    }
}
