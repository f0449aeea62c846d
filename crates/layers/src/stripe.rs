//! `stripe`: chunks of the upper port in turn on each lower device (RAID-0).

use esker_block::split::{LowerAddress, LowerExtent};
use esker_block::{Arity, Kind, KindError, Layer, Limits, Make, Param, ParamType};

use crate::split::{self, Layout, Split};

const PARAMS: &[Param] = &[Param::with_default(
    "chunk",
    ParamType::Size,
    "64KiB",
    "Consecutive bytes on one device; a power of two, at least the largest block below.",
)];

/// The manifest.
pub static KIND: Kind = Kind {
    lowers: Arity::AtLeast(2),
    ..split::kind(Kind::layer("stripe", "Spreads chunks over devices in turn (RAID-0).", PARAMS, build))
};

struct Stripe {
    /// Chunk, as a power of two.
    shift: u32,
    lowers: u64,
}

fn build(make: &Make<'_>) -> Result<Layer, KindError> {
    let chunk = make.args.int("chunk");
    let block = u64::from(make.lowers.iter().map(|l| l.block).max().unwrap_or(1));
    if !chunk.is_power_of_two() || chunk < block {
        return Err(KindError::Unfit(format!(
            "{}: chunk = {chunk} is not a power of two of at least {block} bytes, the largest block below",
            make.name
        )));
    }
    let smallest = make.lowers.iter().map(|l| l.size).min().unwrap_or(0);
    let lowers = make.lowers.len() as u64;
    let limits = split::limits(make, (smallest - smallest % chunk).checked_mul(lowers))?;
    let width = chunk.saturating_mul(lowers).min(u64::from(limits.transfer_max)) as u32;
    let limits = Limits { preferred: limits.preferred.max(width), ..limits };
    Ok(Layer::single(Split(Stripe { shift: chunk.trailing_zeros(), lowers }), limits))
}

impl Layout for Stripe {
    fn lowers(&self) -> usize {
        self.lowers as usize
    }

    fn place(&self, offset: u64) -> LowerExtent {
        let (chunk, inside) = (offset >> self.shift, offset & ((1 << self.shift) - 1));
        let (row, lower) = (chunk / self.lowers, chunk % self.lowers);
        let place = LowerAddress { lower: lower as usize, at: (row << self.shift) + inside };
        LowerExtent { place, len: (1 << self.shift) - inside }
    }

    fn before(&self, lower: usize, offset: u64) -> u64 {
        let (chunk, inside) = (offset >> self.shift, offset & ((1 << self.shift) - 1));
        let (row, current) = (chunk / self.lowers, chunk % self.lowers);
        let in_row = match (lower as u64).cmp(&current) {
            std::cmp::Ordering::Less => 1 << self.shift,
            std::cmp::Ordering::Equal => inside,
            std::cmp::Ordering::Greater => 0,
        };
        (row << self.shift) + in_row
    }
}

#[cfg(test)]
mod tests;
