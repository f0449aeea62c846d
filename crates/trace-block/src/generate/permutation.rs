//! A random bijection of the numbers below a bound that needs no table.

use esker_base::Stream;
use esker_base::digest::mix;

/// Rounds of the network; four make a pseudo-random permutation (M. Luby, C. Rackoff, 1988).
const ROUNDS: usize = 4;

/// A Feistel network over the next power of four, walked until it lands below the bound (J. Black, P. Rogaway, "Ciphers
/// with arbitrary finite domains", 2002). A walk takes less than four steps on average.
#[derive(Clone, Debug)]
pub(super) struct Permutation {
    bound: u64,
    half_bits: u32,
    keys: [u64; ROUNDS],
}

impl Permutation {
    /// A permutation of `0..bound` (at most 2^62) that `draw` decides.
    pub(super) fn new(bound: u64, draw: &mut Stream) -> Permutation {
        let bits = u64::BITS - bound.saturating_sub(1).leading_zeros();
        Permutation { bound, half_bits: bits.div_ceil(2).max(1), keys: std::array::from_fn(|_| draw.next_u64()) }
    }

    /// How many numbers it permutes.
    pub(super) fn bound(&self) -> u64 {
        self.bound
    }

    /// The number to which `number`, which must be below the bound, is moved.
    pub(super) fn at(&self, number: u64) -> u64 {
        let mut at = self.once(number);
        while at >= self.bound {
            at = self.once(at);
        }
        at
    }

    fn once(&self, number: u64) -> u64 {
        let mask = (1 << self.half_bits) - 1;
        let (mut left, mut right) = (number >> self.half_bits, number & mask);
        for key in self.keys {
            (left, right) = (right, left ^ (mix(right ^ key) & mask));
        }
        left << self.half_bits | right
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    proptest::proptest! {
        #[test]
        fn every_number_is_hit_once(bound in 1u64..3_000, seed: u64) {
            let permutation = Permutation::new(bound, &mut Stream::seeded(seed));
            let images: BTreeSet<u64> = (0..bound).map(|number| permutation.at(number)).collect();
            assert_eq!((images.len() as u64, images.last().copied()), (bound, Some(bound - 1)));
        }
    }

    #[test]
    fn neighbours_are_scattered_evenly() {
        let bound = 1_000_000;
        let permutation = Permutation::new(bound, &mut Stream::seeded(3));
        let mut tenths = [0u32; 10];
        (0..10_000).for_each(|number| tenths[(permutation.at(number) * 10 / bound) as usize] += 1);
        assert!(tenths.iter().all(|count| (850..1_150).contains(count)), "{tenths:?}");
        let other = Permutation::new(bound, &mut Stream::seeded(4));
        assert!((0..100).filter(|number| permutation.at(*number) == other.at(*number)).count() < 3);
    }
}
