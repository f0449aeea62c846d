//! What is in the played part of a trace, for each of its volumes.

use esker_base::Nanos;
use esker_stack::text::is_sound_name;
use esker_trace_block::{Op, Record};
use serde::Serialize;

use crate::error::PredictError;
use crate::feed::{Clock, RecordIter, Repeats};
use crate::input::Trace;

/// Requests that repeat range and operation of one this short before are counted.
pub const REPEAT_WINDOW: Nanos = Nanos::millis(1);

/// Volumes of one trace that are played at once. Each needs an export, and about a megabyte of histograms.
pub(crate) const VOLUMES_MAX: usize = 256;

/// Volumes that a message names.
const VOLUMES_NAMED: usize = 5;

/// Bytes of a name that is made for a volume.
const NAME_MAX: usize = 48;

/// What is in the played part of one volume of a trace.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Facts {
    /// Name of the trace.
    pub name: String,
    /// Name of the export that serves it.
    pub volume: String,
    /// Format.
    pub format: &'static str,
    /// Step of the recorded times in nanoseconds; `None`: the format has no times.
    pub time_step_ns: Option<u64>,
    /// Whether the format tells reads from writes.
    pub has_operations: bool,
    /// Requests.
    pub requests: u64,
    /// Of these, reads.
    pub reads: u64,
    /// Of these, writes.
    pub writes: u64,
    /// Of these, flushes.
    pub flushes: u64,
    /// Of these, discards.
    pub discards: u64,
    /// Of these, played before counting began.
    pub warm: u64,
    /// Bytes read and written.
    pub bytes: u64,
    /// Reads and writes that do not begin and end at multiples of 4 KiB.
    pub unaligned: u64,
    /// End of the last byte that a request touches.
    pub reach_bytes: u64,
    /// Recorded time of the last request.
    pub duration_ns: u64,
    /// Requests that repeat range and operation of one less than [`REPEAT_WINDOW`] before.
    pub repeats: u64,
    /// What was wrong with the trace, if anything was.
    pub damage: Option<String>,
}

impl Facts {
    /// An empty volume of that name.
    pub(crate) fn nothing(name: &str, volume: &str) -> Facts {
        Facts {
            name: name.to_string(),
            volume: volume.to_string(),
            format: "records",
            time_step_ns: Some(1),
            has_operations: true,
            requests: 0,
            reads: 0,
            writes: 0,
            flushes: 0,
            discards: 0,
            warm: 0,
            bytes: 0,
            unaligned: 0,
            reach_bytes: 0,
            duration_ns: 0,
            repeats: 0,
            damage: None,
        }
    }

    fn add(&mut self, record: &Record) {
        self.requests += 1;
        let count = match record.op {
            Op::Read => &mut self.reads,
            Op::Write => &mut self.writes,
            Op::Flush => &mut self.flushes,
            Op::Discard => &mut self.discards,
        };
        *count += 1;
        if record.op.is_transfer() {
            self.bytes += record.len;
            self.unaligned += u64::from(!record.range().is_aligned(4096));
        }
        self.reach_bytes = self.reach_bytes.max(record.range().end());
        self.duration_ns = self.duration_ns.max(record.at.0);
    }

    /// Those of whole traces: the sums over their volumes.
    pub(crate) fn of_traces(volumes: &[Facts]) -> Vec<Facts> {
        let mut traces: Vec<Facts> = Vec::new();
        for volume in volumes {
            match traces.last_mut().filter(|trace| trace.name == volume.name) {
                Some(trace) => trace.join(volume),
                None => traces.push(volume.clone()),
            }
        }
        traces
    }

    fn join(&mut self, other: &Facts) {
        self.requests += other.requests;
        self.reads += other.reads;
        self.writes += other.writes;
        self.flushes += other.flushes;
        self.discards += other.discards;
        self.warm += other.warm;
        self.bytes += other.bytes;
        self.unaligned += other.unaligned;
        self.repeats += other.repeats;
        self.reach_bytes = self.reach_bytes.max(other.reach_bytes);
        self.duration_ns = self.duration_ns.max(other.duration_ns);
    }

