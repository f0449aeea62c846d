//! What is asked of a stack: generated requests.

use esker_base::{Nanos, Stream};
use esker_predict::PredictError;
use esker_predict::bench::{Bench, Taken};
use esker_predict::calibration::times::MIXED_SHARE;
use esker_stack::{DeviceSpec, Location};
use esker_trace_block::{Op, Record};

/// The order of operations.
#[derive(Clone, Copy)]
pub(crate) enum Ops {
    /// Always the same.
    Only(Op),
    /// One after the other, again and again.
    InTurn(&'static [Op]),
    /// Reads and writes, each request one or the other by chance.
    Mixed,
}

/// What to ask for.
#[derive(Clone, Copy)]
pub(crate) struct Requests {
    /// What is asked.
    pub ops: Ops,
    /// Bytes of each.
    pub len: u64,
    /// Requests in flight.
    pub depth: u32,
    /// Requests in all.
    pub count: u64,
}

/// A leaf below the volume, or the volume itself.
pub(crate) fn device(name: &str, kind: &str, on: &[&str], args: &[(&str, &str)]) -> DeviceSpec {
    let args = args.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect();
    DeviceSpec::new(
        name,
        kind,
        on.iter().map(|lower| lower.to_string()).collect(),
        args,
        Location::new("calibration", 0),
    )
}

impl Requests {
    /// Plays them spread evenly over `size` bytes.
    ///
    /// # Errors
    /// See [`Bench::take`].
    pub(crate) fn take(self, bench: &Bench, size: u64, seed: u64) -> Result<Taken, PredictError> {
        bench.take(records(self, size, seed), self.depth)
    }
}

fn records(requests: Requests, size: u64, seed: u64) -> Vec<Record> {
    let mut random = Stream::named(seed, "calibration");
    let places = (size / requests.len.max(1)).max(1);
    let record = |at: u64| {
        let op = requests.ops.at(at, &mut random);
        let (offset, len) = if op.is_transfer() { (random.below(places) * requests.len, requests.len) } else { (0, 0) };
        Record { at: Nanos(at), volume: 0, op, offset, len, who: 0 }
    };
    (0..requests.count).map(record).collect()
}

impl Ops {
    /// That of request number `at`.
    fn at(self, at: u64, random: &mut Stream) -> Op {
        match self {
            Ops::Only(op) => op,
            Ops::InTurn(ops) => ops[(at % ops.len() as u64) as usize],
            Ops::Mixed if random.chance(MIXED_SHARE) => Op::Write,
            Ops::Mixed => Op::Read,
        }
    }
}
