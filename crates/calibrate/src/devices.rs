//! How long devices take.

use esker_base::Stream;
use esker_base::units::{GIB, KIB, MIB, size_text};
use esker_predict::bench::{Bench, Taken};
use esker_predict::calibration::times::mean_of;
use esker_predict::calibration::{DeviceTimes, OpName, Times};
use esker_predict::{Latencies, PredictError};
use esker_stack::DeviceSpec;
use esker_trace_block::Op;

use super::requests::{Ops, Requests, device};
use super::{Round, median, pooled_groups, tenths};

/// Bytes that requests to memory are spread over: within the caches of a CPU, at their edge, and far beyond.
const MEMORY_SIZES: [u64; 3] = [MIB, 32 * MIB, 256 * MIB];
const FILE_SIZE: u64 = 256 * MIB;
const LENS: [u64; 3] = [4 * KIB, 16 * KIB, 64 * KIB];
const DEPTHS: [u32; 4] = [1, 4, 16, 32];
/// Requests of a batch to a device that answers at once, and to one that waits. The second is as long as a run that is
/// predicted with it, because hosts serve short bursts faster than what lasts.
const BATCH_NOW: u64 = 16_384;
const BATCH_WAITING: u64 = 2048;
/// The same to a block device, which may be a disk that takes 10 ms for each.
const BATCH_RAW: u64 = 512;
/// Flushes of a batch.
const FLUSHES: u64 = 32;

/// A block device to measure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawDevice {
    /// Its path, as stack texts will name it.
    pub path: String,
    /// Whether writes are measured too, which overwrites blocks anywhere on it. Otherwise it is opened for reading
    /// only.
    pub overwrite: bool,
}

/// One device.
pub(crate) struct DeviceBench {
    kind: &'static str,
    /// If it stands for no other device of its kind.
    path: Option<String>,
    /// As the text says, or as the opened device tells.
    size: u64,
    block: u32,
    on_cpu: bool,
    devices: Vec<DeviceSpec>,
    /// Whether the medium keeps what was written when the stack is gone, and holds it by now.
    keeps: bool,
    filled: bool,
    rows: Vec<Row>,
}

/// One order of operations, length and depth, and what each round took.
struct Row {
    requests: Requests,
    /// What is told of it: each operation by itself.
    told: &'static [Op],
    rounds: Vec<Sample>,
}

struct Sample {
    client_ns: f64,
    /// Of each operation that is told.
    latencies: Vec<Latencies>,
}

/// The devices that answer at once, a file if there is a place for one, and block devices.
pub(crate) fn all(file: Option<&str>, raw: &[RawDevice]) -> Vec<DeviceBench> {
    let mut all = vec![on_cpu("null", GIB, &[LENS[0], LENS[2]])];
    all.extend(MEMORY_SIZES.map(|size| on_cpu("memory", size, &LENS)));
    all.extend(file.map(in_file));
    all.extend(raw.iter().map(on_raw));
    all
}

fn on_cpu(kind: &'static str, size: u64, lens: &[u64]) -> DeviceBench {
    let rows = rows(lens, &[1], BATCH_NOW);
    let devices = vec![device("d", kind, &[], &[("size", &size_text(size))])];
    DeviceBench { kind, path: None, size, block: 512, on_cpu: true, devices, keeps: false, filled: false, rows }
}

fn in_file(path: &str) -> DeviceBench {
    let mut rows = rows(&LENS, &DEPTHS, BATCH_WAITING);
    rows.push(flushes());
    let devices = vec![device("d", "file", &[], &[("path", path), ("size", &size_text(FILE_SIZE))])];
    let (kind, size) = ("file", FILE_SIZE);
    DeviceBench { kind, path: None, size, block: 512, on_cpu: false, devices, keeps: true, filled: false, rows }
}

/// It is never written in full: that would take hours, and what it holds is not ours.
fn on_raw(raw: &RawDevice) -> DeviceBench {
    let mut rows = rows(&LENS, &DEPTHS, BATCH_RAW);
    match raw.overwrite {
        true => rows.push(flushes()),
        false => rows.retain(|row| row.told == [Op::Read]),
    }
    let read_only = if raw.overwrite { "false" } else { "true" };
    let devices = vec![device("d", "raw", &[], &[("path", &raw.path), ("read_only", read_only)])];
    let (kind, path) = ("raw", Some(raw.path.clone()));
    DeviceBench { kind, path, size: 0, block: 512, on_cpu: false, devices, keeps: true, filled: true, rows }
}

