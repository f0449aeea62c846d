//! The exact curve of LRU.

use crate::curve::distances::Distances;
use crate::curve::steps::{NEVER, Steps};
use crate::curve::{Curve, Estimator};
use crate::request::LineUse;

/// Counts uses by their stack distances. A use costs time in the logarithm of the lines.
pub struct Exact {
    distances: Distances,
    steps: Steps,
}

impl Exact {
    /// For these sizes in lines.
    pub fn new(sizes: &[u64]) -> Exact {
        Exact { distances: Distances::new(), steps: Steps::new(sizes) }
    }
}

impl Estimator for Exact {
    fn add(&mut self, lines: &[LineUse]) {
        let Exact { distances, steps } = self;
        distances.reference_all(lines, |distance, line| steps.add_use(distance.unwrap_or(NEVER), line));
    }

    fn curve(&mut self) -> Curve {
        self.steps.curve()
    }
}
