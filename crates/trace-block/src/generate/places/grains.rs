//! A volume in grains of one size, scattered by a permutation, so that grains of neighbouring rank are no neighbours.

use super::{ALIGN, Permutation, Wrong, check};
use esker_base::Stream;

#[derive(Clone)]
pub(super) struct Grains {
    pub size: u64,
    order: Permutation,
}

impl Grains {
    pub(super) fn new(bytes: u64, size: u64, longest: u64, layout: &mut Stream) -> Result<Grains, Wrong> {
        check(size >= ALIGN && size.is_multiple_of(ALIGN), || {
            format!("grain is {size}; it must be a multiple of {ALIGN} bytes")
        })?;
        check(longest <= size, || format!("requests of {longest} bytes do not fit into a grain of {size}"))?;
        check(bytes / size >= 2, || format!("a volume of {bytes} bytes does not hold two grains of {size}"))?;
        Ok(Grains { size, order: Permutation::new(bytes / size, layout) })
    }

    /// How many there are.
    pub(super) fn count(&self) -> u64 {
        self.order.bound()
    }

    /// The first byte of the grain of a rank below the count.
    pub(super) fn start(&self, rank: u64) -> u64 {
        self.order.at(rank) * self.size
    }
}
