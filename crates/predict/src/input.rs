//! Traces to be played: where their bytes come from, and what is in them.

use std::io::{self, Cursor, Read};
use std::sync::Arc;

use esker_base::Nanos;
use esker_trace_block::{Format, Record, Selection, TraceReader};

use crate::error::PredictError;
use crate::facts::{Facts, Scan};
use crate::feed::{Counting, Feed, Limit, RecordIter, Records, Warm};
use crate::load::Load;

/// Bytes of a trace, packed or not.
pub type Bytes = Box<dyn Read + Send>;

/// A file of a trace: its name in messages, and its bytes.
pub type NamedInput = (String, Bytes);

/// Opens all files of a trace from their start; called once for each pass over it.
pub type Open = Arc<dyn Fn() -> io::Result<Vec<NamedInput>> + Send + Sync>;

/// The traces that are part of this program: the names that they have in the project's folder `data`, and their bytes.
/// They are packed by `xz -9e`, which makes them two fifths smaller. Their terms are in `data/README.md`.
pub(crate) const EMBEDDED: [(&str, &[u8]); 2] = [
    ("linux-mysql.load.gz", include_bytes!("../data/linux-mysql.load.xz")),
    ("linux-webserver-2.load.gz", include_bytes!("../data/linux-webserver-2.load.xz")),
];

/// Bytes of a record in memory.
const RECORD_BYTES: u64 = size_of::<Record>() as u64;

/// Requests between two reports of progress.
pub(crate) const STRIDE: u64 = 2048;

/// A trace, or one volume of it.
#[derive(Clone)]
pub struct Trace {
    name: String,
    /// The only volume that is played; all of them without one.
    volume: Option<String>,
    source: Source,
}

#[derive(Clone)]
enum Source {
    /// In some format; without one, the beginning of the bytes tells it.
    Files(Option<Format>, Open),
    /// Records in memory, in order of time.
    Records(Arc<Vec<Record>>),
}

impl Trace {
    /// A trace whose files `open` yields; without `format` their beginning tells it.
    pub fn new(name: &str, format: Option<Format>, open: Open) -> Trace {
        Trace { name: name.to_string(), volume: None, source: Source::Files(format, open) }
    }

    /// Records in order of time, such as a generator makes.
    pub fn from_records(name: &str, records: Vec<Record>) -> Trace {
        Trace { name: name.to_string(), volume: None, source: Source::Records(Arc::new(records)) }
    }

    /// A trace in memory.
    pub fn from_bytes(name: &str, format: Option<Format>, bytes: Vec<u8>) -> Trace {
        let (bytes, part): (Arc<[u8]>, _) = (bytes.into(), name.to_string());
        let open = move || Ok(vec![(part.clone(), Box::new(Cursor::new(bytes.clone())) as Bytes)]);
        Trace::new(name, format, Arc::new(open))
    }

    /// The traces that are part of this program: a MySQL server and a web server, an hour each.
    pub fn embedded() -> Vec<Trace> {
        let trace = |(name, bytes): (&str, &'static [u8])| {
            let part = name.to_string();
            let open = move || Ok(vec![(part.clone(), Box::new(bytes) as Bytes)]);
            Trace::new(name, Some(Format::Load), Arc::new(open))
        };
        EMBEDDED.map(trace).into()
    }

    /// Only the requests to this volume, if one is named.
    pub fn only(self, volume: Option<&str>) -> Trace {
        Trace { volume: volume.map(str::to_string), ..self }
    }

    /// Its name in messages.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The file's name without folders and endings.
    pub(crate) fn stem(&self) -> &str {
        let file = self.name.rsplit('/').next().unwrap_or_default();
        file.split('.').next().unwrap_or_default()
    }

