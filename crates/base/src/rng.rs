//! Named, seeded random streams: one per user, so that one user's draws never shift another's.

use crate::digest::{Digest, mix};

/// A random stream (xoshiro256++, Blackman and Vigna 2018). Not cryptographic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stream {
    state: [u64; 4],
}

impl Stream {
    /// The stream of `name` under `seed`. Two names give unrelated streams.
    pub fn named(seed: u64, name: &str) -> Stream {
        let mut digest = Digest::new();
        digest.word(seed);
        digest.bytes(name.as_bytes());
        Stream::seeded(digest.value())
    }

    /// The stream of a bare seed, expanded by SplitMix64.
    pub fn seeded(seed: u64) -> Stream {
        let mut at = seed;
        let state = std::array::from_fn(|_| {
            at = at.wrapping_add(0x9E37_79B9_7F4A_7C15);
            mix(at)
        });
        Stream { state }
    }

    /// The next 64 random bits.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        let s = &mut self.state;
        let out = s[0].wrapping_add(s[3]).rotate_left(23).wrapping_add(s[0]);
        let t = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= t;
        s[3] = s[3].rotate_left(45);
        out
    }

    /// A number in `0..bound`, without bias (Lemire 2019).
    ///
    /// # Panics
    /// If `bound` is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        assert!(bound > 0, "a random number below 0 was asked for");
        let mut product = u128::from(self.next_u64()) * u128::from(bound);
        if (product as u64) < bound {
            let threshold = bound.wrapping_neg() % bound;
            while (product as u64) < threshold {
                product = u128::from(self.next_u64()) * u128::from(bound);
            }
        }
        (product >> 64) as u64
    }

    /// A number in `[0, 1)` with 53 random bits.
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// True with probability `p`.
    pub fn chance(&mut self, p: f64) -> bool {
        self.unit() < p
    }

    /// A span that is exponentially distributed with mean 1.
    pub fn exponential(&mut self) -> f64 {
        -(1.0 - self.unit()).ln()
    }

    /// Fills `out` with random bytes.
    pub fn fill(&mut self, out: &mut [u8]) {
        for chunk in out.chunks_mut(8) {
            let word = self.next_u64().to_le_bytes();
            chunk.copy_from_slice(&word[..chunk.len()]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_seeds_separate_streams() {
        let first = |seed, name| Stream::named(seed, name).next_u64();
        assert_eq!(first(1, "disk"), first(1, "disk"));
        assert_ne!(first(1, "disk"), first(1, "ssd"));
        assert_ne!(first(1, "disk"), first(2, "disk"));
    }

    #[test]
    fn matches_the_published_xoshiro256_plus_plus() {
        let mut s = Stream { state: [1, 2, 3, 4] };
        let expected = [41943041, 58720359, 3588806011781223, 3591011842654386];
        assert_eq!(expected, std::array::from_fn(|_| s.next_u64()));
    }

    #[test]
    fn bounded_draws_are_even() {
        let mut s = Stream::seeded(7);
        let mut counts = [0u32; 6];
        (0..60_000).for_each(|_| counts[s.below(6) as usize] += 1);
        assert!(counts.iter().all(|c| (9_600..10_400).contains(c)), "{counts:?}");
        let mean = (0..100_000).map(|_| s.exponential()).sum::<f64>() / 100_000.0;
        assert!((mean - 1.0).abs() < 0.02, "{mean}");
    }
}
