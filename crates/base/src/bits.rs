//! A set of small numbers, one bit each.

use std::ops::Range;

/// Bits of a word.
const WORD: usize = u64::BITS as usize;

/// Some of the numbers below a bound.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Bits {
    words: Vec<u64>,
    len: usize,
}

impl Bits {
    /// None of the numbers below `len`.
    pub fn new(len: usize) -> Bits {
        Bits { words: vec![0; len.div_ceil(WORD)], len }
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

    /// The bound.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether no number is in the set.
    pub fn is_empty(&self) -> bool {
        self.words.iter().all(|word| *word == 0)
    }

    /// Numbers in the set.
    pub fn count(&self) -> usize {
        self.words.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Whether `i` is in the set. A number at the bound or above is not.
    pub fn has(&self, i: usize) -> bool {
        self.words.get(i / WORD).is_some_and(|word| word >> (i % WORD) & 1 != 0)
    }

    /// Puts `i` in.
    pub fn set(&mut self, i: usize) {
        debug_assert!(i < self.len, "{i} of {}", self.len);
        self.words[i / WORD] |= 1 << (i % WORD);
    }

    /// Puts all of `range` in, and raises the bound to its end.
    pub fn set_range(&mut self, range: Range<usize>) {
        if range.is_empty() {
            return;
        }
        self.len = self.len.max(range.end);
        self.words.resize(self.len.div_ceil(WORD), 0);
        let (first, last) = (range.start, range.end - 1);
        for word in first / WORD..=last / WORD {
            let from = first.saturating_sub(word * WORD);
            let to = (last - word * WORD).min(WORD - 1);
            self.words[word] |= (u64::MAX << from) & (u64::MAX >> (WORD - 1 - to));
        }
    }

    /// Takes `i` out.
    pub fn clear(&mut self, i: usize) {
        self.words[i / WORD] &= !(1 << (i % WORD));
    }

    /// Puts all in.
    pub fn set_all(&mut self) {
        self.set_range(0..self.len);
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
        self.iter_outside([])
    }

    /// Those in the set and in none of the others, in order.
    pub fn iter_outside<const N: usize>(&self, others: [&Bits; N]) -> impl Iterator<Item = usize> {
        let word_of = move |(at, word): (usize, &u64)| {
            (at, others.iter().fold(*word, |word, other| word & !other.words.get(at).copied().unwrap_or(0)))
        };
        self.words.iter().enumerate().map(word_of).filter(|(_, word)| *word != 0).flat_map(|(at, word)| {
            let mut rest = word;
            std::iter::from_fn(move || {
                let bit = rest.trailing_zeros() as usize;
                rest &= rest.checked_sub(1)?;
                Some(at * WORD + bit)
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest::proptest! {
        #[test]
        fn the_set_is_that_of_a_row_of_flags(
            changes in proptest::collection::vec((0usize..200, 0usize..150, proptest::bool::ANY), 0..20),
        ) {
            let (mut bits, mut flags) = (Bits::new(64), vec![false; 350]);
            for (at, len, is_set) in changes {
                let range = at..at + len;
                match is_set {
                    true => bits.set_range(range.clone()),
                    false => range.clone().filter(|i| *i < bits.len()).collect::<Vec<_>>().into_iter().for_each(|i| bits.clear(i)),
                }
                flags[range].fill(is_set);
            }
            let expected: Vec<usize> = (0..flags.len()).filter(|i| flags[*i]).collect();
            assert_eq!(bits.iter().collect::<Vec<_>>(), expected);
            assert_eq!((bits.count(), bits.is_empty()), (expected.len(), expected.is_empty()));
            assert!((0..400).all(|i| bits.has(i) == flags.get(i).is_some_and(|flag| *flag)));
            let mut bytes = vec![0; 50];
            bits.write(&mut bytes);
            assert_eq!(Bits::read(&bytes, bits.len()), bits);
        }
    }

    #[test]
    fn sets_are_united_and_intersected() {
        let of = |numbers: &[usize]| {
            let mut bits = Bits::new(130);
            numbers.iter().for_each(|i| bits.set(*i));
            bits
        };
        let mut both = of(&[1, 64, 129]);
        both.intersect(&of(&[64, 128, 129]));
        assert_eq!(both, of(&[64, 129]));
        both.unite(&of(&[0]));
        assert_eq!(both, of(&[0, 64, 129]));
        assert_eq!(both.iter_outside([&of(&[0]), &of(&[128, 129])]).collect::<Vec<_>>(), [64]);
        both.set_all();
        assert_eq!((both.count(), both.len()), (130, 130));
        both.clear_all();
        assert_eq!(both, of(&[]));
    }
}
