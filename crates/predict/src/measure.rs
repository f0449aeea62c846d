//! Counts what happens in one run, in memory that does not grow with the trace.

use esker_base::{Nanos, Time};
use esker_block::OpKind;
use hdrhistogram::Histogram;

use crate::outcome::{Interval, Latency};

/// Intervals of the planned time.
const INTERVALS: usize = 100;
/// Significant digits of percentiles, and of those in one interval.
const DIGITS: u8 = 3;
const INTERVAL_DIGITS: u8 = 2;
/// Where the distribution is told beyond every hundredth of the requests.
const QUANTILES_FINE: [f64; 8] = [0.991, 0.993, 0.995, 0.997, 0.999, 0.9995, 0.9999, 1.0];

/// Latencies in nanoseconds: mean and maximum are exact, percentiles as fine as the histogram.
pub(crate) struct Latencies {
    histogram: Histogram<u64>,
    sum: u128,
    max: u64,
}

impl Latencies {
    fn new(digits: u8) -> Latencies {
        let histogram = Histogram::new(digits).expect("a histogram has 0 to 5 digits");
        Latencies { histogram, sum: 0, max: 0 }
    }

    fn record(&mut self, latency: Nanos) {
        self.histogram.record(latency.0).expect("the histogram grows as needed");
        self.sum += u128::from(latency.0);
        self.max = self.max.max(latency.0);
    }

    /// The latency that this share of requests does not exceed.
    fn at(&self, quantile: f64) -> u64 {
        self.histogram.value_at_quantile(quantile).min(self.max)
    }

    /// The percentiles.
    pub fn summary(&self) -> Latency {
        let requests = self.histogram.len();
        Latency {
            requests,
            mean_ns: (self.sum / u128::from(requests.max(1))) as u64,
            p50_ns: self.at(0.5),
            p95_ns: self.at(0.95),
            p99_ns: self.at(0.99),
            p999_ns: self.at(0.999),
            max_ns: self.max,
        }
    }

    /// The distribution: latency, and the share of requests within it.
    pub fn cdf(&self) -> Vec<(u64, f64)> {
        if self.histogram.is_empty() {
            return Vec::new();
        }
        let coarse = (0..100).map(|percent| f64::from(percent) / 100.0);
        coarse.chain(QUANTILES_FINE).map(|quantile| (self.at(quantile), quantile)).collect()
    }

    fn add(&mut self, other: &Latencies) {
        self.histogram.add(&other.histogram).expect("histograms of one precision that grow as needed");
        self.sum += other.sum;
        self.max = self.max.max(other.max);
    }
}

/// What one volume did.
pub(crate) struct VolumeTally {
    pub reads: Latencies,
    pub writes: Latencies,
    pub others: Latencies,
    pub read_bytes: u64,
    pub written_bytes: u64,
}

impl VolumeTally {
    fn new() -> VolumeTally {
        let latencies = || Latencies::new(DIGITS);
        VolumeTally { reads: latencies(), writes: latencies(), others: latencies(), read_bytes: 0, written_bytes: 0 }
    }
}

struct Slice {
    latencies: Latencies,
    answered_bytes: u64,
    inflight_max: u64,
}

/// What one run did.
pub(crate) struct Tally {
    pub volumes: Vec<VolumeTally>,
    slices: Vec<Slice>,
    slice: Nanos,
    pub inflight: u64,
    pub inflight_max: u64,
    pub last_due: Time,
    pub last_answer: Time,
    pub failed: u64,
    pub first_failure: Option<String>,
}

/// One answered request.
pub(crate) struct Answered {
    pub volume: usize,
    pub op: OpKind,
    pub bytes: u64,
    pub due: Time,
    pub at: Time,
}

impl Tally {
    /// For so many volumes and a run that is planned to take `span`.
    pub fn new(volumes: usize, span: Nanos) -> Tally {
        let slice = || Slice { latencies: Latencies::new(INTERVAL_DIGITS), answered_bytes: 0, inflight_max: 0 };
        Tally {
            volumes: (0..volumes).map(|_| VolumeTally::new()).collect(),
            slices: (0..INTERVALS).map(|_| slice()).collect(),
            slice: Nanos(span.0 / INTERVALS as u64 + 1),
            inflight: 0,
            inflight_max: 0,
            last_due: Time::ZERO,
            last_answer: Time::ZERO,
            failed: 0,
            first_failure: None,
        }
    }

    /// The interval of an instant; the last one may be over already.
    fn slice_of(&mut self, at: Time) -> Option<&mut Slice> {
        self.slices.get_mut((at.0 / self.slice.0) as usize)
    }

    /// A request enters the stack.
    pub fn enters(&mut self, due: Time) {
        self.inflight += 1;
        self.inflight_max = self.inflight_max.max(self.inflight);
        self.last_due = self.last_due.max(due);
        let inflight = self.inflight;
        if let Some(slice) = self.slice_of(due) {
            slice.inflight_max = slice.inflight_max.max(inflight);
        }
    }

    /// A request is answered.
    pub fn answered(&mut self, answered: &Answered) {
        self.inflight -= 1;
        self.last_answer = self.last_answer.max(answered.at);
        let latency = answered.at.since(answered.due);
        let volume = &mut self.volumes[answered.volume];
        match answered.op {
            OpKind::Read => volume.reads.record(latency),
            OpKind::Write => volume.writes.record(latency),
            _ => volume.others.record(latency),
        }
        match answered.op {
            OpKind::Read => volume.read_bytes += answered.bytes,
            OpKind::Write => volume.written_bytes += answered.bytes,
            _ => {}
        }
        if let Some(slice) = self.slice_of(answered.due) {
            slice.latencies.record(latency);
        }
        if let Some(slice) = self.slice_of(answered.at) {
            slice.answered_bytes += answered.bytes;
        }
    }

    /// The latencies of all volumes that `select` names.
    pub fn sum(&self, select: impl Fn(&VolumeTally) -> Vec<&Latencies>) -> Latencies {
        let mut sum = Latencies::new(DIGITS);
        self.volumes.iter().flat_map(select).for_each(|latencies| sum.add(latencies));
        sum
    }

    /// Bytes of answered reads and writes.
    pub fn bytes(&self) -> u64 {
        self.volumes.iter().map(|volume| volume.read_bytes + volume.written_bytes).sum()
    }

    pub fn intervals(&self) -> Vec<Interval> {
        let interval = |(at, slice): (usize, &Slice)| {
            let latency = slice.latencies.summary();
            Interval {
                at_ns: at as u64 * self.slice.0,
                requests: latency.requests,
                p99_ns: latency.p99_ns,
                answered_bytes: slice.answered_bytes,
                inflight_max: slice.inflight_max,
            }
        };
        self.slices.iter().enumerate().map(interval).collect()
    }
}