    /// The recorded time of the last request of all.
    pub(crate) fn last(all: &[Facts]) -> Nanos {
        Nanos(all.iter().map(|facts| facts.duration_ns).max().unwrap_or(0))
    }

    /// A share of its requests.
    pub fn share(&self, count: u64) -> f64 {
        count as f64 / self.requests.max(1) as f64
    }

    /// Gives volumes of one name different ones.
    pub(crate) fn distinguish(all: &mut [Facts]) {
        for at in 1..all.len() {
            let taken = |name: &str, all: &[Facts]| all[..at].iter().any(|other| other.volume == name);
            let base = all[at].volume.clone();
            let mut number = 2;
            while taken(&all[at].volume, all) {
                all[at].volume = format!("{base}-{number}");
                number += 1;
            }
        }
    }
}

/// Counts what is in a trace.
pub(crate) struct Scan {
    /// By number of the volume.
    volumes: Vec<Facts>,
    repeats: Repeats,
    /// Recorded time from which requests count.
    counted_from: Nanos,
    /// Volumes beyond those that are counted.
    beyond: usize,
}

impl Scan {
    pub(crate) fn new(counted_from: Nanos) -> Scan {
        Scan { volumes: Vec::new(), repeats: Repeats::new(REPEAT_WINDOW), counted_from, beyond: 0 }
    }

    pub(crate) fn add(&mut self, record: &Record) {
        let at = record.volume as usize;
        if at >= VOLUMES_MAX {
            self.beyond = self.beyond.max(at + 1);
            return;
        }
        if at >= self.volumes.len() {
            self.volumes.resize(at + 1, Facts::nothing("", ""));
        }
        self.volumes[at].add(record);
        self.volumes[at].warm += u64::from(record.at < self.counted_from);
        self.volumes[at].repeats += u64::from(self.repeats.is_repeat(record));
    }

    /// What was counted of `trace`, which `feed` has read.
    ///
    /// # Errors
    /// A trace without requests or with too many volumes.
    pub(crate) fn facts(self, trace: &Trace, feed: &RecordIter) -> Result<Vec<Facts>, PredictError> {
        if self.beyond > 0 {
            let named = feed.volumes().iter().take(VOLUMES_NAMED).cloned().collect::<Vec<_>>().join(", ");
            return Err(PredictError::TooManyVolumes { name: trace.name().to_string(), volumes: self.beyond, named });
        }
        if self.volumes.is_empty() {
            return Err(PredictError::NoRequests(trace.name().to_string()));
        }
        let is_single = self.volumes.len() == 1;
        let volume = |at: usize| match (is_single, feed.volumes().get(at)) {
            (true, _) => sound_name(trace.stem()),
            (false, Some(name)) => sound_name(&format!("{}-{name}", trace.stem())),
            (false, None) => sound_name(&format!("{}-{at}", trace.stem())),
        };
        let (format, clock, damage) = (feed.reader().map(|reader| reader.format()), feed.clock(), feed.damage());
        let finished = |(at, counted): (usize, Facts)| Facts {
            name: trace.name().to_string(),
            volume: volume(at),
            format: format.map_or(counted.format, |format| format.name()),
            time_step_ns: match (clock, format) {
                (Clock::None, _) => None,
                (_, Some(format)) => Some(format.time_resolution().0),
                (_, None) => counted.time_step_ns,
            },
            has_operations: format.is_none_or(|format| format.has_operations()),
            damage: damage.clone().filter(|_| at == 0),
            ..counted
        };
        Ok(self.volumes.into_iter().enumerate().map(finished).collect())
    }
}

/// `text` as far as it can name a volume.
fn sound_name(text: &str) -> String {
    let fits = |c: char| if c.is_ascii_alphanumeric() || c == '_' { c } else { '-' };
    let name: String = text.chars().take(NAME_MAX).map(fits).collect();
    let name = name.trim_matches('-');
    if is_sound_name(name) { name.to_string() } else { "trace".to_string() }
}
