//! What a comparison says. Everything here is a function of the plan: no wall time, no machine, no date.

use esker_base::Nanos;
use esker_report::KnownError;
use serde::{Deserialize, Serialize};

use crate::against::Against;
use crate::facts::Facts;
use crate::feed::Limit;
use crate::headroom::Headroom;
use crate::load::Load;
use crate::measure::Latencies;
use crate::product::Product;
use crate::speed::SpeedFound;
use crate::verdict::Verdict;

/// The mark by which files of ours are known.
pub const WRITTEN_BY: &str = "esker try";

/// The whole comparison.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// [`WRITTEN_BY`].
    pub written_by: &'static str,
    /// Version of the program.
    pub version: &'static str,
    /// Always true: all times are virtual.
    pub simulated: bool,
    /// Seed of all random streams.
    pub seed: u64,
    /// How requests came.
    pub load: Load,
    /// How fast the traces were played at their recorded times, and why.
    pub speed: Option<SpeedFound>,
    /// Whose CPU and device times were charged; `None`: the manifests' estimates.
    pub calibration: Option<CalibrationUsed>,
    /// Whether one export held all volumes.
    pub joined: bool,
    /// How much of the traces was played.
    pub limit: Limit,
    /// Whether each run was repeated and gave the same digest.
    pub verified: bool,
    /// The traces, in the order of the exports.
    pub traces: Vec<Facts>,
    /// One run for each candidate.
    pub runs: Vec<CandidateRun>,
    /// Which is best, and why.
    pub verdict: Verdict,
    /// Names of the candidates that no other one beats in everything.
    pub pareto: Vec<String>,
    /// The differences from an older result, if one was given.
    pub against: Option<Against>,
    /// What to know before quoting a figure.
    pub caveats: Vec<String>,
}

impl Comparison {
    /// As one JSON object; equal comparisons give equal bytes.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("no map in it has keys that are not texts")
    }

    /// How fast requests came, for people.
    pub fn pace(&self) -> String {
        match &self.speed {
            Some(speed) => speed.text(),
            None => self.load.text(),
        }
    }

    /// Whose CPU and device times were charged, for people.
    pub fn charged(&self) -> String {
        match &self.calibration {
            Some(used) => format!("{}, measured on {}", used.name, used.machine),
            None => "CPU costs are estimates; `esker calibrate` measures them".to_string(),
        }
    }

    /// The errors that are known of such predictions, each once.
    pub fn known_errors(&self) -> Vec<String> {
        let mut told: Vec<String> = Vec::new();
        for known in self.runs.iter().flat_map(|run| &run.known_errors) {
            if !told.contains(&known.text()) {
                told.push(known.text());
            }
        }
        told
    }

    /// The run of the best candidate.
    pub fn winner(&self) -> &CandidateRun {
        &self.runs[self.verdict.winner]
    }
}

/// The calibration that a comparison rests on.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CalibrationUsed {
    /// Its file.
    pub name: String,
    /// Where it was measured.
    pub machine: String,
    /// Layers and devices that it knows.
    pub measured: usize,
}

/// What one candidate did.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CandidateRun {
    /// Short name of the candidate.
    pub name: String,
    /// What it is.
    pub what: String,
    /// Its text.
    pub stack: String,
    /// The text of the stack that is served in its place, if that differs.
    #[serde(skip)]
    pub served: Option<String>,
    /// All requests to all volumes.
    pub all: Latency,
    /// What `all` is the summary of, to be pooled with other runs.
    #[serde(skip)]
    pub latencies: Latencies,
    /// All reads.
    pub reads: Latency,
    /// All writes.
    pub writes: Latency,
    /// All flushes.
    pub flushes: Latency,
    /// Each volume, in the order of the traces.
    pub volumes: Vec<VolumeRun>,
    /// From the start to the last answer.
    pub elapsed_ns: u64,
    /// From the last arrival to the last answer.
    pub drain_ns: u64,
    /// Answered reads and writes a second.
    pub requests_per_s: f64,
    /// Bytes of answered reads and writes a second.
    pub bytes_per_s: f64,
    /// Most requests in flight at once.
    pub inflight_max: u64,
    /// Requests that were simulated for this run and for the search of its headroom.
    pub played: u64,
    /// Why the stack counts as overloaded, if it does. Of a run that was cut off, all other figures are of the requests
    /// until then.
    pub saturated: Option<String>,
    /// How many times the load it bears within the target; `None` in closed loop, or if that was not asked for.
    pub headroom: Option<Headroom>,
    /// Requests that failed, and how the first one did.
    pub failed: u64,
    /// The first failure.
    pub first_failure: Option<String>,
    /// How requests were made to fit.
    pub fitted: Fitted,
    /// The modelled devices.
    pub devices: Vec<DeviceRun>,
    /// The layers that tell numbers about themselves.
    pub layers: Vec<LayerRun>,
    /// Busy share of the busiest device; `None` if no device is a model.
    pub busy: Option<f64>,
    /// Energy of all devices in joules.
    pub energy_j: Option<f64>,
    /// Price of all devices in US dollars.
    pub price_usd: Option<f64>,
    /// The errors that are known of predictions for such devices.
    pub known_errors: Vec<KnownError>,
    /// Fingerprint of all events: the same on every machine. `None` for a run in real time.
    pub digest: Option<String>,
    /// Events of the virtual world.
    pub events: u64,
    /// Latency in nanoseconds and the share of requests that were answered within it.
    pub cdf: Vec<(u64, f64)>,
    /// Equal intervals of the planned time.
    pub intervals: Vec<Interval>,
}

