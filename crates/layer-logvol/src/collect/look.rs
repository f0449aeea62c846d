//! What a pass notes of each mapping: the live blocks of segments that it counts, and whole mappings into those that
//! are to be cleaned. Shared by all its workers.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use super::victim::Listed;
use crate::format::Geometry;
use crate::map::Snapshot;
use crate::number::SegmentNo;

/// A word of `roles`: what the pass does with a segment. Lower numbers are those of its bitmap.
const IGNORED: u32 = u32::MAX;
const REPORTED: u32 = u32::MAX - 1;

/// What to look for, and bitmaps of live blocks.
pub(super) struct ScanWorker {
    geometry: Geometry,
    roles: Vec<u32>,
    /// Segments that are counted.
    pub counted: Vec<SegmentNo>,
    bits: Vec<AtomicU64>,
}

/// What one piece of the map held.
pub(super) struct Seen {
    pub mappings: u64,
    /// Those into reported segments.
    pub found: Vec<Listed>,
}

/// Blocks of a segment, one bit each.
pub(super) type Bits = Vec<u64>;

/// Words of one bitmap.
pub(super) fn words(geometry: &Geometry) -> usize {
    geometry.segment.div_ceil(64) as usize
}

impl ScanWorker {
    /// Counts some segments, and reports the mappings into others.
    pub(super) fn new(geometry: Geometry, counted: Vec<SegmentNo>, reported: &[SegmentNo]) -> ScanWorker {
        let mut roles = vec![IGNORED; geometry.segments as usize];
        reported.iter().for_each(|segment| roles[segment.index()] = REPORTED);
        counted.iter().enumerate().for_each(|(i, segment)| roles[segment.index()] = i as u32);
        let bits = (0..counted.len() * words(&geometry)).map(|_| AtomicU64::new(0)).collect();
        ScanWorker { geometry, roles, counted, bits }
    }

    /// Looks at all mappings of leaves with these numbers.
    pub(super) fn at(&self, snapshot: &Snapshot, range: Range<u64>) -> Seen {
        let mut seen = Seen { mappings: 0, found: Vec::new() };
        for mapping in snapshot.leaves(range) {
            let extent = mapping.extent;
            seen.mappings += 1;
            match self.roles[self.geometry.segment_of(extent.pba).index()] {
                IGNORED => {}
                REPORTED => seen.found.push(Listed::of(mapping)),
                bitmap => self.mark(bitmap, extent.pba % self.geometry.segment, u64::from(extent.len)),
            }
        }
        seen
    }

    fn mark(&self, bitmap: u32, from: u64, len: u64) {
        let words = &self.bits[bitmap as usize * words(&self.geometry)..];
        let mut at = from;
        while at < from + len {
            let (word, bit) = ((at / 64) as usize, at % 64);
            let count = (64 - bit).min(from + len - at);
            // Nothing reads them before the pass has ended.
            words[word].fetch_or((u64::MAX >> (64 - count)) << bit, Ordering::Relaxed);
            at += count;
        }
    }

    /// Live blocks of a counted segment, by its place in the list.
    pub(super) fn live(&self, at: usize) -> u32 {
        self.words(at).map(|word| word.count_ones()).sum()
    }

    pub(super) fn bits(&self, at: usize) -> Bits {
        self.words(at).collect()
    }

    fn words(&self, at: usize) -> impl Iterator<Item = u64> {
        let words = words(&self.geometry);
        self.bits[at * words..(at + 1) * words].iter().map(|word| word.load(Ordering::Relaxed))
    }
}

/// Runs of set bits.
pub(super) fn runs(bits: &Bits) -> Vec<Range<u64>> {
    let mut runs: Vec<Range<u64>> = Vec::new();
    for at in (0..bits.len() as u64 * 64).filter(|at| bits[(at / 64) as usize] >> (at % 64) & 1 == 1) {
        match runs.last_mut() {
            Some(run) if run.end == at => run.end += 1,
            _ => runs.push(at..at + 1),
        }
    }
    runs
}
