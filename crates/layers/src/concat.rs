//! `concat`: lower devices one after the other.

use esker_block::split::{LowerAddress, LowerExtent};
use esker_block::{Arity, Follows, Kind, KindError, Layer, Make};

use crate::split::{self, Layout, Split};

/// The manifest.
pub static KIND: Kind = Kind {
    lowers: Arity::AtLeast(1),
    follows: Follows::Last,
    ..split::kind(Kind::layer("concat", "Joins devices one after the other.", &[], build))
};

struct Concat {
    /// Where each lower device ends; never empty.
    ends: Vec<u64>,
}

fn build(make: &Make<'_>) -> Result<Layer, KindError> {
    let block = u64::from(make.lowers.iter().map(|l| l.block).max().unwrap_or(1));
    let mut ends = Vec::with_capacity(make.lowers.len());
    let total = make.lowers.iter().try_fold(0u64, |at, lower| {
        let end = at.checked_add(lower.size - lower.size % block)?;
        ends.push(end);
        Some(end)
    });
    let limits = split::limits(make, total)?;
    Ok(Layer::single(Split(Concat { ends }), limits))
}

impl Concat {
    fn start(&self, lower: usize) -> u64 {
        if lower == 0 { 0 } else { self.ends[lower - 1] }
    }
}

impl Layout for Concat {
    fn lowers(&self) -> usize {
        self.ends.len()
    }

    fn place(&self, offset: u64) -> LowerExtent {
        let lower = self.ends.partition_point(|end| *end <= offset).min(self.ends.len() - 1);
        let place = LowerAddress { lower, at: offset - self.start(lower) };
        LowerExtent { place, len: self.ends[lower].saturating_sub(offset) }
    }

    fn before(&self, lower: usize, offset: u64) -> u64 {
        let start = self.start(lower);
        offset.clamp(start, self.ends[lower]) - start
    }
}

#[cfg(test)]
mod tests;
