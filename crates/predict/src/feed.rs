//! One pass over the part of a trace that is played: what is left out, and when each request comes.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use esker_base::Nanos;
use esker_trace_block::{Op, Record, Selection, Source as _, TraceReader};
use serde::Serialize;

use crate::error::PredictError;
use crate::load::Load;

/// Requests that the search for repeats remembers; in a denser burst some repeats are missed.
const REMEMBERED_MAX: usize = 4096;

/// Recorded times in steps of this or more are no times of single requests.
const COARSE: Nanos = Nanos::secs(1);

/// Requests of one instant that are spread over a step of a coarse clock; those beyond come together with the next
/// ones.
const SPREAD_MAX: usize = 1 << 18;

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
    /// What of it is played before counting begins.
    pub warm: Option<Warm>,
}

/// What is played and not counted, so that caches and layers that learn are judged in their steady state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Warm {
    /// The requests before this recorded time.
    #[serde(rename = "span_ns")]
    Span(#[serde(serialize_with = "nanos")] Nanos),
    /// All traces a first time; the second time counts.
    Once,
}

fn nanos<S: serde::Serializer>(span: &Nanos, serializer: S) -> Result<S::Ok, S::Error> {
    span.0.serialize(serializer)
}

fn as_nanos<S: serde::Serializer>(span: &Option<Nanos>, serializer: S) -> Result<S::Ok, S::Error> {
    span.map(|span| span.0).serialize(serializer)
}

impl Limit {
    /// Whether the end of a trace may stay unread.
    pub(crate) fn cuts(&self) -> bool {
        self.duration.is_some() || self.requests.is_some()
    }
}

/// When counting begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Counting {
    /// Recorded time of the first request that counts.
    pub from: Nanos,
    /// How often each trace is played; the last time counts.
    pub passes: u64,
}

impl Counting {
    /// Everything counts.
    pub(crate) const ALL: Counting = Counting { from: Nanos::ZERO, passes: 1 };

    /// With this warm-up, of traces whose last request comes at `last`.
    pub(crate) fn of(warm: Option<Warm>, last: Nanos) -> Counting {
        match warm {
            None => Counting::ALL,
            Some(Warm::Span(from)) => Counting { from, passes: 1 },
            Some(Warm::Once) => Counting { from: last + Nanos(1), passes: 2 },
        }
    }

    /// Recorded time from the first request that counts to the last one, if a single pass ends at `last`.
    pub(crate) fn span(&self, last: Nanos) -> Nanos {
        if self.passes > 1 { last } else { last.saturating_sub(self.from) }
    }

    /// Whether a request at this recorded time counts.
    pub(crate) fn counts(&self, at: Nanos) -> bool {
        at >= self.from
    }
}

/// Where records come from.
pub(crate) enum Records {
    Reader(Box<Selection<TraceReader>>),
    /// And how many are behind.
    List(Arc<Vec<Record>>, usize),
}

impl Records {
    pub(crate) fn list(records: Arc<Vec<Record>>) -> Records {
        Records::List(records, 0)
    }

    fn next(&mut self) -> Result<Option<Record>, PredictError> {
        match self {
            Records::List(list, at) => {
                *at += 1;
                Ok(list.get(*at - 1).copied())
            }
            Records::Reader(reader) => Ok(reader.next_record()?),
        }
    }

    fn clock(&self) -> Clock {
        match self {
            Records::List(..) => Clock::Exact,
            Records::Reader(reader) => match reader.inner().format() {
                format if !format.has_times() => Clock::None,
                format if format.time_resolution() >= COARSE => Clock::Coarse(format.time_resolution()),
                _ => Clock::Exact,
            },
        }
    }
}

/// What a trace tells of the times of its requests.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Clock {
    None,
    /// In steps so long that many requests share one.
    Coarse(Nanos),
    Exact,
}

impl Clock {
    pub(crate) fn is_timed(self) -> bool {
        self != Clock::None
    }
}

/// The records of one pass.
pub(crate) struct RecordIter {
    records: Records,
    limit: Limit,
    load: Load,
    clock: Clock,
    taken: u64,
    repeats: Option<Repeats>,
    /// Records of one step of a coarse clock, with times of their own, and the first one of the next step.
    spread: VecDeque<Record>,
    ahead: Option<Record>,
}

impl RecordIter {
    pub(crate) fn new(records: Records, limit: Limit, load: Load) -> RecordIter {
        let repeats = limit.dedup_window.map(Repeats::new);
        let clock = records.clock();
        RecordIter { records, limit, load, clock, taken: 0, repeats, spread: VecDeque::new(), ahead: None }
    }

    pub(crate) fn clock(&self) -> Clock {
        self.clock
    }

