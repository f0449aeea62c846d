//! Traces to be played: where their bytes come from, how much of them is played, and what is in them.

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, Cursor, Read};
use std::sync::Arc;

use esker_base::Nanos;
use esker_blktrace::{Format, Op, Record, Source as _, TraceReader};
use esker_stack::text::is_sound_name;
use serde::Serialize;

use crate::error::PredictError;
use crate::plan::Watch;

/// Bytes of a trace, packed or not.
pub type Bytes = Box<dyn Read + Send>;

/// Opens a trace from its start; called once for each pass over it.
pub type Open = Arc<dyn Fn() -> io::Result<Bytes> + Send + Sync>;

/// The traces that are part of this program: name and packed bytes. Their terms are in `data/README.md`.
const EMBEDDED: [(&str, &[u8]); 2] = [
    ("linux-mysql.load.gz", include_bytes!("../../../data/linux-mysql.load.gz")),
    ("linux-webserver-2.load.gz", include_bytes!("../../../data/linux-webserver-2.load.gz")),
];

/// Requests that repeat range and operation of one this short before are counted.
pub const REPEAT_WINDOW: Nanos = Nanos::millis(1);

/// Requests that the search for repeats remembers; in a denser burst some repeats are missed.
const REMEMBERED_MAX: usize = 4096;

/// Requests between two reports of progress.
pub(crate) const STRIDE: u64 = 2048;

/// A trace of one volume.
#[derive(Clone)]
pub struct Trace {
    name: String,
    source: Source,
}

#[derive(Clone)]
enum Source {
    /// In some format; without one, the beginning of the bytes tells it.
    Bytes(Option<Format>, Open),
    /// Records in memory, in order of time and of one volume.
    Records(Arc<[Record]>),
}

/// How much of each trace is played, in recorded time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Limit {
    /// Only requests before this time.
    #[serde(rename = "duration_ns", serialize_with = "as_nanos")]
    pub duration: Option<Nanos>,
    /// Only so many requests.
    pub requests: Option<u64>,
    /// Leaves out requests that repeat range and operation of one less than this before.
    #[serde(rename = "dedup_window_ns", serialize_with = "as_nanos")]
    pub dedup_window: Option<Nanos>,
}

fn as_nanos<S: serde::Serializer>(span: &Option<Nanos>, serializer: S) -> Result<S::Ok, S::Error> {
    span.map(|span| span.0).serialize(serializer)
}

/// What is in the played part of a trace.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Facts {
    /// Name of the trace.
    pub name: String,
    /// Name of the volume that it is played against.
    pub volume: String,
    /// Format.
    pub format: &'static str,
    /// Requests.
    pub requests: u64,
    /// Of these, reads.
    pub reads: u64,
    /// Of these, writes.
    pub writes: u64,
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

impl Trace {
    /// A trace whose bytes `open` yields; without `format` its beginning tells it.
    pub fn new(name: &str, format: Option<Format>, open: Open) -> Trace {
        Trace { name: name.to_string(), source: Source::Bytes(format, open) }
    }

    /// Records of one volume in order of time, such as a generator makes.
    pub fn from_records(name: &str, records: Vec<Record>) -> Trace {
        Trace { name: name.to_string(), source: Source::Records(records.into()) }
    }

    /// A trace in memory.
    pub fn from_bytes(name: &str, format: Option<Format>, bytes: Vec<u8>) -> Trace {
        let bytes: Arc<[u8]> = bytes.into();
        Trace::new(name, format, Arc::new(move || Ok(Box::new(Cursor::new(bytes.clone())))))
    }

    /// The traces that are part of this program: a MySQL server and a web server, an hour each.
    pub fn embedded() -> Vec<Trace> {
        let trace = |(name, bytes): (&str, &'static [u8])| {
            Trace::new(name, Some(Format::Load), Arc::new(move || Ok(Box::new(bytes))))
        };
        EMBEDDED.map(trace).into()
    }

    /// Its name in messages.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Reads the part within `limit` once.
    ///
    /// # Errors
    /// An unreadable trace, one of several volumes, or one without requests.
    pub fn scan(&self, limit: &Limit, watch: &Watch) -> Result<Facts, PredictError> {
        let mut feed = self.feed(limit)?;
        let mut facts = Facts::nothing(self, feed.format());
        let mut repeats = Repeats::new(REPEAT_WINDOW);
        while let Some(record) = feed.next()? {
            facts.add(&record);
            facts.repeats += u64::from(repeats.is_repeat(&record));
            if facts.requests.is_multiple_of(STRIDE) {
                watch(&self.name, STRIDE);
            }
        }
        facts.damage = feed.damage().filter(|_| !limit.cuts());
        if facts.requests == 0 { Err(PredictError::NoRequests(self.name.clone())) } else { Ok(facts) }
    }

