//! A running 64-bit fingerprint of a run: same events in the same order, same digest.

use std::fmt;

/// Order-sensitive fingerprint. Not a checksum for media and not cryptographic.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Digest(u64);

/// Odd multiplier of the 64-bit golden ratio (as in Knuth's multiplicative hashing).
const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;

impl Digest {
    /// The digest of nothing.
    pub const fn new() -> Digest {
        Digest(0x6573_6b65_725f_7630)
    }

    /// Adds one word.
    #[inline]
    pub fn word(&mut self, word: u64) {
        self.0 = (self.0 ^ word).wrapping_mul(GOLDEN).rotate_left(29);
    }

    /// Adds bytes and their count.
    pub fn bytes(&mut self, bytes: &[u8]) {
        self.word(bytes.len() as u64);
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.word(u64::from_le_bytes(word));
        }
    }

    /// The value so far.
    pub fn value(self) -> u64 {
        mix(self.0)
    }
}

impl Default for Digest {
    fn default() -> Self {
        Digest::new()
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.value())
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// Spreads all bits of `x` over the result (the finaliser of SplitMix64, Steele et al. 2014).
#[inline]
pub fn mix(x: u64) -> u64 {
    let x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(words: &[u64]) -> u64 {
        let mut d = Digest::new();
        words.iter().for_each(|w| d.word(*w));
        d.value()
    }

    #[test]
    fn order_and_count_matter() {
        assert_ne!(of(&[1, 2]), of(&[2, 1]));
        assert_ne!(of(&[0]), of(&[0, 0]));
        assert_eq!(of(&[7, 8]), of(&[7, 8]));
    }

    #[test]
    fn padding_of_bytes_is_not_data() {
        let digest = |b: &[u8]| {
            let mut d = Digest::new();
            d.bytes(b);
            d.value()
        };
        assert_ne!(digest(b"a"), digest(b"a\0"));
    }
}
