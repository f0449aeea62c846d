//! SHARDS: the exact method over a sample of lines.
//!
//! Waldspurger and others, "Efficient MRC construction with SHARDS", FAST 2015: fixed rate, fixed size, and the
//! adjustment of counts.

use std::collections::BTreeSet;

use crate::curve::distances::Distances;
use crate::curve::sample::Sample;
use crate::curve::steps::{NEVER, Steps};
use crate::curve::{Curve, Estimator};
use crate::request::LineUse;

/// A curve of LRU from a sample, at a fixed rate or with a fixed number of lines. A use of the sample stands for as
/// many as the rate says. A request is missed by the share of its lines that is.
pub struct Shards {
    sample: Sample,
    distances: Distances,
    /// The most lines, and the hashes of those that there are.
    bound: Option<(usize, BTreeSet<u64>)>,
    steps: Steps,
    /// Requests and bytes of the whole trace.
    seen: [f64; 2],
    /// Lines of the request so far, and those in the sample: their scaled distance, and the rate.
    request: (u32, Vec<(u64, f64)>),
}

impl Shards {
    /// With the share `rate` of the lines, for these sizes.
    pub fn with_rate(rate: f64, sizes: &[u64]) -> Shards {
        Shards::new(rate, None, sizes)
    }

    /// With at most `lines` lines, for these sizes. The rate sinks while the trace brings more.
    pub fn with_lines(lines: usize, sizes: &[u64]) -> Shards {
        Shards::new(1.0, Some((lines.max(1), BTreeSet::new())), sizes)
    }

    fn new(rate: f64, bound: Option<(usize, BTreeSet<u64>)>, sizes: &[u64]) -> Shards {
        Shards {
            sample: Sample::new(rate),
            distances: Distances::new(),
            bound,
            steps: Steps::new(sizes),
            seen: [0.0; 2],
            request: (0, Vec::new()),
        }
    }

    fn add_sampled(&mut self, hash: u64, bytes: u32) {
        let rate = self.sample.rate();
        let distance = match self.distances.reference(hash) {
            Some(distance) => 1 + ((distance - 1) as f64 / rate).round() as u64,
            None => NEVER,
        };
        self.steps.add(distance, [0.0, f64::from(bytes) / rate]);
        self.request.1.push((distance, rate));
        if distance == NEVER {
            self.keep_bound(hash);
        }
    }

    /// Adds a line to those of a bounded sample. The line with the highest hash leaves if they are too many.
    fn keep_bound(&mut self, hash: u64) {
        let Some((most, hashes)) = &mut self.bound else { return };
        hashes.insert(hash);
        if hashes.len() > *most
            && let Some(highest) = hashes.pop_last()
        {
            self.distances.forget(highest);
            self.sample.lower(highest);
        }
    }

    fn add_use(&mut self, line: LineUse) {
        self.seen[0] += f64::from(u8::from(line.is_last));
        self.seen[1] += f64::from(line.bytes);
        self.request.0 += 1;
        if let Some(hash) = self.sample.takes(line.key) {
            self.add_sampled(hash, line.bytes);
        }
        if line.is_last {
            self.end_request();
        }
    }

    fn end_request(&mut self) {
        let (lines, sampled) = &mut self.request;
        for (distance, rate) in sampled.drain(..) {
            self.steps.add(distance, [1.0 / (rate * f64::from(*lines)), 0.0]);
        }
        *lines = 0;
    }
}

impl Estimator for Shards {
    fn add(&mut self, lines: &[LineUse]) {
        lines.iter().for_each(|line| self.add_use(*line));
    }

    fn curve(&mut self) -> Curve {
        // The correction by counts: a sample has too many or too few uses, mostly of the lines that are used most,
        // which hit in the smallest cache. So the misses stand, and the uses are those of the whole trace.
        self.steps.curve_of(self.seen)
    }
}