    pub(crate) fn feed(&self, limit: &Limit) -> Result<Feed, PredictError> {
        let records = match &self.source {
            Source::Records(list) => Records::List(list.clone(), 0),
            Source::Bytes(format, open) => {
                let bytes = open().map_err(|source| PredictError::Unopened { name: self.name.clone(), source })?;
                Records::Reader(Box::new(TraceReader::open(&self.name, bytes, *format)?))
            }
        };
        Ok(Feed { records, limit: *limit, taken: 0, repeats: limit.dedup_window.map(Repeats::new) })
    }

    /// As [`Trace::feed`], with all records in memory before the first is asked for.
    pub(crate) fn loaded(&self, limit: &Limit) -> Result<Feed, PredictError> {
        let (mut feed, mut records) = (self.feed(limit)?, Vec::new());
        while let Some(record) = feed.next()? {
            records.push(record);
        }
        Trace::from_records(&self.name, records).feed(&Limit::default())
    }

    /// The file's name without folders and endings, as far as it can name a volume.
    fn stem(&self) -> String {
        let file = self.name.rsplit('/').next().unwrap_or_default();
        let stem = file.split('.').next().unwrap_or_default();
        let fits = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
        let name: String = stem.chars().take(48).map(fits).collect();
        let name = name.trim_matches('-').to_string();
        if is_sound_name(&name) { name } else { "trace".to_string() }
    }
}

impl Limit {
    /// Whether the end of a trace may stay unread.
    fn cuts(&self) -> bool {
        self.duration.is_some() || self.requests.is_some()
    }
}

impl Facts {
    fn nothing(trace: &Trace, format: &'static str) -> Facts {
        Facts {
            name: trace.name.clone(),
            volume: trace.stem(),
            format,
            requests: 0,
            reads: 0,
            writes: 0,
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
        self.reads += u64::from(record.op == Op::Read);
        self.writes += u64::from(record.op == Op::Write);
        if record.op.is_transfer() {
            self.bytes += record.len;
            self.unaligned += u64::from(!record.range().is_aligned(4096));
        }
        self.reach_bytes = self.reach_bytes.max(record.range().end());
        self.duration_ns = self.duration_ns.max(record.at.0);
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

/// The records of one pass over the part of a trace that is played.
pub(crate) struct Feed {
    records: Records,
    limit: Limit,
    taken: u64,
    repeats: Option<Repeats>,
}

enum Records {
    Reader(Box<TraceReader>),
    /// And how many are behind.
    List(Arc<[Record]>, usize),
}

impl Records {
    fn next(&mut self) -> Result<Option<Record>, PredictError> {
        match self {
            Records::List(list, at) => {
                *at += 1;
                Ok(list.get(*at - 1).copied())
            }
            Records::Reader(reader) => {
                let record = reader.next_record()?;
                if record.is_some_and(|record| record.volume > 0) {
                    let (name, volumes) = (reader.file().to_string(), reader.volumes().join(", "));
                    return Err(PredictError::SeveralVolumes { name, volumes });
                }
                Ok(record)
            }
        }
    }
}

impl Feed {
    /// Records so far.
    pub fn taken(&self) -> u64 {
        self.taken
    }

    fn format(&self) -> &'static str {
        match &self.records {
            Records::Reader(reader) => reader.format().name(),
            Records::List(..) => "records",
        }
    }

    /// What was wrong with the part that was read.
    fn damage(&self) -> Option<String> {
        let Records::Reader(reader) = &self.records else { return None };
        let report = reader.report();
        (!report.is_clean()).then(|| report.to_string())
    }

    pub fn next(&mut self) -> Result<Option<Record>, PredictError> {
        loop {
            if self.limit.requests.is_some_and(|most| self.taken >= most) {
                return Ok(None);
            }
            let Some(record) = self.records.next()? else { return Ok(None) };
            if self.limit.duration.is_some_and(|end| record.at >= end) {
                return Ok(None);
            }
            if self.repeats.as_mut().is_some_and(|repeats| repeats.is_repeat(&record)) {
                continue;
            }
            self.taken += 1;
            return Ok(Some(record));
        }
    }
}

type Key = (Op, u64, u64);

/// Finds records that repeat range and operation of a recent one.
struct Repeats {
    window: Nanos,
    last: BTreeMap<Key, Nanos>,
    order: VecDeque<(Nanos, Key)>,
}

impl Repeats {
    fn new(window: Nanos) -> Repeats {
        Repeats { window, last: BTreeMap::new(), order: VecDeque::new() }
    }

    fn is_repeat(&mut self, record: &Record) -> bool {
        while let Some((at, key)) = self.order.front().copied() {
            if record.at.saturating_sub(at) < self.window && self.order.len() < REMEMBERED_MAX {
                break;
            }
            self.order.pop_front();
            if self.last.get(&key) == Some(&at) {
                self.last.remove(&key);
            }
        }
        let key = (record.op, record.offset, record.len);
        self.order.push_back((record.at, key));
        self.last.insert(key, record.at).is_some()
    }
}
