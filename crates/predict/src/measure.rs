//! Counts what happens in one run, in memory that does not grow with the trace.

use esker_base::{Nanos, Time};
use esker_block::OpKind;
use hdrhistogram::Histogram;

use crate::outcome::{Interval, Latency};

/// Intervals of the planned time; even, because two become one where a run is longer than planned.
const INTERVALS: usize = 100;
/// The time that is planned for a run of unknown length.
const FIRST_SPAN: Nanos = Nanos::millis(100);
/// Significant digits of percentiles, and of those in one interval.
const DIGITS: u8 = 3;
const INTERVAL_DIGITS: u8 = 2;
/// Where the distribution is told beyond every hundredth of the requests.
const QUANTILES_FINE: [f64; 8] = [0.991, 0.993, 0.995, 0.997, 0.999, 0.9995, 0.9999, 1.0];

/// Latencies in nanoseconds: mean and maximum are exact, percentiles as fine as the histogram.
#[derive(Clone, Debug, PartialEq)]
pub struct Latencies {
    histogram: Histogram<u64>,
    sum: u128,
    max: u64,
}

impl Latencies {
    /// None yet, to this many decimal digits, of which there are at most 5.
    pub fn new(digits: u8) -> Latencies {
        let histogram = Histogram::new(digits).expect("a histogram has 0 to 5 digits");
        Latencies { histogram, sum: 0, max: 0 }
    }

    /// One more.
    pub fn record(&mut self, latency: Nanos) {
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
    pub(crate) fn cdf(&self) -> Vec<(u64, f64)> {
        if self.histogram.is_empty() {
            return Vec::new();
        }
        let coarse = (0..100).map(|percent| f64::from(percent) / 100.0);
        coarse.chain(QUANTILES_FINE).map(|quantile| (self.at(quantile), quantile)).collect()
    }

    /// Requests and their mean, exactly.
    pub fn mean(&self) -> (u64, f64) {
        let requests = self.histogram.len();
        (requests, self.sum as f64 / requests.max(1) as f64)
    }

    /// The mean of each group of requests, from the fastest on: the groups begin at `bounds` (from 0 on, in parts of
    /// `whole`) and the last one ends at `whole`. The last group's mean is such that the mean of all is exact.
    pub fn group_means(&self, bounds: &[u32], whole: u32) -> Vec<f64> {
        let (requests, mean) = self.mean();
        let share = |at: usize| f64::from(bounds.get(at).copied().unwrap_or(whole)) / f64::from(whole);
        let mut means: Vec<f64> = (0..bounds.len()).map(|at| self.mean_between(share(at), share(at + 1))).collect();
        let Some((last, rest)) = means.split_last_mut() else { return means };
        let rest: f64 = rest.iter().enumerate().map(|(at, mean)| mean * (share(at + 1) - share(at))).sum();
        if requests > 0 {
            *last = ((mean - rest) / (1.0 - share(bounds.len() - 1))).max(0.0);
        }
        means
    }

    /// The mean of the requests from one share of all to another.
    fn mean_between(&self, from: f64, to: f64) -> f64 {
        let all = self.histogram.len() as f64;
        let (from, to) = (from * all, to * all);
        let (mut before, mut sum) = (0.0, 0.0);
        for step in self.histogram.iter_recorded() {
            let count = step.count_since_last_iteration() as f64;
            let inside = (before + count).min(to) - f64::max(before, from);
            if inside > 0.0 {
                sum += inside * step.value_iterated_to() as f64;
            }
            before += count;
        }
        if to > from { sum / (to - from) } else { 0.0 }
    }

    /// Those of several runs, as if they were one.
    pub fn pooled<'a>(of: impl IntoIterator<Item = &'a Latencies>) -> Latencies {
        let mut all = Latencies::new(DIGITS);
        of.into_iter().for_each(|one| all.add(one));
        all
    }

    /// Those of `other` too.
    pub fn add(&mut self, other: &Latencies) {
        self.histogram.add(&other.histogram).expect("histograms of one precision that grow as needed");
        self.sum += other.sum;
        self.max = self.max.max(other.max);
    }
}

/// What one volume did.
pub(crate) struct VolumeTally {
    pub reads: Latencies,
    pub writes: Latencies,
    pub flushes: Latencies,
    pub discards: Latencies,
    pub read_bytes: u64,
    pub written_bytes: u64,
}

impl VolumeTally {
    fn new() -> VolumeTally {
        let latencies = || Latencies::new(DIGITS);
        VolumeTally {
            reads: latencies(),
            writes: latencies(),
            flushes: latencies(),
            discards: latencies(),
            read_bytes: 0,
            written_bytes: 0,
        }
    }
}

struct TimeSlice {
    latencies: Latencies,
    answered_bytes: u64,
    inflight_max: u64,
}

impl TimeSlice {
    fn new() -> TimeSlice {
        TimeSlice { latencies: Latencies::new(INTERVAL_DIGITS), answered_bytes: 0, inflight_max: 0 }
    }

    fn add(&mut self, later: &TimeSlice) {
        self.latencies.add(&later.latencies);
        self.answered_bytes += later.answered_bytes;
        self.inflight_max = self.inflight_max.max(later.inflight_max);
    }
}

/// What one run did.
pub(crate) struct Tally {
    pub volumes: Vec<VolumeTally>,
    pub start: Time,
    slices: Vec<TimeSlice>,
    slice: Nanos,
    /// Whether intervals become longer when the run does.
    grows: bool,
    /// Requests that entered the stack.
    pub sent: u64,
    pub inflight: u64,
    pub inflight_max: u64,
    pub last_due: Time,
    pub last_answer: Time,
    pub failed: u64,
    pub first_failure: Option<String>,
    /// Requests of closed loops after the first ones, and what passed before them since their clients' last answers.
    pub turns: u64,
    pub turning: Nanos,
}