fn flushes() -> Row {
    let ops = Ops::InTurn(&[Op::Write, Op::Flush]);
    let requests = Requests { ops, len: LENS[0], depth: 1, count: 2 * FLUSHES };
    Row { requests, told: &[Op::Flush], rounds: Vec::new() }
}

fn rows(lens: &[u64], depths: &[u32], batch: u64) -> Vec<Row> {
    let orders: [(Ops, &[Op]); 3] = [
        (Ops::Only(Op::Read), &[Op::Read]),
        (Ops::Only(Op::Write), &[Op::Write]),
        (Ops::Mixed, &[Op::Read, Op::Write]),
    ];
    let mut rows = Vec::new();
    for (ops, told) in orders {
        for (len, depth) in lens.iter().flat_map(|len| depths.iter().map(move |depth| (*len, *depth))) {
            // Long requests take longer, and requests side by side end sooner.
            let count = batch / (len / LENS[0]).clamp(1, 4) * u64::from(depth.clamp(1, 4));
            rows.push(Row { requests: Requests { ops, len, depth, count }, told, rounds: Vec::new() });
        }
    }
    rows
}

impl DeviceBench {
    /// Steps of a round.
    pub(crate) fn steps(&self) -> usize {
        self.rows.len()
    }

    /// Measures every row once more, each told to `watch` before.
    ///
    /// # Errors
    /// What cannot be built or played.
    pub(crate) fn round(&mut self, round: Round, watch: &mut dyn FnMut(&str)) -> Result<(), PredictError> {
        let bench = Bench::new(self.devices.clone(), round.seed)?;
        (self.size, self.block) = (bench.size(), bench.block());
        if !(self.keeps && self.filled) {
            bench.fill()?;
            self.filled = true;
        }
        // A medium remembers what was asked of it just before: no row always comes after the same one.
        let mut random = Stream::named(round.seed, "rows");
        let mut order: Vec<usize> = (0..self.rows.len()).collect();
        order.sort_by_cached_key(|_| random.next_u64());
        for at in order {
            watch(self.kind);
            let warm_up = self.warm_up();
            let row = &mut self.rows[at];
            let warm_up = Requests { count: row.requests.count / warm_up, ..row.requests };
            warm_up.take(&bench, self.size, random.next_u64())?;
            // Other places for each row: what another one has just touched may lie in a cache.
            let taken = round.sample(|| row.requests.take(&bench, self.size, random.next_u64()))?;
            row.rounds.push(Sample::of(&taken, row, self.on_cpu));
        }
        Ok(())
    }

    /// Whether it answers at once.
    pub(crate) fn is_on_cpu(&self) -> bool {
        self.on_cpu
    }

    /// Which part of a row is played before it. Caches of a CPU hold what was touched last: a row begins as it goes on
    /// only when as much was played before.
    fn warm_up(&self) -> u64 {
        if self.on_cpu { 1 } else { 8 }
    }

    /// Over all rounds.
    pub(crate) fn times(&self) -> DeviceTimes {
        DeviceTimes {
            kind: self.kind.to_string(),
            path: self.path.clone(),
            size: self.size,
            block: self.block,
            on_cpu: self.on_cpu,
            times: self.rows.iter().flat_map(Row::times).collect(),
        }
    }
}

impl Sample {
    fn of(taken: &Taken, row: &Row, on_cpu: bool) -> Sample {
        let latencies: Vec<Latencies> = row.told.iter().map(|op| taken.latencies(*op)).collect();
        let (_, mean_ns) = Latencies::pooled(&latencies).mean();
        let client_ns = match (row.requests.ops, on_cpu) {
            (Ops::InTurn(_), _) => 0.0,
            // Alone, a client either makes requests or waits for an answer; looking at the clock takes time as well.
            (_, true) => (taken.cycle_ns - mean_ns).max(0.0),
            (_, false) => taken.turn_ns(),
        };
        Sample { client_ns, latencies }
    }
}

impl Row {
    fn times(&self) -> impl Iterator<Item = Times> {
        self.told.iter().enumerate().map(|(at, op)| {
            let latencies = || self.rounds.iter().map(move |round| &round.latencies[at]);
            let groups_ns = pooled_groups(latencies());
            Times {
                op: OpName::of(*op),
                len: if op.is_transfer() { self.requests.len } else { 0 },
                depth: self.requests.depth,
                mixed: matches!(self.requests.ops, Ops::Mixed),
                requests: latencies().map(|round| round.mean().0).sum(),
                client_ns: tenths(median(self.rounds.iter().map(|round| round.client_ns))),
                mean_ns: tenths(mean_of(&groups_ns)),
                groups_ns,
            }
        })
    }
}
