//! The figures of a trace, as they stand in JSON.

use super::volume::{Classes, Counts};
use super::working_set::WorkingSet;
use crate::record::Op;
use serde::Serialize;

/// Requests of one operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct OpCount {
    /// How many.
    pub requests: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// Transfers of one class of sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct SizeClass {
    /// Largest size of the class, a power of two; the class below ends at half of it.
    pub up_to_bytes: u64,
    /// How many.
    pub requests: u64,
}

/// Transfers of one class of distances between the end of a volume's transfer and the start of the next, in either
/// direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct DistanceClass {
    /// The class holds distances less than this, a power of two, and not less than half of it. The first holds only 0.
    pub below_bytes: u64,
    /// How many.
    pub requests: u64,
}

/// Requests of one class of times since the request before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct GapClass {
    /// Longest time of the class, a power of two; the class below ends at half of it.
    pub up_to_ns: u64,
    /// How many.
    pub requests: u64,
}

/// Times between one request and the next (three significant digits, except mean and variation).
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Gaps {
    /// Mean.
    pub mean_ns: f64,
    /// Standard deviation divided by the mean: 1 if the requests are independent, more if they come in bursts.
    pub variation: f64,
    /// Median.
    pub p50_ns: u64,
    /// 90 % are at most this long.
    pub p90_ns: u64,
    /// 99 %.
    pub p99_ns: u64,
    /// 99.9 %.
    pub p999_ns: u64,
    /// The longest.
    pub max_ns: u64,
    /// All of them, shortest class first, without empty classes.
    pub classes: Vec<GapClass>,
}

/// The busiest second; requests and bytes may come from different seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Peak {
    /// Requests in one second of the trace.
    pub requests: u64,
    /// Bytes read and written in one second of the trace.
    pub bytes: u64,
}

impl Peak {
    pub(super) fn raise(&mut self, other: Peak) {
        self.requests = self.requests.max(other.requests);
        self.bytes = self.bytes.max(other.bytes);
    }
}

/// One hour of a trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Hour {
    /// Its number, counted from 0 at the trace's time 0. Hours in which nothing happened are missing.
    pub number: u32,
    /// All requests.
    pub requests: u64,
    /// Reads.
    pub reads: u64,
    /// Bytes read and written.
    pub bytes: u64,
}

/// Transfers that do not start where their volume's last one ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Jumps {
    /// How many.
    pub requests: u64,
    /// Part of them that happens at least twice in the trace, from and to the same byte ("partial determinism").
    pub recurring_share: f64,
    /// The part is exact if this is 1, and otherwise estimated from one in so many different jumps.
    pub one_in: u64,
}

/// The figures of one volume. Shares are parts of its transfers.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct VolumeSummary {
    /// The volume's number in the records.
    pub volume: u32,
    /// Its name, or `volume` and its number.
    pub name: String,
    /// All requests.
    pub requests: u64,
    /// Reads.
    pub reads: OpCount,
    /// Writes.
    pub writes: OpCount,
    /// Share of reads.
    pub read_share: f64,
    /// Distinct 4 KiB blocks that were read or written, in bytes.
    pub footprint_bytes: u64,
    /// Distinct 4 KiB blocks that were both read and written, in bytes.
    pub overlap_bytes: u64,
    /// From the lowest to the highest byte.
    pub span_bytes: u64,
    /// Share that starts where the previous transfer ended.
    pub sequential_share: f64,
    /// Share within 512 KiB of where one of the 32 most recent streams ended.
    pub near_stream_share: f64,
}

