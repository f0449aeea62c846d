//! `stats`: counts requests and bytes and keeps histograms of their latency.

use esker_base::Nanos;
use esker_block::{Bio, Ctx, Done, Extension, Flow, Kind, KindError, Layer, Make, Meter, Stat, Step, meter};

/// The manifest.
pub static KIND: Kind =
    Kind { cost: Nanos(150), ..Kind::layer("stats", "Counts requests and bytes and measures latency.", &[], build) };

/// Latencies are exact to 1 %.
const DIGITS: u8 = 2;

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

/// In the order of [`meter::METERED`].
const NAMES: [Names; meter::METERED.len()] = [
    names!("reads", "read"),
    names!("writes", "write"),
    names!("flushes", "flush"),
    names!("zeroes", "zero"),
    names!("discards", "discard"),
    names!("range_vectors", "range_vector"),
    names!("extent_queries", "extent_query"),
];

struct Stats(Meter);

fn build(make: &Make<'_>) -> Result<Layer, KindError> {
    crate::transparent(make, Stats(Meter::new(DIGITS)))
}

impl Extension for Stats {
    fn issue(&self, ctx: &mut Ctx<'_>, bio: &mut Bio) -> Step<Flow> {
        ctx.scratch = self.0.begin(bio, ctx.rt.now());
        Step::Now(Flow::Down)
    }

    fn complete(&self, ctx: &mut Ctx<'_>, done: &mut Done) {
        self.0.end(ctx.scratch, ctx.rt.now(), done.result.is_err());
    }

    /// Operations that never happened are left out.
    fn stats(&self) -> Vec<Stat> {
        let stat = |name, value: u64| Stat { name, value: value as f64 };
        let reading = self.0.reading();
        let mut all = Vec::new();
        for op in &reading.ops {
            let index =
                meter::METERED.iter().position(|name| *name == op.op).expect("a reading names metered operations");
            let names = &NAMES[index];
            all.extend([stat(names.count, op.count), stat(names.bytes, op.bytes)]);
            all.extend(names.latencies.map(|(name, share)| stat(name, self.0.quantile(index, share))));
        }
        all.extend([
            stat("failed", reading.ops.iter().map(|op| op.failed).sum()),
            stat("in_flight", reading.in_flight),
            stat("in_flight_max", reading.in_flight_max),
        ]);
        all
    }
}

#[cfg(test)]
mod tests;
