//! What a trace is like, in one pass and bounded memory (about 200 MiB for the longest trace with the largest working
//! set). Counts, shares and distances are exact. Working sets are exact up to 4 GiB of different blocks, 1 TiB of
//! different extents and half a million different jumps, and beyond that estimated from a sample ([`sample`]).

mod page;
mod sample;
mod summary;
mod text;
mod volume;
mod working_set;
mod zipf;

pub use page::page;
pub use summary::{DistanceClass, GapClass, Gaps, Hour, Jumps, OpCount, Peak, SizeClass, Summary, VolumeSummary};
pub use volume::NEAR;
pub use working_set::{Popularity, Span, WorkingSet};
pub use zipf::{LEAST_COUNT, ZipfFit};

use crate::record::{Op, Record};
use esker_base::Nanos;
use esker_base::digest::mix;
use esker_base::units::MIB;
use hdrhistogram::Histogram;
use sample::Sample;
use std::collections::BTreeMap;
use volume::{Counts, Moments, Volume};
use working_set::{Gathering, Use};

/// The block in which footprint and alignment are counted, in bytes.
pub const BLOCK: u64 = 4096;

/// The extent in which skew and working sets of large volumes are counted, in bytes.
pub const EXTENT: u64 = MIB;

/// How many recent requests of a volume a request may continue to count as part of a stream.
const STREAMS: usize = 32;

/// Of a longer request, only the beginning counts for working sets, so that damaged lengths cost no time.
const LONGEST: u64 = 64 * MIB;

/// Longest gap that is told apart (about 292 years), in ns.
const GAP_MAX: u64 = i64::MAX as u64;

/// Hours whose requests are kept (more than a year).
const HOURS: usize = 10_000;

/// Most units of a working set that are looked at.
const ROOM: usize = 1 << 20;

const HOUR_NS: u64 = 3_600_000_000_000;

/// Gathers statistics from records in time order.
pub struct Stats {
    first: Nanos,
    last: Nanos,
    volumes: BTreeMap<u32, Volume>,
    gaps: Histogram<u64>,
    gap_moments: Moments,
    requests: u64,
    second: u64,
    in_second: Peak,
    peak: Peak,
    hours: BTreeMap<u32, Hour>,
    blocks: Gathering,
    extents: Gathering,
    jumps: Sample<u32>,
    jump_count: u64,
}

impl Stats {
    /// Statistics of nothing.
    pub fn new() -> Stats {
        Stats::with_room(ROOM)
    }

    /// Working sets are exact up to `room` blocks, as many extents and half as many jumps; more are sampled.
    pub fn with_room(room: usize) -> Stats {
        Stats {
            first: Nanos::ZERO,
            last: Nanos::ZERO,
            volumes: BTreeMap::new(),
            gaps: Histogram::new_with_max(GAP_MAX, 3).expect("bounds and digits are allowed"),
            gap_moments: Moments::default(),
            requests: 0,
            second: 0,
            in_second: Peak::default(),
            peak: Peak::default(),
            hours: BTreeMap::new(),
            blocks: Gathering::new(BLOCK, room, LONGEST),
            extents: Gathering::new(EXTENT, room, LONGEST),
            jumps: Sample::new(room / 2),
            jump_count: 0,
        }
    }

    /// Adds the next record.
    pub fn add(&mut self, r: &Record) {
        self.time(r.at);
        let moved = if r.op.is_transfer() { r.len } else { 0 };
        self.in_second.requests += 1;
        self.in_second.bytes = self.in_second.bytes.saturating_add(moved);
        let hour = (r.at.0 / HOUR_NS) as u32;
        self.hour(hour, r, moved);
        let volume = self.volumes.entry(r.volume).or_insert_with(Volume::new);
        let previous = volume.previous;
        let jumps = volume.add(r, LONGEST);
        if moved == 0 {
            return;
        }
        if let Some(from) = previous.filter(|_| jumps) {
            self.jump(r, from);
        }
        let range = r.range();
        let is_write = r.op == Op::Write;
        let used = Use { volume: r.volume, start: range.start(), end: range.end(), is_write, hour };
        self.blocks.add(used);
        self.extents.add(used);
    }