    /// Decodes the part within `limit` once, as `load` times it. Its records stay in memory if they take at most
    /// `memory` bytes; a longer trace is decoded again for each pass.
    ///
    /// # Errors
    /// An unreadable trace, one without requests, or one with too many volumes.
    pub(crate) fn load(&self, limit: &Limit, load: Load, memory: u64) -> Result<Loaded, PredictError> {
        let mut feed = self.feed(limit, load)?;
        let most = memory / RECORD_BYTES;
        let warm = match limit.warm {
            Some(Warm::Span(span)) => span,
            Some(Warm::Once) | None => Nanos::ZERO,
        };
        let (mut scan, mut records) = (Scan::new(warm), Some(Vec::new()));
        while let Some(record) = feed.next()? {
            scan.add(&record);
            // Beyond the bound all of them go: a trace that is decoded again needs none.
            drop(records.take_if(|held| held.len() as u64 == most));
            records.iter_mut().for_each(|held| held.push(record));
        }
        let facts = scan.facts(self, &feed)?;
        Ok(Loaded { facts, is_timed: feed.clock().is_timed(), records })
    }

    pub(crate) fn feed(&self, limit: &Limit, load: Load) -> Result<RecordIter, PredictError> {
        let records = match &self.source {
            Source::Records(list) => Records::list(list.clone()),
            Source::Files(format, open) => {
                let unopened = |source| PredictError::Unopened { name: self.name.clone(), source };
                let reader = TraceReader::open_parts(&self.name, open().map_err(unopened)?, *format)?;
                Records::Reader(Box::new(Selection::new(reader, self.volume.as_deref())))
            }
        };
        Ok(RecordIter::new(records, *limit, load))
    }
}

/// A trace after the first pass over it.
pub(crate) struct Loaded {
    /// One for each volume.
    pub facts: Vec<Facts>,
    /// Whether its requests have times.
    pub is_timed: bool,
    /// All its records as they are played, unless they take too much memory.
    pub records: Option<Vec<Record>>,
}

impl Loaded {
    /// Bytes of its records in memory.
    pub(crate) fn bytes(&self) -> u64 {
        self.records.as_ref().map_or(0, |held| held.len() as u64 * RECORD_BYTES)
    }
}

/// A trace as it is played: the part within the limits, on the volumes from number `first` on.
#[derive(Clone)]
pub(crate) struct Reel {
    trace: Trace,
    limit: Limit,
    load: Load,
    pub first: usize,
    /// Its requests that do not count in a single pass.
    pub warm: u64,
}

impl Reel {
    /// All records of `trace`, at their times, from volume `first` on.
    pub(crate) fn whole(trace: Trace, first: usize) -> Reel {
        Reel { trace, limit: Limit::default(), load: Load::Open, first, warm: 0 }
    }

    /// The part of `trace` that was loaded. Records in memory need no second pass over the trace.
    pub(crate) fn new(trace: &Trace, limit: Limit, load: Load, first: usize, records: Option<Vec<Record>>) -> Reel {
        match records {
            Some(records) => Reel::whole(Trace::from_records(&trace.name, records), first),
            None => Reel { limit, load, ..Reel::whole(trace.clone(), first) },
        }
    }

    /// All its records once, at their recorded times.
    pub(crate) fn once(&self) -> Result<RecordIter, PredictError> {
        self.trace.feed(&self.limit, self.load)
    }

    /// Only its first requests that count.
    pub(crate) fn shortened(&self, requests: u64) -> Reel {
        let requests = self.warm + requests;
        let requests = self.limit.requests.map_or(requests, |most| most.min(requests));
        Reel { limit: Limit { requests: Some(requests), ..self.limit }, ..self.clone() }
    }

    pub(crate) fn feed(&self, counting: &Counting) -> Result<Feed, PredictError> {
        let begin = |pass: u64| Nanos(counting.from.0 * pass);
        let pass = |pass| Ok((begin(pass), self.trace.feed(&self.limit, self.load)?));
        Ok(Feed::new((0..counting.passes).map(pass).collect::<Result<Vec<_>, PredictError>>()?))
    }

    /// As [`Reel::feed`], with all records in memory before the first is asked for.
    pub(crate) fn loaded(&self, counting: &Counting) -> Result<Feed, PredictError> {
        let (mut feed, mut records) = (self.feed(counting)?, Vec::new());
        while let Some(record) = feed.next()? {
            records.push(record);
        }
        Reel::whole(Trace::from_records(&self.trace.name, records), self.first).feed(&Counting::ALL)
    }
}