/// The figures of a trace. Shares are parts of the transfers (reads and writes), from 0 to 1, if nothing else is said.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Summary {
    /// All requests.
    pub requests: u64,
    /// Volumes that were read or written.
    pub volumes: u64,
    /// Reads.
    pub reads: OpCount,
    /// Writes.
    pub writes: OpCount,
    /// Flushes.
    pub flushes: OpCount,
    /// Discards.
    pub discards: OpCount,
    /// Share of reads.
    pub read_share: f64,
    /// Bytes read and written.
    pub bytes: u64,
    /// From the first request to the last.
    pub duration_ns: u64,
    /// Distinct 4 KiB blocks that were read or written, in bytes; see [`Summary::blocks`] for how exact this is.
    pub footprint_bytes: u64,
    /// From the lowest to the highest byte, summed over the volumes.
    pub span_bytes: u64,
    /// The smallest size of a volume that holds every transfer.
    pub reach_bytes: u64,
    /// Share that does not start and end at multiples of 4 KiB.
    pub unaligned_share: f64,
    /// Share that starts where the volume's previous transfer ended.
    pub sequential_share: f64,
    /// Share that starts where one of the volume's 32 most recent streams ended.
    pub streamed_share: f64,
    /// Share that starts at most 512 KiB from where the volume's previous transfer ended.
    pub near_share: f64,
    /// Share that starts at most 512 KiB from where one of the volume's 32 most recent streams ended.
    pub near_stream_share: f64,
    /// Of the transfers with one before them on their volume, the part that starts at most 1 MiB from its end.
    pub within_mib_share: f64,
    /// Transfers longer than 64 MiB, of which only the first 64 MiB count for footprint, blocks and extents.
    pub long: u64,
    /// Sizes of transfers, smallest class first, without empty classes.
    pub sizes: Vec<SizeClass>,
    /// Distances between transfers of a volume, smallest class first, without empty classes.
    pub distances: Vec<DistanceClass>,
    /// Times between requests.
    pub gaps: Gaps,
    /// The busiest second.
    pub peak_second: Peak,
    /// Transfers that jump.
    pub jumps: Jumps,
    /// Requests in each hour; after 10,000 hours no more are added.
    pub hours: Vec<Hour>,
    /// The working set in 4 KiB blocks.
    pub blocks: WorkingSet,
    /// The working set in 1 MiB extents.
    pub extents: WorkingSet,
    /// Each volume, by number.
    pub by_volume: Vec<VolumeSummary>,
}

fn part(some: u64, of: u64) -> f64 {
    if of == 0 { 0.0 } else { some as f64 / of as f64 }
}

fn power(bits: usize) -> u64 {
    1u64.checked_shl(bits as u32).unwrap_or(u64::MAX)
}

fn used(classes: &Classes) -> impl Iterator<Item = (usize, u64)> {
    classes.iter().copied().enumerate().filter(|(_, requests)| *requests > 0)
}

impl Summary {
    /// The same, with the name `names[i]` for volume number `i`.
    pub fn named(mut self, names: &[String]) -> Summary {
        for volume in &mut self.by_volume {
            if let Some(name) = names.get(volume.volume as usize) {
                volume.name.clone_from(name);
            }
        }
        self
    }

    /// What follows from counts alone.
    pub(super) fn of(counts: &Counts, footprint_bytes: u64) -> Summary {
        let [reads, writes, flushes, discards] = Op::ALL.map(|op| counts.ops[op.index()]);
        let share = |some| part(some, reads.requests + writes.requests);
        Summary {
            requests: counts.requests(),
            reads,
            writes,
            flushes,
            discards,
            read_share: share(reads.requests),
            bytes: reads.bytes.saturating_add(writes.bytes),
            footprint_bytes,
            span_bytes: counts.span,
            reach_bytes: counts.reach,
            unaligned_share: share(counts.unaligned),
            sequential_share: share(counts.sequential),
            streamed_share: share(counts.streamed),
            near_share: share(counts.near),
            near_stream_share: share(counts.near_stream),
            within_mib_share: part(counts.within_mib, counts.followed),
            long: counts.long,
            sizes: used(&counts.sizes)
                .map(|(bits, requests)| SizeClass { up_to_bytes: power(bits), requests })
                .collect(),
            distances: used(&counts.distances)
                .map(|(bits, requests)| DistanceClass { below_bytes: power(bits), requests })
                .collect(),
            ..Summary::default()
        }
    }
}

impl VolumeSummary {
    pub(super) fn of(volume: u32, counts: &Counts, footprint_bytes: u64, overlap_bytes: u64) -> VolumeSummary {
        let [reads, writes, ..] = Op::ALL.map(|op| counts.ops[op.index()]);
        let share = |some| part(some, reads.requests + writes.requests);
        VolumeSummary {
            volume,
            name: format!("volume{volume}"),
            requests: counts.requests(),
            reads,
            writes,
            read_share: share(reads.requests),
            footprint_bytes,
            overlap_bytes,
            span_bytes: counts.span,
            sequential_share: share(counts.sequential),
            near_stream_share: share(counts.near_stream),
        }
    }
}
