//! What a trace is like, in one pass. Memory grows with the working set, not with the length of the trace.

mod extents;
mod summary;

pub use summary::{Gaps, OpCount, Peak, SizeClass, Summary};

use crate::record::{Op, Record};
use esker_base::Nanos;
use extents::Extents;
use hdrhistogram::Histogram;
use std::collections::BTreeMap;

/// The block in which footprint and alignment are counted, in bytes.
pub const BLOCK: u64 = 4096;

/// How many recent requests of a volume a request may continue to count as part of a stream.
const STREAMS: usize = 32;

/// Longest gap that is told apart (about 292 years), in ns.
const GAP_MAX: u64 = i64::MAX as u64;

/// Gathers statistics from records in time order.
pub struct Stats {
    ops: [OpCount; 4],
    first: Nanos,
    last: Nanos,
    volumes: BTreeMap<u32, Volume>,
    unaligned: u64,
    sequential: u64,
    streamed: u64,
    /// Transfers by the number of bits of `len - 1`: class `i` holds lengths in `(2^(i-1), 2^i]`.
    sizes: [u64; 65],
    gaps: Histogram<u64>,
    second: u64,
    in_second: Peak,
    peak: Peak,
}

/// What is known of one volume.
#[derive(Debug)]
struct Volume {
    touched: Extents,
    low: u64,
    high: u64,
    /// Where recent transfers ended; the newest is at `newest`.
    ends: [u64; STREAMS],
    newest: usize,
}

impl Volume {
    fn new() -> Volume {
        // No transfer starts at 2^64 - 1, because its end must fit.
        Volume { touched: Extents::default(), low: u64::MAX, high: 0, ends: [u64::MAX; STREAMS], newest: 0 }
    }

    /// Adds a transfer; returns whether it continues the last one, and whether it continues a recent one.
    fn transfer(&mut self, start: u64, end: u64) -> (bool, bool) {
        self.touched.insert(start / BLOCK, end.div_ceil(BLOCK));
        self.low = self.low.min(start);
        self.high = self.high.max(end);
        let continues_last = self.ends[self.newest] == start;
        let stream = self.ends.iter().position(|e| *e == start);
        self.newest = stream.unwrap_or((self.newest + 1) % STREAMS);
        self.ends[self.newest] = end;
        (continues_last, stream.is_some())
    }
}

impl Stats {
    /// Statistics of nothing.
    pub fn new() -> Stats {
        Stats {
            ops: Default::default(),
            first: Nanos::ZERO,
            last: Nanos::ZERO,
            volumes: BTreeMap::new(),
            unaligned: 0,
            sequential: 0,
            streamed: 0,
            sizes: [0; 65],
            gaps: Histogram::new_with_max(GAP_MAX, 3).expect("bounds and digits are allowed"),
            second: 0,
            in_second: Peak::default(),
            peak: Peak::default(),
        }
    }

    /// Adds the next record.
    pub fn add(&mut self, r: &Record) {
        self.time(r.at);
        let moved = if r.op.is_transfer() { r.len } else { 0 };
        let op = &mut self.ops[r.op.index()];
        op.requests += 1;
        op.bytes = op.bytes.saturating_add(r.len);
        self.in_second.requests += 1;
        self.in_second.bytes = self.in_second.bytes.saturating_add(moved);
        if r.op.is_transfer() && r.len > 0 {
            self.transfer(r);
        }
    }

    fn time(&mut self, at: Nanos) {
        if self.requests() == 0 {
            self.first = at;
            self.second = at.0 / 1_000_000_000;
        } else {
            self.gaps.saturating_record(at.saturating_sub(self.last).0.min(GAP_MAX));
        }
        self.last = self.last.max(at);
        let second = at.0 / 1_000_000_000;
        if second != self.second {
            self.peak.raise(std::mem::take(&mut self.in_second));
            self.second = second;
        }
    }

    fn transfer(&mut self, r: &Record) {
        let range = r.range();
        self.unaligned += u64::from(!range.is_aligned(BLOCK));
        self.sizes[(u64::BITS - (r.len - 1).leading_zeros()) as usize] += 1;
        let volume = self.volumes.entry(r.volume).or_insert_with(Volume::new);
        let (continues_last, continues_recent) = volume.transfer(range.start(), range.end());
        self.sequential += u64::from(continues_last);
        self.streamed += u64::from(continues_recent);
    }

    fn requests(&self) -> u64 {
        self.ops.iter().map(|op| op.requests).sum()
    }

    /// The figures so far.
    pub fn summary(&self) -> Summary {
        let [reads, writes, flushes, discards] = Op::ALL.map(|op| self.ops[op.index()]);
        let transfers = reads.requests + writes.requests;
        let share = |part: u64| if transfers == 0 { 0.0 } else { part as f64 / transfers as f64 };
        let mut peak = self.peak;
        peak.raise(self.in_second);
        let blocks: u64 = self.volumes.values().map(|v| v.touched.total()).sum();
        Summary {
            requests: self.requests(),
            volumes: self.volumes.len() as u64,
            reads,
            writes,
            flushes,
            discards,
            read_share: share(reads.requests),
            bytes: reads.bytes.saturating_add(writes.bytes),
            duration_ns: self.last.saturating_sub(self.first).0,
            footprint_bytes: blocks.saturating_mul(BLOCK),
            span_bytes: self.volumes.values().fold(0, |sum: u64, v| sum.saturating_add(v.high - v.low)),
            reach_bytes: self.volumes.values().map(|v| v.high).max().unwrap_or(0),
            unaligned_share: share(self.unaligned),
            sequential_share: share(self.sequential),
            streamed_share: share(self.streamed),
            sizes: self.size_classes(),
            gaps: self.gap_figures(),
            peak_second: peak,
        }
    }

    fn size_classes(&self) -> Vec<SizeClass> {
        let used = self.sizes.iter().enumerate().filter(|(_, n)| **n > 0);
        used.map(|(bits, n)| SizeClass { up_to_bytes: 1u64.checked_shl(bits as u32).unwrap_or(u64::MAX), requests: *n })
            .collect()
    }

    fn gap_figures(&self) -> Gaps {
        let at = |q| self.gaps.value_at_quantile(q);
        Gaps {
            mean_ns: self.gaps.mean(),
            p50_ns: at(0.5),
            p90_ns: at(0.9),
            p99_ns: at(0.99),
            p999_ns: at(0.999),
            max_ns: self.gaps.max(),
        }
    }
}

impl Default for Stats {
    fn default() -> Self {
        Stats::new()
    }
}

#[cfg(test)]
mod tests;
