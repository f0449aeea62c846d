//! A set of regions.

/// One bit for each of a fixed number of regions.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Bits {
    words: Vec<u64>,
    len: usize,
}

impl Bits {
    /// None of `len` regions.
    pub fn new(len: usize) -> Bits {
        Bits { words: vec![0; len.div_ceil(64)], len }
    }

    /// Reads `len` bits, lowest first; what follows is not looked at.
    pub fn read(bytes: &[u8], len: usize) -> Bits {
        let mut bits = Bits::new(len);
        (0..len).filter(|i| bytes[i / 8] >> (i % 8) & 1 != 0).for_each(|i| bits.set(i));
        bits
    }

    /// Writes all bits, lowest first, over zeroes.
    pub fn write(&self, out: &mut [u8]) {
        self.iter().for_each(|i| out[i / 8] |= 1 << (i % 8));
    }

    /// Number of regions, in the set or not.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether none is in the set.
    pub fn is_empty(&self) -> bool {
        self.words.iter().all(|word| *word == 0)
    }

    /// How many are in the set.
    pub fn count(&self) -> usize {
        self.words.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Whether region `i` is.
    pub fn has(&self, i: usize) -> bool {
        self.words[i / 64] >> (i % 64) & 1 != 0
    }

    /// Puts region `i` in.
    pub fn set(&mut self, i: usize) {
        debug_assert!(i < self.len, "a region of the volume");
        self.words[i / 64] |= 1 << (i % 64);
    }

    /// Takes region `i` out.
    pub fn clear(&mut self, i: usize) {
        self.words[i / 64] &= !(1 << (i % 64));
    }

    /// Puts all in.
    pub fn set_all(&mut self) {
        (0..self.len).for_each(|i| self.set(i));
    }

    /// Takes all out.
    pub fn clear_all(&mut self) {
        self.words.fill(0);
    }

    /// Keeps those that are in `other` too.
    pub fn intersect(&mut self, other: &Bits) {
        self.words.iter_mut().zip(&other.words).for_each(|(word, other)| *word &= other);
    }

    /// Adds those that are in `other`.
    pub fn unite(&mut self, other: &Bits) {
        self.words.iter_mut().zip(&other.words).for_each(|(word, other)| *word |= other);
    }

    /// Those in the set, in order.
    pub fn iter(&self) -> impl Iterator<Item = usize> {
        (0..self.len).filter(|i| self.has(*i))
    }
}
