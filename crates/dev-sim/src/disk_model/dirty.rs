//! The write cache's table: which bytes wait for the medium, in the order in which the arm will pass them.

use std::collections::{BTreeMap, BTreeSet};

use esker_base::{ByteRange, Time};

/// Adjacent writes are joined up to this many bytes, so that one destage does not hold the arm for long.
const JOINED_MAX: u64 = 1 << 20;

/// A run of cached bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct DirtyExtent {
    /// The bytes.
    pub range: ByteRange,
    /// Number of the oldest write in it: what a flush waits for.
    pub oldest: u64,
    /// Number of its newest write on the media.
    pub newest: u64,
    /// When its last byte is in the cache.
    pub ready: Time,
}

/// Disjoint runs.
#[derive(Default)]
pub(super) struct Dirty {
    runs: BTreeMap<u64, DirtyExtent>,
    ages: BTreeSet<(u64, u64)>,
    bytes: u64,
}

impl Dirty {
    /// Adds a run. Overlapping runs become one that is as old as the oldest: what it replaced is no longer anywhere,
    /// so a flush that waited for the old bytes must wait for the new ones.
    pub(super) fn insert(&mut self, run: DirtyExtent) {
        let mut all = run;
        let near = self.runs.range(..=run.range.end()).rev().take_while(|(_, r)| r.range.end() >= run.range.start());
        let near: Vec<DirtyExtent> = near.map(|(_, r)| *r).collect();
        for old in near {
            let joined = union(all.range, old.range);
            if old.range.overlaps(run.range) || joined.len() <= JOINED_MAX {
                self.remove(&old);
                all = DirtyExtent {
                    range: joined,
                    oldest: all.oldest.min(old.oldest),
                    newest: all.newest.max(old.newest),
                    ready: all.ready.max(old.ready),
                };
            }
        }
        self.bytes += all.range.len();
        self.ages.insert((all.oldest, all.range.start()));
        self.runs.insert(all.range.start(), all);
    }

    /// Takes a run out.
    pub(super) fn remove(&mut self, run: &DirtyExtent) {
        self.runs.remove(&run.range.start());
        self.ages.remove(&(run.oldest, run.range.start()));
        self.bytes -= run.range.len();
    }

    /// The runs in the order of a sweep that begins at byte `at` and starts over at the outer edge (C-LOOK).
    pub(super) fn sweep(&self, at: u64) -> impl Iterator<Item = &DirtyExtent> {
        self.runs.range(at..).chain(self.runs.range(..at)).map(|(_, run)| run)
    }

    /// The runs from the oldest on.
    pub(super) fn by_age(&self) -> impl Iterator<Item = &DirtyExtent> {
        self.ages.iter().map(|(_, start)| &self.runs[start])
    }

    /// Whether every byte of `range` is cached in one run.
    pub(super) fn covers(&self, range: ByteRange) -> bool {
        self.runs.range(..=range.start()).next_back().is_some_and(|(_, run)| run.range.contains(range))
    }

    /// Number of the oldest write.
    pub(super) fn oldest(&self) -> Option<u64> {
        self.ages.first().map(|(oldest, _)| *oldest)
    }

    /// Cached bytes.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether nothing is cached.
    pub(super) fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }
}

fn union(a: ByteRange, b: ByteRange) -> ByteRange {
    let start = a.start().min(b.start());
    ByteRange::new(start, a.end().max(b.end()) - start).expect("both ends fit in 64 bits")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn run(start: u64, len: u64, number: u64) -> DirtyExtent {
        DirtyExtent { range: ByteRange::new(start, len).unwrap(), oldest: number, newest: number, ready: Time::ZERO }
    }

    #[test]
    fn an_overwritten_run_keeps_the_age_of_what_it_replaced() {
        let mut dirty = Dirty::default();
        dirty.insert(run(0, 10, 1));
        dirty.insert(run(100, 10, 2));
        dirty.insert(run(5, 5, 3));
        assert_eq!((dirty.oldest(), dirty.bytes()), (Some(1), 20));
        let first = *dirty.by_age().next().unwrap();
        assert_eq!(first, DirtyExtent { newest: 3, ..run(0, 10, 1) });
        dirty.remove(&first);
        assert_eq!(dirty.oldest(), Some(2));
    }

    #[test]
    fn the_sweep_goes_up_and_starts_over() {
        let mut dirty = Dirty::default();
        [10, 30, 50].into_iter().for_each(|at| dirty.insert(run(at, 1, at)));
        let order: Vec<u64> = dirty.sweep(20).map(|run| run.oldest).collect();
        assert_eq!(order, [30, 50, 10]);
    }

    proptest! {
        #[test]
        fn holds_each_byte_once(writes in prop::collection::vec((0u64..400, 1u64..40), 1..60)) {
            let (mut dirty, mut flat) = (Dirty::default(), [false; 440]);
            for (number, (start, len)) in writes.iter().enumerate() {
                dirty.insert(run(*start, *len, number as u64));
                flat[*start as usize..(start + len) as usize].fill(true);
                prop_assert!(dirty.covers(ByteRange::new(*start, *len).unwrap()));
            }
            prop_assert_eq!(dirty.bytes(), flat.iter().filter(|b| **b).count() as u64);
            prop_assert_eq!(dirty.oldest(), Some(0));
            let runs: Vec<DirtyExtent> = dirty.sweep(0).copied().collect();
            for run in runs {
                dirty.remove(&run);
                flat[run.range.start() as usize..run.range.end() as usize].fill(false);
            }
            prop_assert!(!flat.contains(&true) && dirty.bytes() == 0 && dirty.oldest().is_none());
        }
    }
}
