//! What a replay tells: how long it took and where the time went, how long calls took, and what came out otherwise than
//! when it was traced. Serialised as JSON, [`text`] for people, [`html`] with figures; [`compare`] sets several targets
//! beside each other.

use esker_trace_order::compiled::LeftOut;
use serde::{Deserialize, Serialize};

pub mod behaviour;
pub mod compare;
pub mod html;
pub mod measure;
pub mod prediction;
pub mod text;

pub use behaviour::Behaviour;
pub use prediction::Prediction;

/// Version of the JSON form. Other versions are refused.
pub const VERSION: u32 = 1;
/// Mismatches that a report lists; all are counted.
pub const LISTED_MAX: usize = 1000;
/// Instants at which the number of outstanding calls is sampled.
pub const SAMPLES: usize = 200;
/// Above this share of failing calls a time says nothing: a call that fails returns at once.
pub const FAILURES_MAX: f64 = 0.01;

/// One replay.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// [`VERSION`].
    pub version: u32,
    /// What was replayed.
    pub trace: String,
    /// Where: the directory and the type of its file system.
    pub target: Target,
    /// How.
    pub how: How,
    /// What was needed to make the initial tree, if it was made.
    pub init: Option<Initialised>,
    /// Nanoseconds from the first call's issue to the last one's end.
    pub elapsed_ns: u64,
    /// The same in the trace.
    pub traced_ns: u64,
    /// What that says of the program itself on the target. Absent, too, in reports of before it was told.
    #[serde(default)]
    pub prediction: Option<Prediction>,
    /// Why it says nothing.
    #[serde(default)]
    pub no_prediction: Option<String>,
    /// I/O of the program that was not played, because the trace does not hold it. Nothing in reports of before it was
    /// told.
    #[serde(default)]
    pub left_out: LeftOut,
    /// Elapsed times of all repetitions, of which this report shows the one in the middle.
    pub repeats_ns: Vec<u64>,
    /// Each thread's time.
    pub threads: Vec<ThreadTime>,
    /// Calls by type, the most expensive first.
    pub calls: Vec<CallTime>,
    /// Thread time by category, the largest first; the shares sum to 1.
    pub categories: Vec<Category>,
    /// What the elapsed time was spent with. All 0 in reports of before it was told.
    #[serde(default)]
    pub behaviour: Behaviour,
    /// Calls under way at a time, on average over the elapsed time.
    pub outstanding_mean: f64,
    /// The same in the trace.
    pub traced_outstanding_mean: f64,
    /// Calls under way at [`SAMPLES`] equidistant instants.
    pub outstanding: Vec<u32>,
    /// What came out otherwise.
    pub mismatches: Mismatches,
    /// How the tree differs from the one that the program left. Not compared in reports of before it was told.
    #[serde(default)]
    pub tree_differences: TreeDifferences,
    /// What was done otherwise than traced, or tolerated, and how often.
    pub adapted: Vec<Adapted>,
    /// What ended the replay early, if anything did.
    pub stopped: Option<String>,
    /// Bytes of memory that the replaying process held at the end; 0 of a simulated replay.
    pub resident_bytes: u64,
    /// How it was simulated; absent of replays on the kernel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub simulated: Option<Simulated>,
}

/// A replay in virtual time: one seed gives one report, byte for byte.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Simulated {
    /// Seed of the world.
    pub seed: u64,
    /// Simulated CPUs.
    pub cpus: u64,
    /// Where the CPU times of calls come from.
    pub costs: String,
    /// Digest of the tree behind the replay: names, kinds, modes, owners, bytes and extended attributes.
    pub tree: String,
    /// Digest of all events of the world.
    pub digest: String,
}

/// Where a trace was replayed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Target {
    /// The run directory.
    pub dir: String,
    /// Type of its file system.
    pub file_system: String,
}

/// The choices of a replay.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct How {
    /// `root`, `temporal`, `single` or `unconstrained`.
    pub mode: String,
    /// Rules in force, for `root`.
    pub rules: String,
    /// `afap`, `natural` or a factor.
    pub speed: String,
    /// `durable` or `device`.
    pub fsync: String,
    /// `link` or `atomic`.
    pub exchange: String,
}

/// What it took to make the initial tree.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Initialised {
    /// `full` or `delta`.
    pub mode: String,
    /// Nanoseconds.
    pub elapsed_ns: u64,
    /// Entries looked at.
    pub entries: u64,
    /// Entries made.
    pub made: u64,
    /// Entries removed.
    pub removed: u64,
    /// Entries changed in place.
    pub changed: u64,
    /// Bytes of data written.
    pub bytes: u64,
    /// What could not be restored as it was, and why.
    pub notes: Vec<String>,
    /// What was left out of the tree, and how often. Nothing in reports of before it was told.
    #[serde(default)]
    pub adapted: Vec<Adapted>,
}

