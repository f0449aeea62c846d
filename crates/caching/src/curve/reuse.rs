//! Curves of LRU from reuse times alone: the uses of all lines since a line was last used. A use costs constant time.

use crate::curve::steps::{NEVER, Steps};
use crate::curve::{Curve, CurvePoint, Estimator, ascending};
use crate::ids::Ids;
use crate::index::{BATCH, NONE};
use crate::request::LineUse;

/// When each line was last used.
struct Times {
    ids: Ids,
    last: Vec<u64>,
    now: u64,
}

impl Times {
    fn new() -> Times {
        Times { ids: Ids::new(), last: Vec::new(), now: 0 }
    }

    /// Uses lines, and tells each with its reuse time.
    fn reference_all(&mut self, lines: &[LineUse], mut tell: impl FnMut(u64, LineUse)) {
        for batch in lines.chunks(BATCH) {
            let ids = self.ids.guess(batch);
            for (line, id) in batch.iter().zip(ids) {
                tell(self.reference(line.key, id), *line);
            }
        }
    }

    /// Uses a line, which may have this number, and gives its reuse time.
    fn reference(&mut self, key: u64, id: u32) -> u64 {
        self.now += 1;
        let (id, is_new) = if id == NONE { self.ids.of(key) } else { (id, false) };
        if is_new {
            self.last.push(self.now);
            return NEVER;
        }
        self.now - std::mem::replace(&mut self.last[id as usize], self.now)
    }
}

/// Takes reuse times for stack distances (the relaxed reuse distance of the thesis). A reuse time is at
/// least the stack distance, so this curve never has fewer misses than the exact one.
pub struct Relaxed {
    times: Times,
    steps: Steps,
}

impl Relaxed {
    /// For these sizes in lines.
    pub fn new(sizes: &[u64]) -> Relaxed {
        Relaxed { times: Times::new(), steps: Steps::new(sizes) }
    }
}

impl Estimator for Relaxed {
    fn add(&mut self, lines: &[LineUse]) {
        let Relaxed { times, steps } = self;
        times.reference_all(lines, |time, line| steps.add_use(time, line));
    }

    fn curve(&mut self) -> Curve {
        self.steps.curve()
    }
}

/// Reuse times that are told apart below this, and to one part of it above.
const FINE: u64 = 256;
const FINE_BITS: u32 = FINE.ilog2();

/// The kinetic model of average eviction times (Hu and others, USENIX ATC 2016). A line moves down the
/// stack whenever the line that is used was not used for longer. So the share of uses with longer reuse times is its
/// speed, and the sum of speeds over time its depth. In a cache of so many lines it lives until then.
pub struct Aet {
    times: Times,
    sizes: Vec<u64>,
    counts: ReuseCounts,
}

/// Line uses, requests and bytes by reuse time.
#[derive(Default)]
struct ReuseCounts {
    buckets: Vec<[f64; 3]>,
    sums: [f64; 3],
    /// The longest reuse time of the request so far.
    longest: u64,
}

impl ReuseCounts {
    fn add_use(&mut self, time: u64, line: LineUse) {
        self.longest = self.longest.max(time);
        self.add(time, [1.0, 0.0, line.bytes.into()]);
        if line.is_last {
            let longest = std::mem::take(&mut self.longest);
            self.add(longest, [0.0, 1.0, 0.0]);
        }
    }

    fn add(&mut self, time: u64, uses: [f64; 3]) {
        add(&mut self.sums, uses);
        if time != NEVER {
            let bucket = bucket_of(time);
            if self.buckets.len() <= bucket {
                self.buckets.resize(bucket + 1, [0.0; 3]);
            }
            add(&mut self.buckets[bucket], uses);
        }
    }
}

impl Aet {
    /// For these sizes in lines.
    pub fn new(sizes: &[u64]) -> Aet {
        Aet { times: Times::new(), sizes: ascending(sizes), counts: ReuseCounts::default() }
    }
}

impl Estimator for Aet {
    fn add(&mut self, lines: &[LineUse]) {
        let Aet { times, counts, .. } = self;
        times.reference_all(lines, |time, line| counts.add_use(time, line));
    }

    fn curve(&mut self) -> Curve {
        let [all, requests, bytes] = self.counts.sums;
        let mut points = Vec::with_capacity(self.sizes.len());
        let mut sizes = self.sizes.iter().peekable();
        let (mut longer, mut depth) = (self.counts.sums, 0.0);
        // No reuse time is 0.
        for (bucket, counts) in self.counts.buckets.iter().enumerate().skip(1) {
            // All uses in a bucket have times up to its end. Depth grows from the end of the bucket before.
            let (from, to) = (end_of(bucket) - width_of(bucket), end_of(bucket));
            let speed = (longer[0] - counts[0] * (to - from - 1.0) / (2.0 * (to - from))) / all;
            let deeper = depth + (to - from) * speed;
            while let Some(lines) = sizes.next_if(|lines| **lines as f64 <= deeper) {
                let part = ((*lines as f64 - depth) / (deeper - depth)).clamp(0.0, 1.0);
                points.push(CurvePoint {
                    lines: *lines,
                    request_misses: longer[1] - part * counts[1],
                    byte_misses: longer[2] - part * counts[2],
                });
            }
            depth = deeper;
            (0..3).for_each(|at| longer[at] -= counts[at]);
        }
        points.extend(sizes.map(|lines| CurvePoint {
            lines: *lines,
            request_misses: longer[1],
            byte_misses: longer[2],
        }));
        Curve { requests, bytes, points }
    }
}

fn add(sums: &mut [f64; 3], uses: [f64; 3]) {
    sums.iter_mut().zip(uses).for_each(|(sum, uses)| *sum += uses);
}

/// The bucket of a reuse time: one for each time below `2 * FINE`, then `FINE` for each power of two.
fn bucket_of(time: u64) -> usize {
    let shift = (time / FINE).max(1).ilog2();
    ((time >> shift) + u64::from(shift) * FINE) as usize
}

/// Times that fall into a bucket.
fn width_of(bucket: usize) -> f64 {
    f64::from(shift_of(bucket)).exp2()
}

/// The longest time of a bucket.
fn end_of(bucket: usize) -> f64 {
    let shift = shift_of(bucket);
    let mantissa = bucket as u64 - u64::from(shift) * FINE;
    (mantissa + 1) as f64 * f64::from(shift).exp2() - 1.0
}

fn shift_of(bucket: usize) -> u32 {
    (bucket as u64 >> FINE_BITS).saturating_sub(1) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_ranges_of_times_one_behind_the_other() {
        let mut before = -1.0;
        for bucket in 0..FINE as usize * 20 {
            assert_eq!(end_of(bucket) - width_of(bucket), before, "{bucket}");
            before = end_of(bucket);
            assert_eq!(bucket_of(before as u64), bucket);
            assert_eq!(bucket_of((before - width_of(bucket) + 1.0) as u64), bucket);
        }
        assert_eq!(bucket_of(FINE * 2 - 1) as u64, FINE * 2 - 1);
    }

    /// The vectors of the thesis.
    #[test]
    fn a_reuse_time_counts_uses_and_not_lines() {
        let mut times = Times::new();
        let of = |key, times: &mut Times| times.reference(key, NONE);
        let [a, b] = [1, 2];
        assert_eq!([a, b, b, a].map(|key| of(key, &mut times)), [NEVER, NEVER, 1, 3]);
    }
}
