//! The figures of a trace, as JSON and as a table for people.

use esker_base::Nanos;
use esker_base::units::size_human;
use serde::Serialize;
use std::fmt;

/// Requests of one operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct OpCount {
    /// How many.
    pub requests: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// Transfers of one class of sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct SizeClass {
    /// Largest size of the class, a power of two; the class below ends at half of it.
    pub up_to_bytes: u64,
    /// How many.
    pub requests: u64,
}

/// Times between one request and the next (three significant digits, except the mean).
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Gaps {
    /// Mean.
    pub mean_ns: f64,
    /// Median.
    pub p50_ns: u64,
    /// 90 % are at most this long.
    pub p90_ns: u64,
    /// 99 %.
    pub p99_ns: u64,
    /// 99.9 %.
    pub p999_ns: u64,
    /// The longest.
    pub max_ns: u64,
}

/// The busiest second; requests and bytes may come from different seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Peak {
    /// Requests in one second of the trace.
    pub requests: u64,
    /// Bytes read and written in one second of the trace.
    pub bytes: u64,
}

impl Peak {
    pub(super) fn raise(&mut self, other: Peak) {
        self.requests = self.requests.max(other.requests);
        self.bytes = self.bytes.max(other.bytes);
    }
}

/// The figures of a trace. Shares are parts of the transfers (reads and writes), from 0 to 1.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Summary {
    /// All requests.
    pub requests: u64,
    /// Volumes that were read or written.
    pub volumes: u64,
    /// Reads.
    pub reads: OpCount,
    /// Writes.
    pub writes: OpCount,
    /// Flushes.
    pub flushes: OpCount,
    /// Discards.
    pub discards: OpCount,
    /// Share of reads.
    pub read_share: f64,
    /// Bytes read and written.
    pub bytes: u64,
    /// From the first request to the last.
    pub duration_ns: u64,
    /// Distinct 4 KiB blocks that were read or written, in bytes.
    pub footprint_bytes: u64,
    /// From the lowest to the highest byte, summed over the volumes.
    pub span_bytes: u64,
    /// The smallest size of a volume that holds every transfer.
    pub reach_bytes: u64,
    /// Share that does not start and end at multiples of 4 KiB.
    pub unaligned_share: f64,
    /// Share that starts where the volume's previous transfer ended.
    pub sequential_share: f64,
    /// Share that starts where one of the volume's 32 most recent streams ended.
    pub streamed_share: f64,
    /// Sizes of transfers, smallest class first, without empty classes.
    pub sizes: Vec<SizeClass>,
    /// Times between requests.
    pub gaps: Gaps,
    /// The busiest second.
    pub peak_second: Peak,
}

impl fmt::Display for Summary {
    /// A table with one figure to a line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = |share: f64| format!("{:.1} %", share * 100.0);
        let op = |o: super::OpCount| format!("{} ({})", o.requests, size_human(o.bytes));
        let gaps = &self.gaps;
        let rows = [
            ("requests", self.requests.to_string()),
            ("volumes", self.volumes.to_string()),
            ("reads", format!("{}, {} of transfers", op(self.reads), percent(self.read_share))),
            ("writes", op(self.writes)),
            ("flushes", self.flushes.requests.to_string()),
            ("discards", op(self.discards)),
            ("bytes moved", size_human(self.bytes)),
            ("duration", Nanos(self.duration_ns).to_string()),
            ("footprint", format!("{} in 4 KiB blocks", size_human(self.footprint_bytes))),
            ("span", format!("{}, up to {}", size_human(self.span_bytes), size_human(self.reach_bytes))),
            ("not 4 KiB aligned", percent(self.unaligned_share)),
            ("sequential", format!("{}, in streams {}", percent(self.sequential_share), percent(self.streamed_share))),
            ("gap, mean", Nanos(gaps.mean_ns as u64).to_string()),
            ("gap, p50 p90 p99", format!("{}  {}  {}", Nanos(gaps.p50_ns), Nanos(gaps.p90_ns), Nanos(gaps.p99_ns))),
            ("gap, p99.9 max", format!("{}  {}", Nanos(gaps.p999_ns), Nanos(gaps.max_ns))),
            ("peak second", format!("{} requests, {}", self.peak_second.requests, size_human(self.peak_second.bytes))),
        ];
        for (name, value) in rows {
            writeln!(f, "{name:<18} {value}")?;
        }
        f.write_str("sizes")?;
        for class in &self.sizes {
            write!(f, "\n  up to {:<12} {}", size_human(class.up_to_bytes), class.requests)?;
        }
        Ok(())
    }
}