impl CandidateRun {
    /// Whether its energy rests on estimated figures of power.
    pub fn energy_is_estimated(&self) -> bool {
        self.products().any(|product| product.power_is_estimated)
    }

    /// The products of its devices that are in the catalogue.
    pub fn products(&self) -> impl Iterator<Item = &Product> {
        self.devices.iter().filter_map(|device| device.product.as_ref())
    }

    /// Its digest; a run in real time has none.
    pub fn digest(&self) -> &str {
        self.digest.as_deref().unwrap_or("none (real time)")
    }
}

/// Percentiles of one kind of request, from its due time to its answer, exact to 0.1 %.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// Requests.
    pub requests: u64,
    /// Mean.
    pub mean_ns: u64,
    /// Half are faster.
    pub p50_ns: u64,
    /// 95 % are faster.
    pub p95_ns: u64,
    /// 99 % are faster.
    pub p99_ns: u64,
    /// 99.9 % are faster.
    pub p999_ns: u64,
    /// The slowest.
    pub max_ns: u64,
}

impl Latency {
    /// The 99th percentile.
    pub fn p99(&self) -> Nanos {
        Nanos(self.p99_ns)
    }
}

/// What one volume did.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct VolumeRun {
    /// Name of the export.
    pub name: String,
    /// Reads.
    pub reads: Latency,
    /// Writes.
    pub writes: Latency,
    /// Flushes.
    pub flushes: Latency,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
}

/// What one modelled device did.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DeviceRun {
    /// Its name in the stack.
    pub name: String,
    /// Its kind.
    pub kind: &'static str,
    /// The product that it models, if it is in the catalogue.
    pub product: Option<Product>,
    /// Its size as the stack uses it.
    pub size_bytes: u64,
    /// Share of the elapsed time in which it worked.
    pub busy: f64,
    /// Joules.
    pub energy_j: f64,
    /// US dollars.
    pub price_usd: f64,
    /// Bytes read from its medium.
    pub read_bytes: u64,
    /// Bytes written to its medium.
    pub written_bytes: u64,
}

/// What one layer told of itself.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LayerRun {
    /// Its name in the stack.
    pub name: String,
    /// Its kind.
    pub kind: &'static str,
    /// Its numbers.
    pub stats: Vec<LayerStat>,
}

impl LayerRun {
    /// The numbers that are not 0, for people.
    pub fn text(&self) -> String {
        let told = self.stats.iter().filter(|stat| stat.end != 0.0).map(LayerStat::text);
        told.collect::<Vec<_>>().join(", ")
    }
}

/// One number of a layer.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct LayerStat {
    /// Its name, with the unit last.
    pub name: &'static str,
    /// Its value when counting began; `None` if everything counts.
    pub begin: Option<f64>,
    /// Its value at the end.
    pub end: f64,
}

impl LayerStat {
    fn text(&self) -> String {
        let shown = |value: f64| if value.fract() == 0.0 { format!("{value}") } else { format!("{value:.3}") };
        match self.begin {
            None => format!("{} {}", self.name, shown(self.end)),
            Some(begin) => format!("{} {} (warm-up {})", self.name, shown(self.end), shown(begin)),
        }
    }
}

/// How requests were changed, or not played, because a volume could not take them as recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Fitted {
    /// Beyond the volume's end: moved to an offset modulo its size.
    pub wrapped: u64,
    /// Not aligned to the volume's block: widened to whole blocks.
    pub widened: u64,
    /// Larger than the volume takes at once: left out.
    pub too_large: u64,
    /// Of an operation that the volume does not have: left out.
    pub unsupported: u64,
}

impl Fitted {
    /// What happened, for people; empty if nothing did.
    pub fn text(&self) -> String {
        let counts = [
            (self.wrapped, "moved inside the volume (recorded beyond its end)"),
            (self.widened, "widened to whole blocks"),
            (self.too_large, "left out (larger than the volume takes at once)"),
            (self.unsupported, "left out (the volume does not have the operation)"),
        ];
        let told = counts.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}"));
        told.collect::<Vec<_>>().join(", ")
    }
}

/// One interval of the planned time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Interval {
    /// Its begin.
    pub at_ns: u64,
    /// Requests that were due in it.
    pub requests: u64,
    /// The 99th percentile of their latencies; 0 without requests.
    pub p99_ns: u64,
    /// Bytes of reads and writes that were answered in it.
    pub answered_bytes: u64,
    /// Most requests in flight at an arrival in it.
    pub inflight_max: u64,
}
