//! A volume in grains of one size, scattered by a permutation, so that grains of neighbouring rank are no neighbours.

use super::{ALIGN, Permutation, ProfileFlaw};
use esker_base::Stream;

#[derive(Clone)]
pub(super) struct Grains {
    pub size: u64,
    order: Permutation,
}

impl Grains {
    pub(super) fn new(bytes: u64, size: u64, longest: u64, layout: &mut Stream) -> Result<Grains, ProfileFlaw> {
        ProfileFlaw::Grain(size).unless(size >= ALIGN && size.is_multiple_of(ALIGN))?;
        ProfileFlaw::OverGrain { longest, grain: size }.unless(longest <= size)?;
        ProfileFlaw::FewGrains { bytes, grain: size }.unless(bytes / size >= 2)?;
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
