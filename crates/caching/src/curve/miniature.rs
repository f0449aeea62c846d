//! Miniature simulation: any policy over a sample of the lines, in caches that are smaller by as much.
//!
//! Waldspurger and others, "Cache modeling and optimization using miniature simulations", USENIX ATC 2017.

use crate::curve::sample::Sample;
use crate::curve::{Curve, CurvePoint, Estimator, ascending};
use crate::policy::{MakePolicy, Policy};
use crate::request::LineUse;
use crate::simulator::Simulator;

/// Uses that are played against one cache before the next one's turn, so that each turn works in the processor's cache.
const TURN: usize = 1024;

/// A use in the sample.
struct Sampled {
    key: u64,
    bytes: u32,
    /// The part of its request, if requests are missed by parts.
    part: f64,
    is_last: bool,
}

struct Size {
    lines: u64,
    cache: Simulator<Box<dyn Policy>>,
    misses: [f64; 2],
    /// Whether the request so far misses.
    misses_request: bool,
}

/// Simulated caches of several sizes. At rate 1 it is exact. Then a request is a hit only if all its lines are. At
/// lower rates a request is missed by the share of its lines that is.
pub struct Miniature {
    sample: Sample,
    rate: f64,
    sizes: Vec<Size>,
    waiting: Vec<Sampled>,
    /// Lines of the request so far, and the first waiting use of it.
    request: (u32, usize),
    seen: [f64; 2],
}

impl Miniature {
    /// With the share `rate` of the lines, for these sizes. A smaller cache has at least a line.
    pub fn new(make: MakePolicy, rate: f64, sizes: &[u64]) -> Miniature {
        let of = |lines: u64| {
            let small = (lines as f64 * rate).round().max(f64::from(u8::from(lines > 0))) as u32;
            Size { lines, cache: Simulator::new(make(small), small), misses: [0.0; 2], misses_request: false }
        };
        Miniature {
            sample: Sample::new(rate),
            rate,
            sizes: ascending(sizes).into_iter().map(of).collect(),
            waiting: Vec::with_capacity(2 * TURN),
            request: (0, 0),
            seen: [0.0; 2],
        }
    }

    fn add_use(&mut self, line: LineUse) {
        self.seen[0] += f64::from(u8::from(line.is_last));
        self.seen[1] += f64::from(line.bytes);
        self.request.0 += 1;
        if self.sample.takes(line.key).is_some() {
            let LineUse { key, bytes, is_last } = line;
            self.waiting.push(Sampled { key, bytes, part: 0.0, is_last });
        }
        if line.is_last {
            self.end_request();
        }
    }

    fn end_request(&mut self) {
        let (lines, first) = self.request;
        self.waiting[first..].iter_mut().for_each(|line| line.part = 1.0 / f64::from(lines));
        self.request = (0, self.waiting.len());
        if self.waiting.len() >= TURN {
            self.play();
        }
    }

    /// Plays what waits against each cache in turn.
    fn play(&mut self) {
        let is_whole = self.rate >= 1.0;
        for Size { cache, misses, misses_request, .. } in &mut self.sizes {
            for line in &self.waiting {
                let miss = !cache.reference(line.key);
                *misses_request |= miss;
                if miss {
                    misses[0] += if is_whole { 0.0 } else { line.part / self.rate };
                    misses[1] += f64::from(line.bytes) / self.rate;
                }
                if line.is_last {
                    let misses_whole = std::mem::take(misses_request);
                    misses[0] += f64::from(u8::from(is_whole && misses_whole));
                }
            }
        }
        self.waiting.clear();
        self.request.1 = 0;
    }
}

impl Estimator for Miniature {
    fn add(&mut self, lines: &[LineUse]) {
        lines.iter().for_each(|line| self.add_use(*line));
    }

    fn curve(&mut self) -> Curve {
        self.play();
        let [requests, bytes] = self.seen;
        // As in SHARDS, the uses are those of the whole trace.
        let points = self.sizes.iter().map(|size| CurvePoint {
            lines: size.lines,
            request_misses: size.misses[0].min(requests),
            byte_misses: size.misses[1].min(bytes),
        });
        Curve { requests, bytes, points: points.collect() }
    }
}
