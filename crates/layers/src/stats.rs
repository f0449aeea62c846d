//! `stats`: counts requests and bytes and keeps histograms of their latency.

use std::cell::{Cell, RefCell};

use esker_base::{Nanos, Time};
use esker_block::{Bio, Ctx, Done, Extension, Flow, Kind, KindError, Layer, Make, Op, Stat, Step};
use hdrhistogram::Histogram;

/// The manifest.
pub static KIND: Kind =
    Kind { cost: Nanos(150), ..Kind::layer("stats", "Counts requests and bytes and measures latency.", &[], build) };

/// Longer latencies count as this.
const LATENCY_MAX: Nanos = Nanos::secs(3600);

/// Names of the numbers of one operation: count, bytes, and latencies.
struct Names {
    count: &'static str,
    bytes: &'static str,
    /// With the quantile.
    latencies: [(&'static str, f64); 4],
}

macro_rules! names {
    ($count:literal, $op:literal) => {
        Names {
            count: $count,
            bytes: concat!($op, "_bytes"),
            latencies: [
                (concat!($op, "_p50_ns"), 0.5),
                (concat!($op, "_p99_ns"), 0.99),
                (concat!($op, "_p999_ns"), 0.999),
                (concat!($op, "_max_ns"), 1.0),
            ],
        }
    };
}

const NAMES: [Names; 7] = [
    names!("reads", "read"),
    names!("writes", "write"),
    names!("flushes", "flush"),
    names!("zeroes", "zero"),
    names!("discards", "discard"),
    names!("range_vectors", "range_vector"),
    names!("extent_queries", "extent_query"),
];

struct Stats {
    ops: [OpStats; NAMES.len()],
    failed: Cell<u64>,
    in_flight: Cell<u64>,
    in_flight_max: Cell<u64>,
}

struct OpStats {
    bytes: Cell<u64>,
    /// Of answered requests, in ns, exact to 1 %.
    latency: RefCell<Histogram<u64>>,
}

impl OpStats {
    fn new() -> OpStats {
        let latency = Histogram::new_with_bounds(1, LATENCY_MAX.0, 2).expect("bounds in order and two digits");
        OpStats { bytes: Cell::new(0), latency: RefCell::new(latency) }
    }
}

fn build(make: &Make<'_>) -> Result<Layer, KindError> {
    let stats = Stats {
        ops: std::array::from_fn(|_| OpStats::new()),
        failed: Cell::new(0),
        in_flight: Cell::new(0),
        in_flight_max: Cell::new(0),
    };
    crate::transparent(make, stats)
}

fn index(op: &Op) -> usize {
    match op {
        Op::Read => 0,
        Op::Write => 1,
        Op::Flush => 2,
        Op::Zero => 3,
        Op::Discard => 4,
        Op::Ranges(_) => 5,
        Op::Extents => 6,
    }
}

/// The scratch word holds the operation in its low bits and the time above.
const OP_BITS: u32 = 3;

impl Extension for Stats {
    fn issue(&self, ctx: &mut Ctx<'_>, bio: &mut Bio) -> Step<Flow> {
        let index = index(&bio.op);
        ctx.scratch = ctx.rt.now().0 << OP_BITS | index as u64;
        let bytes = &self.ops[index].bytes;
        bytes.set(bytes.get() + bio.len());
        self.in_flight.set(self.in_flight.get() + 1);
        self.in_flight_max.set(self.in_flight_max.get().max(self.in_flight.get()));
        Step::Now(Flow::Down)
    }

    fn complete(&self, ctx: &mut Ctx<'_>, done: &mut Done) {
        let (index, start) = (ctx.scratch & ((1 << OP_BITS) - 1), Time(ctx.scratch >> OP_BITS));
        let latency = ctx.rt.now().since(start);
        self.ops[index as usize].latency.borrow_mut().saturating_record(latency.0);
        self.in_flight.set(self.in_flight.get() - 1);
        self.failed.set(self.failed.get() + u64::from(done.result.is_err()));
    }

    /// Operations that never happened are left out.
    fn stats(&self) -> Vec<Stat> {
        let stat = |name, value: u64| Stat { name, value: value as f64 };
        let mut all = Vec::new();
        for (names, op) in NAMES.iter().zip(&self.ops) {
            let latency = op.latency.borrow();
            if !latency.is_empty() {
                all.extend([stat(names.count, latency.len()), stat(names.bytes, op.bytes.get())]);
                all.extend(names.latencies.map(|(name, quantile)| stat(name, latency.value_at_quantile(quantile))));
            }
        }
        all.extend([
            stat("failed", self.failed.get()),
            stat("in_flight", self.in_flight.get()),
            stat("in_flight_max", self.in_flight_max.get()),
        ]);
        all
    }
}

#[cfg(test)]
mod tests;
