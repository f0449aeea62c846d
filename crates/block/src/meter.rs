//! A meter: counts the requests that pass one place, and measures how long their answers take.

use std::cell::{Cell, RefCell};

use esker_base::{Nanos, Time};
use hdrhistogram::Histogram;

use crate::bio::Bio;

/// What is counted apart, by name.
pub const METERED: [&str; 7] = ["read", "write", "flush", "zero", "discard", "ranges", "extents"];

/// Longer latencies count as this.
const LATENCY_MAX: Nanos = Nanos::secs(3600);

/// A mark holds the operation in its low bits and the time above.
const OP_BITS: u32 = 3;

/// Counts and latencies of one place. One request costs two calls, of which only the first answer to an operation
/// allocates.
pub struct Meter {
    digits: u8,
    ops: [OpMeter; METERED.len()],
    in_flight: Cell<u64>,
    in_flight_max: Cell<u64>,
}

#[derive(Default)]
struct OpMeter {
    bytes: Cell<u64>,
    failed: Cell<u64>,
    /// Nanoseconds, of all answered requests together.
    time: Cell<u64>,
    /// None until the first answer: most places see few kinds of operations, and many see none.
    latency: RefCell<Option<Histogram<u64>>>,
}

/// What a meter has seen since it was made.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Reading {
    /// Operations that were answered at least once, in the order of [`METERED`].
    pub ops: Vec<OpReading>,
    /// Requests that have no answer yet.
    pub in_flight: u64,
    /// The most that ever were.
    pub in_flight_max: u64,
}

/// What a meter has seen of one operation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OpReading {
    /// Its name.
    pub op: &'static str,
    /// Requests answered.
    pub count: u64,
    /// Those of them whose answer was an error.
    pub failed: u64,
    /// Bytes of their ranges, and of those still in flight.
    pub bytes: u64,
    /// Their latencies added up.
    pub time: Nanos,
    /// Latencies: pairs of an upper bound in nanoseconds, which belongs to it, and the requests between it and the
    /// bound before.
    pub latency: Vec<(u64, u64)>,
}

impl Meter {
    /// A meter that tells latencies apart to this many significant decimal digits: for each operation that it sees, 1
    /// takes 5 kB, 2 take 37 kB.
    ///
    /// # Panics
    /// If `digits` is above 5.
    pub fn new(digits: u8) -> Meter {
        assert!(digits <= 5, "{digits} digits; a histogram has 5 at most");
        Meter { digits, ops: Default::default(), in_flight: Cell::new(0), in_flight_max: Cell::new(0) }
    }

    /// A request comes by. The mark must reach [`Meter::end`].
    #[inline]
    pub fn begin(&self, bio: &Bio, now: Time) -> u64 {
        let op = bio.op.number();
        let bytes = &self.ops[op].bytes;
        bytes.set(bytes.get() + bio.len());
        self.in_flight.set(self.in_flight.get() + 1);
        self.in_flight_max.set(self.in_flight_max.get().max(self.in_flight.get()));
        now.0 << OP_BITS | op as u64
    }

    /// Its answer comes by.
    #[inline]
    pub fn end(&self, mark: u64, now: Time, failed: bool) {
        let op = &self.ops[(mark & ((1 << OP_BITS) - 1)) as usize];
        let latency = now.since(Time(mark >> OP_BITS));
        op.latency.borrow_mut().get_or_insert_with(|| histogram(self.digits)).saturating_record(latency.0);
        op.time.set(op.time.get() + latency.0);
        op.failed.set(op.failed.get() + u64::from(failed));
        self.in_flight.set(self.in_flight.get() - 1);
    }

    /// What was seen so far.
    pub fn reading(&self) -> Reading {
        let seen = METERED.iter().zip(&self.ops).filter_map(|(op, meter)| meter.reading(op));
        Reading { ops: seen.collect(), in_flight: self.in_flight.get(), in_flight_max: self.in_flight_max.get() }
    }

    /// The latency that this share of the answers to an operation did not exceed, in nanoseconds; 0 if there was none.
    /// By its place in [`METERED`].
    ///
    /// # Panics
    /// If there is no such operation.
    pub fn quantile(&self, op: usize, share: f64) -> u64 {
        self.ops[op].latency.borrow().as_ref().map_or(0, |latency| latency.value_at_quantile(share))
    }
}

#[cold]
fn histogram(digits: u8) -> Histogram<u64> {
    Histogram::new_with_bounds(1, LATENCY_MAX.0, digits).expect("bounds in order")
}

impl OpMeter {
    fn reading(&self, op: &'static str) -> Option<OpReading> {
        let latency = self.latency.borrow();
        let latency = latency.as_ref()?;
        let buckets = latency.iter_recorded().map(|step| (step.value_iterated_to(), step.count_since_last_iteration()));
        Some(OpReading {
            op,
            count: latency.len(),
            failed: self.failed.get(),
            bytes: self.bytes.get(),
            time: Nanos(self.time.get()),
            latency: buckets.collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::buf::Buf;

    #[test]
    fn answers_are_counted_by_operation_with_their_latencies() {
        let meter = Meter::new(1);
        let write = |at| Bio::write(at, Buf::described(4096, 0));
        let marks = [meter.begin(&write(0), Time(1000)), meter.begin(&write(4096), Time(1000))];
        let flush = meter.begin(&Bio::flush(), Time(2000));
        assert_eq!((meter.reading().in_flight, meter.reading().ops.len()), (3, 0), "nothing is answered yet");
        meter.end(marks[0], Time(11_000), false);
        meter.end(marks[1], Time(31_000), true);
        meter.end(flush, Time(2001), false);
        let seen = meter.reading();
        assert_eq!((seen.in_flight, seen.in_flight_max), (0, 3));
        let [written, flushed] = &seen.ops[..] else { panic!("{seen:?}") };
        assert_eq!((written.op, written.count, written.failed, written.bytes), ("write", 2, 1, 8192));
        assert_eq!((written.time, flushed.op, flushed.time), (Nanos(40_000), "flush", Nanos(1)));
        let [(low, 1), (high, 1)] = written.latency[..] else { panic!("{written:?}") };
        assert!(
            (10_000..10_700).contains(&low) && (30_000..32_000).contains(&high),
            "{low} {high}: a sixteenth at most"
        );
        assert_eq!(meter.quantile(1, 1.0), high);
    }

    #[test]
    fn a_meter_keeps_no_histogram_of_what_was_not_answered() {
        let meter = Meter::new(1);
        let mark = meter.begin(&Bio::flush(), Time(1000));
        let kept = |meter: &Meter| meter.ops.iter().filter(|op| op.latency.borrow().is_some()).count();
        assert_eq!((kept(&meter), meter.quantile(2, 0.5)), (0, 0));
        meter.end(mark, Time(2000), false);
        assert_eq!(kept(&meter), 1);
    }
}