/// Where a thread's time went. The four parts, from `busy_ns` to `idle_ns`, sum to the elapsed time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadTime {
    /// The traced thread.
    pub thread: String,
    /// Actions done.
    pub actions: u64,
    /// Nanoseconds in calls.
    pub busy_ns: u64,
    /// Nanoseconds waiting for other threads.
    pub waiting_ns: u64,
    /// Nanoseconds of traced computation that was slept.
    pub delay_ns: u64,
    /// Nanoseconds of everything else: before its start, after its end, and the replayer's own work.
    pub idle_ns: u64,
    /// When it issued its first call, in nanoseconds since the start; 0 if it made none. 0 in reports of before it was
    /// told, as is the next.
    #[serde(default)]
    pub first_ns: u64,
    /// When its last call ended.
    #[serde(default)]
    pub last_ns: u64,
}

/// Latencies of one type of call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallTime {
    /// Name of the call.
    pub call: String,
    /// How many.
    pub count: u64,
    /// Sum of the latencies in nanoseconds.
    pub total_ns: u64,
    /// The same in the trace.
    pub traced_total_ns: u64,
    /// Percentiles 10, 50, 95 and 99 in nanoseconds.
    pub percentiles_ns: [u64; 4],
    /// The same in the trace.
    pub traced_percentiles_ns: [u64; 4],
}

/// Which percentiles are told.
pub const PERCENTILES: [u32; 4] = [10, 50, 95, 99];

/// Thread time of one category of calls.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Category {
    /// Its name.
    pub name: String,
    /// Nanoseconds.
    pub time_ns: u64,
    /// Share of the thread time in calls.
    pub share: f64,
}

/// Results that differ from the trace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mismatches {
    /// All.
    pub count: u64,
    /// Actions that were compared.
    pub compared: u64,
    /// By type of call, the most frequent first.
    pub by_call: Vec<(String, u64)>,
    /// The first [`LISTED_MAX`] in the order of the trace.
    pub listed: Vec<Mismatch>,
}

/// One result that differs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mismatch {
    /// Number of the action in the trace.
    pub action: u64,
    /// The traced thread.
    pub thread: String,
    /// The call with its arguments.
    pub call: String,
    /// The traced result.
    pub expected: String,
    /// The result now.
    pub actual: String,
}

/// What of the tree after the replay is not as the program left it: names, types, sizes, permissions and links.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TreeDifferences {
    /// All.
    pub count: u64,
    /// Names that were compared.
    pub compared: u64,
    /// The first [`LISTED_MAX`] in the order of paths.
    pub listed: Vec<TreeDifference>,
    /// Why nothing was compared.
    pub not_compared: Option<String>,
}

impl TreeDifferences {
    /// Nothing was compared, and why.
    pub fn none(why: &str) -> TreeDifferences {
        TreeDifferences { count: 0, compared: 0, listed: Vec::new(), not_compared: Some(why.to_string()) }
    }

    /// Share of the compared names that differ.
    pub fn share(&self) -> f64 {
        self.count as f64 / self.compared.max(1) as f64
    }
}

impl Default for TreeDifferences {
    fn default() -> TreeDifferences {
        TreeDifferences::none("the report does not tell")
    }
}

/// One name that differs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TreeDifference {
    /// The path in the trace.
    pub path: String,
    /// What the program left there.
    pub expected: String,
    /// What is there now.
    pub actual: String,
}

/// Something that was done otherwise than traced, or tolerated.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Adapted {
    /// What and why.
    pub what: String,
    /// How often.
    pub count: u64,
}

/// A file is no report, or not one of this version.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// Not JSON of a report.
    #[error("is no report of a replay: {0}")]
    NotOne(#[from] serde_json::Error),
    /// Another version.
    #[error("is a report of version {found}; this program reads version {VERSION}; replay again")]
    Version {
        /// Its version.
        found: u64,
    },
}

impl Report {
    /// Reads a report.
    ///
    /// # Errors
    /// [`ReportError`].
    pub fn from_json(text: &str) -> Result<Report, ReportError> {
        let value: serde_json::Value = serde_json::from_str(text)?;
        match value.get("version").and_then(serde_json::Value::as_u64) {
            Some(found) if found != u64::from(VERSION) => Err(ReportError::Version { found }),
            _ => Ok(serde_json::from_value(value)?),
        }
    }

    /// The same report with what it predicts, which depends on all else in it.
    pub(crate) fn with_prediction(mut self) -> Report {
        (self.prediction, self.no_prediction) = match Prediction::of(&self) {
            Ok(prediction) => (Some(prediction), None),
            Err(why) => (None, Some(why.to_string())),
        };
        self
    }

    /// Whether its calls came out as traced, so that its times are those of the calls.
    pub fn is_usable(&self) -> bool {
        self.failure_share() <= FAILURES_MAX && self.stopped.is_none()
    }

    /// Why its times cannot be compared with those of other replays, in a few words; `None` if they can.
    pub fn why_incomparable(&self) -> Option<&'static str> {
        match self.left_out.why_no_time() {
            Some(_) => Some("I/O not played"),
            None if !self.is_usable() => Some("too many failures"),
            None => None,
        }
    }

    /// Share of the compared actions that came out otherwise.
    pub fn failure_share(&self) -> f64 {
        self.mismatches.count as f64 / (self.mismatches.compared.max(1)) as f64
    }
}
