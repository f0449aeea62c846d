//! What is counted for each volume. All of it adds up, so the figures of the whole trace are sums.

use super::STREAMS;
use super::summary::OpCount;
use crate::record::Record;
use esker_base::Nanos;
use esker_base::units::{KIB, MIB};

/// A request this near to another one belongs to the same sequential stream, in bytes ("the 512 KB rule").
pub const NEAR: u64 = 512 * KIB;

/// Counts by the number of bits of a value: class `i` holds values in `(2^(i-1) - 1, 2^i - 1]`.
pub(super) type Classes = [u64; 65];

fn class(value: u64) -> usize {
    (u64::BITS - value.leading_zeros()) as usize
}

/// Figures of one volume, or the sums of several.
#[derive(Clone, Debug)]
pub(super) struct Counts {
    pub ops: [OpCount; 4],
    pub unaligned: u64,
    pub sequential: u64,
    pub streamed: u64,
    pub near: u64,
    pub near_stream: u64,
    pub within_mib: u64,
    /// Transfers that have one before them on their volume.
    pub followed: u64,
    /// Transfers longer than what is looked at for the working sets.
    pub long: u64,
    /// From the lowest to the highest byte.
    pub span: u64,
    /// Bytes from 0 to the end of the last one.
    pub reach: u64,
    /// Transfers by `len - 1`.
    pub sizes: Classes,
    /// Transfers by their distance from the end of the one before.
    pub distances: Classes,
}

impl Counts {
    pub(super) const NONE: Counts = Counts {
        ops: [OpCount { requests: 0, bytes: 0 }; 4],
        unaligned: 0,
        sequential: 0,
        streamed: 0,
        near: 0,
        near_stream: 0,
        within_mib: 0,
        followed: 0,
        long: 0,
        span: 0,
        reach: 0,
        sizes: [0; 65],
        distances: [0; 65],
    };

    pub(super) fn requests(&self) -> u64 {
        self.ops.iter().map(|op| op.requests).sum()
    }

    pub(super) fn add(&mut self, other: &Counts) {
        let sums = [
            (&mut self.unaligned, other.unaligned),
            (&mut self.sequential, other.sequential),
            (&mut self.streamed, other.streamed),
            (&mut self.near, other.near),
            (&mut self.near_stream, other.near_stream),
            (&mut self.within_mib, other.within_mib),
            (&mut self.followed, other.followed),
            (&mut self.long, other.long),
            (&mut self.span, other.span),
        ];
        sums.into_iter().for_each(|(sum, more)| *sum = sum.saturating_add(more));
        self.reach = self.reach.max(other.reach);
        for (sum, more) in self.ops.iter_mut().zip(&other.ops) {
            sum.requests += more.requests;
            sum.bytes = sum.bytes.saturating_add(more.bytes);
        }
        let classes = self.sizes.iter_mut().zip(&other.sizes).chain(self.distances.iter_mut().zip(&other.distances));
        classes.for_each(|(sum, more)| *sum += more);
    }
}

/// One volume while its trace is read.
pub(super) struct Volume {
    pub counts: Counts,
    low: u64,
    /// Where the most recent streams ended, newest first.
    ends: [u64; STREAMS],
    /// First byte of the last transfer.
    pub previous: Option<u64>,
}

impl Volume {
    pub(super) fn new() -> Volume {
        // No transfer starts at 2^64 - 1, because its end must fit.
        Volume { counts: Counts::NONE, low: u64::MAX, ends: [u64::MAX; STREAMS], previous: None }
    }

    /// Adds a request; returns whether it is a transfer that does not continue the one before it.
    pub(super) fn add(&mut self, r: &Record, longest: u64) -> bool {
        let op = &mut self.counts.ops[r.op.index()];
        op.requests += 1;
        op.bytes = op.bytes.saturating_add(r.len);
        if !r.op.is_transfer() || r.len == 0 {
            return false;
        }
        let range = r.range();
        let counts = &mut self.counts;
        counts.unaligned += u64::from(!range.is_aligned(super::BLOCK));
        counts.long += u64::from(r.len > longest);
        counts.sizes[class(r.len - 1)] += 1;
        self.low = self.low.min(range.start());
        counts.reach = counts.reach.max(range.end());
        counts.span = counts.reach - self.low;
        let jumps = self.follow(range.start(), range.end());
        self.previous = Some(range.start());
        jumps
    }

    fn follow(&mut self, start: u64, end: u64) -> bool {
        let counts = &mut self.counts;
        let is_near = |other: u64| other != u64::MAX && start.abs_diff(other) <= NEAR;
        let last = self.ends[0];
        let stream = self.ends.iter().position(|other| *other == start);
        counts.sequential += u64::from(last == start);
        counts.streamed += u64::from(stream.is_some());
        counts.near_stream += u64::from(self.ends.iter().any(|other| is_near(*other)));
        if self.previous.is_some() {
            let distance = start.abs_diff(last);
            counts.followed += 1;
            counts.near += u64::from(is_near(last));
            counts.within_mib += u64::from(distance <= MIB);
            counts.distances[class(distance)] += 1;
        }
        self.ends.copy_within(..stream.unwrap_or(STREAMS - 1), 1);
        self.ends[0] = end;
        last != start
    }
}

/// Times between one request and the next: count, sum and sum of squares.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Moments {
    count: f64,
    sum: f64,
    squares: f64,
}

impl Moments {
    pub(super) fn add(&mut self, gap: Nanos) {
        let seconds = gap.as_secs_f64();
        self.count += 1.0;
        self.sum += seconds;
        self.squares += seconds * seconds;
    }

    /// Standard deviation relative to the mean: 1 for requests that know nothing of each other, more for bursts.
    pub(super) fn variation(&self) -> f64 {
        if self.sum == 0.0 {
            return 0.0;
        }
        let mean = self.sum / self.count;
        (self.squares / self.count - mean * mean).max(0.0).sqrt() / mean
    }
}
