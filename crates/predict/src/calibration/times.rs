//! Service times of a device: distributions by operation, length and requests in flight, and what lies between.

use esker_base::{Nanos, Stream};
use esker_trace_block::Op;
use serde::{Deserialize, Serialize};

use super::Wake;

/// The distribution of a time is told as means of these groups of requests, from the fastest to the slowest: bounds in
/// ten-thousandths. The median, and the 95th, 99th and 99.9th percentile, each lie in the middle of a group; the last
/// group's mean keeps the mean of all right.
pub const GROUPS: [u32; GROUP_COUNT] = [
    0, 250, 750, 1250, 1750, 2250, 2750, 3250, 3750, 4250, 4750, 5250, 5750, 6250, 6750, 7250, 7750, 8250, 8750, 9250,
    9450, 9550, 9650, 9750, 9850, 9890, 9910, 9950, 9985, 9995,
];
/// How many groups there are.
pub const GROUP_COUNT: usize = 30;
/// The share of writes where reads and writes were measured mixed.
pub const MIXED_SHARE: f64 = 0.5;
/// The requests over which a mix is told: the mean age of what counts.
const LATELY: f64 = 64.0;
/// The bound behind the last group.
pub const WHOLE: u32 = 10_000;

/// A device's operation, by its word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OpName {
    /// Bytes are read.
    Read,
    /// Bytes are written.
    Write,
    /// Earlier writes are made durable.
    Flush,
}

impl OpName {
    /// What is measured in place of `op`.
    pub fn of(op: Op) -> OpName {
        match op {
            Op::Read => OpName::Read,
            Op::Write => OpName::Write,
            Op::Flush | Op::Discard => OpName::Flush,
        }
    }

    /// As it is written.
    pub fn word(self) -> &'static str {
        match self {
            OpName::Read => "read",
            OpName::Write => "write",
            OpName::Flush => "flush",
        }
    }
}

/// A device as it was measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeviceTimes {
    /// Kind.
    pub kind: String,
    /// Where it is, if it stands for no other device of its kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Bytes of the measured device, over which requests were spread evenly.
    pub size: u64,
    /// Its logical block.
    pub block: u32,
    /// Whether a request keeps the CPU for its time, or waits beside it.
    pub on_cpu: bool,
    /// Measured points.
    pub times: Vec<Times>,
}

/// Requests of one operation and length, so many in flight at once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Times {
    /// Operation.
    pub op: OpName,
    /// Bytes.
    pub len: u64,
    /// Requests in flight.
    pub depth: u32,
    /// Whether reads and writes were mixed, [`MIXED_SHARE`] of them writes.
    #[serde(default)]
    pub mixed: bool,
    /// Requests that were measured.
    pub requests: u64,
    /// What passes in a client between an answer and its next request: making requests and counting answers, its own
    /// and those of the others that came together with them. CPU time, where requests keep the CPU.
    pub client_ns: f64,
    /// Mean time.
    pub mean_ns: f64,
    /// Mean time of each group of [`GROUPS`].
    pub groups_ns: Vec<f64>,
}

impl Times {
    /// The time that this share of the requests does not exceed, in nanoseconds, as fine as [`GROUPS`].
    pub fn at(&self, share: f64) -> f64 {
        self.groups_ns[group_of(share)]
    }

    /// Requests in flight that one finds with itself when it enters: of the other clients some are between an answer
    /// and their next request.
    fn in_flight(&self) -> f64 {
        let cycle = self.mean_ns + self.client_ns;
        let share = if cycle > 0.0 { self.mean_ns / cycle } else { 1.0 };
        1.0 + f64::from(self.depth - 1) * share
    }
}

impl DeviceTimes {
    /// Whether nothing was written to it.
    pub(super) fn is_only_read(&self) -> bool {
        self.path.is_some() && self.times.iter().all(|times| times.op == OpName::Read)
    }