/// One answered request.
pub(crate) struct Answered {
    pub volume: usize,
    pub op: OpKind,
    pub bytes: u64,
    pub due: Time,
    pub at: Time,
    /// Whether it is no part of the warm-up.
    pub counts: bool,
}

impl Tally {
    /// For so many volumes and a run that is planned to take `span`.
    pub(crate) fn new(volumes: usize, span: Nanos) -> Tally {
        Tally {
            volumes: (0..volumes).map(|_| VolumeTally::new()).collect(),
            start: Time::ZERO,
            slices: (0..INTERVALS).map(|_| TimeSlice::new()).collect(),
            slice: Nanos(span.0 / INTERVALS as u64 + 1),
            grows: false,
            sent: 0,
            inflight: 0,
            inflight_max: 0,
            last_due: Time::ZERO,
            last_answer: Time::ZERO,
            failed: 0,
            first_failure: None,
            turns: 0,
            turning: Nanos::ZERO,
        }
    }

    /// For a run of which only the whole is judged: it has no intervals.
    pub(crate) fn without_intervals(volumes: usize) -> Tally {
        Tally { slices: Vec::new(), ..Tally::new(volumes, Nanos::ZERO) }
    }

    /// For a run of unknown length.
    pub(crate) fn of_unknown_span(volumes: usize) -> Tally {
        Tally { grows: true, ..Tally::new(volumes, FIRST_SPAN) }
    }

    /// Counts time from `start`.
    pub(crate) fn from(self, start: Time) -> Tally {
        Tally { start, last_due: start, last_answer: start, ..self }
    }

    /// Counts time from `now`, the end of the warm-up.
    pub(crate) fn begins(&mut self, now: Time) {
        (self.start, self.last_due, self.last_answer) = (now, now, now);
    }

    /// The interval of an instant; the last one may be over already.
    fn slice_of(&mut self, at: Time) -> Option<&mut TimeSlice> {
        let at = at.since(self.start).0;
        while self.grows && at / self.slice.0 >= INTERVALS as u64 {
            self.slice = Nanos(self.slice.0 * 2);
            let mut halves = std::mem::take(&mut self.slices).into_iter();
            while let (Some(mut first), Some(second)) = (halves.next(), halves.next()) {
                first.add(&second);
                self.slices.push(first);
            }
            self.slices.resize_with(INTERVALS, TimeSlice::new);
        }
        self.slices.get_mut((at / self.slice.0) as usize)
    }

    /// A request enters the stack.
    pub(crate) fn enters(&mut self, request: &Answered) {
        self.sent += 1;
        self.inflight += 1;
        if !request.counts {
            return;
        }
        let due = request.due;
        self.inflight_max = self.inflight_max.max(self.inflight);
        self.last_due = self.last_due.max(due);
        let inflight = self.inflight;
        if let Some(slice) = self.slice_of(due) {
            slice.inflight_max = slice.inflight_max.max(inflight);
        }
    }

    /// A request is answered.
    pub(crate) fn answered(&mut self, answered: &Answered) {
        self.inflight -= 1;
        if !answered.counts {
            return;
        }
        self.last_answer = self.last_answer.max(answered.at);
        let latency = answered.at.since(answered.due);
        let volume = &mut self.volumes[answered.volume];
        match answered.op {
            OpKind::Read => volume.reads.record(latency),
            OpKind::Write => volume.writes.record(latency),
            OpKind::Flush => volume.flushes.record(latency),
            OpKind::Zero | OpKind::Discard | OpKind::Clone | OpKind::Move | OpKind::Delete | OpKind::Extents => {
                volume.discards.record(latency)
            }
        }
        match answered.op {
            OpKind::Read => volume.read_bytes += answered.bytes,
            OpKind::Write => volume.written_bytes += answered.bytes,
            OpKind::Flush
            | OpKind::Zero
            | OpKind::Discard
            | OpKind::Clone
            | OpKind::Move
            | OpKind::Delete
            | OpKind::Extents => {}
        }
        if let Some(slice) = self.slice_of(answered.due) {
            slice.latencies.record(latency);
        }
        if let Some(slice) = self.slice_of(answered.at) {
            slice.answered_bytes += answered.bytes;
        }
    }

    /// The latencies of all requests to all volumes.
    pub(crate) fn all(&self) -> Latencies {
        self.sum(|volume| vec![&volume.reads, &volume.writes, &volume.flushes, &volume.discards])
    }

    /// The latencies of all volumes that `select` names.
    pub(crate) fn sum(&self, select: impl Fn(&VolumeTally) -> Vec<&Latencies>) -> Latencies {
        Latencies::pooled(self.volumes.iter().flat_map(select))
    }

    /// Bytes of answered reads and writes.
    pub(crate) fn bytes(&self) -> u64 {
        self.volumes.iter().map(|volume| volume.read_bytes + volume.written_bytes).sum()
    }

    pub(crate) fn intervals(&self) -> Vec<Interval> {
        let interval = |(at, slice): (usize, &TimeSlice)| {
            let latency = slice.latencies.summary();
            Interval {
                at_ns: at as u64 * self.slice.0,
                requests: latency.requests,
                p99_ns: latency.p99_ns,
                answered_bytes: slice.answered_bytes,
                inflight_max: slice.inflight_max,
            }
        };
        let unused = |slice: &&TimeSlice| slice.latencies.histogram.is_empty() && slice.answered_bytes == 0;
        let trailing = if self.grows { self.slices.iter().rev().take_while(unused).count() } else { 0 };
        self.slices[..self.slices.len() - trailing].iter().enumerate().map(interval).collect()
    }
}