    fn time(&mut self, at: Nanos) {
        let second = at.0 / 1_000_000_000;
        if self.requests == 0 {
            self.first = at;
            self.second = second;
        } else {
            let gap = at.saturating_sub(self.last);
            self.gaps.saturating_record(gap.0.min(GAP_MAX));
            self.gap_moments.add(gap);
        }
        self.requests += 1;
        self.last = self.last.max(at);
        if second != self.second {
            self.peak.raise(std::mem::take(&mut self.in_second));
            self.second = second;
        }
    }

    fn hour(&mut self, number: u32, r: &Record, moved: u64) {
        if self.hours.len() >= HOURS && !self.hours.contains_key(&number) {
            return;
        }
        let hour = self.hours.entry(number).or_insert(Hour { number, ..Hour::default() });
        hour.requests += 1;
        hour.reads += u64::from(r.op == Op::Read);
        hour.bytes = hour.bytes.saturating_add(moved);
    }

    /// Notes that the volume's last transfer started at `from`, and that `r` is not its continuation.
    fn jump(&mut self, r: &Record, from: u64) {
        self.jump_count += 1;
        let name = mix(mix(mix(u64::from(r.volume)) ^ from) ^ r.offset);
        if let Some((count, _)) = self.jumps.entry(name) {
            *count = count.saturating_add(1);
        }
    }

    /// The figures so far. Volumes have numbers for names; see [`Summary::named`].
    pub fn summary(&self) -> Summary {
        let mut total = Counts::NONE;
        self.volumes.values().for_each(|volume| total.add(&volume.counts));
        let blocks = self.blocks.result();
        let mut peak = self.peak;
        peak.raise(self.in_second);
        let footprint = blocks.unique.saturating_mul(BLOCK);
        let transferring = |volume: &&Volume| volume.previous.is_some();
        Summary {
            volumes: self.volumes.values().filter(transferring).count() as u64,
            duration_ns: self.last.saturating_sub(self.first).0,
            gaps: self.gap_figures(),
            peak_second: peak,
            jumps: self.jump_figures(),
            hours: self.hours.values().copied().collect(),
            blocks,
            extents: self.extents.result(),
            by_volume: self.by_volume(),
            ..Summary::of(&total, footprint)
        }
    }

    fn by_volume(&self) -> Vec<VolumeSummary> {
        let used = self.blocks.by_volume();
        let summary = |(number, volume): (&u32, &Volume)| {
            let (unique, both) = used.get(number).copied().unwrap_or_default();
            VolumeSummary::of(*number, &volume.counts, unique * BLOCK, both * BLOCK)
        };
        self.volumes.iter().map(summary).collect()
    }

    fn jump_figures(&self) -> Jumps {
        let sum = |counts: &mut dyn Iterator<Item = &u32>| counts.map(|count| u64::from(*count)).sum::<u64>();
        let all = sum(&mut self.jumps.values());
        let again = sum(&mut self.jumps.values().filter(|count| **count > 1));
        let recurring_share = if all == 0 { 0.0 } else { again as f64 / all as f64 };
        Jumps { requests: self.jump_count, recurring_share, one_in: self.jumps.weight() }
    }

    fn gap_figures(&self) -> Gaps {
        let at = |q| self.gaps.value_at_quantile(q);
        Gaps {
            mean_ns: self.gaps.mean(),
            variation: self.gap_moments.variation(),
            p50_ns: at(0.5),
            p90_ns: at(0.9),
            p99_ns: at(0.99),
            p999_ns: at(0.999),
            max_ns: self.gaps.max(),
            classes: self.gap_classes(),
        }
    }

    fn gap_classes(&self) -> Vec<GapClass> {
        let mut classes = BTreeMap::new();
        for step in self.gaps.iter_recorded() {
            *classes.entry(step.value_iterated_to().next_power_of_two()).or_insert(0) += step.count_at_value();
        }
        classes.into_iter().map(|(up_to_ns, requests)| GapClass { up_to_ns, requests }).collect()
    }
}

impl Default for Stats {
    fn default() -> Self {
        Stats::new()
    }
}

#[cfg(test)]
mod tests;