    /// What cannot be used, if anything.
    pub(super) fn fault(&self) -> Option<String> {
        if self.times.is_empty() {
            return Some("has no times".to_string());
        }
        let is_sound = |x: &f64| x.is_finite() && *x >= 0.0;
        let bad = self.times.iter().find(|t| {
            t.groups_ns.len() != GROUPS.len() || t.depth == 0 || !t.groups_ns.iter().chain([&t.client_ns]).all(is_sound)
        })?;
        let groups = GROUPS.len();
        Some(format!("{:?} of {} bytes needs a depth and {groups} times, finite numbers from 0 on", bad.op, bad.len))
    }

    /// The time of the requests in `group`, with `in_flight` requests of their own length in flight, of their own
    /// operation or mixed. Between what was measured it is linear; above, it goes on as before.
    pub fn at(&self, op: OpName, mixed: bool, len: u64, in_flight: f64, group: usize) -> f64 {
        self.interpolated(op, mixed, len, (in_flight, Times::in_flight), |times| times.groups_ns[group])
    }

    /// `value` at a crowd, which the second of the pair tells of each row.
    fn interpolated(
        &self,
        op: OpName,
        mixed: bool,
        len: u64,
        (crowd, crowd_of): (f64, impl Fn(&Times) -> f64),
        value: impl Fn(&Times) -> f64,
    ) -> f64 {
        let rows = || {
            let has = |op, mixed| self.times.iter().any(|t| t.op == op && t.mixed == mixed);
            let mixed = mixed && has(op, mixed);
            let op = if has(op, mixed) { op } else { OpName::Read };
            self.times.iter().filter(move |t| t.op == op && t.mixed == mixed)
        };
        let mut depths: Vec<u32> = rows().map(|t| t.depth).collect();
        depths.sort_unstable();
        depths.dedup();
        let by_len = |depth: u32, value: &dyn Fn(&Times) -> f64| {
            let rows = rows().filter(|t| t.depth == depth);
            let mut points: Vec<_> = rows.map(|t| (t.len as f64, value(t))).collect();
            points.sort_by(|a, b| a.0.total_cmp(&b.0));
            linear(&points, len as f64)
        };
        let point = |depth| (by_len(depth, &crowd_of), by_len(depth, &value));
        linear(&depths.into_iter().map(point).collect::<Vec<_>>(), crowd)
    }

    /// The time of a request in `group` while `others` (how many of which operation and length) are in flight: its own
    /// time alone, and what each other one adds to requests of its own kind in such company. Among equals that is the
    /// measured time. Where it counts as `mixed`, its own kind is one of reads and writes alike.
    pub fn service(&self, own: (OpName, u64), mixed: bool, others: &[(OpName, u64, u32)], group: usize) -> f64 {
        let company: u32 = others.iter().map(|(_, _, count)| count).sum();
        let alone = self.at(own.0, mixed, own.1, 1.0, group);
        let in_flight = f64::from(company) + 1.0;
        let adds = |(op, len, count): &(OpName, u64, u32)| {
            let op = if mixed { own.0 } else { *op };
            let more = self.at(op, mixed, *len, in_flight, group) - self.at(op, mixed, *len, 1.0, group);
            more * f64::from(*count) / f64::from(company)
        };
        (alone + others.iter().map(adds).sum::<f64>()).max(0.0)
    }

    /// What passes in one of `depth` clients before it makes such a request.
    fn client(&self, op: OpName, mixed: f64, len: u64, depth: u32) -> f64 {
        let clients = || (f64::from(depth), |times: &Times| f64::from(times.depth));
        let of = |mixed| self.interpolated(op, mixed, len, clients(), |times| times.client_ns);
        of(false) + (of(true) - of(false)) * mixed
    }
}

/// How mixed requests are of late.
#[derive(Clone, Debug, Default)]
pub(crate) struct Mix {
    /// The share of writes among the transfers; none before the first one.
    writes: Option<f64>,
}

