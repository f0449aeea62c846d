//! Curves: how many misses a cache of each size would have, from one pass over a trace.

mod distances;
mod exact;
mod method;
mod miniature;
mod reuse;
mod sample;
mod shards;
mod steps;

pub use distances::Distances;
pub use exact::Exact;
pub use method::{Method, MethodError};
pub use miniature::Miniature;
pub use reuse::{Aet, Relaxed};
pub use shards::Shards;

use crate::request::LineUse;

/// A method that is told the uses of a trace piece by piece. The last request must be whole when it is asked.
pub trait Estimator {
    /// Takes the next uses. Pieces may have any length, and end within requests. Long ones are faster.
    fn add(&mut self, lines: &[LineUse]);

    /// The curve of the uses so far.
    fn curve(&mut self) -> Curve;
}

/// Misses by size. Counts of estimates have fractions.
#[derive(Clone, PartialEq, Debug)]
pub struct Curve {
    /// Requests of the trace.
    pub requests: f64,
    /// Bytes of the trace.
    pub bytes: f64,
    /// A point for each size, the smallest first.
    pub points: Vec<CurvePoint>,
}

/// The misses of a cache.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct CurvePoint {
    /// Size in lines.
    pub lines: u64,
    /// Requests that miss a line.
    pub request_misses: f64,
    /// Bytes of requests in lines that miss.
    pub byte_misses: f64,
}

impl Curve {
    /// The share of requests that miss at each size. An empty trace has none.
    pub fn request_ratios(&self) -> Vec<f64> {
        self.points.iter().map(|point| share(point.request_misses, self.requests)).collect()
    }

    /// The share of bytes that miss at each size.
    pub fn byte_ratios(&self) -> Vec<f64> {
        self.points.iter().map(|point| share(point.byte_misses, self.bytes)).collect()
    }

    /// The mean distance between the shares of requests of two curves of the same sizes.
    pub fn mean_error(&self, other: &Curve) -> f64 {
        let (ours, others) = (self.request_ratios(), other.request_ratios());
        let sum: f64 = ours.iter().zip(&others).map(|(our, other)| (our - other).abs()).sum();
        share(sum, ours.len() as f64)
    }
}

/// `count` sizes in lines with equal ratios between them, from a thousandth of all lines to all, each once.
pub fn spread(lines: u64, count: u32) -> Vec<u64> {
    let steps = f64::from(count.max(2) - 1);
    let size = |at| (lines as f64 * 1e-3f64.powf(1.0 - f64::from(at) / steps)).round() as u64;
    let mut sizes: Vec<u64> = (0..count).map(|at| size(at).max(1)).collect();
    sizes.dedup();
    sizes
}

/// The sizes of a curve, the smallest first, each once.
fn ascending(sizes: &[u64]) -> Vec<u64> {
    let mut sizes = sizes.to_vec();
    sizes.sort_unstable();
    sizes.dedup();
    sizes
}

fn share(part: f64, all: f64) -> f64 {
    if all > 0.0 { part / all } else { 0.0 }
}
