//! Which places of the volumes are in use, how often and when.

use super::sample::Sample;
use super::zipf::{self, ZipfFit};
use esker_base::digest::mix;
use serde::Serialize;
use std::collections::BTreeMap;

/// Rows kept for hours (more than a year) and as many for days. Later ones are counted in the totals only.
const ROWS: usize = 10_000;

/// One hour or day of the trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Span {
    /// Its number, counted from 0 at the trace's time 0. Spans in which nothing happened are missing.
    pub number: u32,
    /// Different units that were used in it.
    pub unique: u64,
    /// Those of them that were used in the span just before too.
    pub again: u64,
    /// Those of them that were used in any earlier span.
    pub known: u64,
}

/// How much the most used units are used.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Popularity {
    /// Units are ranked by use, the most used one first; this is the rank of one of them.
    pub rank: u64,
    /// How often it is used.
    pub uses: u32,
    /// Part of all uses that fall on it and the units before it.
    pub share: f64,
}

/// The places that reads and writes touched, in units of one size. Everything but `touches` is exact if `one_in` is 1;
/// otherwise it is estimated from the one in `one_in` units that a hash chose. The relative standard error of a count
/// is then about 0.2 % where the count is near `unique`, and grows with the square root of their ratio.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct WorkingSet {
    /// Size of a unit in bytes.
    pub unit_bytes: u64,
    /// Each unit that was looked at stands for so many.
    pub one_in: u64,
    /// Different units.
    pub unique: u64,
    /// Units that were only read.
    pub read_only: u64,
    /// Units that were only written.
    pub written_only: u64,
    /// Units that were read and written.
    pub both: u64,
    /// Uses of units: a request uses each unit that it touches once. Always exact.
    pub touches: u64,
    /// Part of the uses that fall on the most used hundredth of the units.
    pub top_1_share: f64,
    /// Part of the uses that fall on the most used fifth of the units.
    pub top_20_share: f64,
    /// Zipf's law, if enough units are used often enough.
    pub zipf: Option<ZipfFit>,
    /// Some ranks, each a fifth larger than the one before.
    pub popularity: Vec<Popularity>,
    /// Use in each hour.
    pub hours: Vec<Span>,
    /// Use in each day.
    pub days: Vec<Span>,
}

/// What is known of one unit.
#[derive(Clone, Copy, Default)]
struct Unit {
    uses: u32,
    volume: u32,
    /// The last hour and day of use, plus 1.
    hour: u32,
    day: u32,
    is_read: bool,
    is_written: bool,
}

/// Spans by number.
#[derive(Default)]
struct Spans(BTreeMap<u32, Span>);

impl Spans {
    /// Notes that a unit is used in span `now`; `last` is its last span of use plus 1, which is brought up to date.
    fn note(&mut self, now: u32, last: &mut u32, weight: u64) {
        let before = std::mem::replace(last, now + 1);
        if before == now + 1 || (self.0.len() >= ROWS && !self.0.contains_key(&now)) {
            return;
        }
        let span = self.0.entry(now).or_insert(Span { number: now, ..Span::default() });
        span.unique += weight;
        span.again += if before == now { weight * u64::from(before > 0) } else { 0 };
        span.known += if before > 0 { weight } else { 0 };
    }

    fn list(&self) -> Vec<Span> {
        self.0.values().copied().collect()
    }
}

/// Gathers a [`WorkingSet`].
pub(super) struct Gathering {
    unit_bytes: u64,
    /// Most units of one request that are looked at.
    longest: u64,
    units: Sample<Unit>,
    touches: u64,
    hours: Spans,
    days: Spans,
}

/// One read or write.
#[derive(Clone, Copy)]
pub(super) struct Use {
    pub volume: u32,
    pub start: u64,
    /// Above `start`.
    pub end: u64,
    pub is_write: bool,
    pub hour: u32,
}

impl Gathering {
    /// Units of `unit_bytes`, of which at most `room` are kept. Of a request, the first `longest_bytes` are looked at.
    pub(super) fn new(unit_bytes: u64, room: usize, longest_bytes: u64) -> Gathering {
        Gathering {
            unit_bytes,
            longest: longest_bytes / unit_bytes,
            units: Sample::new(room),
            touches: 0,
            hours: Spans::default(),
            days: Spans::default(),
        }
    }

    pub(super) fn add(&mut self, used: Use) {
        let first = used.start / self.unit_bytes;
        let end = used.end.div_ceil(self.unit_bytes).min(first + self.longest);
        self.touches += end - first;
        let salt = mix(u64::from(used.volume) + 1);
        for unit in first..end {
            let Some((known, weight)) = self.units.entry(mix(unit ^ salt)) else { continue };
            known.uses = known.uses.saturating_add(1);
            known.volume = used.volume;
            known.is_read |= !used.is_write;
            known.is_written |= used.is_write;
            if known.hour != used.hour + 1 {
                self.hours.note(used.hour, &mut known.hour, weight);
                self.days.note(used.hour / 24, &mut known.day, weight);
            }
        }
    }

    /// Different units of each volume, and those that were both read and written.
    pub(super) fn by_volume(&self) -> BTreeMap<u32, (u64, u64)> {
        let (mut volumes, weight) = (BTreeMap::new(), self.units.weight());
        for unit in self.units.values() {
            let (unique, both) = volumes.entry(unit.volume).or_insert((0, 0));
            *unique += weight;
            *both += weight * u64::from(unit.is_read && unit.is_written);
        }
        volumes
    }

    pub(super) fn result(&self) -> WorkingSet {
        let weight = self.units.weight();
        let count = |wanted: fn(&Unit) -> bool| weight * self.units.values().filter(|unit| wanted(unit)).count() as u64;
        let mut uses: Vec<u32> = self.units.values().map(|unit| unit.uses).collect();
        uses.sort_unstable_by(|a, b| b.cmp(a));
        WorkingSet {
            unit_bytes: self.unit_bytes,
            one_in: weight,
            unique: count(|_| true),
            read_only: count(|unit| unit.is_read && !unit.is_written),
            written_only: count(|unit| unit.is_written && !unit.is_read),
            both: count(|unit| unit.is_read && unit.is_written),
            touches: self.touches,
            top_1_share: top_share(&uses, 0.01),
            top_20_share: top_share(&uses, 0.2),
            zipf: zipf::fit(&uses),
            popularity: popularity(&uses, weight),
            hours: self.hours.list(),
            days: self.days.list(),
        }
    }
}

/// The part of `uses` (in descending order) that fall on the first `part` of the units.
fn top_share(uses: &[u32], part: f64) -> f64 {
    let sum = |uses: &[u32]| uses.iter().map(|uses| f64::from(*uses)).sum::<f64>();
    let top = (uses.len() as f64 * part).ceil() as usize;
    if uses.is_empty() { 0.0 } else { sum(&uses[..top]) / sum(uses) }
}

/// Some of `uses` (in descending order), of which each stands for `weight` units.
fn popularity(uses: &[u32], weight: u64) -> Vec<Popularity> {
    let all: f64 = uses.iter().map(|uses| f64::from(*uses)).sum();
    let (mut popularity, mut sum, mut next) = (Vec::new(), 0.0, 1);
    for (at, uses) in uses.iter().enumerate() {
        sum += f64::from(*uses);
        if at + 1 == next {
            popularity.push(Popularity { rank: next as u64 * weight, uses: *uses, share: sum / all });
            next = (next + 1).max(next * 6 / 5);
        }
    }
    popularity
}