    /// The trace in its file.
    pub(crate) fn reader(&self) -> Option<&TraceReader> {
        match &self.records {
            Records::Reader(reader) => Some(reader.inner()),
            Records::List(..) => None,
        }
    }

    /// Names of the volumes met so far; records in memory have none.
    pub(crate) fn volumes(&self) -> &[String] {
        match &self.records {
            Records::Reader(reader) => reader.volumes(),
            Records::List(..) => &[],
        }
    }

    /// What was wrong with the part that was read.
    pub(crate) fn damage(&self) -> Option<String> {
        let report = self.reader()?.report();
        (!report.is_clean() && !self.limit.cuts()).then(|| report.to_string())
    }

    pub(crate) fn next(&mut self) -> Result<Option<Record>, PredictError> {
        if self.limit.requests.is_some_and(|most| self.taken >= most) {
            return Ok(None);
        }
        let Some(record) = self.timed()? else { return Ok(None) };
        if self.limit.duration.is_some_and(|end| record.at >= end) {
            return Ok(None);
        }
        self.taken += 1;
        Ok(Some(record))
    }

    /// The next record with the time at which it is played.
    fn timed(&mut self) -> Result<Option<Record>, PredictError> {
        match (self.load, self.clock) {
            (Load::Steady { per_s }, _) => {
                let at = Nanos((self.taken as f64 * 1e9 / per_s) as u64);
                Ok(self.wanted()?.map(|record| Record { at, ..record }))
            }
            (Load::Open, Clock::Coarse(step)) => self.spread(step),
            _ => self.wanted(),
        }
    }

    /// Requests of one step come evenly over the step: that they came at once is not known, and would be a burst.
    fn spread(&mut self, step: Nanos) -> Result<Option<Record>, PredictError> {
        if self.spread.is_empty() {
            let Some(first) = self.ahead.take().map_or_else(|| self.wanted(), |record| Ok(Some(record)))? else {
                return Ok(None);
            };
            self.spread.push_back(first);
            while self.spread.len() < SPREAD_MAX {
                match self.wanted()? {
                    Some(record) if record.at == first.at => self.spread.push_back(record),
                    other => {
                        self.ahead = other;
                        break;
                    }
                }
            }
            let count = self.spread.len() as u64;
            for (nth, record) in self.spread.iter_mut().enumerate() {
                record.at = Nanos(record.at.0 + step.0 / count * nth as u64);
            }
        }
        Ok(self.spread.pop_front())
    }

    /// The next record that no limit leaves out.
    fn wanted(&mut self) -> Result<Option<Record>, PredictError> {
        loop {
            let Some(record) = self.records.next()? else { return Ok(None) };
            if self.repeats.as_mut().is_some_and(|repeats| repeats.is_repeat(&record)) {
                continue;
            }
            return Ok(Some(record));
        }
    }
}

/// A trace as it is played: one pass, or a first one before the one that counts.
pub(crate) struct Feed {
    /// Each with the time at which it begins.
    passes: VecDeque<(Nanos, RecordIter)>,
    taken: u64,
}

impl Feed {
    pub(crate) fn new(passes: impl IntoIterator<Item = (Nanos, RecordIter)>) -> Feed {
        Feed { passes: passes.into_iter().collect(), taken: 0 }
    }

    /// Records so far.
    pub(crate) fn taken(&self) -> u64 {
        self.taken
    }

    pub(crate) fn next(&mut self) -> Result<Option<Record>, PredictError> {
        while let Some((begin, pass)) = self.passes.front_mut() {
            if let Some(record) = pass.next()? {
                self.taken += 1;
                return Ok(Some(Record { at: *begin + record.at, ..record }));
            }
            self.passes.pop_front();
        }
        Ok(None)
    }
}

type Key = (u32, Op, u64, u64);

/// Finds records that repeat volume, range and operation of a recent one.
pub(crate) struct Repeats {
    window: Nanos,
    last: BTreeMap<Key, Nanos>,
    order: VecDeque<(Nanos, Key)>,
}

impl Repeats {
    pub(crate) fn new(window: Nanos) -> Repeats {
        Repeats { window, last: BTreeMap::new(), order: VecDeque::new() }
    }

    pub(crate) fn is_repeat(&mut self, record: &Record) -> bool {
        while let Some((at, key)) = self.order.front().copied() {
            if record.at.saturating_sub(at) < self.window && self.order.len() < REMEMBERED_MAX {
                break;
            }
            self.order.pop_front();
            if self.last.get(&key) == Some(&at) {
                self.last.remove(&key);
            }
        }
        let key = (record.volume, record.op, record.offset, record.len);
        self.order.push_back((record.at, key));
        self.last.insert(key, record.at).is_some()
    }
}
