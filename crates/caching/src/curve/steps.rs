//! Uses by their distance, in the steps between the sizes of a curve.

use crate::curve::{Curve, CurvePoint, ascending};
use crate::request::LineUse;

/// The distance of a first use: no cache has the line.
pub(crate) const NEVER: u64 = u64::MAX;

/// A histogram of distances. A use with a distance hits in caches of at least so many lines.
pub(crate) struct Steps {
    sizes: Vec<u64>,
    /// Requests and bytes over the size before, up to this one. The last are those over all sizes.
    counts: Vec<[f64; 2]>,
    /// The largest distance of the request so far.
    farthest: u64,
}

impl Steps {
    pub(crate) fn new(sizes: &[u64]) -> Steps {
        let sizes = ascending(sizes);
        Steps { counts: vec![[0.0; 2]; sizes.len() + 1], sizes, farthest: 0 }
    }

    /// Counts requests and bytes.
    pub(crate) fn add(&mut self, distance: u64, [requests, bytes]: [f64; 2]) {
        let step = self.sizes.partition_point(|size| *size < distance);
        self.counts[step][0] += requests;
        self.counts[step][1] += bytes;
    }

    /// Counts a use of a line. A request has the largest distance of its lines.
    pub(crate) fn add_use(&mut self, distance: u64, line: LineUse) {
        self.farthest = self.farthest.max(distance);
        self.add(distance, [0.0, line.bytes.into()]);
        if line.is_last {
            let farthest = std::mem::take(&mut self.farthest);
            self.add(farthest, [1.0, 0.0]);
        }
    }

    /// The curve of this histogram, whose uses come from a trace with these requests and bytes.
    pub(crate) fn curve_of(&self, [requests, bytes]: [f64; 2]) -> Curve {
        let mut over = [0.0; 2];
        let mut points = Vec::with_capacity(self.sizes.len());
        for (lines, count) in self.sizes.iter().zip(&self.counts[1..]).rev() {
            over = [over[0] + count[0], over[1] + count[1]];
            points.push(CurvePoint {
                lines: *lines,
                request_misses: over[0].min(requests),
                byte_misses: over[1].min(bytes),
            });
        }
        points.reverse();
        Curve { requests, bytes, points }
    }

    /// The curve if all uses of the trace are in the histogram.
    pub(crate) fn curve(&self) -> Curve {
        self.curve_of(self.counts.iter().fold([0.0; 2], |sum, count| [sum[0] + count[0], sum[1] + count[1]]))
    }
}