impl Mix {
    /// Counts a request, and returns how likely it takes the time of mixed ones. It is as if drawn from those of its
    /// own kind and from such as were measured mixed, so that the other operation has its share. What is never mixed is
    /// told 0.
    pub(crate) fn of(&mut self, op: OpName) -> f64 {
        let is_write = match op {
            OpName::Read => 0.0,
            OpName::Write => 1.0,
            OpName::Flush => return 0.0,
        };
        let writes = self.writes.get_or_insert(is_write);
        *writes += (is_write - *writes) / LATELY;
        let (others, measured) =
            if op == OpName::Read { (*writes, MIXED_SHARE) } else { (1.0 - *writes, 1.0 - MIXED_SHARE) };
        (others / measured).min(1.0)
    }
}

/// A line through points in order of x: constant before the first, straight on after the last.
fn linear(points: &[(f64, f64)], x: f64) -> f64 {
    let [first, ..] = points else { return 0.0 };
    if points.len() == 1 || x <= first.0 {
        return first.1;
    }
    let right = points.iter().position(|point| point.0 >= x).unwrap_or(points.len() - 1).max(1);
    let ((x0, y0), (x1, y1)) = (points[right - 1], points[right]);
    y0 + (y1 - y0) * (x - x0) / (x1 - x0)
}

/// The mean of all, of the means of groups.
pub fn mean_of(groups_ns: &[f64]) -> f64 {
    let ends = GROUPS.iter().skip(1).chain([&WHOLE]);
    let share = |(from, to): (&u32, &u32)| f64::from(to - from) / f64::from(WHOLE);
    groups_ns.iter().zip(GROUPS.iter().zip(ends).map(share)).map(|(mean, share)| mean * share).sum()
}

/// The group of a number from 0 to 1.
pub(crate) fn group_of(share: f64) -> usize {
    let point = (share * f64::from(WHOLE)) as u32;
    GROUPS.partition_point(|bound| *bound <= point).saturating_sub(1)
}

/// What it takes to make requests and to wait for answers.
#[derive(Clone, Debug, Default)]
pub struct ClientCost {
    times: Option<DeviceTimes>,
    wakes: Vec<Wake>,
    is_paced: bool,
}

impl ClientCost {
    /// As for the device that `times` are of. `is_paced`: the devices are models, whose times do not contain how late
    /// one wakes to an answer, as measured ones do.
    pub fn measured(times: Option<&DeviceTimes>, wakes: &[Wake], is_paced: bool) -> ClientCost {
        ClientCost { times: times.cloned(), wakes: wakes.to_vec(), is_paced }
    }

    /// Whether it is CPU time.
    pub(crate) fn is_on_cpu(&self) -> bool {
        self.times.as_ref().is_none_or(|times| times.on_cpu)
    }

    /// What passes in one of `depth` clients before it makes a request.
    pub(crate) fn of(&self, op: Op, mix: &mut Mix, len: u64, depth: u32) -> Nanos {
        let Some(times) = &self.times else { return Nanos::ZERO };
        let op = OpName::of(op);
        Nanos(times.client(op, mix.of(op), len, depth).round() as u64)
    }

    /// How late a client comes that slept for `slept`; zero draws nothing.
    pub(crate) fn late(&self, slept: Nanos, random: &mut Stream) -> Nanos {
        if slept == Nanos::ZERO || self.wakes.is_empty() {
            return Nanos::ZERO;
        }
        let group = group_of(random.unit());
        let points: Vec<_> = self.wakes.iter().map(|wake| (wake.span_ns as f64, wake.late_ns[group])).collect();
        let longest = points[points.len() - 1].0;
        Nanos(linear(&points, (slept.0 as f64).min(longest)).round() as u64)
    }

    /// How late an answer is seen that took `took`.
    pub(crate) fn sees_late(&self, took: Nanos, random: &mut Stream) -> Nanos {
        if self.is_paced { self.late(took, random) } else { Nanos::ZERO }
    }
}
