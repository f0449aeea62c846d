//! What is free in a row of numbers, as gaps. The first gap that is long enough is found without a look at the others.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// The gaps. Two of them never touch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Gaps {
    /// The end of each gap, by its start.
    ends: BTreeMap<u64, u64>,
    /// The same gaps, by the logarithm of their length and their start.
    by_length: BTreeSet<(u32, u64)>,
}

impl Gaps {
    /// All of `row` is free; it is not empty.
    pub(crate) fn of(row: Range<u64>) -> Gaps {
        let mut gaps = Gaps { ends: BTreeMap::new(), by_length: BTreeSet::new() };
        gaps.insert(row);
        gaps
    }

    /// Where the first gap begins that has room for `len`, which is a power of two.
    pub(crate) fn first(&self, len: u64) -> Option<u64> {
        assert!(len.is_power_of_two(), "gaps are found by powers of two, not by {len}");
        let first_of = |class: u32| self.by_length.range((class, 0)..(class + 1, 0)).next();
        (len.ilog2()..u64::BITS).filter_map(first_of).map(|(_, start)| *start).min()
    }

    /// Whether all of `range` is free.
    pub(crate) fn is_free(&self, range: &Range<u64>) -> bool {
        self.ends.range(..=range.start).next_back().is_some_and(|(_, end)| *end >= range.end)
    }

    /// Takes a range, which is free.
    pub(crate) fn take(&mut self, range: Range<u64>) {
        assert!(self.is_free(&range), "{range:?} is taken already");
        let (start, end) =
            self.ends.range(..=range.start).next_back().map(|(start, end)| (*start, *end)).expect("free");
        self.remove(start..end);
        self.insert(start..range.start);
        self.insert(range.end..end);
    }

    /// Gives back a range, which was taken.
    pub(crate) fn give(&mut self, range: Range<u64>) {
        let (mut start, mut end) = (range.start, range.end);
        if let Some((before, touches)) = self.ends.range(..range.start).next_back().map(|(s, e)| (*s, *e))
            && touches == range.start
        {
            self.remove(before..touches);
            start = before;
        }
        if let Some(after) = self.ends.get(&range.end).copied() {
            self.remove(range.end..after);
            end = after;
        }
        self.insert(start..end);
    }

    fn insert(&mut self, gap: Range<u64>) {
        if let Some(class) = (gap.end - gap.start).checked_ilog2() {
            self.ends.insert(gap.start, gap.end);
            self.by_length.insert((class, gap.start));
        }
    }

    fn remove(&mut self, gap: Range<u64>) {
        self.ends.remove(&gap.start);
        self.by_length.remove(&((gap.end - gap.start).ilog2(), gap.start));
    }
}

#[cfg(test)]
mod tests {
    use esker_base::Stream;

    use super::*;

    /// The first place in a row of bits where `len` are free.
    fn first(row: &[bool], len: usize) -> Option<u64> {
        let gap = |at: &usize| *at == 0 || !row[*at - 1];
        let starts = (0..row.len()).filter(gap);
        let fits = |at: &usize| row.get(*at..at + len).is_some_and(|part| part.iter().all(|free| *free));
        starts.filter(fits).map(|at| at as u64).next()
    }

    #[test]
    fn gaps_are_those_of_a_row_of_bits_whatever_is_taken_and_given_back() {
        let mut rng = Stream::named(1, "gaps");
        println!("seed 1");
        let (mut gaps, mut row) = (Gaps::of(0..200), [true; 200]);
        let mut taken: Vec<Range<u64>> = Vec::new();
        for _ in 0..5_000 {
            let start = rng.below(200);
            let range = start..(start + 1 + rng.below(9)).min(200);
            let bits = range.start as usize..range.end as usize;
            let is_free = row[bits.clone()].iter().all(|free| *free);
            assert_eq!(gaps.is_free(&range), is_free, "{range:?}");
            if is_free {
                gaps.take(range.clone());
                row[bits].fill(false);
                taken.push(range);
            } else if !taken.is_empty() {
                let range = taken.swap_remove(rng.below(taken.len() as u64) as usize);
                gaps.give(range.clone());
                row[range.start as usize..range.end as usize].fill(true);
            }
            for len in [1, 2, 4, 8, 64, 256] {
                assert_eq!(gaps.first(len as u64), first(&row, len), "{len} in {row:?}");
            }
        }
        taken.into_iter().for_each(|range| gaps.give(range));
        assert_eq!(gaps, Gaps::of(0..200));
    }
}
